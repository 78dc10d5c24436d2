"""One HTTP connection to a checked address, with limits on the response.

A connection carries one exchange at a time: a request and its response. Interim responses are dropped; data after the
response, or unsolicited data, makes the connection unfit for reuse. It accepts at most MAX_HEADER_BYTES bytes until the
response headers are complete, MAX_RECEIVED_BYTES in all and little more than MAX_RESPONSE_BYTES of the body, so that no
receiver can exhaust the memory; and at most MAX_HEADERS headers and few small chunks, because each chunk costs as much
CPU time as a large one. A response with complete headers remains valid whatever is wrong with its body.

The parser is lenient, which is safe for a single response. A connection is reused only if a strict parser would find
the end of the response at the same offset.
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
from hourbell.targets.http.transport import MAX_HEADER_BYTES, MAX_HEADERS, MAX_RESPONSE_BYTES

MAX_RECEIVED_BYTES = 8 * MAX_RESPONSE_BYTES  # bytes of a response as received, including chunk headers
_FREE_CHUNKS, _MIN_CHUNK_BYTES = 100, 64  # further chunks must have so many bytes each on average
_PIECE_BYTES = 8_192  # parsed at once, so that parsing stops soon after a limit is exceeded
_BLANKS = (b" ", b"\t", b"")
_HEAD_END = re.compile(rb"\n\r?\n")
_MAX_LINE_END_BYTES = 4  # two line ends, CR LF CR LF
_SWITCHING = 101
# These leniencies are safe for a single response, and some existing receivers need them.
_LENIENCIES = {"lenient_headers": True, "lenient_optional_cr_before_lf": True, "lenient_spaces_after_chunk_size": True}


@dataclass(slots=True)
class ResponseState:
    """The state of the response to one request."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: list[bytes] = field(default_factory=list)
    has_headers: bool = False  # all headers have arrived, so that there is a response
    is_over: bool = False  # no more of it is accepted
    is_whole: bool = False
    is_ambiguous: bool = False  # another parser might read it differently, so that the connection must not be reused
    failure: str = ""  # the reason, if the response is over without a response
    tail: bytes = b""  # the last bytes received before the headers were complete
    taken: int = 0  # bytes received; the sizes below are in bytes, too
    header_size: int = 0
    header_count: int = 0
    chunk_count: int = 0
    body_size: int = 0

    @property
    def ends_with_connection(self) -> bool:
        """True if only the end of the connection marks the end of the body."""
        return self._said(b"content-length") is None and not self.is_chunked

    @property
    def is_chunked(self) -> bool:
        codings = self._said(b"transfer-encoding") or b""
        return codings.rpartition(b",")[2].strip() == b"chunked"

    def _said(self, header: bytes) -> bytes | None:
        return next((value.lower() for name, value in reversed(self.headers) if name.lower() == header), None)


_NONE = ResponseState(is_over=True)


class HttpConnection(asyncio.Protocol):
    """An HTTP/1.1 client connection. The `on_` methods are the parser's callbacks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, origin: str, address: Address) -> None:
        self.origin = origin
        self.address = address
        self.closed_reason = failures.CLOSED  # valid once the connection is closed
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._state = _NONE
        self._parser: HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_reusable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLOUT)

    def may_be_reused(self) -> bool:
        """Return True if the connection is reusable as far as the event loop knows.

        It must be open, with an empty write buffer, and must have received no unsolicited data.
        """
        transport = self._transport
        return not (
            transport is None or transport.is_closing() or not self._is_reusable or transport.get_write_buffer_size()
        )

    def is_quiet(self) -> bool:
        """Return True if the next request may be sent now: no data or EOF has arrived, and nothing is left to send.

        It polls the socket, because the event loop may not have seen the receiver's last action yet, and because under
        TLS the transport does not know about data in the layer below.
        """
        return self.may_be_reused() and [event for _, event in self._poll.poll(0)] == [select.POLLOUT]

    def send(self, request: bytes) -> ResponseState | None:
        """Send a request and return its response; return None, without sending, if the connection is closed."""
        if self._transport is None or self._transport.is_closing():
            return None
        self._state = state = ResponseState()
        self._parser = parser = HttpResponseParser(self)
        parser.set_dangerous_leniencies(**_LENIENCIES)
        self._transport.write(request)
        return state

    async def wait_for_headers(self, state: ResponseState) -> None:
        """Wait until the response headers are complete, or the response is over."""
        while not (state.has_headers or state.is_over):
            await self._more()

    async def wait_for_end(self, state: ResponseState) -> None:
        """Wait until the response is over."""
        while not state.is_over:
            await self._more()

    def forget(self) -> None:
        """Drop the response and the parser, to free a large response and to break the parser's reference cycle."""
        self._state = _NONE
        self._parser = None

    def abort(self) -> None:
        """Close the connection at once; a graceful close would wait for the receiver."""
        self._break_off(self._state, failures.CLOSED)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state.is_over:
            self._is_reusable = False
            self.closed_reason = failures.UNASKED
        else:
            if not state.has_headers:
                head = state.tail + data if state.tail else data
                state.is_ambiguous |= _has_folded_line(head)
                state.tail = head[1 - _MAX_LINE_END_BYTES :]
            state.taken += len(data)
            self._parse(data, state)
            if state.taken > (MAX_RECEIVED_BYTES if state.has_headers else MAX_HEADER_BYTES):
                self._break_off(state, failures.TOO_LONG)
        if not self._is_reusable:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        state = self._state
        if not state.is_over:
            state.is_whole = exc is None and state.has_headers and state.ends_with_connection
            is_reset = getattr(exc, "errno", None) == errno.ECONNRESET
            self._break_off(state, failures.RESET if is_reset else failures.CLOSED)

    def on_message_begin(self) -> None:
        state = self._state
        if state.is_over:
            self._is_reusable = False  # a second response arrived
        else:
            state.is_ambiguous |= state.status > 0  # an interim response came before it
            state.headers.clear()  # headers and trailers of an interim response
            state.header_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        state = self._state
        state.header_count += 1
        if state.header_count > MAX_HEADERS:
            self._break_off(state, failures.TOO_MANY)
        elif not state.has_headers:  # else it is a trailer
            state.is_ambiguous |= name[-1:] in _BLANKS  # a blank before the colon, or an empty name
            state.headers.append((name, value.strip(b" \t")))
            state.header_size += len(name) + len(value) + len(b": \r\n")

    def on_headers_complete(self) -> None:
        state, parser = self._state, self._parser
        if state.is_over or parser is None:
            return
        state.status = parser.get_status_code()
        if state.header_size > MAX_HEADER_BYTES:
            self._break_off(state, failures.TOO_LONG)
        elif state.status == _SWITCHING:
            self._break_off(state, failures.SWITCHED)
        elif state.status < 100:
            self._break_off(state, failures.NOT_HTTP)
        elif state.status >= 200:
            state.has_headers = True
            self._wake()

    def on_chunk_header(self) -> None:
        state = self._state
        state.chunk_count += 1
        if state.chunk_count > _FREE_CHUNKS + state.body_size // _MIN_CHUNK_BYTES:
            self._break_off(state, failures.TOO_LONG)

    def on_body(self, data: bytes) -> None:
        state = self._state
        if state.is_over:
            self._is_reusable = False
            return
        if not state.has_headers:
            return  # the body of an interim response
        state.body.append(data)
        state.body_size += len(data)
        if state.body_size > MAX_RESPONSE_BYTES:
            self._break_off(state)

    def on_message_complete(self) -> None:
        state, parser = self._state, self._parser
        if state.has_headers and not state.is_over and parser is not None:
            self._complete(state, parser)

    def _parse(self, data: bytes, state: ResponseState) -> None:
        assert self._parser is not None  # it exists until the response is over
        end = _end_of_text(data)
        try:
            for start in range(0, end, _PIECE_BYTES):
                if state.is_over:
                    self._is_reusable = False
                    return
                self._parser.feed_data(data[start : min(end, start + _PIECE_BYTES)])
            for byte in data[end:]:  # one by one: the parser would silently skip line ends after a response
                if state.is_over:
                    self._is_reusable = False
                    return
                self._parser.feed_data(bytes((byte,)))
        except HttpParserUpgrade:
            self._is_reusable = False
        except HttpParserCallbackError:
            raise  # a bug in a callback and not in the receiver's response
        except HttpParserError:
            self._is_reusable = False
            self._break_off(state, failures.NOT_HTTP)

    def _complete(self, state: ResponseState, parser: HttpResponseParser) -> None:
        state.is_over = state.is_whole = True
        self._is_reusable = parser.should_keep_alive() and not state.is_ambiguous
        self._wake()

    def _break_off(self, state: ResponseState, failure: str = "") -> None:
        """Accept no more of a response. It stays valid, without a failure, if its headers are complete."""
        if not state.is_over:
            state.is_over = True
            state.failure = "" if state.has_headers else failure
            self._is_reusable = False
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
    """Return the offset of the trailing CR and LF bytes, at most four: as many as a response can end with."""
    end = len(data)
    while end and data[end - 1] in b"\r\n" and len(data) - end < _MAX_LINE_END_BYTES:
        end -= 1
    return end


def _has_folded_line(data: bytes) -> bool:
    """Return True if a header line begins with a blank (obsolete folding), which some parsers take for the end."""
    if b"\n " not in data and b"\n\t" not in data:
        return False
    end = _HEAD_END.search(data)
    head = data if end is None else data[: end.start()]
    return b"\n " in head or b"\n\t" in head
