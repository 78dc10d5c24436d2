"""The HTTP/1.1 protocol of a connection: uvicorn's, with limits that a slow or hostile client cannot evade.

1. A connection over the limits of `ConnectionLimits` gets a 503 response and is closed.
2. The headers of a request must arrive within `header_seconds`, counted from the connection or from their first byte.
3. A body must bring `MIN_BYTES_PER_SECOND` in every window of `body_seconds`, or end, whenever we are ready to read it.
   The rest of a body after the response must arrive within `body_seconds` in total.
4. A client must read a response at the same rate.
5. A request that servers may parse differently is refused with 400 (`request_head.py`).
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hourbell.api.connections import ConnectionLimits
from hourbell.api.limits import Repeats, address_group
from hourbell.api.problems import MEDIA_TYPE
from hourbell.api.request_head import StrictConnection

log = logging.getLogger("hourbell.api")
_server_log = logging.getLogger("uvicorn.error.requests")
_server_log.setLevel(logging.ERROR)  # it warns about each bad request, so an attacker could fill the log

MIN_BYTES_PER_SECOND = 2_048
_CLOSE = {"Connection": "close", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    header_seconds: float = 10.0
    body_seconds: float = 30.0


class ServerConfig(uvicorn.Config):
    """The uvicorn configuration of our server, with connection limits and timeouts."""

    def __init__(self, app: ASGIApp, connections: ConnectionLimits, timeouts: RequestTimeouts, **options: Any) -> None:
        super().__init__(
            app,
            http=HttpProtocol,  # other installed packages must not change how requests are parsed
            ws="none",
            interface="asgi3",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            **options,
        )
        self.connections = connections
        self.timeouts = timeouts
        self.refusals = Repeats(elapsed=connections.elapsed)


class HttpProtocol(H11Protocol):
    conn: StrictConnection

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = StrictConnection()
        self.logger = _server_log
        self._limits = config.connections
        self._refusals = config.refusals
        self._timeouts = config.timeouts
        self._ip: str | None = None  # set while the connection is counted
        self._request_timer = _Timer(self.loop)
        self._write_timer = _Timer(self.loop)
        self._window_bytes = 0
        self._was_paused = False
        self._unsent_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        ip = self.client[0] if self.client else ""
        if not self._limits.admit(ip):
            self.answer_and_close(503, "too_many_connections", "Too many connections; close some or try again later.")
            return
        self._ip = ip
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ip is not None:
            self._limits.release(self._ip)
            self._ip = None
        self._request_timer.cancel()
        self._write_timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._window_bytes += len(data)
        super().data_received(data)
        self._was_paused |= self.flow.read_paused
        self._follow_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_in_time()
        elif self.conn.their_state is h11.SEND_BODY:
            self._request_timer.start("rest", self._timeouts.body_seconds, self.transport.abort)
        elif self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._request_timer.cancel()  # uvicorn waits for the next request
        else:
            self._unset_keepalive_if_required()  # the next request has begun
            self._follow_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_timer.cancel()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._close_in_time()

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore a protocol upgrade without logging: any client can request one and fill the log."""

    def send_400_response(self, msg: str) -> None:
        reason = self.conn.refusal or "it is not HTTP/1.1"
        ip = self.client[0] if self.client else ""
        if (left_out := self._refusals.admit(address_group(ip))) is not None:
            log.warning("request_refused", extra={"reason": reason, "ip": ip, "left_out": left_out})
        detail = f"The request is refused: {self.conn.refusal}." if self.conn.refusal else msg
        self.answer_and_close(400, "invalid_request", detail)

    def answer_and_close(self, status: int, code: str, detail: str) -> None:
        """Send a problem response, unless the app has begun its own, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._write_problem(status, code, detail)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
        self._close_in_time()

    def _write_problem(self, status: int, code: str, detail: str) -> None:
        title = HTTPStatus(status).phrase
        problem = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
        body = json.dumps(problem).encode()
        headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **_CLOSE}
        is_head = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
        for event in (
            h11.Response(status_code=status, headers=list(headers.items()), reason=title.encode()),
            h11.Data(data=b"" if is_head else body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")

    def _follow_request(self) -> None:
        """Start the timeout for the next part of the request, unless it runs already."""
        if self.transport.is_closing():
            self._request_timer.cancel()
        elif self.conn.their_state is h11.IDLE:
            self._await_headers()
        elif self.conn.their_state is not h11.SEND_BODY:
            self._request_timer.cancel()
        elif self._request_timer.name not in ("body", "rest"):
            self._await_body()

    def _await_headers(self) -> None:
        if self._request_timer.name != "headers":
            self._request_timer.start("headers", self._timeouts.header_seconds, self._give_up_headers)

    def _give_up_headers(self) -> None:
        seconds = self._timeouts.header_seconds
        self.answer_and_close(408, "request_timeout", f"The headers did not arrive within {seconds:g} s.")

    def _await_body(self) -> None:
        self._window_bytes, self._was_paused = 0, self.flow.read_paused
        self._request_timer.start("body", self._timeouts.body_seconds, self._check_body)

    def _check_body(self) -> None:
        seconds = self._timeouts.body_seconds
        if self._was_paused or self._window_bytes >= MIN_BYTES_PER_SECOND * seconds:
            self._await_body()
            return
        needed = f"within {seconds:g} s it must end or reach {MIN_BYTES_PER_SECOND} bytes per second"
        detail = f"The body arrived too slowly: {needed}."
        self.answer_and_close(408, "request_timeout", detail)

    def _await_reader(self) -> None:
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._write_timer.start("answer", self._timeouts.body_seconds, self._check_reader)

    def _close_in_time(self) -> None:
        """Abort the connection after `body_seconds` if the client does not read the end of its response."""
        self._request_timer.cancel()
        if self.transport.get_write_buffer_size():
            self._write_timer.start("end", self._timeouts.body_seconds, self.transport.abort)

    def _check_reader(self) -> None:
        read = self._unsent_bytes - self.transport.get_write_buffer_size()
        if read >= MIN_BYTES_PER_SECOND * self._timeouts.body_seconds:
            self._await_reader()
        else:
            self.transport.abort()


class _Timer:
    """A timer for one pending call, named after the event it waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self.name = ""

    def start(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call and cancel the previous one."""
        self.cancel()
        self.name = name
        self._handle = self._loop.call_later(seconds, self._fire, call)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self.name = None, ""

    def _fire(self, call: Callable[[], None]) -> None:
        self._handle, self.name = None, ""
        call()
