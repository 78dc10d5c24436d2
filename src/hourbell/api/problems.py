"""Error responses: every error is a problem by RFC 9457, with a code for programs and a sentence for people.

Internals are never shown: an unexpected error becomes a 500 with the request id. It is logged once, by the middleware
(`middleware.py`) or, without it, by the server.
"""

import zlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from hourbell.api.field_errors import field_errors
from hourbell.control.user import NotAllowed
from hourbell.control.values import AlreadyAsked, Conflict, StoreLost, StoreReadOnly, StoreUnavailable, StoreUnwritable
from hourbell.core.values.field_errors import BodyError, FieldError, RequestError
from hourbell.core.values.strict_json import NotJson

MEDIA_TYPE = "application/problem+json"
_FRESH = {"Cache-Control": "no-store"}
_MAX_ERRORS = 100
_AGAIN = {"Retry-After": "5"}
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}  # as in RFC 9110; older Pythons differ
_CODES = {413: "body_too_large", 422: "invalid_body"}


class Error(NamedTuple):
    """A validation error of a request with its location: a JSON pointer into the body, or `/query/…`, `/path/…`."""

    pointer: str
    message: str
    hint: str | None = None


class Problem(Exception):
    """An error that the API answers as a problem response."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[tuple[str, str, str | None]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = [Error(*error) for error in errors]
        self.headers = dict(headers or {})


def problem(
    status: int,
    code: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    errors: Sequence[Error] = (),
    request_id: str | None = None,
) -> JSONResponse:
    """Build a problem response. `errors` and `request_id` are omitted if there are none."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if errors:
        body["errors"] = [error._asdict() for error in errors[:_MAX_ERRORS]]
    if request_id is not None:
        body["request_id"] = request_id
    return JSONResponse(body, status, {**_FRESH, **(headers or {})}, media_type=MEDIA_TYPE)


def add_handlers(app: Starlette) -> None:
    """Install handlers that turn every exception of the app into a problem response."""
    for what in (
        Problem,
        BodyError,
        NotJson,
        RequestValidationError,
        Conflict,
        NotAllowed,
        AlreadyAsked,
        StoreUnavailable,
        HTTPException,
        ClientDisconnect,
    ):
        app.add_exception_handler(what, answer_problem)
    app.add_exception_handler(Exception, answer_failure)


async def answer_problem(request: Request, error: Exception) -> Response:
    """Answer an expected exception with its problem."""
    return _answer(request, _problem_of(request, error))


async def answer_failure(request: Request, _error: Exception) -> Response:
    """Answer an unexpected exception with 500 and no details."""
    detail = "Internal error; see the log of the server."
    return _answer(request, Problem(500, "internal_server_error", detail))


def _answer(request: Request, answered: Problem) -> Response:
    return problem(
        answered.status,
        answered.code,
        answered.detail,
        answered.headers,
        errors=answered.errors,
        request_id=_request_id(request),
    )


def _request_id(request: Request) -> str | None:
    found: str | None = getattr(request.state, "request_id", None)
    return found


def _problem_of(request: Request, error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case BodyError():
            errors = [_error(each) for each in error.errors]
            what = "body" if isinstance(error, RequestError) else "job"
            return Problem(422, f"invalid_{what}", f"The {what} is invalid; see errors.", errors)
        case NotJson():
            return Problem(400, "invalid_json", str(error))
        case RequestValidationError():
            return invalid_parameter([_error(each) for each in field_errors(error.errors())])
        case Conflict():
            return Problem(_status_of(error.code), error.code, _sentence(str(error)))
        case NotAllowed():
            return Problem(403, "not_allowed", _sentence(str(error)))
        case AlreadyAsked():
            return already_done()
        case StoreLost():
            detail = f"The database was lost, and this node stops: {error.reason}."
            return Problem(503, "database_lost", detail, headers=_AGAIN)
        case StoreUnwritable():
            return Problem(503, "database_unwritable", f"The database refuses writes: {error.reason}.", headers=_AGAIN)
        case StoreUnavailable():
            # Derived from the request id, so that clients refused together do not retry together (thundering herd).
            seconds = 1 + zlib.crc32((_request_id(request) or "").encode()) % 5
            what = "read-only" if isinstance(error, StoreReadOnly) else "unreachable"
            detail = f"The database is {what}; repeat the request, with an Idempotency-Key if it changes something."
            return Problem(503, "database_unavailable", detail, headers={"Retry-After": str(seconds)})
        case HTTPException():
            return _refused(request, error)
        case ClientDisconnect():
            return Problem(400, "incomplete_body", "The connection closed before the end of the body.")
        case _:
            raise error


def already_done() -> Problem:
    detail = (
        "The first call with this Idempotency-Key was carried out, but its response is not known; "
        "check what it was to change, or /api/v1/audit."
    )
    return Problem(409, "already_done", detail)


def _status_of(code: str) -> int:
    if code.startswith("no_such_"):
        return 404
    return {"version_mismatch": 412, "not_allowed": 403}.get(code, 409)


def _refused(request: Request, error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    details = {
        HTTPStatus.NOT_FOUND: f"No such path: {request.url.path}.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.url.path} does not support {request.method}.",
    }
    code = _CODES.get(status) or status.name.lower()
    return Problem(status, code, details.get(status) or _sentence(str(error.detail)), headers=error.headers)


def invalid_parameter(errors: Sequence[tuple[str, str, str | None]]) -> Problem:
    return Problem(400, "invalid_parameter", "A parameter is invalid; see errors.", errors)


def _error(error: FieldError) -> Error:
    return Error(error.pointer, error.message, error.hint)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
