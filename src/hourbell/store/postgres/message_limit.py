"""Limits the size of messages that a server sends on a connection, except rows.

A function chooses the text of its errors and notices, up to 1 GB each. The driver buffers such a message and parses it
in quadratic time, on the event loop: 100 MB block the process for 17 seconds.
"""

import asyncio
from typing import Any

MAX_MESSAGE_BYTES = 1_048_576
_HEADER_BYTES = 5  # the type, and the length in four bytes, which includes itself but not the type
_ROWS = b"Dd"  # DataRow and CopyData: the query decides how large they are


class MessageTooLarge(ConnectionAbortedError):
    """The reason a connection was closed; it is the cause of the error that the driver raises."""

    def __init__(self) -> None:
        super().__init__(f"the server sent an error or a notice of more than {MAX_MESSAGE_BYTES} bytes")


def limit_messages(connection: Any) -> None:
    """Close this new connection of asyncpg as soon as a message that is too large begins to arrive."""
    transport = connection._transport
    transport.set_protocol(_MessageLimit(transport, transport.get_protocol()))


class _MessageLimit(asyncio.Protocol):
    """Sits between the transport and the driver's protocol, and tracks message boundaries."""

    def __init__(self, transport: Any, driver: Any) -> None:
        self._transport = transport
        self._driver = driver
        self._header = b""  # as received so far
        self._left = 0  # bytes left of the current message
        self._error: MessageTooLarge | None = None

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        if self._fits(data):
            self._driver.data_received(data)
            return
        self._error = MessageTooLarge()
        self._transport.abort()

    def eof_received(self) -> bool | None:
        is_kept_open: bool | None = self._driver.eof_received()
        return is_kept_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.connection_lost(self._error or exc)

    def pause_writing(self) -> None:
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._driver.resume_writing()

    def _fits(self, data: bytes) -> bool:
        position = 0
        while position < len(data):
            if self._left > 0:
                step = min(self._left, len(data) - position)
                self._left -= step
                position += step
                continue
            part = data[position : position + _HEADER_BYTES - len(self._header)]
            self._header += part
            position += len(part)
            if len(self._header) < _HEADER_BYTES:
                break
            length = int.from_bytes(self._header[1:])
            if length > MAX_MESSAGE_BYTES and self._header[0] not in _ROWS:
                return False
            self._left = length - 4
            self._header = b""
        return True
