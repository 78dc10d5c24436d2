"""Consistent planning with the newest time-zone data (tzdata) of any node.

A node with older data plans nothing. A node with newer data recomputes the next time of every job, a batch at a time
and between planning passes, so that a million jobs do not delay the one that is due.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.refresh import refresh
from hourbell.store.base import EngineStore, Tzdata

log = logging.getLogger("hourbell.engine")

CHECK_EVERY = timedelta(seconds=30)
_BATCH = 1_000


class ZoneData:
    def __init__(self, store: EngineStore, version: str) -> None:
        self._store = store
        self._version = version
        self._standing = Tzdata.OUTDATED
        self._checked_at: datetime | None = None
        self._after: UUID | None = None

    @property
    def is_refreshing(self) -> bool:
        """True while there are jobs to recompute with newer data."""
        return self._standing is Tzdata.NEWER

    async def may_plan(self, now: datetime) -> bool:
        """Recompute one batch of jobs if needed; return True if this node's data may plan jobs."""
        if not self.is_refreshing and (self._checked_at is None or now - self._checked_at > CHECK_EVERY):
            self._standing = await self._store.check_tzdata(self._version)
            self._checked_at = now
            if self._standing is Tzdata.OUTDATED:
                log.warning("tzdata_outdated", extra={"tzdata": self._version, "hint": "upgrade the tzdata package"})
        if self.is_refreshing:
            await self._refresh_some(now)
        return self._standing is not Tzdata.OUTDATED

    async def _refresh_some(self, now: datetime) -> None:
        refreshed = await self._store.refresh(self._version, now, _BATCH, refresh, self._after)
        for job, before, after in refreshed.moved:
            facts = {"job": job, "before": str(before), "after": str(after), "tzdata": self._version}
            log.warning("job_moved_by_tzdata", extra=facts)
        self._after = refreshed.after
        if self._after is None:
            self._standing = Tzdata.CURRENT
