"""Invariants of the HTTP connection for any response, and their checks.

1. The transport gives an answer or raises its own error; nothing else comes out of it, nor out of the event loop.
2. It reads and keeps no more than its limits, and is done within its time limits.
3. However the bytes are cut into pieces, the result is the same.
4. A connection is used again only after an answer that is exactly framed, by the word of a reader of our own.
5. The next request gets its own answer, and sees no byte of the one before.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from hourbell.targets.http.http_connection import MAX_RECEIVED_BYTES
from hourbell.targets.http.transport import (
    MAX_BODY_SECONDS,
    MAX_HEADER_BYTES,
    MAX_RESPONSE_BYTES,
    Request,
    Response,
    TransportError,
)
from tests.targets.http.fuzz.connection import End, Network, Script
from tests.targets.http.fuzz.oracle import read_exact
from tests.targets.http.transports import a_request, yes

TIMEOUT_SECONDS = 30.0
_ROUNDING_SECONDS = 0.01
_WAITS = (0.0, 0.1, 3.0, 7.0, 40.0)  # seconds
_PIECE_BYTES = 65_536  # at most, as an event loop hands them over
_SHORT = 60_000  # bytes: no limit is near
_EACH_BYTE = 400  # bytes, up to which an answer is also cut after each of them
SECOND = b"HTTP/1.1 207 Second\r\nContent-Length: 6\r\n\r\nsecond"

Result = tuple[object, ...]


class BrokenPromise(Exception):
    """An answer that the connection does not come away from as it must."""


@dataclass(frozen=True)
class Seen:
    """The result of a request, and of the one after it."""

    result: Result  # status, headers, body and whether it is whole; or the message of an error
    is_reused: bool


async def hold_promises(answer: bytes, random: Random) -> Seen:
    """Give an answer in several ways; raise BrokenPromise if one of them breaks a promise."""
    end: End = random.choice(("stay", "stay", "close", "reset"))
    seen = await _observe(_whole(answer), end)
    for pieces in _cuts(answer, random):
        again = await _observe(pieces, end)
        if len(answer) <= _SHORT:
            _require(seen == again, f"pieces of {[len(piece) for _, piece in pieces][:9]}: {again}, but whole: {seen}")
    await _observe(_slowly(answer, random), end)
    if seen.is_reused:
        exact = read_exact(answer)
        _require(exact is not None, f"the connection is used again after an answer that is not exactly framed: {seen}")
        assert exact is not None
        _require(
            (exact.status, exact.body[:MAX_RESPONSE_BYTES]) == (seen.result[0], seen.result[2]), f"{seen}, but {exact}"
        )
    return seen


async def _observe(pieces: Sequence[tuple[float, bytes]], end: End) -> Seen:
    loop = asyncio.get_running_loop()
    network = Network(Script(pieces, end), Script([(0.0, SECOND)]))
    transport = network.transport()
    try:
        began = loop.time()
        response = await _send(transport, a_request(80, timeout=TIMEOUT_SECONDS))
        _require(loop.time() - began <= TIMEOUT_SECONDS + _ROUNDING_SECONDS, "the time limit was passed")
        await network.is_silent.wait()
        await asyncio.sleep(0)
        second = await _send(transport, a_request(80, timeout=TIMEOUT_SECONDS))
        _hold_limits(response, network.connections[0].delivered)
        _require(isinstance(second, Response), f"the next request failed: {second}")
        assert isinstance(second, Response)
        _require((second.status, second.body) == (207, b"second"), f"the next request got {second}")
        _require(not network.errors, f"the event loop got {network.errors}")
    finally:
        await transport.close()
        network.close()
    return Seen(_result(response), network.connections[0].requests > 1)


async def _send(transport: object, request: Request) -> Response | TransportError:
    try:
        response = await transport.send(request, yes)  # type: ignore[attr-defined]
    except TransportError as error:
        return error
    except Exception as error:
        raise BrokenPromise(f"the transport raised {error!r}") from error
    assert isinstance(response, Response)
    return response


def _hold_limits(response: Response | TransportError, taken: int) -> None:
    _require(taken <= _max_received(response) + _PIECE_BYTES, f"{taken} bytes were taken")
    if isinstance(response, TransportError):
        return
    size = sum(len(name) + len(value) for name, value in response.headers)
    _require(size <= MAX_HEADER_BYTES, f"{size} bytes of headers were kept")
    _require(len(response.body) <= MAX_RESPONSE_BYTES, f"{len(response.body)} bytes of the body were kept")
    _require(response.phases["read"] <= MAX_BODY_SECONDS + _ROUNDING_SECONDS, "the body was read for too long")


def _max_received(response: Response | TransportError) -> int:
    """Return how many bytes may come before the connection is left; chunks may take several for one of the body."""
    if isinstance(response, TransportError):
        return MAX_HEADER_BYTES
    is_chunked = any(name.lower() == "transfer-encoding" for name, _ in response.headers)
    return MAX_RECEIVED_BYTES if is_chunked else MAX_HEADER_BYTES + MAX_RESPONSE_BYTES


def _result(response: Response | TransportError) -> Result:
    if isinstance(response, TransportError):
        return (str(response), response.begun)
    return (response.status, response.headers, response.body, response.is_whole)


def _whole(answer: bytes) -> list[tuple[float, bytes]]:
    return [(0.0, piece) for piece in _cut(answer, [])]


def _cuts(answer: bytes, random: Random) -> Iterable[list[tuple[float, bytes]]]:
    if len(answer) <= _EACH_BYTE:
        yield [(0.0, answer[at : at + 1]) for at in range(len(answer))]
    offsets = random.sample(range(len(answer) + 1), min(len(answer), random.randint(1, 6)))
    yield [(0.0, piece) for piece in _cut(answer, offsets)]


def _slowly(answer: bytes, random: Random) -> list[tuple[float, bytes]]:
    offsets = random.sample(range(len(answer) + 1), min(len(answer), 3))
    return [(random.choice(_WAITS), piece) for piece in _cut(answer, offsets)]


def _cut(answer: bytes, offsets: Sequence[int]) -> list[bytes]:
    """Cut an answer at places, and what is longer than a piece can be into several."""
    bounds = [0, *sorted(offsets), len(answer)]
    parts = [answer[start:stop] for start, stop in pairwise(bounds)]
    return [part[at : at + _PIECE_BYTES] for part in parts for at in range(0, len(part), _PIECE_BYTES)]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenPromise(otherwise[:2_000])
