"""Loops: a loop is a tick that returns its delay. Retry, backoff and sleep of all engine loops are here."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from hourbell.engine.outages import DatabaseReach
from hourbell.store.errors import StoreUnavailable

log = logging.getLogger("hourbell.engine")

MAX_BACKOFF_SECONDS = 5.0
_PATIENCE = 15.0


class NotAsked(float):
    """The delay of a tick that did not query the database, and so is no evidence that the database is available."""


class Loop(Protocol):
    name: str

    async def tick(self) -> float:
        """Do the pending work; return the seconds until the next tick, as `NotAsked` if no query was made."""


class Signal:
    """An event that wakes a loop before its delay is over. Setting it twice wakes the loop once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the signal is set or the timeout has passed, then clear it."""
        if seconds > 0 and not self._event.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                pass
        elif seconds <= 0:
            await asyncio.sleep(0)
        self._event.clear()


class LoopRunner:
    """A runner of one loop until it is stopped, with backoff after any exception of a tick."""

    def __init__(
        self,
        loop: Loop,
        *,
        elapsed: Callable[[], float],
        random: Callable[[], float],
        max_backoff: float = MAX_BACKOFF_SECONDS,
        reach: DatabaseReach | None = None,
        on_database_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`reach` records whether ticks reach the database; `on_database_error` gets the name of a loop that failed."""
        self.wake = Signal()
        self._loop = loop
        self._max_backoff = max_backoff
        self._elapsed = elapsed
        self._random = random
        self._reach = reach
        self._on_database_error = on_database_error
        self._stopping = False
        self._last_tick = elapsed()
        self._last_delay = 0.0

    @property
    def name(self) -> str:
        return self._loop.name

    @property
    def age(self) -> float:
        """Seconds since the last successful tick."""
        return self._elapsed() - self._last_tick

    @property
    def max_age_of_pass(self) -> float:
        """The age in seconds beyond which the loop is unhealthy: twice its last delay plus a grace period."""
        return 2 * self._last_delay + _PATIENCE

    def stop(self) -> None:
        self._stopping = True
        self.wake.set()

    async def run(self) -> None:
        failures = 0
        while not self._stopping:
            began_at = self._elapsed()
            try:
                delay = await self._loop.tick()
                self._last_tick, self._last_delay = self._elapsed(), delay
                if self._reach is not None and not isinstance(delay, NotAsked):
                    self._reach.succeeded()
                if failures and not isinstance(delay, NotAsked):
                    log.info("loop_recovered", extra={"loop": self.name, "failures": failures})
                    failures = 0
            except StoreUnavailable as error:
                if self._reach is not None:
                    self._reach.failed(began_at)
                self._on_database_error(self.name)
                failures += 1
                delay = self._backoff(failures)
                if failures == 1:
                    log.warning("database_unavailable", extra={"loop": self.name, "error": str(error)})
            except Exception:
                failures += 1
                delay = self._backoff(failures)
                log.exception("tick_failed", extra={"loop": self.name})
            await self.wake.wait(delay)

    def _backoff(self, failures: int) -> float:
        longest = min(self._max_backoff, 0.1 * float(2 ** min(failures, 10)))
        return longest * (0.5 + 0.5 * self._random())
