"""Pings to a monitor outside, such as Healthchecks: it tells somebody when they stop.

A node pings only while its own loops turn and no run waits too long. One node pings in each interval: the others find
that it was done. A node that does not work says so (`/fail`) only if no node has pinged for several intervals.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

from hourbell.store.errors import StoreUnavailable

log = logging.getLogger("hourbell.engine")

_OK, _FAIL, _START = "ping_ok", "ping_fail", "ping_start"
_SUFFIX = {_OK: "", _FAIL: "/fail", _START: "/start"}
_SILENT_INTERVALS = 3  # without a ping of any node, before a node that does not work says so
_EARLY = 0.9  # a turn may come a little early, so that intervals do not drift apart


class Turns(Protocol):
    async def take_turn(self, name: str, now: datetime, before: datetime) -> bool:
        """Take a turn, if the last one was taken at `before` or earlier; only one node gets it."""

    async def last_turn(self, name: str) -> datetime | None:
        """Return when a turn was taken last."""


class OutsidePing:
    def __init__(
        self,
        url: str,
        turns: Turns,
        *,
        interval: timedelta,
        now: Callable[[], datetime],
        problems: Callable[[], Awaitable[list[str]]],
        send: Callable[[str, str], Awaitable[str | None]],
    ) -> None:
        """`problems` returns why this node does not work; `send` posts a text to a URL and returns an error or None."""
        self._url = url.rstrip("/")
        self._turns = turns
        self._interval = interval
        self._now = now
        self._problems = problems
        self._send = send
        self._started_at: datetime | None = None
        self._error: str | None = None

    async def look(self) -> None:
        """Ping if it is this node's turn. A database or a monitor that is away is tried again at the next look."""
        try:
            problems, now = await self._problems(), self._now()
            if self._started_at is None:
                self._started_at = now
                await self._ping(_START, now, now - self._interval, "")
            if not problems:
                await self._ping(_OK, now, now - _EARLY * self._interval, "")
            elif await self._is_silent(now):
                await self._ping(_FAIL, now, now - _EARLY * self._interval, "; ".join(problems))
        except StoreUnavailable:
            return  # the silence is what the monitor tells about
        except Exception as error:  # else the pings would stop for good, beside a node that works
            self._report(repr(error))

    async def _is_silent(self, now: datetime) -> bool:
        assert self._started_at is not None  # since the first look
        last = await self._turns.last_turn(_OK) or self._started_at
        return now - max(last, self._started_at) >= _SILENT_INTERVALS * self._interval

    async def _ping(self, name: str, now: datetime, before: datetime, text: str) -> None:
        if not await self._turns.take_turn(name, now, before):
            return
        self._report(await self._send(f"{self._url}{_SUFFIX[name]}", text))

    def _report(self, error: str | None) -> None:
        """Log a new error once, and its end."""
        if error is not None and error != self._error:
            log.warning("outside_ping_failed", extra={"error": error})
        elif error is None and self._error is not None:
            log.info("outside_ping_recovered")
        self._error = error
