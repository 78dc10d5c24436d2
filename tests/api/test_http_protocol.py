"""The time limits of a connection under virtual time: which clients count as slow."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from typing import Any

import pytest
from uvicorn.server import ServerState

from hourbell.api.connections import ConnectionLimits
from hourbell.api.http_protocol import MIN_BYTES_PER_SECOND, HttpProtocol, RequestTimeouts, ServerConfig

pytestmark = pytest.mark.anyio

HEADER, BODY = 10.0, 30.0
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"


class Timer:
    def __init__(self, at: float, call: Callable[[], object]) -> None:
        self.at, self.call, self.is_cancelled = at, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Timers that fire when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(
        self, delay: float, call: Callable[..., object], *values: Any, context: Context | None = None
    ) -> Timer:
        del context
        self.timers.append(Timer(self.now + delay, lambda: call(*values)))
        return self.timers[-1]

    def create_task(self, work: Any) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(work)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while due := [timer for timer in self.timers if timer.at <= self.now and not timer.is_cancelled]:
            self.timers = [timer for timer in self.timers if timer not in due]
            for timer in due:
                timer.call()


class Transport:
    def __init__(self) -> None:
        self.written, self.unsent = b"", 0
        self.is_closed = self.is_aborted = False

    def get_extra_info(self, name: str) -> object:
        return {"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 80)}.get(name)

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection:
    """A client's connection to an app that reads as the test says."""

    def __init__(self, *, limits: ConnectionLimits | None = None, reads: bool = True) -> None:
        self.loop, self.transport = Loop(), Transport()
        self.limits = limits or ConnectionLimits(10, 10, (), lambda: 0.0)
        self.reads = reads
        config = ServerConfig(self.app, self.limits, RequestTimeouts(HEADER, BODY))
        self.protocol = HttpProtocol(config, ServerState(), {}, self.loop)  # type: ignore[arg-type]
        self.protocol.connection_made(self.transport)  # type: ignore[arg-type]

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/now":
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})
            return
        while self.reads and (await receive())["type"] == "http.request":
            pass
        await asyncio.Event().wait()

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        for _ in range(3):
            await asyncio.sleep(0)


Connect = Callable[..., Connection]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens connections, and closes those left at the end of the test, as their apps would wait forever."""
    made: list[Connection] = []

    def make(**more: Any) -> Connection:
        made.append(Connection(**more))
        return made[-1]

    yield make
    for connection in made:
        connection.protocol.connection_lost(None)


async def test_the_timeout_of_headers_starts_with_the_connection(connect: Connect) -> None:
    connection = connect()
    connection.loop.advance(HEADER - 1)
    await connection.send(b"GET / HTTP/1.1\r\n")
    assert not connection.transport.is_closed
    connection.loop.advance(1)

    assert connection.transport.is_closed
    assert connection.transport.written.startswith(b"HTTP/1.1 408 ")


async def test_the_timeout_of_a_pipelined_request_starts_with_the_previous_answer(connect: Connect) -> None:
    connection = connect()
    await connection.send(b"GET /now HTTP/1.1\r\nHost: x\r\n\r\nGET / HTT")
    assert connection.transport.written.startswith(b"HTTP/1.1 204 ")
    connection.loop.advance(HEADER - 1)
    assert not connection.transport.is_closed
    connection.loop.advance(1)

    assert b"HTTP/1.1 408 " in connection.transport.written


async def test_an_idle_connection_is_closed_without_an_answer(connect: Connect) -> None:
    connection = connect()
    await connection.send(b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.loop.advance(HEADER)

    assert connection.transport.is_closed
    assert b" 408 " not in connection.transport.written


async def test_a_request_being_answered_has_no_timeout(connect: Connect) -> None:
    connection = connect()
    await connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.loop.advance(3_600)

    assert not connection.transport.is_closed


async def test_a_body_at_the_required_rate_may_take_hours(connect: Connect) -> None:
    connection = connect()
    await connection.send(POST)
    for _ in range(200):
        for _ in range(int(BODY)):
            await connection.send(b"x" * MIN_BYTES_PER_SECOND)
            connection.loop.advance(1)

    assert not connection.transport.is_closed


async def test_a_body_below_the_required_rate_is_given_up(connect: Connect) -> None:
    connection = connect()
    await connection.send(POST + b"x" * 60_000)
    connection.loop.advance(BODY)
    connection.loop.advance(BODY)

    assert connection.transport.written.startswith(b"HTTP/1.1 408 ")


async def test_time_while_the_server_does_not_read_does_not_count(connect: Connect) -> None:
    connection = connect(reads=False)
    await connection.send(POST + b"x" * 100_000)
    connection.loop.advance(3_600)

    assert not connection.transport.is_closed


async def test_a_client_that_does_not_read_its_answer_is_disconnected(connect: Connect) -> None:
    connection = connect()
    await connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.transport.unsent = 100_000
    connection.protocol.pause_writing()
    connection.transport.unsent -= 1_000  # it reads a little
    connection.loop.advance(BODY)

    assert connection.transport.is_aborted


async def test_a_client_that_reads_its_answer_slowly_gets_all_of_it(connect: Connect) -> None:
    connection = connect()
    await connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.transport.unsent = 10_000_000
    connection.protocol.pause_writing()
    for _ in range(100):
        connection.transport.unsent -= int(MIN_BYTES_PER_SECOND * BODY)
        connection.loop.advance(BODY)
    connection.protocol.resume_writing()
    connection.loop.advance(3_600)

    assert not connection.transport.is_closed


async def test_a_closed_connection_frees_its_slot_once(connect: Connect) -> None:
    limits = ConnectionLimits(1, 1, (), lambda: 0.0)
    first, second = connect(limits=limits), connect(limits=limits)
    assert second.transport.written.startswith(b"HTTP/1.1 503 ")
    second.protocol.connection_lost(None)
    assert connect(limits=limits).transport.is_closed
    first.protocol.connection_lost(None)

    assert not connect(limits=limits).transport.is_closed
