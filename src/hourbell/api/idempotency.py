"""Idempotency keys: a POST with an `Idempotency-Key` acts once, however often it is sent.

The transaction of the change also writes the key, so that it is never in doubt if the change was made. The response is
stored right after it. Steps of a call with a key:

1. The key is known with another request: answer 422. It is known with a response: send that response again.
2. The key is known without a response: the first call has not stored it yet, or died before. Wait up to two seconds.
3. Else handle the call. If the store raises `AlreadyAsked`, a concurrent call was first: continue as in 2. If its
   response does not arrive, handle the call once more: control does not act again, but returns the earlier result if it
   can be found; else the answer is 409.
4. Store the response of a call that acted, unless it contains a secret or is too long.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hourbell.api.access import Authenticator, Caller, authenticator_of, caller
from hourbell.api.json_body import read_body
from hourbell.api.problems import Problem, already_done
from hourbell.control.values import AlreadyAsked, StoreUnavailable
from hourbell.control.values import Request as ActorRequest
from hourbell.core.values.ids import time_of_key

Handle = Callable[[Request], Awaitable[Response]]

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_MAX_ANSWER_BYTES = 64 * 1024
_WAIT_SECONDS, _POLL_SECONDS = 2.0, 0.1
_STORED_HEADERS = ("content-type", "etag", "location")


async def asked(request: Request) -> ActorRequest:
    """Return the call behind a change, for the store (a FastAPI dependency). It has a key if the caller sent one."""
    found = await caller(request)
    key, fingerprint, milliseconds, is_known = getattr(request.state, "idempotency", (None, b"", None, False))
    return ActorRequest(
        id=found.request_id or None,
        token_id=found.token_id,
        ip=found.ip or None,
        key=key,
        fingerprint=fingerprint,
        key_milliseconds=milliseconds,
        is_known=is_known,
    )


class SecretResponse(JSONResponse):
    """A response that contains a secret: it is sent once and never stored."""


class IdempotentRoute(APIRoute):
    """A route class, for `APIRouter(route_class=…)`, whose POST requests may have an idempotency key."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            if request.method != "POST" or HEADER not in request.headers:
                return await handle(request)
            return await _answer_once(request, handle)

        return answer


async def _answer_once(request: Request, handle: Handle) -> Response:
    given = request.headers.getlist(HEADER)
    if len(given) != 1 or _KEY.fullmatch(given[0]) is None:
        raise Problem(
            400, "invalid_idempotency_key", f"Write 1 to 255 printable ASCII characters as {HEADER}, as in a UUID."
        )
    authenticator = authenticator_of(request)
    key = _scoped(await caller(request), request, given[0])
    fingerprint = await _fingerprint(request)
    for is_known in (await authenticator.access.idempotency_record(key) is not None, True):
        if is_known and (again := await _answer_again(authenticator, key, fingerprint)) is not None:
            return again
        request.state.idempotency = (key, fingerprint, time_of_key(given[0]), is_known)
        try:
            response = await handle(request)
            break
        except AlreadyAsked:
            if is_known:
                raise already_done() from None
    if 200 <= response.status_code < 300:
        with contextlib.suppress(StoreUnavailable):  # the change is made, so the caller gets its response anyway
            await authenticator.access.keep_answer(key, _stored_form(response))
    return response


async def _answer_again(authenticator: Authenticator, key: str, fingerprint: bytes) -> Response | None:
    """Return the response of the first call with the key, or None if it is not stored within two seconds."""
    waited = 0.0
    while True:
        known = await authenticator.access.idempotency_record(key)
        if known is not None and known.fingerprint != fingerprint:
            raise Problem(
                422,
                "idempotency_key_reused",
                f"This {HEADER} was used for another request; use a new key for each.",
            )
        if known is not None and known.answer is not None:
            return _replayed(known.answer)
        if waited >= _WAIT_SECONDS:
            return None
        await authenticator.pause(_POLL_SECONDS)
        waited += _POLL_SECONDS


def _scoped(found: Caller, request: Request, key: str) -> str:
    """Scope a key to its caller, method and path, so that keys of different callers never collide."""
    who = str(found.token_id) if found.token_id else found.actor
    return hashlib.sha256(json.dumps([who, request.method, request.url.path, key]).encode()).hexdigest()


async def _fingerprint(request: Request) -> bytes:
    query: bytes = request.scope.get("query_string", b"")
    return hashlib.sha256(b"%d:%b%b" % (len(query), query, await read_body(request))).digest()


_NOT_STORED: Mapping[str, object] = {"status": None}


def _stored_form(response: Response) -> Mapping[str, object]:
    body = getattr(response, "body", None)  # a streaming response has none
    media_type = response.headers.get("content-type", "")
    is_json = media_type.startswith("application/json") or body == b""
    if (
        isinstance(response, SecretResponse)
        or not isinstance(body, bytes)
        or len(body) > _MAX_ANSWER_BYTES
        or not is_json
    ):
        return _NOT_STORED
    headers = {name: response.headers[name] for name in _STORED_HEADERS if name in response.headers}
    return {"status": response.status_code, "headers": headers, "body": body.decode()}


def _replayed(answer: Mapping[str, object]) -> Response:
    status, headers, body = answer.get("status"), answer.get("headers"), answer.get("body")
    if not (isinstance(status, int) and isinstance(headers, Mapping) and isinstance(body, str)):
        raise _answer_not_stored()
    return Response(body or None, status, {**headers, REPLAYED: "true"})


def _answer_not_stored() -> Problem:
    why = "its response contained a secret or was too long, and was not stored"
    detail = f"The first call with this key was carried out; {why}."
    return Problem(409, "answer_not_kept", detail)
