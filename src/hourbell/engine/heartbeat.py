"""Says that this node lives, renews its leases, and samples the database's time.

It is an ordinary loop. Wiring runs it in a thread of its own with a connection of its own, so that a busy event loop
does not cost a lease; but a loop that has stalled does not deserve one, so a beat is left out when the engine's pulse
has stopped.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from hourbell.engine.leases import Leases
from hourbell.engine.loop import LONGEST_BACKOFF, NotAsked
from hourbell.engine.time import STEP, DatabaseClock
from hourbell.store.base import EngineStore, Held, Node

log = logging.getLogger("hourbell.engine")

STALLED = 2.0


@dataclass(slots=True)
class Pulse:
    """Beats while the engine's event loop turns."""

    elapsed: Callable[[], float]
    last: float | None = None  # None until the engine starts

    def beat(self) -> None:
        self.last = self.elapsed()

    @property
    def has_stalled(self) -> bool:
        return self.last is not None and self.elapsed() - self.last > STALLED


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """What the engine must know of a beat."""

    drift: timedelta  # of the database's time from what this node took it for
    renewed: tuple[Held, ...]
    trusted_until: float
    lost: tuple[Held, ...]
    cancels: tuple[UUID, ...]
    handed_back: tuple[Held, ...]


class Heartbeat:
    name = "heartbeat"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        node: Callable[[], Node],
        leases: Leases,
        held: Callable[[], Sequence[Held]],
        given_up: Callable[[], Collection[Held]],
        pulse: Pulse,
        on_beat: Callable[[HeartbeatResult], None],
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
        self._elapsed = elapsed
        self._well: tuple[float, float] | None = None  # the first and the last of the beats that went well

    @property
    def interval(self) -> float:
        """Seconds between beats: a quarter of the lease."""
        return self._leases.duration.total_seconds() / 4

    @property
    def longest_backoff(self) -> float:
        """After an outage every live node beats again long before another's reaper acts."""
        return min(LONGEST_BACKOFF, self.interval / 2)

    @property
    def has_settled(self) -> bool:
        """Whether beats have gone well for long enough that every live node has had one, and still do."""
        if self._well is None:
            return False
        first, last = self._well
        return last - first >= 2 * self.interval and self._elapsed() - last < 2 * self.interval

    async def tick(self) -> float:
        """Sample the time, renew what this node holds; return the interval."""
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
            well = (beat_at, beat_at)  # a beat was missed, perhaps because the machine slept: others may have, too
        self._well = (well[0], beat_at)
        self.on_beat(result)
        return 0.05 if self._clock.confirmations < 2 else self.interval

    async def close(self) -> None:
        """Give back its connection."""
        await self._store.close()

    async def _beat(self) -> HeartbeatResult:
        sample = await self._store.sample_time()
        answered_at = self._elapsed()
        if abs(self._clock.drift_of(sample, answered_at)) > self._leases.duration / 4:
            self._well = None  # before anybody can act on the new time
        drift = self._clock.observe(sample, answered_at)
        if abs(drift) > STEP:
            log.warning("clock_stepped", extra={"seconds": drift.total_seconds()})
        trusted_until = self._leases.trust_from_now()
        now = self._clock.now()
        orphaned_until = self._leases.orphaned_until(now)
        held, given_up = self._held(), self._given_up()
        lease_until = now + self._leases.duration
        beat = await self._store.heartbeat(
            self._node(), now, lease_until, held, orphaned_until=orphaned_until, given_up=given_up
        )
        lost = set(beat.lost)
        renewed = tuple(each for each in held if each not in lost)
        return HeartbeatResult(drift, renewed, trusted_until, beat.lost, beat.cancels, beat.handed_back)
