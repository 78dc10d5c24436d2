"""Turns due instants into runs, and sleeps until the next one is due."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.plan import plan
from hourbell.core.refresh import refresh
from hourbell.engine.events import EngineEvents
from hourbell.engine.time import DatabaseClock
from hourbell.store.base import EngineStore, Tzdata

log = logging.getLogger("hourbell.engine")

BATCH = 1_000
_ALONE = timedelta(seconds=1)  # the longest sleep while hints from others do not arrive
_CHECK_TZDATA = timedelta(seconds=30)


class Planner:
    name = "planner"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        events: EngineEvents,
        on_runs: Callable[[frozenset[str]], None],
        tzdata: str,
        longest_sleep: timedelta,
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._on_runs = on_runs
        self._tzdata = tzdata
        self._longest_sleep = longest_sleep
        self._tzdata_checked_at: datetime | None = None

    async def tick(self) -> float:
        """Plan every due job; return seconds until the next one is due."""
        if self._clock.confirmations < 1:
            return 0.1  # time has stepped: wait for a sample that confirms it
        now = self._clock.now()
        if not await self._has_right_tzdata(now):
            return _CHECK_TZDATA.total_seconds()
        planned = await self._store.plan_due(now, BATCH, plan)
        self._events.planned(planned, now)
        if planned.lanes:
            self._on_runs(planned.lanes)
        if planned.jobs == BATCH:
            return 0
        longest = self._longest_sleep if self._store.hears_others else min(_ALONE, self._longest_sleep)
        if planned.next_plan_at is None:
            return longest.total_seconds()
        return max(0.0, min(longest, planned.next_plan_at - self._clock.now()).total_seconds())

    async def _has_right_tzdata(self, now: datetime) -> bool:
        """Whether jobs may be planned by this node's time-zone data; newer data first moves those it concerns."""
        if self._tzdata_checked_at is not None and now - self._tzdata_checked_at <= _CHECK_TZDATA:
            return True
        standing = await self._store.check_tzdata(self._tzdata)
        if standing is Tzdata.OUTDATED:
            log.warning("tzdata_outdated", extra={"tzdata": self._tzdata, "hint": "upgrade the tzdata package"})
            return False
        after: UUID | None = None
        while standing is Tzdata.NEWER:
            refreshed = await self._store.refresh(self._tzdata, now, BATCH, refresh, after)
            for job, before, moved_to in refreshed.moved:
                facts = {"job": job, "before": str(before), "after": str(moved_to), "tzdata": self._tzdata}
                log.warning("job_moved_by_tzdata", extra=facts)
            after = refreshed.after
            if after is None:
                break
        self._tzdata_checked_at = now
        return True
