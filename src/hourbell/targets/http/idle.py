"""The connection pool: idle keep-alive connections, limited in total, per origin and in time.

The size limits apply only to connections that have been idle for a moment: under load a connection is needed again at
once, and closing surplus connections right away would cost a handshake for almost every request.
"""

import asyncio
from collections.abc import Collection

from hourbell.targets.http.addresses import Address
from hourbell.targets.http.wire import Wire

MOMENT_SECONDS = 1.0
KEPT_SECONDS = 4.0  # less than the five after which common servers close an idle connection


class IdleWires:
    def __init__(self, most: int, most_per_origin: int) -> None:
        self._most = most
        self._most_per_origin = most_per_origin
        self._kept_at: dict[Wire, float] = {}  # the oldest first
        self._by_origin: dict[str, list[Wire]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, wire: Wire) -> None:
        """Add a connection for the next request to its origin."""
        loop = asyncio.get_running_loop()
        self._kept_at[wire] = loop.time()
        self._by_origin.setdefault(wire.origin, []).append(wire)
        if self._timer is None:
            self._timer = loop.call_later(MOMENT_SECONDS, self._tidy)

    def take(self, origin: str, addresses: Collection[Address]) -> Wire | None:
        """Take the newest reusable connection to this origin at one of these addresses; None if there is none."""
        for wire in reversed(self._by_origin.get(origin, [])[:]):
            if not wire.may_be_kept():
                self._close(wire)
            elif wire.address in addresses:
                self._remove(wire)
                return wire
        return None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wire in list(self._kept_at):
            self._close(wire)

    def _tidy(self) -> None:
        """Close connections that are too old, or idle for a moment and over a size limit; the oldest first."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for wire, kept_at in list(self._kept_at.items()):
            is_too_many = len(self._kept_at) > self._most or len(self._by_origin[wire.origin]) > self._most_per_origin
            if now - kept_at >= (MOMENT_SECONDS if is_too_many else KEPT_SECONDS):
                self._close(wire)
        self._timer = loop.call_later(MOMENT_SECONDS, self._tidy) if self._kept_at else None

    def _close(self, wire: Wire) -> None:
        self._remove(wire)
        wire.abort()

    def _remove(self, wire: Wire) -> None:
        del self._kept_at[wire]
        mates = self._by_origin[wire.origin]
        mates.remove(wire)
        if not mates:
            del self._by_origin[wire.origin]
