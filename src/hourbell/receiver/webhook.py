"""A verified webhook, and the error if a request is not one."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any


@dataclass(frozen=True, slots=True)
class Webhook:
    """One attempt at delivering a run. The signature covers `id`, `timestamp` and `body`."""

    id: str  # of the run: the same on every attempt
    timestamp: datetime  # of this attempt, UTC
    body: bytes = field(repr=False)
    attempt: int | None = None  # from a header that the signature does not cover: for logs, not for decisions
    scheduled_at: datetime | None = None  # from the body if it is Hourbell's envelope, else from such a header

    def json(self) -> Any:
        """Parse the body as JSON; raises ValueError."""
        return json.loads(self.body)

    @property
    def payload(self) -> Any:
        """Return the job's payload from Hourbell's envelope. A job with a body of its own has none: see `json()`."""
        envelope = self.json()
        if not isinstance(envelope, dict) or "payload" not in envelope:
            raise ValueError("the body has no payload; the job has a body of its own, so use json() or body")
        return envelope["payload"]


class Reason(StrEnum):
    """The machine-readable reason for a refusal."""

    WRONG_METHOD = "wrong_method"
    MISSING_HEADER = "missing_header"
    DUPLICATE_HEADER = "duplicate_header"
    MALFORMED_HEADER = "malformed_header"
    LENGTH_REQUIRED = "length_required"
    BODY_TOO_LARGE = "body_too_large"
    BODY_INCOMPLETE = "body_incomplete"
    WRONG_SIGNATURE = "wrong_signature"
    TOO_OLD = "too_old"
    TOO_NEW = "too_new"


_STATUSES = {
    Reason.WRONG_METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
    Reason.LENGTH_REQUIRED: HTTPStatus.LENGTH_REQUIRED,
    Reason.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Reason.WRONG_SIGNATURE: HTTPStatus.UNAUTHORIZED,
    Reason.TOO_OLD: HTTPStatus.UNAUTHORIZED,
    Reason.TOO_NEW: HTTPStatus.UNAUTHORIZED,
}


class InvalidWebhook(Exception):
    """The request must not be acted upon. `reason` is for programs, the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def status(self) -> int:
        """The HTTP status to answer."""
        return _STATUSES.get(self.reason, HTTPStatus.BAD_REQUEST).value

    def problem(self) -> dict[str, object]:
        """The body to answer: an RFC 9457 problem, with `reason` as an extension."""
        title = HTTPStatus(self.status).phrase
        return {"title": title, "status": self.status, "detail": str(self), "reason": self.reason.value}
