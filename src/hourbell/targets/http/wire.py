"""One connection to a checked address, and what may come over it.

A wire carries one exchange at a time: a request, and one answer to it. Interim answers are dropped; what comes beyond
the answer, or unasked, spoils the wire for reuse. It takes no more than MOST_HEADERS bytes until an answer's headers
are complete, MOST_TAKEN in all and little more than MOST_READ of the body, so that no receiver can fill the memory; and
no more than MAX_HEADERS headers, nor many chunks of a few bytes, each of which takes as long as a large one. An answer
whose headers have come stays an answer whatever is wrong with its body.

The parser is lenient, which does no harm to one answer. A wire is used again only if a strict reader would see the end
of the answer in the same place.
"""

import asyncio
import errno
import re
import select
from dataclasses import dataclass, field
from typing import cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from hourbell.targets.http import failures
from hourbell.targets.http.addresses import Address
from hourbell.targets.http.transport import MAX_HEADERS, MOST_HEADERS, MOST_READ

MOST_TAKEN = 8 * MOST_READ  # bytes of an answer as they come, with what chunks have besides the body
_FREE_CHUNKS, _MIN_CHUNK_BYTES = 100, 64  # of more chunks, so many bytes for each on average
_PIECE_BYTES = 8_192  # parsed at once: what goes beyond a limit is left after them
_BLANKS = (b" ", b"\t", b"")
_HEAD_END = re.compile(rb"\n\r?\n")
_MAX_LINE_END_BYTES = 4  # of an answer's last two lines
_SWITCHING = 101
# What these let pass does no harm to somebody who reads one answer, and some receivers have always written it.
_LENIENCIES = {"lenient_headers": True, "lenient_optional_cr_before_lf": True, "lenient_spaces_after_chunk_size": True}


@dataclass(slots=True)
class Exchange:
    """What has come of the answer to one request."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: list[bytes] = field(default_factory=list)
    has_headers: bool = False  # all of them, so that there is an answer
    is_over: bool = False  # nothing of it comes any more
    is_whole: bool = False
    is_odd: bool = False  # others might read it otherwise, so that nothing may follow it
    failure: str = ""  # why there is no answer, if it is over without one
    tail: bytes = b""  # the last bytes of what came before the headers were complete
    taken: int = 0  # bytes, as those below
    header_size: int = 0
    header_count: int = 0
    chunk_count: int = 0
    body_size: int = 0

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection tells where the body ends."""
        return self._said(b"content-length") is None and not self.is_chunked

    @property
    def is_chunked(self) -> bool:
        codings = self._said(b"transfer-encoding") or b""
        return codings.rpartition(b",")[2].strip() == b"chunked"

    def _said(self, header: bytes) -> bytes | None:
        return next((value.lower() for name, value in reversed(self.headers) if name.lower() == header), None)


_NONE = Exchange(is_over=True)


class Wire(asyncio.Protocol):
    """The parser calls what begins with `on_`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, origin: str, address: Address) -> None:
        self.origin = origin
        self.address = address
        self.why_gone = failures.CLOSED  # if it is
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._exchange = _NONE
        self._parser: HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_spoilt = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLOUT)

    def may_be_kept(self) -> bool:
        """Whether another request may go over it, as far as the event loop has seen: it is open, all is sent, and
        nothing came unasked."""
        transport = self._transport
        return not (transport is None or transport.is_closing() or self._is_spoilt or transport.get_write_buffer_size())

    def is_quiet(self) -> bool:
        """Whether the next request may go over it now: nothing has come, not even its end, and nothing is left to send.

        The system is asked, because the event loop may not have seen yet what the receiver did, and because under TLS
        the transport does not know what waits below it."""
        return self.may_be_kept() and [event for _, event in self._poll.poll(0)] == [select.POLLOUT]

    def send(self, request: bytes) -> Exchange | None:
        """Begin an exchange; None if the connection is gone, so that nothing is sent."""
        if self._transport is None or self._transport.is_closing():
            return None
        self._exchange = exchange = Exchange()
        self._parser = parser = HttpResponseParser(self)
        parser.set_dangerous_leniencies(**_LENIENCIES)
        self._transport.write(request)
        return exchange

    async def wait_for_headers(self, exchange: Exchange) -> None:
        """Wait for the last header of the answer, or for its end if there is none."""
        while not (exchange.has_headers or exchange.is_over):
            await self._more()

    async def wait_for_end(self, exchange: Exchange) -> None:
        """Wait for the end of the answer."""
        while not exchange.is_over:
            await self._more()

    def forget(self) -> None:
        """Be done with the exchange. The answer may be large, and the parser knows this wire, which knows it."""
        self._exchange = _NONE
        self._parser = None

    def abort(self) -> None:
        """Close the connection now: a polite end would wait for the receiver."""
        self._break_off(self._exchange, failures.CLOSED)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange.is_over:
            self._is_spoilt = True
            self.why_gone = failures.UNASKED
        else:
            if not exchange.has_headers:
                head = exchange.tail + data if exchange.tail else data
                exchange.is_odd |= _has_folded_line(head)
                exchange.tail = head[1 - _MAX_LINE_END_BYTES :]
            exchange.taken += len(data)
            self._parse(data, exchange)
            if exchange.taken > (MOST_TAKEN if exchange.has_headers else MOST_HEADERS):
                self._break_off(exchange, failures.TOO_LONG)
        if self._is_spoilt:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        exchange = self._exchange
        if not exchange.is_over:
            exchange.is_whole = exc is None and exchange.has_headers and exchange.ends_with_connection
            is_reset = getattr(exc, "errno", None) == errno.ECONNRESET
            self._break_off(exchange, failures.RESET if is_reset else failures.CLOSED)

    def on_message_begin(self) -> None:
        exchange = self._exchange
        if exchange.is_over:
            self._is_spoilt = True  # by a second answer
        else:
            exchange.is_odd |= exchange.status > 0  # an interim answer went before it
            exchange.headers.clear()  # those of an interim answer, and its trailers
            exchange.header_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        exchange = self._exchange
        exchange.header_count += 1
        if exchange.header_count > MAX_HEADERS:
            self._break_off(exchange, failures.TOO_MANY)
        elif not exchange.has_headers:  # else it is a trailer
            exchange.is_odd |= name[-1:] in _BLANKS  # before the colon
            exchange.headers.append((name, value.strip(b" \t")))
            exchange.header_size += len(name) + len(value) + len(b": \r\n")

    def on_headers_complete(self) -> None:
        exchange, parser = self._exchange, self._parser
        if exchange.is_over or parser is None:
            return
        exchange.status = parser.get_status_code()
        if exchange.header_size > MOST_HEADERS:
            self._break_off(exchange, failures.TOO_LONG)
        elif exchange.status == _SWITCHING:
            self._break_off(exchange, failures.SWITCHED)
        elif exchange.status < 100:
            self._break_off(exchange, failures.NOT_HTTP)
        elif exchange.status >= 200:
            exchange.has_headers = True
            self._wake()

    def on_chunk_header(self) -> None:
        exchange = self._exchange
        exchange.chunk_count += 1
        if exchange.chunk_count > _FREE_CHUNKS + exchange.body_size // _MIN_CHUNK_BYTES:
            self._break_off(exchange, failures.TOO_LONG)

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange.is_over:
            self._is_spoilt = True
            return
        if not exchange.has_headers:
            return  # the body of an interim answer
        exchange.body.append(data)
        exchange.body_size += len(data)
        if exchange.body_size > MOST_READ:
            self._break_off(exchange)

    def on_message_complete(self) -> None:
        exchange, parser = self._exchange, self._parser
        if exchange.has_headers and not exchange.is_over and parser is not None:
            self._complete(exchange, parser)

    def _parse(self, data: bytes, exchange: Exchange) -> None:
        assert self._parser is not None  # as long as an exchange is not over
        end = _end_of_text(data)
        try:
            for start in range(0, end, _PIECE_BYTES):
                if exchange.is_over:
                    self._is_spoilt = True
                    return
                self._parser.feed_data(data[start : min(end, start + _PIECE_BYTES)])
            for byte in data[end:]:  # the parser skips line ends after an answer: they must not pass unnoticed
                if exchange.is_over:
                    self._is_spoilt = True
                    return
                self._parser.feed_data(bytes((byte,)))
        except HttpParserUpgrade:
            self._is_spoilt = True
        except HttpParserCallbackError:
            raise  # it is not the receiver's fault
        except HttpParserError:
            self._is_spoilt = True
            self._break_off(exchange, failures.NOT_HTTP)

    def _complete(self, exchange: Exchange, parser: HttpResponseParser) -> None:
        exchange.is_over = exchange.is_whole = True
        self._is_spoilt = exchange.is_odd or not parser.should_keep_alive()
        self._wake()

    def _break_off(self, exchange: Exchange, failure: str = "") -> None:
        """Take no more of an answer. If its headers have come, it is one all the same."""
        if not exchange.is_over:
            exchange.is_over = True
            exchange.failure = "" if exchange.has_headers else failure
            self._is_spoilt = True
            self._wake()

    async def _more(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _end_of_text(data: bytes) -> int:
    """Return where the last line ends of a piece begin, four at most: as many as an answer can end with."""
    end = len(data)
    while end and data[end - 1] in b"\r\n" and len(data) - end < _MAX_LINE_END_BYTES:
        end -= 1
    return end


def _has_folded_line(data: bytes) -> bool:
    """Tell if a line of the headers begins with a blank, which some take for the end of all headers."""
    if b"\n " not in data and b"\n\t" not in data:
        return False
    end = _HEAD_END.search(data)
    head = data if end is None else data[: end.start()]
    return b"\n " in head or b"\n\t" in head
