"""The heartbeat: it reports that this node is alive, renews its leases, and samples the database's time.

It is an ordinary loop. Wiring runs it in its own thread with its own connection, so that a busy event loop does not
lose its leases. A stalled event loop must lose them, so the heartbeat skips a beat when the engine's pulse has stopped.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from hourbell.engine.leases import Leases
from hourbell.engine.loop import MAX_BACKOFF_SECONDS, NotAsked
from hourbell.engine.outages import OutageRecorder
from hourbell.engine.time import STEP, DatabaseClock
from hourbell.store.base import EngineStore, LeaseKey, Node

log = logging.getLogger("hourbell.engine")

STALLED = 2.0


@dataclass(slots=True)
class Pulse:
    """A liveness signal that the engine's event loop updates while it is responsive."""

    elapsed: Callable[[], float]
    last: float | None = None  # None until the engine starts

    def beat(self) -> None:
        self.last = self.elapsed()

    @property
    def has_stalled(self) -> bool:
        return self.last is not None and self.elapsed() - self.last > STALLED


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The result of a heartbeat for the engine."""

    drift: timedelta  # of the database's time from this node's estimate
    renewed: tuple[LeaseKey, ...]
    trusted_until: float
    lost: tuple[LeaseKey, ...]
    cancels: tuple[UUID, ...]
    handed_back: tuple[LeaseKey, ...]


class Heartbeat:
    name = "heartbeat"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        node: Callable[[], Node],
        leases: Leases,
        held: Callable[[], Sequence[LeaseKey]],
        given_up: Callable[[], Collection[LeaseKey]],
        pulse: Pulse,
        on_beat: Callable[[HeartbeatResult], None],
        outages: OutageRecorder,
        elapsed: Callable[[], float],
    ) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self._leases = leases
        self._held = held
        self._given_up = given_up
        self._pulse = pulse
        self.on_beat = on_beat
        self._outages = outages
        self._elapsed = elapsed
        self._unheld: tuple[LeaseKey, ...] = ()  # by the last beat: leases in the node's name that it did not hold
        self._unheld_since = 0  # the last claim that may have taken one of them
        self._well: tuple[float, float] | None = None  # times of the first and the last of consecutive successful beats

    @property
    def interval(self) -> float:
        """Seconds between beats: a quarter of the lease."""
        return self._leases.duration.total_seconds() / 4

    @property
    def max_backoff(self) -> float:
        """The max backoff in seconds; short, so that after an outage every live node beats before a reaper acts."""
        return min(MAX_BACKOFF_SECONDS, self.interval / 2)

    @property
    def has_settled(self) -> bool:
        """True if beats have succeeded for two intervals, enough for every live node to beat, and still do."""
        if self._well is None:
            return False
        first, last = self._well
        return last - first >= 2 * self.interval and self._elapsed() - last < 2 * self.interval

    async def tick(self) -> float:
        """Sample the time and renew this node's leases; return the seconds until the next beat."""
        if self._pulse.has_stalled:
            self._well = None
            log.error("event_loop_stalled", extra={"hint": "a task blocks the event loop; leases are not renewed"})
            return NotAsked(self.interval / 4)
        try:
            result = await self._beat()
        except BaseException:
            self._well = None
            raise
        beat_at = self._elapsed()
        well = self._well
        if well is None or beat_at - well[1] >= 2 * self.interval:
            well = (beat_at, beat_at)  # a beat was missed, perhaps by a suspended machine: other nodes may have, too
        self._well = (well[0], beat_at)
        self.on_beat(result)
        await self._outages.after_beat(self._store)
        if self._clock.confirmations < 2:
            return 0.05
        return self.interval / 4 if self._unheld else self.interval

    async def close(self) -> None:
        """Close the heartbeat's store."""
        await self._store.close()

    async def _beat(self) -> HeartbeatResult:
        sample = await self._store.sample_time()
        answered_at = self._elapsed()
        if abs(self._clock.drift_of(sample, answered_at)) > self._leases.duration / 4:
            self._well = None  # before any other loop can act on the new time
        drift = self._clock.observe(sample, answered_at)
        if abs(drift) > STEP:
            log.warning("clock_stepped", extra={"seconds": drift.total_seconds()})
        await self._outages.before_first_beat(self._store, self._clock.now())
        trusted_until = self._leases.trust_from_now()
        now = self._clock.now()
        # If every claim that may have taken them has ended, the response to it was lost, unless they are held by now.
        orphans = self._unheld if self._leases.has_ended(self._unheld_since) else ()
        held, given_up = self._held(), self._given_up()
        lease_until = now + self._leases.duration
        reply = await self._store.heartbeat(self._node(), now, lease_until, held, given_up=given_up, orphans=orphans)
        self._unheld, self._unheld_since = reply.unheld, self._leases.last_claim
        lost = set(reply.lost)
        renewed = tuple(each for each in held if each not in lost)
        return HeartbeatResult(drift, renewed, trusted_until, reply.lost, reply.cancels, reply.handed_back)
