"""The janitor: it prunes old history in small batches, and reports runs that have waited too long."""

import logging
from datetime import timedelta

from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.base import EngineStore, Mark

log = logging.getLogger("hourbell.engine")

BATCH = 1_000
_BETWEEN_BATCHES = 0.1


class Janitor:
    name = "janitor"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        metrics: Metrics,
        retention: timedelta,
        keep: int,
        interval: timedelta,
        stuck_after: timedelta,
        live_for: timedelta,
    ) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._retention = retention
        self._keep = keep
        self._interval = interval.total_seconds()
        self._stuck_after = stuck_after
        self._live_for = live_for
        self._mark: Mark | None = None

    async def tick(self) -> float:
        """Prune one batch of old runs; when there are no more, check the backlog and return the interval."""
        if not self._clock.has_time:
            return NotAsked(1.0)
        now = self._clock.now()
        pruned = await self._store.prune(now, self._retention, self._keep, BATCH, self._mark)
        self._mark = pruned.mark
        if pruned.removed:
            log.info("history_pruned", extra={"runs": pruned.removed})
        if pruned.mark is not None:
            return _BETWEEN_BATCHES
        backlog = await self._store.backlog(now, self._live_for)
        self._metrics.backlog.set(backlog.waiting)
        if backlog.oldest_ready_at is not None and now - backlog.oldest_ready_at > self._stuck_after:
            oldest = int((now - backlog.oldest_ready_at).total_seconds())
            log.warning("runs_stuck", extra={"waiting": backlog.waiting, "oldest_seconds": oldest})
        for lane in backlog.unserved:
            log.warning("lane_unserved", extra={"lane": lane, "hint": "no node has this task or target"})
        return self._interval
