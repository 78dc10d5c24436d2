"""Recording of outages: of all nodes, when the first one starts again, and of the database, when it is back.

The heartbeat writes the records, with its own connection: planning, claiming and settling never wait for them.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.outages import MIN_DATABASE_OUTAGE, Outage, OutageOf, outage_of_nodes
from hourbell.engine.time import DatabaseClock
from hourbell.store.base import EngineStore

log = logging.getLogger("hourbell.engine")


class DatabaseReach:
    """The spans in which no query of this node reached its database: from the first that failed to the next success.

    All loops of the node report to it, from two threads. Times are elapsed seconds.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._reached_at = elapsed()
        self._lost_at: float | None = None
        self.missed: list[tuple[float, float]] = []  # not recorded yet, oldest first

    def failed(self, began_at: float) -> None:
        """Note a query that began then and failed."""
        if self._lost_at is None:
            self._lost_at = max(began_at, self._reached_at)

    def succeeded(self) -> None:
        lost_at, self._lost_at, self._reached_at = self._lost_at, None, self._elapsed()
        if lost_at is not None and self._reached_at - lost_at > MIN_DATABASE_OUTAGE.total_seconds():
            self.missed.append((lost_at, self._reached_at))


class OutageRecorder:
    """Records the outages that this node finds. `live_for`: how long a node counts as live after a heartbeat."""

    def __init__(self, clock: DatabaseClock, reach: DatabaseReach, *, node_id: UUID, live_for: timedelta) -> None:
        self._clock = clock
        self._reach = reach
        self._node_id = node_id
        self._live_for = live_for
        self._has_started = False

    async def before_first_beat(self, store: EngineStore, now: datetime) -> None:
        """Record the time since the last heartbeat of any node, once, before this node sends its first."""
        if self._has_started:
            return
        outage = outage_of_nodes(await store.last_beat(), now, self._live_for, self._node_id)
        if outage is not None:
            await self._record(store, outage)
        self._has_started = True

    async def after_beat(self, store: EngineStore) -> None:
        """Record the outages of the database that this node has seen since."""
        missed = self._reach.missed
        while missed:
            now, elapsed = self._clock.now(), self._clock.elapsed()
            start, until = (now - timedelta(seconds=elapsed - at) for at in missed[0])
            await self._record(store, Outage(OutageOf.DATABASE, start, until, self._node_id))
            del missed[0]

    async def _record(self, store: EngineStore, outage: Outage) -> None:
        if await store.save_outage(outage):
            seconds = round((outage.until - outage.start).total_seconds())
            facts = {"of": outage.of.value, "start": outage.start.isoformat(), "seconds": seconds}
            log.warning("outage_recorded", extra=facts)
