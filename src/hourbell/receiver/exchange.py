"""Shared by the adapters: which requests are refused before the body is read, and how results become answers.

An answer never reveals errors of the handler; the log does.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from hourbell.receiver.webhook import InvalidWebhook, Reason, Webhook

log = logging.getLogger("hourbell.receiver")

MAX_BYTES = 1_048_576
METHOD = "POST"
_LENGTH = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer with more than a status: `Answer(503, {"retry-after": "120"})`."""

    status: int = HTTPStatus.NO_CONTENT.value
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __post_init__(self) -> None:
        if not isinstance(self.status, int) or not 200 <= self.status <= 599:
            raise ValueError(f"answer with a status from 200 to 599, not {self.status!r}")

    def all_headers(self) -> dict[str, str]:
        """Return all headers by lower-case name, with type and length of the body unless the status excludes one."""
        given = {name.lower(): value for name, value in self.headers.items()}
        if self.status == HTTPStatus.NO_CONTENT:
            return given
        return {"content-type": "text/plain; charset=utf-8", **given, "content-length": str(len(self.body))}


Answerable = None | int | Answer


def check_method(method: str) -> None:
    if method != METHOD:
        raise InvalidWebhook(Reason.WRONG_METHOD, f"webhooks are sent by {METHOD}, not by {method}")


def check_declared_length(content_length: str | None, max_bytes: int) -> int | None:
    """Return the declared length, or None; raise InvalidWebhook if it is malformed or too large."""
    if not content_length:
        return None
    if _LENGTH.fullmatch(content_length) is None:
        raise InvalidWebhook(Reason.MALFORMED_HEADER, "the header content-length is malformed")
    check_length(int(content_length), max_bytes)
    return int(content_length)


def check_length(length: int, max_bytes: int) -> None:
    if length > max_bytes:
        raise InvalidWebhook(Reason.BODY_TOO_LARGE, f"the body has more than the {max_bytes} bytes that are read here")


def answer_of(result: object) -> Answer:
    """Convert a handler's result to an answer: None is 204, a number is the status."""
    match result:
        case None:
            return Answer()
        case Answer():
            return result
        case int():
            return Answer(result)
    raise TypeError(f"a handler returns None, a status or an Answer, not {type(result).__name__}")


def refusal(error: InvalidWebhook) -> Answer:
    extra = {"allow": METHOD} if error.reason is Reason.WRONG_METHOD else {}
    return _problem(error.status, error.problem(), extra)


def failure(webhook: Webhook) -> Answer:
    """Log the current exception and answer 500, so that Hourbell tries again."""
    log.exception("webhook_handler_failed", extra={"webhook_id": webhook.id, "attempt": webhook.attempt})
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return _problem(status, {"title": status.phrase, "status": status.value}, {})


def _problem(status: int, problem: Mapping[str, object], extra: Mapping[str, str]) -> Answer:
    return Answer(status, {"content-type": "application/problem+json", **extra}, json.dumps(problem).encode())
