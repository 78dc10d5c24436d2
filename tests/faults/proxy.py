"""A proxy to a PostgreSQL server that can cut, stop and slow connections and drop answers.

It works in a thread of its own, so that the test does not block what it tests; its methods may be called
from anywhere and have taken effect when they return.
"""

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from tests.faults.conversation import Committed, Conversation, Messages

_ASKS_FOR_TLS = 80877103
_AT_ONCE = struct.pack("ii", 1, 0)  # linger: close with a reset


@dataclass(frozen=True, slots=True)
class Flow:
    """State of the connection. Stopped bytes are not lost: they go on when the connection is restored, as in TCP."""

    is_accepting: bool = True
    requests: bool = True
    answers: bool = True
    delay: float = 0.0  # seconds for each portion, either way
    rate: float | None = None  # bytes a second, either way


class Link:
    """A connection of a client, and the one to the server behind it."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._ends = (near, far)

    def close(self) -> None:
        for end in self._ends:
            end.transport.abort()

    def reset(self) -> None:
        for end in self._ends:
            reset(end)


def reset(end: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    end.transport.abort()


class Proxy:
    """Runs while its context is open. Any number of clients may use it; what is done to it is done to all of them."""

    def __init__(self, url: str, *, random: Random | None = None) -> None:
        self._parts = urlsplit(url)
        folder = parse_qs(self._parts.query).get("host")
        port = self._parts.port or 5432
        self._socket = f"{folder[0]}/.s.PGSQL.{port}" if folder else None
        self._address = self._parts.hostname or "localhost", port
        self._random = random or Random(0)
        self._port = 0
        self._flow = Flow()
        self._changed = asyncio.Event()
        self._lines: set[Link] = set()
        self._appetite: Counter[str] = Counter()
        self._chance: dict[str, float] = {}
        self.swallowed: Counter[str] = Counter()  # commits whose answer never arrived, by verb
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = server.result(10)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        """The server's URL through the proxy."""
        who, _, _ = self._parts.netloc.rpartition("@")
        return self._parts._replace(netloc=f"{who}@127.0.0.1:{self._port}", query="").geturl()

    def restore(self) -> None:
        """Pass everything, and resume stopped connections."""
        self._set(Flow())

    def drop(self) -> None:
        """Close every connection, and each new one at once."""
        self._set(Flow(is_accepting=False), Link.close)

    def reset(self) -> None:
        """Close them with a reset, as a machine that does not know the connection."""
        self._set(Flow(is_accepting=False), Link.reset)

    def stop(self) -> None:
        """Drop everything silently (a black hole). New connections are accepted and never answered."""
        self._set(Flow(requests=False, answers=False))

    def mute(self) -> None:
        """Stop the server's answers; requests still pass."""
        self._set(Flow(answers=False))

    def delay(self, seconds: float) -> None:
        self._set(Flow(delay=seconds))

    def throttle(self, bytes_a_second: float) -> None:
        self._set(Flow(rate=bytes_a_second))

    def swallow(self, verb: str, commits: int, *, chance: float = 1.0) -> None:
        """Swallow the answers to so many commits of a verb that changed a run, each by this chance.

        The server has committed and has said so; the client only sees its connection close.
        """

        def take() -> None:
            self._appetite[verb], self._chance[verb] = commits, chance

        self._do(take)

    @property
    def is_sated(self) -> bool:
        """Return True if everything that was to be swallowed was."""
        return not +self._appetite

    def _set(self, flow: Flow, end: Callable[[Link], None] | None = None) -> None:
        def change() -> None:
            self._flow = flow
            self._changed.set()
            self._changed = asyncio.Event()
            if end is not None:
                for line in list(self._lines):
                    end(line)

        self._do(change)

    def _do(self, change: Callable[[], None]) -> None:
        done: Future[None] = Future()

        def do() -> None:
            change()
            done.set_result(None)

        self._loop.call_soon_threadsafe(do)
        done.result(10)

    async def _end(self) -> None:
        self._server.close()
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for line in list(self._lines):
            line.close()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._flow.is_accepting:
            reset(writer)
            return
        try:
            while not self._flow.requests:
                await self._changed.wait()
            far_reader, far_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        line = Link(writer, far_writer)
        self._lines.add(line)
        conversation = Conversation()
        try:
            await asyncio.gather(
                self._carry_requests(reader, far_writer, writer, conversation),
                self._carry_answers(far_reader, writer, conversation),
            )
        finally:
            self._lines.discard(line)
            line.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket:
            return await asyncio.open_unix_connection(self._socket)
        return await asyncio.open_connection(*self._address)

    async def _carry_requests(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, back: asyncio.StreamWriter, talk: Conversation
    ) -> None:
        messages = Messages(opens=True)
        with suppress(OSError):
            while data := await source.read(65_536):
                wanted = b""
                for message in messages.feed(data):
                    if message.kind == b"" and int.from_bytes(message.body[:4]) == _ASKS_FOR_TLS:
                        back.write(b"N")  # not here: we want to read along
                        continue
                    talk.asked(message)
                    wanted += message.whole
                await self._pass(sink, wanted, "requests")
        await self._until_open("requests")
        sink.close()

    async def _carry_answers(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, talk: Conversation
    ) -> None:
        messages = Messages(opens=False)
        held = b""
        with suppress(OSError):
            while data := await source.read(65_536):
                for message in messages.feed(data):
                    held += message.whole
                    committed = talk.answered(message)
                    if committed is not None and self._swallows(committed):
                        sink.transport.abort()
                        return
                if not (talk.is_committing and +self._appetite):
                    await self._pass(sink, held, "answers")
                    held = b""
        await self._until_open("answers")
        sink.close()

    def _swallows(self, committed: Committed) -> bool:
        verb = committed.verb
        if not committed.rows or self._appetite[verb] <= 0 or self._random.random() >= self._chance[verb]:
            return False
        self._appetite[verb] -= 1
        self.swallowed[verb] += 1
        return True

    async def _until_open(self, way: str) -> Flow:
        while not getattr(self._flow, way):
            await self._changed.wait()
        return self._flow

    async def _pass(self, sink: asyncio.StreamWriter, data: bytes, way: str) -> None:
        while data:
            flow = await self._until_open(way)
            await asyncio.sleep(flow.delay)
            flow = await self._until_open(way)
            portion = len(data) if flow.rate is None else max(1, int(flow.rate / 20))
            sink.write(data[:portion])
            await sink.drain()
            data = data[portion:]
            if flow.rate is not None:
                await asyncio.sleep(portion / flow.rate)
