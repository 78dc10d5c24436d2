"""The HTTP client of webhooks: it sends one request, once, over a connection that the egress policy allows, within one
deadline.

General HTTP clients also resolve names, follow redirects, resend on a new connection, store cookies and use proxies
from the environment. All of that is forbidden here, so there is no code for it and no option to disable.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakSet

from hourbell.core.values.url import Url
from hourbell.targets.http import failures
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.dial import Dialler, EgressPolicy
from hourbell.targets.http.http_connection import HttpConnection, ResponseState
from hourbell.targets.http.idle import IdleConnections
from hourbell.targets.http.phases import Stopwatch
from hourbell.targets.http.transport import (
    MAX_BODY_SECONDS,
    MAX_RESPONSE_BYTES,
    NotBegun,
    Request,
    Response,
    TransportError,
)
from hourbell.targets.time_limits import TimeLimit, TimeLimits

Begin = Callable[[], Awaitable[bool]]

_IDENTITY = "Accept-Encoding: identity"
_OWN_HEADERS = frozenset({"host", "accept-encoding", "content-length"})


class HttpTransport:
    """A transport on `HttpConnection` connections with a connection pool.

    It needs no event loop until the first `send`, and sends nothing after `close`.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        tls: ssl.SSLContext,
        *,
        elapsed: Callable[[], float],
        max_idle: int = 100,
        max_idle_per_host: int = 10,
    ) -> None:
        self._policy = policy
        self._dialler = Dialler(policy, tls)
        self._elapsed = elapsed
        self._idle = IdleConnections(max_idle, max_idle_per_host)
        self._limits = TimeLimits()
        self._connections: WeakSet[HttpConnection] = WeakSet()  # all open connections
        self._is_closed = False

    async def send(self, request: Request, begin: Begin) -> Response:
        watch = Stopwatch(self._elapsed)
        limit = TimeLimit(self._limits, request.timeout)
        connection: HttpConnection | None = None
        state: ResponseState | None = None
        try:
            with limit:
                connection = await self._reach(request, begin, watch)
                watch.start("wait")
                state = _asked(request, connection)
                await connection.wait_for_headers(state)
                if not state.has_headers:
                    raise TransportError(state.failure, begun=True)
                watch.start("read")
                await self._read_body(connection, state)
        except TransportError as error:
            error.phases = watch.phases()
            raise
        except TimeoutError as error:
            if not limit.is_over:
                raise
            if state is None or not state.has_headers:
                message = failures.of_deadline(watch.phase, request.timeout)
                raise TransportError(message, begun=state is not None, phases=watch.phases()) from error
        finally:
            if connection is not None:
                self._end(connection, may_keep=state is not None and state.is_whole)
        headers = tuple((_text(name), _text(value)) for name, value in state.headers)
        body = b"".join(state.body)[:MAX_RESPONSE_BYTES]
        return Response(state.status, headers, body, state.is_whole, watch.phases())

    async def close(self) -> None:
        self._is_closed = True
        self._idle.close()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # the event loop closes their sockets in its next iteration

    async def _reach(self, request: Request, begin: Begin, watch: Stopwatch) -> HttpConnection:
        """Return an idle or new connection for the request, after `begin` has allowed to send it."""
        watch.start("dns")
        addresses = await self._policy.addresses_of(request.url)
        reusable = self._reusable(request.url, addresses)
        connection = reusable if reusable is not None else await self._opened(request, addresses, watch)
        watch.start(None)
        try:
            if not await begin():
                raise NotBegun
            while connection is reusable and not connection.is_quiet():
                # The receiver has closed the connection. Nothing has been sent, so another connection is safe.
                self._end(connection, may_keep=False)
                reusable = self._reusable(request.url, addresses)
                connection = reusable if reusable is not None else await self._opened(request, addresses, watch)
        except BaseException:
            self._end(connection, may_keep=False)
            raise
        return connection

    async def _read_body(self, connection: HttpConnection, state: ResponseState) -> None:
        """Wait for the end of the body, with a timeout: a receiver that sends it slowly must not hold the slot."""
        if state.is_over:
            return
        limit = TimeLimit(self._limits, MAX_BODY_SECONDS)
        try:
            with limit:
                await connection.wait_for_end(state)
        except TimeoutError:
            if not limit.is_over:
                raise

    def _reusable(self, url: Url, addresses: Sequence[Address]) -> HttpConnection | None:
        while (connection := self._idle.take(url.origin, addresses)) is not None:
            if self._policy.forbids(connection.address, url.port) is None:
                return connection
            connection.abort()
        return None

    async def _opened(self, request: Request, addresses: Sequence[Address], watch: Stopwatch) -> HttpConnection:
        self._must_be_open()
        connection = await self._dialler.open(request.url, addresses, watch, seconds=request.timeout)
        self._connections.add(connection)
        try:
            self._must_be_open()
        except TransportError:
            connection.abort()
            raise
        return connection

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise TransportError(failures.STOPPED, begun=False)

    def _end(self, connection: HttpConnection, *, may_keep: bool) -> None:
        connection.forget()
        if may_keep and not self._is_closed and connection.may_be_reused():
            self._idle.keep(connection)
        else:
            connection.abort()


def _asked(request: Request, connection: HttpConnection) -> ResponseState:
    """Send the request; raise a TransportError if the connection is closed."""
    state = connection.send(_head(request) + request.body)
    if state is None:
        raise TransportError(connection.closed_reason, begun=False)
    return state


def _head(request: Request) -> bytes:
    """Serialize the request line and headers; raise a TransportError for a line break, which could inject a header."""
    lines = [f"{request.method} {request.url.path} HTTP/1.1", f"Host: {request.url.authority}", _IDENTITY]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS]
    if request.body or request.method != "GET":
        lines.append(f"Content-Length: {len(request.body)}")
    text = "\n".join(lines)
    try:
        if text.count("\n") >= len(lines) or "\r" in text or "\0" in text:
            raise ValueError
        return f"{text}\n\n".replace("\n", "\r\n").encode()
    except ValueError:  # includes UnicodeEncodeError for a lone surrogate
        raise TransportError(failures.UNSENDABLE, begun=False) from None


def _text(header: bytes) -> str:
    return header.decode("utf-8", "replace")
