"""One connection to a checked address, and what may come over it.

A wire takes one answer for each request: interim answers are dropped, further ones spoil it for reuse. It takes no more
than MOST_HEADERS bytes until an answer's headers are complete and MOST_TAKEN in all, so that no receiver can fill the
memory, and an answer whose headers have come stays an answer whatever is wrong with its body.
"""

import asyncio
import select
from dataclasses import dataclass

from aiohttp import ClientPayloadError, StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage

from hourbell.targets.http.addresses import Address
from hourbell.targets.http.transport import MOST_HEADERS, MOST_READ

MOST_TAKEN = 16 * MOST_READ  # bytes of an answer as they come: chunk sizes, extensions and trailers count too
_END_OF_HEADERS = b"\r\n\r\n"


@dataclass(slots=True)
class Exchange:
    """What has come of the answer to one request."""

    taken: int = 0
    body: StreamReader | None = None  # there from the answer's last header on
    is_too_long: bool = False  # its headers, that is
    is_cut: bool = False  # the connection broke inside the body


class Wire(ResponseHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop, origin: str, address: Address) -> None:
        super().__init__(loop)
        self.origin = origin
        self.address = address
        self.exchange = Exchange()
        self._poll = select.poll()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def is_quiet(self) -> bool:
        """Whether the next request may go over it: it is open, all is sent, and nothing has come, not even its end."""
        transport = self.transport
        if transport is None or transport.is_closing() or self.should_close or transport.get_write_buffer_size():
            return False
        return not self._poll.poll(0)  # the event loop may not have seen yet what the receiver did

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:  # readers ask after every block
            super().resume_reading(resume_parser)

    def data_received(self, data: bytes) -> None:
        # Headers are parsed apart from what follows them, for an error in the same piece would swallow them.
        start = 0
        while self.exchange.body is None and (end := data.find(_END_OF_HEADERS, start)) >= 0:
            end += len(_END_OF_HEADERS)
            if not self._take(data[start:end]):
                return
            start = end
        if start < len(data) or not data:
            self._take(data[start:])

    def _take(self, data: bytes) -> bool:
        exchange = self.exchange
        exchange.taken += len(data)
        super().data_received(data)
        if exchange.body is None and exchange.taken > MOST_HEADERS:
            exchange.is_too_long = True
        if exchange.is_too_long or exchange.taken > MOST_TAKEN:
            self._hang_up()
        return self.transport is not None and not self.transport.is_closing()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        message, body = data
        exchange = self.exchange
        if 100 <= message.code < 200 and message.code != 101:
            return
        if exchange.body is not None:
            self.force_close()
            return
        exchange.body = body
        exchange.is_too_long = exchange.taken > MOST_HEADERS and _header_bytes(message) > MOST_HEADERS
        if not exchange.is_too_long:
            super().feed_data(data, size)

    def connection_lost(self, exc: BaseException | None) -> None:
        body = self.exchange.body
        if body is not None and not body.is_eof():
            self.exchange.is_cut = exc is not None
        super().connection_lost(exc)
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(ClientPayloadError())  # else a reader would wait until its deadline

    def _hang_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()


def _header_bytes(message: RawResponseMessage) -> int:
    return sum(len(name) + len(value) + len(b": \r\n") for name, value in message.raw_headers)
