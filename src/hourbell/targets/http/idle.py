"""The connection pool: idle keep-alive connections, limited in total, per origin and in time.

The size limits apply only to connections that have been idle for a moment: under load a connection is needed again at
once, and closing surplus connections right away would cost a handshake for almost every request.
"""

import asyncio
from collections.abc import Collection

from hourbell.targets.http.addresses import Address
from hourbell.targets.http.http_connection import HttpConnection

MOMENT_SECONDS = 1.0
IDLE_SECONDS = 4.0  # less than the five after which common servers close an idle connection


class IdleConnections:
    def __init__(self, limit: int, max_per_origin: int) -> None:
        self._max_items = limit
        self._max_per_origin = max_per_origin
        self._idle_since: dict[HttpConnection, float] = {}  # the oldest first
        self._by_origin: dict[str, list[HttpConnection]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, connection: HttpConnection) -> None:
        """Add a connection for the next request to its origin."""
        loop = asyncio.get_running_loop()
        self._idle_since[connection] = loop.time()
        self._by_origin.setdefault(connection.origin, []).append(connection)
        if self._timer is None:
            self._timer = loop.call_later(MOMENT_SECONDS, self._tidy)

    def take(self, origin: str, addresses: Collection[Address]) -> HttpConnection | None:
        """Take the newest reusable connection to this origin at one of these addresses; None if there is none."""
        for connection in reversed(self._by_origin.get(origin, [])[:]):
            if not connection.may_be_reused():
                self._close(connection)
            elif connection.address in addresses:
                self._remove(connection)
                return connection
        return None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._idle_since):
            self._close(connection)

    def _tidy(self) -> None:
        """Close connections that are too old, or idle for a moment and over a size limit; the oldest first."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection, since in list(self._idle_since.items()):
            is_too_many = (
                len(self._idle_since) > self._max_items
                or len(self._by_origin[connection.origin]) > self._max_per_origin
            )
            if now - since >= (MOMENT_SECONDS if is_too_many else IDLE_SECONDS):
                self._close(connection)
        self._timer = loop.call_later(MOMENT_SECONDS, self._tidy) if self._idle_since else None

    def _close(self, connection: HttpConnection) -> None:
        self._remove(connection)
        connection.abort()

    def _remove(self, connection: HttpConnection) -> None:
        del self._idle_since[connection]
        mates = self._by_origin[connection.origin]
        mates.remove(connection)
        if not mates:
            del self._by_origin[connection.origin]
