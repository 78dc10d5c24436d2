"""The transport on aiohttp's HTTP: one request, once, over a connection the gate allows, within one deadline.

aiohttp's writer and parser put the request on the wire and take the answer from it. Its session is not used: looking
names up, following redirects, sending again on a new connection, cookies and proxies from the environment are what must
never happen here, so there is no code for them on the way, nor anything to switch off.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakSet

from aiohttp import ClientError, EofStream
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from multidict import CIMultiDict

from hourbell.core.url import Url
from hourbell.targets.http import failures
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.dial import Dialler, Gate
from hourbell.targets.http.idle import IdleWires
from hourbell.targets.http.phases import Stopwatch
from hourbell.targets.http.transport import MOST_HEADERS, MOST_READ, NotBegun, Request, Response, TransportError
from hourbell.targets.http.wire import Exchange, Wire

Begin = Callable[[], Awaitable[bool]]


class AiohttpTransport:
    """Needs no event loop until the first `send`; after `close` it sends nothing more."""

    def __init__(
        self,
        gate: Gate,
        tls: ssl.SSLContext,
        *,
        elapsed: Callable[[], float],
        most_idle: int = 100,
        most_idle_per_host: int = 10,
    ) -> None:
        self._gate = gate
        self._dialler = Dialler(gate, tls)
        self._elapsed = elapsed
        self._idle = IdleWires(most_idle, most_idle_per_host)
        self._wires: WeakSet[Wire] = WeakSet()  # all that are open
        self._is_closed = False

    async def send(self, request: Request, begin: Begin) -> Response:
        watch = Stopwatch(self._elapsed)
        deadline = asyncio.timeout(request.timeout)
        wire: Wire | None = None
        answer: RawResponseMessage | None = None
        body: list[bytes] = []
        is_whole = False
        try:
            async with deadline:
                wire = await self._reach(request, begin, watch)
                watch.start("wait")
                answer = await _ask(request, wire)
                watch.start("read")
                is_whole = await _read(wire, body)
        except TransportError as error:
            error.phases = watch.phases()
            raise
        except TimeoutError as error:
            if not deadline.expired():
                raise
            if answer is None:
                message = failures.of_deadline(watch.phase, request.timeout)
                raise TransportError(message, begun=watch.phase == "wait", phases=watch.phases()) from error
        finally:
            if wire is not None:
                self._end(wire, may_keep=is_whole)
        headers = tuple((_text(name), _text(value)) for name, value in answer.raw_headers)
        return Response(answer.code, headers, b"".join(body)[:MOST_READ], is_whole, watch.phases())

    async def close(self) -> None:
        self._is_closed = True
        self._idle.close()
        for wire in list(self._wires):
            wire.abort()
        await asyncio.sleep(0)  # their sockets are closed in the loop's next round

    async def _reach(self, request: Request, begin: Begin, watch: Stopwatch) -> Wire:
        """A connection that may carry the request now, with leave to send it."""
        watch.start("dns")
        addresses = await self._gate.addresses_of(request.url)
        kept = self._kept(request.url, addresses)
        wire = kept if kept is not None else await self._opened(request, addresses, watch)
        watch.start(None)
        try:
            if not await begin():
                raise NotBegun
            if wire is kept and not wire.is_quiet():
                # The receiver hung up meanwhile. Nothing has been sent, so a new connection does as well.
                self._end(wire, may_keep=False)
                wire = await self._opened(request, addresses, watch)
        except BaseException:
            self._end(wire, may_keep=False)
            raise
        return wire

    def _kept(self, url: Url, addresses: Sequence[Address]) -> Wire | None:
        while (wire := self._idle.take(url.origin, addresses)) is not None:
            if self._gate.forbids(wire.address, url.port) is None:
                return wire
            wire.abort()
        return None

    async def _opened(self, request: Request, addresses: Sequence[Address], watch: Stopwatch) -> Wire:
        self._must_be_open()
        wire = await self._dialler.open(request.url, addresses, watch, seconds=request.timeout)
        self._wires.add(wire)
        try:
            self._must_be_open()
        except TransportError:
            wire.abort()
            raise
        return wire

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise TransportError(failures.STOPPED, begun=False)

    def _end(self, wire: Wire, *, may_keep: bool) -> None:
        wire.exchange = Exchange()
        if may_keep and not self._is_closed and wire.is_quiet():
            self._idle.keep(wire)
        else:
            wire.abort()  # a polite end would wait for the receiver


async def _ask(request: Request, wire: Wire) -> RawResponseMessage:
    """Send the request and wait for the last header of its answer."""
    headers = CIMultiDict(request.headers)
    headers["Host"] = request.url.authority
    headers["Accept-Encoding"] = "identity"
    if request.body or request.method not in ("GET", "HEAD"):
        headers["Content-Length"] = str(len(request.body))
    wire.set_response_params(
        skip_payload=request.method == "HEAD",
        read_until_eof=True,
        auto_decompress=False,
        read_bufsize=MOST_READ,
        max_line_size=MOST_HEADERS,
        max_field_size=MOST_HEADERS,
        max_headers=MOST_HEADERS,
    )
    writer = StreamWriter(wire, asyncio.get_running_loop())
    try:
        await writer.write_headers(f"{request.method} {request.url.path} HTTP/1.1", headers)
    except ValueError as error:
        raise TransportError(failures.UNSENDABLE, begun=False) from error
    try:
        await writer.write(request.body, drain=False)  # its answer may come before it is all sent
        answer, _ = await wire.read()
    except (HttpProcessingError, ClientError, EofStream, OSError) as error:
        raise TransportError(failures.of_exchange(error, wire.exchange), begun=True) from error
    if answer.code == 101:
        raise TransportError(failures.SWITCHED, begun=True)
    return answer


async def _read(wire: Wire, body: list[bytes]) -> bool:
    """Add what comes to the body until it is whole or longer than it may be; tell whether it is whole."""
    content = wire.exchange.body
    assert content is not None
    size = 0
    while size <= MOST_READ:
        try:
            block = await content.readany()
        except (ClientError, OSError, RuntimeError):
            return False
        if not block:
            return not wire.exchange.is_cut
        body.append(block)
        size += len(block)
    return False


def _text(header: bytes) -> str:
    return header.decode("utf-8", "replace")
