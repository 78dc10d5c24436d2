"""The counts of ended runs by day that analytics keeps in Redis, for users."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hourbell.analytics import INSTALL, MAX_DAYS, Analytics, AnalyticsUnavailable, DayCounts
from hourbell.control.jobs import Jobs
from hourbell.store.errors import Conflict

__all__ = ["MAX_DAYS", "AnalyticsUnavailable", "CountedDays", "RunCounts"]

_AT_ONCE = 2
NOTE = "best effort: runs are missing that ended while Redis could not be reached"


@dataclass(frozen=True, slots=True)
class CountedDays:
    """The days (UTC) in order, the last one today, of a job or of all jobs."""

    job: str | None
    days: Sequence[DayCounts]
    note: str = NOTE


class RunCounts:
    def __init__(self, jobs: Jobs, analytics: Analytics | None, *, now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._analytics = analytics
        self._now = now
        self._asking = asyncio.Semaphore(_AT_ONCE)

    async def days(self, job: str | None, number: int) -> CountedDays:
        """Return the counts of the last days. Raises AnalyticsUnavailable if Redis cannot be asked."""
        if self._analytics is None:
            raise Conflict(
                "analytics_off",
                f"analytics are off on this node: set REDIS_URL (redis://host:6379/0) on every node, and run {INSTALL}",
            )
        found = None if job is None else (await self._jobs.get(job)).job
        last = self._now().date()
        first = last - timedelta(days=number - 1)
        job_id = None if found is None else found.id
        async with self._asking:  # threads are few, and each may wait for Redis
            days = await asyncio.to_thread(self._analytics.days, job_id, first, last)
        return CountedDays(None if found is None else found.definition.name, days)
