"""The reaper: it settles runs of dead nodes whose leases expired, and fails runs that no node served in time.

It acts only after this node's own heartbeats have succeeded for two intervals: after an outage longer than the lease,
or a step of the clock, live nodes get the time to renew the leases they still hold.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from hourbell.core.run.settle import Settlement, settle_lost
from hourbell.engine.events import EngineEvents
from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.store.base import EngineStore
from hourbell.store.errors import StoreUnavailable
from hourbell.store.rows import UNREADABLE

BATCH = 1_000


class Reaper:
    name = "reaper"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        events: EngineEvents,
        may_reap: Callable[[], bool],
        on_runs: Callable[[frozenset[str]], None],
        interval: timedelta,
        live_for: timedelta,
        poison_after: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._may_reap = may_reap
        self._on_runs = on_runs
        self._interval = interval.total_seconds()
        self._live_for = live_for
        self._decide = partial(settle_lost, poison_after=poison_after)

    async def tick(self) -> float:
        """Settle expired leases as lost and fail expired runs; return the interval, or 0 if there is more."""
        if not self._may_reap():
            return NotAsked(self._interval / 4)
        settlements = await self._store.reap(self._clock.now(), BATCH, self._decide)
        if settlements:
            self._on_runs(frozenset(settlement.run.lane for settlement in settlements))
            self._events.reaped(settlements, await self._names_of(settlements))
        expired = await self._store.expire(self._clock.now(), BATCH, self._live_for)
        self._events.expired(len(expired))
        return 0 if BATCH in (len(settlements), len(expired)) else self._interval

    async def _names_of(self, settlements: Sequence[Settlement]) -> dict[UUID, str]:
        """Return the names of the jobs, as far as they can be read; settlements are logged without them, too."""
        runs = [settlement.run for settlement in settlements]
        try:
            found = await self._store.definitions({(run.job_id, run.job_version) for run in runs})
        except (StoreUnavailable, *UNREADABLE):
            return {}
        return {job_id: definition.name for (job_id, _), definition in found.items()}
