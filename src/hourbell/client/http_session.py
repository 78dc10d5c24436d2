"""Requests to one server over a connection pool. Each request is sent once, and to no other server.

There are no redirects, no cookies and no hidden retries: an idle connection that the server has closed is replaced
only before anything is sent over it. The session belongs to the event loop of its first request.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from hourbell.client.errors import NOT_OURS, ServerOutOfReach, UnexpectedAnswer, error_of
from hourbell.client.server_address import ServerAddress

if TYPE_CHECKING:
    from hourbell.client.connecting import Proxy
    from hourbell.client.http_connection import HttpConnection, ResponseHead

Query = Mapping[str, str | Sequence[str]]  # of a sequence, each value is a parameter

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 4.0  # less than the server's keep-alive, so that it does not close during the next request
_MAX_CONNECTIONS = 100
MAX_ANSWER_BYTES = 256 * 1024 * 1024  # a plan contains every long payload that it changes
# Error reasons of OpenSSL for bytes that are not TLS; they differ by version and by content.
_WITHOUT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
_START = "start it with `hourbell serve`, or set HOURBELL_URL to where it is"


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. With `may_repeat` it is idempotent."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] | None = None
    may_repeat: bool = False
    quiet_seconds: float | None = None  # of a stream: max silence; its duration is not limited


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpSession:
    def __init__(
        self, address: ServerAddress, *, timeout: float, tls: ssl.SSLContext | None, use_proxies: bool
    ) -> None:
        self.address = address
        self._url = urlsplit(address.url)
        self._timeout = timeout
        self._tls = tls
        self._use_proxies = use_proxies
        self._proxy: Proxy | None = None
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._open: set[HttpConnection] = set()
        self._idle: dict[HttpConnection, asyncio.TimerHandle] = {}  # with its timeout, most recently used last
        self._is_closed = False

    async def send(self, request: Request) -> Reply:
        """Return the whole answer with any status; raise ServerOutOfReach if none comes in time."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        headers = self._headers(request)
        async with self._connected(deadline) as connection:
            with self._reporting():
                async with asyncio.timeout_at(deadline):
                    head = await self._ask(connection, request, headers)
                    body = await _read_body(connection)
        return Reply(head.status, head.headers, body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream of the parts of an answer; raise a ClientError if its status is not 200."""
        headers, quiet = self._headers(request), request.quiet_seconds
        async with self._connected(None) as connection:
            with self._reporting():
                head = await self._ask(connection, request, headers)
                if head.status != HTTPStatus.OK:
                    body = await _read_body(connection, quiet)
                    raise error_of(head.status, head.headers, body)
            yield self._parts(connection, quiet)

    async def close(self) -> None:
        self._is_closed = True
        for connection in self._open:
            connection.abort()
        await asyncio.gather(*(each.wait_closed() for each in self._open))

    async def _parts(self, connection: "HttpConnection", quiet_seconds: float | None) -> AsyncIterator[bytes]:
        with self._reporting():
            async for part in connection.body(quiet_seconds):
                yield part

    @asynccontextmanager
    async def _connected(self, deadline: float | None) -> "AsyncIterator[HttpConnection]":
        """Lend a connection from the pool, or a new one; afterwards it goes back to the pool if it is reusable."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._free.acquire()
        except TimeoutError as error:
            raise ServerOutOfReach(self._cannot_reach(None)) from error
        try:
            connection = self._take_idle() or await self._connect(deadline)
            try:
                yield connection
            finally:
                self._put_back(connection)
        finally:
            self._free.release()

    def _take_idle(self) -> "HttpConnection | None":
        self._refuse_if_closed()
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.is_quiet():
                return connection
            self._drop(connection)
        return None

    async def _connect(self, deadline: float | None) -> "HttpConnection":
        from hourbell.client.connecting import ProxyRefused, connect, environment_proxy

        limit = asyncio.get_running_loop().time() + min(self._timeout, _CONNECT_SECONDS)
        try:
            if self._use_proxies:
                self._proxy = environment_proxy(self._url)
            if self._tls is None and "https" in (self._url.scheme, self._proxy and self._proxy.url.scheme):
                self._tls = ssl.create_default_context()  # loading the certificates is slow
            async with asyncio.timeout_at(limit if deadline is None else min(limit, deadline)):
                connection = await connect(self._url, self._tls, self._proxy)
        except TimeoutError as error:
            raise ServerOutOfReach(self._cannot_reach(None)) from error
        except (OSError, ProxyRefused) as error:
            raise ServerOutOfReach(self._cannot_reach(error)) from error
        self._open.add(connection)
        connection.when_closed(partial(self._open.discard, connection))
        if self._is_closed:
            self._drop(connection)
        self._refuse_if_closed()
        return connection

    def _put_back(self, connection: "HttpConnection") -> None:
        if self._is_closed or not connection.make_ready():
            self._drop(connection)
            return
        timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._drop, connection)
        self._idle[connection] = timer

    def _drop(self, connection: "HttpConnection") -> None:
        self._idle.pop(connection, None)
        connection.abort()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise RuntimeError("This client was closed; make another one.")

    async def _ask(
        self, connection: "HttpConnection", request: Request, headers: list[tuple[str, str]]
    ) -> "ResponseHead":
        target = self._url.path + request.path + (f"?{urlencode(request.query, doseq=True)}" if request.query else "")
        if self._proxy is not None and self._url.scheme == "http":  # the proxy forwards plain HTTP
            target = f"http://{self._url.netloc}{target}"
            headers = [*headers, *self._proxy.headers]
        body = b"" if request.body is None and request.method != "GET" else request.body
        return await connection.ask(request.method, target, headers, body, quiet_seconds=request.quiet_seconds)

    def _headers(self, request: Request) -> list[tuple[str, str]]:
        """Return all headers except the framing of the body; raise ValueError if a value is not printable ASCII."""
        headers = {
            "Host": self._url.netloc,
            "User-Agent": "hourbell-client",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            **request.headers,
        }
        if self.address.token is not None:
            headers["Authorization"] = f"Bearer {self.address.token}"
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"{name} takes printable ASCII characters only.")
        return list(headers.items())

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Turn failures after a request was sent into ServerOutOfReach with `is_in_doubt`."""
        from hourbell.client.http_connection import ConnectionBroken

        try:
            yield
        except TimeoutError as error:
            raise ServerOutOfReach(f"{self.address.url} did not answer in time.", is_in_doubt=True) from error
        except (ConnectionBroken, OSError) as error:
            why = str(error) or type(error).__name__
            raise ServerOutOfReach(f"The connection to {self.address.url} broke ({why}).", is_in_doubt=True) from error

    def _cannot_reach(self, error: Exception | None) -> str:
        if isinstance(error, ssl.SSLError):
            return f"Hourbell cannot be reached at {self.address.url} {_of_tls(error)}."
        number = getattr(error, "errno", None) or 0
        why = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or error or "timed out"
        return f"Hourbell cannot be reached at {self.address.url} ({why}); {_START}."


async def _read_body(connection: "HttpConnection", quiet_seconds: float | None = None) -> bytes:
    """Read the body; raise UnexpectedAnswer as soon as it exceeds MAX_ANSWER_BYTES, without reading the rest."""
    body = bytearray()
    async for part in connection.body(quiet_seconds):
        body += part
        if len(body) > MAX_ANSWER_BYTES:
            raise UnexpectedAnswer(f"{NOT_OURS}. The answer has more than {MAX_ANSWER_BYTES:,} bytes.")
    return bytes(body)


def _of_tls(error: ssl.SSLError) -> str:
    """Return why TLS failed, and what to do. Its `errno` is not one of the operating system."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"(its certificate is not accepted: {error.verify_message}); write the name that it is for, or trust it"
    if error.reason in _WITHOUT_TLS:
        return "(what answers there does not speak TLS); write http:// instead of https://"
    return f"(TLS failed: {error.reason or error})"
