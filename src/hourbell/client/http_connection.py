"""One HTTP/1.1 connection to the server: h11 over an asyncio transport, one request at a time.

Received bytes are parsed only when they are read, so an answer that came before the connection broke is still read.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

import h11

_MAX_HEAD_BYTES = 64 * 1024
_MAX_UNREAD_BYTES = 256 * 1024  # above it, reading from the socket pauses
_CONTINUE = 100

Headers = Sequence[tuple[str, str]]


class ConnectionBroken(Exception):
    """The connection was closed, or the data is not HTTP, before the answer was complete."""


class ResponseHead(NamedTuple):
    status: int
    headers: dict[str, str]  # names in title case, as in Content-Type


class HttpConnection(asyncio.Protocol):
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._lost: asyncio.Future[None] = loop.create_future()  # done once the connection is closed
        self._changed = asyncio.Event()  # data arrived, or the connection ended
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._unread_bytes = 0
        self._error: BaseException | None = None  # the error that ended the connection

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > _MAX_UNREAD_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> None:
        self._http.receive_data(b"")
        self._changed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport, self._error = None, exc
        self._http.receive_data(b"")
        self._changed.set()
        self._can_write.set()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # Called by the session

    async def ask(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes | AsyncIterator[bytes] | None = None,
        *,
        quiet_seconds: float | None = None,
    ) -> ResponseHead:
        """Send a request and return the head of its answer; raise TimeoutError after `quiet_seconds` of silence.

        A streamed body is sent only after the server has agreed to it (`Expect: 100-continue`), and no further once
        the answer has come. While it is being sent, the server may stay silent.
        """
        if isinstance(body, AsyncIterator):
            framing = [("Transfer-Encoding", "chunked"), ("Expect", "100-continue")]
        else:
            framing = [] if body is None else [("Content-Length", str(len(body)))]
        self._write(h11.Request(method=method, target=target, headers=[*headers, *framing]))
        if isinstance(body, AsyncIterator):
            refusal = await self._head(quiet_seconds, may_continue=True)
            return refusal or await self._upload(body, quiet_seconds)
        if body:
            self._write(h11.Data(data=body))
        self._write(h11.EndOfMessage())
        return await self._final_head(quiet_seconds)

    async def body(self, quiet_seconds: float | None = None) -> AsyncIterator[bytes]:
        """Yield the parts of the answer's body as they arrive; raise TimeoutError after `quiet_seconds` of silence."""
        while not isinstance(event := await self._next_event(quiet_seconds), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                yield bytes(event.data)

    def make_ready(self) -> bool:
        """Prepare for the next request; return False if this connection cannot be used again."""
        is_over = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if not is_over or self._transport is None or self._transport.is_closing():
            return False
        self._http.start_next_cycle()
        return True

    def is_quiet(self) -> bool:
        """Return True if nothing came since the last answer, not even the end of the connection.

        It polls the socket, because the event loop may not have seen the data yet.
        """
        if self._transport is None or self._transport.is_closing() or self._http.trailing_data != (b"", False):
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        """Close the connection at once; a graceful close would wait for the server."""
        if self._transport is not None:
            self._transport.abort()

    def when_closed(self, call: Callable[[], object]) -> None:
        self._lost.add_done_callback(lambda _: call())

    async def wait_closed(self) -> None:
        await asyncio.shield(self._lost)

    def leave(self) -> asyncio.Transport:
        """Return the transport, to start TLS on it."""
        assert self._transport is not None
        return self._transport

    def _write(self, event: h11.Event) -> None:
        if self._transport is None or self._transport.is_closing():
            raise self._broken()
        data = self._http.send(event)
        if data:
            self._transport.write(data)

    async def _upload(self, parts: AsyncIterator[bytes], quiet_seconds: float | None) -> ResponseHead:
        """Send the parts and read the answer concurrently: a server may refuse the body before it has read it all."""
        sending = asyncio.ensure_future(self._send_parts(parts))
        answering = asyncio.ensure_future(self._final_head(None))
        try:
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                with suppress(ConnectionBroken):  # the answer may have come before the connection broke
                    await sending
                async with asyncio.timeout(quiet_seconds):
                    await asyncio.shield(answering)
            return answering.result()
        finally:
            for task in (sending, answering):
                task.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _send_parts(self, parts: AsyncIterator[bytes]) -> None:
        async for part in parts:
            self._write(h11.Data(data=part))
            await self._can_write.wait()
        self._write(h11.EndOfMessage())

    async def _final_head(self, quiet_seconds: float | None) -> ResponseHead:
        head = await self._head(quiet_seconds)
        assert head is not None
        return head

    async def _head(self, quiet_seconds: float | None, *, may_continue: bool = False) -> ResponseHead | None:
        """Return the head of the final answer; with `may_continue`, None if the server asks for the body first."""
        while True:
            match await self._next_event(quiet_seconds):
                case h11.Response() as event:
                    headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in event.headers}
                    return ResponseHead(event.status_code, headers)
                case h11.InformationalResponse(status_code=status) if status == _CONTINUE and may_continue:
                    return None

    async def _next_event(self, quiet_seconds: float | None) -> h11.Event:
        while True:
            self._changed.clear()
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise self._broken(error) from error
            if isinstance(event, h11.ConnectionClosed):
                raise self._broken()
            if isinstance(event, h11.Event):
                return event
            self._unread_bytes = 0
            if self._transport is not None:
                self._transport.resume_reading()
            async with asyncio.timeout(quiet_seconds):
                await self._changed.wait()

    def _broken(self, why: Exception | None = None) -> ConnectionBroken:
        error = self._error or why
        return ConnectionBroken(str(error) if error else "the server closed it")
