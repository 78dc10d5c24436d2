"""A connection in memory, under virtual time: a script says what comes from the receiver, when and in which pieces."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from hourbell.core.values.url import Url
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.client import HttpTransport
from hourbell.targets.http.http_connection import HttpConnection
from hourbell.targets.http.phases import Stopwatch
from tests.targets.http.transports import FakeEgressPolicy

End = Literal["stay", "close", "reset"]


@dataclass(frozen=True)
class Script:
    """A receiver's response to a request: pieces, each after a delay, and how it ends."""

    pieces: Sequence[tuple[float, bytes]]
    end: End = "stay"


class Connection(asyncio.Transport):
    """A connection of a `Network`. It plays its next script for each request."""

    def __init__(self, network: "Network", http_connection: HttpConnection, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self._network = network
        self._http_connection = http_connection
        self._is_closing = False
        self.delivered = 0  # bytes that the connection has taken
        self.requests = 0

    def write(self, data: Any) -> None:
        del data
        self.requests += 1
        self._network.play(self)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._http_connection.connection_lost, error)

    def deliver(self, data: bytes) -> None:
        if not self._is_closing and data:
            self.delivered += len(data)
            self._http_connection.data_received(data)


class Network:
    """Every connection of one transport, the scripts of their requests, and what went wrong while they were played."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self._sockets = socket.socketpair()  # a connection asks the system whether anything has come: nothing ever has
        self._playing = 0
        self.connections: list[Connection] = []
        self.errors: list[BaseException] = []
        self.is_silent = asyncio.Event()

    def transport(self) -> HttpTransport:
        made = HttpTransport(FakeEgressPolicy(), cast("Any", None), elapsed=asyncio.get_running_loop().time)
        made._dialler = cast("Any", self)
        return made

    async def open(self, url: Url, addresses: Sequence[Address], watch: Stopwatch, *, seconds: float) -> HttpConnection:
        """Stand in for the dialler."""
        del seconds
        watch.start("connect")
        http_connection = HttpConnection(asyncio.get_running_loop(), url.origin, addresses[0])
        connection = Connection(self, http_connection, self._sockets[0])
        http_connection.connection_made(connection)
        self.connections.append(connection)
        return http_connection

    def play(self, connection: Connection) -> None:
        self.is_silent.clear()
        self._playing += 1
        task = asyncio.ensure_future(self._play(self._scripts.pop(0), connection))
        task.add_done_callback(self._played)

    async def _play(self, script: Script, connection: Connection) -> None:
        await asyncio.sleep(0)
        for seconds, piece in script.pieces:
            if seconds:
                await asyncio.sleep(seconds)
            connection.deliver(piece)
        await asyncio.sleep(0)
        if script.end != "stay":
            connection.lose(ConnectionResetError(104, "reset") if script.end == "reset" else None)

    def _played(self, task: asyncio.Task[None]) -> None:
        self._playing -= 1
        error = task.exception()
        if error is not None:
            self.errors.append(error)
        if not self._playing:
            self.is_silent.set()

    def close(self) -> None:
        for each in self._sockets:
            each.close()
