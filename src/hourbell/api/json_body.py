"""JSON request bodies: size limits (1 MiB by default), media types and strict parsing. Reading stops at the limit."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from starlette.requests import Request

from hourbell.api.access import Caller, authenticator_of, caller, check_again
from hourbell.api.problems import Problem
from hourbell.core.values.strict_json import MAX_VALUES, parse_json

MAX_BODY_BYTES = 1024 * 1024
MAX_BODY_BYTES_BY_PATH = {  # by path
    "/api/v1/jobs/apply": 8 * MAX_BODY_BYTES,
    "/api/v1/schedules/apply": 8 * MAX_BODY_BYTES,
    "/api/v1/session": 4 * 1024,
}
MAX_VALUES_OF = {  # by path; each job in the body has its own limit
    "/api/v1/jobs/apply": 10 * MAX_VALUES,
    "/api/v1/schedules/apply": 10 * MAX_VALUES,
}
CONVERSIONS = ("/api/v1/jobs/convert", "/api/v1/schedules/convert")  # take seconds, and have a queue of their own
_MAX_LENGTH_DIGITS = 19
_LARGE_BYTES = 8 * 1024
_large_bodies = ThreadPoolExecutor(1, "large-bodies")  # one thread: large bodies queue up and delay nothing else
_MEDIA_TYPES = ("application/json", "application/merge-patch+json")


async def json_body(request: Request) -> object:
    """Return the JSON value of a request body; raise a Problem if it is too large or not declared as JSON."""
    body = await read_body(request)
    _check_media_type(request)
    parse = partial(parse_json, body, max_values=MAX_VALUES_OF.get(request.url.path, MAX_VALUES))
    if len(body) <= _LARGE_BYTES:
        return parse()
    return await asyncio.get_running_loop().run_in_executor(_large_bodies, parse)


async def optional_json_body(request: Request) -> object:
    """Return the JSON value of a request body, or an empty object if the body is empty.

    An empty body may have the media type of JSON or none.
    """
    if await read_body(request):
        return await json_body(request)
    if "content-type" in request.headers:
        _check_media_type(request)
    return {}


async def json_body_in_turn(request: Request) -> AsyncIterator[object]:
    """Yield the value of `json_body` while holding the lock for large bodies.

    Used as a dependency that ends before the response is sent: large bodies are handled one at a time.
    """
    async with _turn(request):
        yield await json_body(request)


async def optional_json_body_in_turn(request: Request) -> AsyncIterator[object]:
    """Yield the value of `optional_json_body` while holding the lock for large bodies."""
    async with _turn(request):
        yield await optional_json_body(request)


@asynccontextmanager
async def _turn(request: Request) -> AsyncIterator[None]:
    """Once the body is complete, wait for a turn of the caller, and with a large body for those before it.

    Handling a large body is slow in any thread: many at once would delay runs by seconds.
    """
    is_large = len(await read_body(request)) > _LARGE_BYTES and request.url.path not in CONVERSIONS
    authenticator, found = authenticator_of(request), await caller(request)
    async with authenticator.turns.turn(found.limited_as), authenticator.large_body if is_large else nullcontext():
        await check_again(request, came_at_once=True)
        yield


async def read_body(request: Request, *, limit: int | None = None) -> bytes:
    """Read a body within its size limit, counted while it arrives. Further calls return the same bytes.

    The caller must still be authenticated when the body is complete.
    """
    if not hasattr(request, "_body"):
        limit = limit or MAX_BODY_BYTES_BY_PATH.get(request.url.path, MAX_BODY_BYTES)
        announced = announced_bytes(request)
        if announced is not None and announced > limit:
            raise _too_large(limit, announced)
        body, parts = bytearray(), 0
        async for part in request.stream():
            body += part
            parts += bool(part)
            if len(body) > limit:
                raise _too_large(limit, announced)
            if len(body) > _LARGE_BYTES:
                _hold(request, len(body))
        await check_again(request, came_at_once=parts <= 1)
        request._body = bytes(body)  # where Starlette caches a body
    return await request.body()


def _hold(request: Request, size: int) -> None:
    """Count the bytes of a body as held until its request ends; raise a Problem if too many bytes are held already."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        return  # a login, whose body is at most 4 KiB
    held, name, before = authenticator_of(request).held, found.limited_as, getattr(request.state, "held_bytes", 0)
    if (refused := held.take(name, size - before)) is not None:
        raise refused
    request.state.held_bytes = size
    request.state.on_end = partial(held.release, name, size)


def announced_bytes(request: Request) -> int | None:
    """Return the Content-Length of the request, or None if it has none."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < _MAX_LENGTH_DIGITS else None


def _too_large(limit: int, announced: int | None) -> Problem:
    """Build the 413 response. It closes the connection unless the rest of the body is known to be short.

    The client is still sending: if the connection were closed at once, it would not see the response. So the server
    reads and discards a body of at most eight times the limit.
    """
    is_short = announced is not None and announced <= 8 * limit
    headers = {} if is_short else {"Connection": "close"}
    return Problem(413, "body_too_large", f"A body has at most {limit:,} bytes; send less.", headers=headers)


def _check_media_type(request: Request) -> None:
    given = request.headers.getlist("content-type")
    media_type, _, parameters = ",".join(given).partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if media_type.strip().lower() not in _MEDIA_TYPES or charset not in ("", "charset=utf-8"):
        raise Problem(
            415,
            "unsupported_media_type",
            "Send JSON in UTF-8 with the header Content-Type: application/json.",
            headers={"Accept-Post": "application/json"},
        )
