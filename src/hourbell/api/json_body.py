"""JSON bodies: of one media type, at most 1 MiB, and read in one way only. What is too large is not read to its end."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from starlette.requests import Request

from hourbell.api.access import Caller, check_again, door_of
from hourbell.api.problems import Problem
from hourbell.core.values.strict_json import MAX_VALUES, parse_json

MOST_BYTES = 1024 * 1024
MOST_BYTES_OF = {  # by path
    "/api/v1/jobs/apply": 8 * MOST_BYTES,
    "/api/v1/schedules/apply": 8 * MOST_BYTES,
    "/api/v1/session": 4 * 1024,
}
MAX_VALUES_OF = {  # by path; each job among them has a limit of its own
    "/api/v1/jobs/apply": 10 * MAX_VALUES,
    "/api/v1/schedules/apply": 10 * MAX_VALUES,
}
_LONGEST_LENGTH = 19
_LARGE_BYTES = 8 * 1024
_large_bodies = ThreadPoolExecutor(1, "large-bodies")  # they wait for each other, and nobody else for them
_MEDIA_TYPES = ("application/json", "application/merge-patch+json")


async def json_body(request: Request) -> object:
    """The value a request brings; a Problem if it brings none."""
    body = await read_body(request)
    _check_media_type(request)
    parse = partial(parse_json, body, max_values=MAX_VALUES_OF.get(request.url.path, MAX_VALUES))
    if len(body) <= _LARGE_BYTES:
        return parse()
    return await asyncio.get_running_loop().run_in_executor(_large_bodies, parse)


async def optional_json_body(request: Request) -> object:
    """The value a request brings, or an empty object if the body is empty, with or without JSON's media type."""
    if await read_body(request):
        return await json_body(request)
    if "content-type" in request.headers:
        _check_media_type(request)
    return {}


async def json_body_in_turn(request: Request) -> AsyncIterator[object]:
    """As `json_body`, for a dependency that ends before the answer is sent: large bodies are handled one at a time."""
    async with _turn(request):
        yield await json_body(request)


async def optional_json_body_in_turn(request: Request) -> AsyncIterator[object]:
    """As `optional_json_body`, with the turns of `json_body_in_turn`."""
    async with _turn(request):
        yield await optional_json_body(request)


@asynccontextmanager
async def _turn(request: Request) -> AsyncIterator[None]:
    """Wait for the large bodies that came before, once this one is whole.

    Whatever is done with a large body takes long, in whichever thread: many at once would delay runs by seconds.
    """
    is_large = len(await read_body(request)) > _LARGE_BYTES
    async with door_of(request).large_body if is_large else nullcontext():
        yield


async def read_body(request: Request, *, most: int | None = None) -> bytes:
    """The bytes of a body, however often they are asked for, counted while they come.

    Whoever sends it must still be let in when it is whole.
    """
    if not hasattr(request, "_body"):
        most = most or MOST_BYTES_OF.get(request.url.path, MOST_BYTES)
        announced = announced_bytes(request)
        if announced is not None and announced > most:
            raise _too_large(most, announced)
        body, parts = bytearray(), 0
        async for part in request.stream():
            body += part
            parts += bool(part)
            if len(body) > most:
                raise _too_large(most, announced)
            if len(body) > _LARGE_BYTES:
                _hold(request, len(body))
        await check_again(request, came_at_once=parts <= 1)
        request._body = bytes(body)  # where Starlette looks for a body that was read
    return await request.body()


def _hold(request: Request, size: int) -> None:
    """Count a body that has this size by now, until its request has ended; a Problem if too much is held already."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        return  # a login, whose body is small
    held, name, before = door_of(request).held, found.limited_as, getattr(request.state, "held_bytes", 0)
    if (refused := held.take(name, size - before)) is not None:
        raise refused
    request.state.held_bytes = size
    request.state.on_end = partial(held.release, name, size)


def announced_bytes(request: Request) -> int | None:
    """The length of the body by its Content-Length; None if the request has none."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < _LONGEST_LENGTH else None


def _too_large(most: int, announced: int | None) -> Problem:
    """A client still sends while it is answered: if the connection were closed at once, it would not see the answer.

    So the server throws away the rest, as it does unless told otherwise, where the rest is known to be short.
    """
    is_short = announced is not None and announced <= 8 * most
    headers = {} if is_short else {"Connection": "close"}
    return Problem(413, "body_too_large", f"A body has at most {most:,} bytes; send less.", headers=headers)


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
