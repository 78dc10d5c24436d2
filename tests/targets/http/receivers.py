"""Receivers of webhooks on loopback sockets, good and hostile, scripted byte by byte.

A `Receiver` counts what reached it. What it does with a connection is a small function of the `Talk` on it; when that
returns, the connection is closed.
"""

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BLOCK = b"x" * 65_536


class Receiver:
    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.open = 0
        self.bytes_read = 0
        self.requests: list[bytes] = []


class Talk:
    """A connection at a receiver."""

    def __init__(self, receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.receiver = receiver
        self._reader = reader
        self._writer = writer
        self._unread = b""

    async def read(self) -> bytes:
        """Read the next bytes, and count them; EOFError when the client has closed the connection."""
        data = await self._reader.read(65_536)
        self.receiver.bytes_read += len(data)
        if not data:
            raise EOFError
        return data

    async def request(self) -> bytes:
        """The next request with its body, counted."""
        while (size := _size_of_request(self._unread)) is None or len(self._unread) < size:
            self._unread += await self.read()
        request, self._unread = self._unread[:size], self._unread[size:]
        self.receiver.requests.append(request)
        return request

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self._writer.write(part)
            await self._writer.drain()

    async def hang_on(self) -> None:
        """Say nothing more until the client hangs up."""
        while True:
            await self.read()

    def reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()


Behaviour = Callable[[Talk], Awaitable[None]]


def _size_of_request(data: bytes) -> int | None:
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end:
        return None
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    return len(head) + 4 + next((int(value) for name, _, value in lines if name == b"content-length"), 0)


@asynccontextmanager
async def receiving(
    behaviour: Behaviour, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behaviour(Talk(receiver, reader, writer))
            writer.close()
        except (OSError, EOFError):
            pass
        finally:
            receiver.open -= 1
            if not writer.is_closing():
                writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.connections += 1
        receiver.open += 1
        task = asyncio.ensure_future(talk(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    server = await asyncio.start_server(accept, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await server.wait_closed()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def answers(*parts: bytes) -> Behaviour:
    """Answers every request on a connection that it keeps."""

    async def behave(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.say(*parts)

    return behave


def answers_and_closes(*parts: bytes) -> Behaviour:
    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(*parts)

    return behave


def answers_and_closes_later(*parts: bytes) -> Behaviour:
    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(*parts)
        await asyncio.sleep(0.05)

    return behave


def answers_and_hangs(*parts: bytes) -> Behaviour:
    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(*parts)
        await talk.hang_on()

    return behave


def answers_and_resets(*parts: bytes) -> Behaviour:
    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(*parts)
        await asyncio.sleep(0.1)  # a reset overtakes what has not been read
        talk.reset()

    return behave


def repeats(head: bytes, part: bytes) -> Behaviour:
    """Sends its bytes again and again, as long as the client reads."""

    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(head)
        while True:
            await talk.say(part)

    return behave


def drips(head: bytes, rest: bytes) -> Behaviour:
    """Sends the rest a byte at a time, slower than any timeout."""

    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(head)
        for byte in rest:
            await talk.say(bytes([byte]))
            await asyncio.sleep(0.1)

    return behave


async def answers_at_once_and_reads_nothing(talk: Talk) -> None:
    await talk.read()
    await talk.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
    await asyncio.sleep(60)


async def answers_once_then_reads_and_closes(talk: Talk) -> None:
    await talk.request()
    await talk.say(OK)
    await talk.request()


async def answers_twice(talk: Talk) -> None:
    """An unrequested response arrives a little later, when the connection may be idle."""
    await talk.request()
    await talk.say(OK)
    await asyncio.sleep(0.05)
    await talk.say(b"HTTP/1.1 500 Not Asked For\r\nContent-Length: 0\r\n\r\n")
    await talk.hang_on()


PACKED = gzip.compress(bytes(1_048_576)) * 1_000  # a gibibyte when it is unpacked
GZIP_BOMB = answers(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED)
BIG_BODY = repeats(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", BLOCK)
ENDLESS_BODY = repeats(b"HTTP/1.0 200 OK\r\n\r\n", BLOCK)
ENDLESS_CHUNKS = repeats(
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", (b"80\r\n" + b"x" * 128 + b"\r\n") * 1_000
)
ENDLESS_TINY_CHUNKS = repeats(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000)
ENDLESS_CHUNK_SIZE = repeats(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", BLOCK)
ENDLESS_TRAILERS = repeats(
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: " + b"x" * 60_000 + b"\r\n"
)
ENDLESS_HEADER = repeats(b"HTTP/1.1 200 OK\r\nA: ", BLOCK)
ENDLESS_HEADERS = repeats(b"HTTP/1.1 200 OK\r\n", (b"A: " + b"b" * 1_000 + b"\r\n") * 100)
ENDLESS_TINY_HEADERS = repeats(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 10_000)
ENDLESS_TINY_TRAILERS = repeats(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 10_000)
ENDLESS_STATUS = repeats(b"HTTP/1.1 200 ", BLOCK)
ENDLESS_INTERIM = repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)
ENDLESS_ANSWERS = repeats(b"", OK * 1_000)
