"""Exceptions of the client. They carry what the server answered.

`is_in_doubt` is True if the server may have carried out the request although it failed.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

NOT_OURS = "The server at this address is not Hourbell; check HOURBELL_URL"
_MAX_EXCERPT_CHARACTERS = 200
_OF_A_PROXY = frozenset({401, 403, 407, 408, 413, 414, 429, 431})  # refusals that a proxy may send by itself


class ClientError(Exception):
    """The base class of all errors of a call."""

    is_in_doubt = False
    may_pass = False  # the same call may succeed later
    retry_after: float | None = None


class ServerOutOfReach(ClientError):
    """No answer came: the connection failed, was lost or timed out."""

    may_pass = True

    def __init__(self, message: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(message)
        self.is_in_doubt = is_in_doubt


class UnexpectedAnswer(ClientError):
    """The answer is not that of a Hourbell server, or of one that this client does not understand."""


class FieldError(NamedTuple):
    """One validation error of a request. `pointer` is a JSON pointer into the body, or `/query/…`."""

    pointer: str
    message: str
    hint: str | None = None


class ApiError(ClientError):
    """The server refused the request, or failed. `code` is for programs, `detail` for people."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: tuple[FieldError, ...] = (),
        *,
        request_id: str | None = None,
        retry_after: float | None = None,
        raw: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(" ".join([detail, *(f"{each.pointer}: {each.message}" for each in errors)]))
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.request_id = request_id
        self.retry_after = retry_after
        self.raw: Mapping[str, Any] = raw or {}  # the problem document, unchanged


class Invalid(ApiError):
    """400, 422: the request is invalid; `errors` lists the fields."""


class NotAuthenticated(ApiError):
    """401: the token is missing or not valid."""


class NotAllowed(ApiError):
    """403: the role of the token is not enough."""


class NotFound(ApiError):
    """404: there is no such job, run or token."""


class Conflict(ApiError):
    """409: the current state does not allow the request; `code` says why."""


class VersionMismatch(ApiError):
    """412: the job has changed since the version that you expect."""


class TooManyRequests(ApiError):
    """429: call again after `retry_after` seconds."""

    may_pass = True


class Unavailable(ApiError):
    """502, 503, 504: the server or its database is temporarily unreachable."""

    may_pass = True
    is_in_doubt = True


_KINDS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: VersionMismatch,
    422: Invalid,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def parse_json(text: str | bytes) -> Any:
    """Parse JSON from a server; raise ValueError if it is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ClientError:
    """Return the exception for an unsuccessful answer of Hourbell, a proxy in front of it, or another server."""
    kind = _KINDS.get(status, ApiError)
    request_id, retry_after = headers.get("X-Request-Id"), _seconds(headers.get("Retry-After"))
    problem = _object(body)
    if not isinstance(problem.get("code"), str) or problem.get("status") != status:
        if not _may_be_of_a_proxy(status):
            what = headers.get("Content-Type", "").partition(";")[0].strip() or "nothing"
            return UnexpectedAnswer(f"{NOT_OURS}. The answer was HTTP {status} with {what}.")
        code, detail = _of_another(status, headers, body)
        return kind(status, code, detail, request_id=request_id, retry_after=retry_after, raw=problem)
    return kind(
        status,
        problem["code"],
        str(problem.get("detail") or problem.get("title") or f"HTTP {status}."),
        tuple(_field_errors(problem.get("errors"))),
        request_id=str(problem.get("request_id") or request_id or "") or None,
        retry_after=retry_after,
        raw=problem,
    )


def _may_be_of_a_proxy(status: int) -> bool:
    """Return True for redirects, refusals and failures that a proxy may send, whatever server is behind it."""
    return 300 <= status < 400 or status in _OF_A_PROXY or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED)


def _of_another(status: int, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """Return a code and a message for an answer that is not a problem document of Hourbell."""
    if 300 <= status < 400:
        location = headers.get("Location", "elsewhere")
        return "redirected", f"The server sends to {location}, which is not followed; set HOURBELL_URL to where it is."
    try:
        name = HTTPStatus(status).name.lower()
    except ValueError:
        name = "unknown_status"
    said = " ".join(body[:_MAX_EXCERPT_CHARACTERS].decode("utf-8", "replace").split())
    return name, f"HTTP {status}: {said}" if said else f"HTTP {status}."


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = parse_json(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _field_errors(found: object) -> list[FieldError]:
    return [
        FieldError(str(each.get("pointer", "")), str(each.get("message", "")), each.get("hint"))
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict)
    ]


def _seconds(text: str | None) -> float | None:
    """Return Retry-After in seconds, as Hourbell writes it; None for a date, which depends on the server's clock."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else None
