"""The runner: it claims ready runs for the free slots of its node.

1. `tick` finds the lanes with ready runs: a regular scan once a second, and hints in between.
2. It claims at most as many runs as there are free slots, lane by lane and in portions, so that some are delivered
   while others are claimed. For lanes that share a pool it claims no more than the pool has free units, and leaves the
   other runs to other nodes. Lanes that hang leave slots to lanes that respond (`shares.py`). The claim is committed
   before any attempt starts.
3. Each claimed run gets its definition and its secrets, and becomes an attempt (`attempts.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.engine.attempts import NO_DEFINITION, ActiveAttempt, Attempts
from hourbell.engine.events import EngineEvents
from hourbell.engine.lanes import Lanes, Portion, Served
from hourbell.engine.leases import Leases
from hourbell.engine.loop import NotAsked
from hourbell.engine.shares import Probation, SlotUse, claimable_slots
from hourbell.engine.time import DatabaseClock
from hourbell.store.base import EngineStore, LaneDemand
from hourbell.store.rows import UNREADABLE
from hourbell.targets.base import Target
from hourbell.targets.pool import Pool

MAX_CLAIM_LANES = 200
_GATHER = 0.005  # seconds to wait for more free slots when there are fewer than a portion
_PAUSE = 1.0  # seconds, while nothing may be claimed
_ONE_IN = 8  # of so many slots, one goes to the oldest run whatever its priority, so that no run starves
_MAX_DEFINITIONS = 10_000


class Runner:
    name = "runner"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        targets: Iterable[Target],
        attempts: Attempts,
        *,
        node: UUID,
        leases: Leases,
        events: EngineEvents,
        elapsed: Callable[[], float],
        slots: int,
        probation: Probation,
        suspect_after: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._targets = tuple(targets)
        self._attempts = attempts
        self._node = node
        self._leases = leases
        self._events = events
        self._elapsed = elapsed
        self._slots = slots
        self._probation = probation
        self._suspect_after = suspect_after
        self._portion = Portion()
        self._lanes = Lanes()
        self._served = Served(self._targets)  # rebuilt with each scan: functions may be registered at any time
        self._definitions: dict[tuple[UUID, int], Definition] = {}
        self._claims = 0

    async def tick(self) -> float:
        """Claim runs for the free slots; return the seconds until there may be more."""
        if not self._attempts.accepts or not self._leases.is_renewing:
            return NotAsked(_PAUSE)
        if self._clock.confirmations < 1:
            return NotAsked(0.1)  # time has stepped: wait for a sample that confirms it
        polls = self._lanes.is_poll_due(self._elapsed())
        if polls:
            await self._poll_lanes()
        lanes = self._lanes.ready(self._clock.now())
        claimed = await self._claim_ready()
        if polls and self._may_claim:
            await self._claim_suspect(lanes)
        while claimed:
            if self._free < self._portion.size:
                return _GATHER
            if not self._may_claim or self._lanes.is_poll_due(self._elapsed()):
                return 0
            claimed = await self._claim_ready()  # while the attempts of the previous claim are made
        if self._lanes.is_stale and self._free > 0:  # without a free slot, an earlier scan would not help
            self.rescan()
        return self._delay() if polls or claimed is not None else NotAsked(self._delay())

    def hint(self, lanes: Iterable[str]) -> None:
        """Record that runs in these lanes were added or became ready."""
        self._lanes.hint(lanes, self._clock.now())

    def rescan(self) -> None:
        """Scan soon, because runs were added to unknown lanes."""
        self._lanes.rescan(self._elapsed())

    @property
    def _may_claim(self) -> bool:
        return self._attempts.accepts and self._leases.is_renewing and self._clock.confirmations >= 1

    @property
    def _free(self) -> int:
        return self._attempts.free(self._slots)

    async def _claim_ready(self) -> int | None:
        """Claim a portion of the known ready runs; return their number, or None if none were requested."""
        demands = self._wants(self._lanes.ready(self._clock.now()))
        self._lanes.begin_claim()
        if not demands:
            return None
        claimed = await self._claim(demands)
        self._lanes.answered(demands, claimed)
        self._portion.learn(demands, claimed)
        return claimed.total()

    async def _claim_suspect(self, lanes: list[str]) -> None:
        """Claim one suspect from these lanes if this node holds none: a suspect may crash its node."""
        if self._attempts.holds_suspect(self._suspect_after):
            return
        if demands := [LaneDemand(demand.lane, 1) for demand in self._wants(lanes)]:
            await self._claim(demands, suspects=True)

    async def _poll_lanes(self) -> None:
        self._lanes.begin_poll(self._elapsed())
        self._attempts.settle_dead()
        self._attempts.find_slow_lanes()
        try:
            found = await self._store.lanes(self._clock.now())
        except BaseException:
            self._lanes.poll_failed()
            raise
        self._served = Served(self._targets)
        self._lanes.seen({work.lane: work.ready_at for work in found if self._served.target(work.lane) is not None})

    def _wants(self, lanes: list[str]) -> list[LaneDemand]:
        """Return how many runs to request from each of these lanes for the free slots."""
        use = SlotUse(self._slots, self._free, self._probation.calls)
        free = min(use.free, self._portion.size)
        demands: list[LaneDemand] = []
        left: dict[Pool, int] = {}  # free units that are not assigned to a lane yet
        share = self._portion.of_lane(len(lanes))
        for lane in lanes:
            target = self._served.target(lane)
            if free <= 0 or len(demands) == MAX_CLAIM_LANES:
                break
            if target is None:
                continue
            max_slots, held, is_proven = (
                target.slots(lane),
                self._attempts.in_lane(lane),
                self._probation.is_proven(lane),
            )
            take = min(free, share if max_slots is None else min(share, max_slots - held))
            take = min(take, claimable_slots(use, held, is_proven=is_proven))
            pool = target.pool(lane)
            if pool is not None:
                take = min(take, _part_of(left.setdefault(pool, self._attempts.free_in(pool)), len(lanes)))
            if take > 0:
                demands.append(LaneDemand(lane, take, self._oldest(take)))
                free -= take
                use = use.after(take, is_proven=is_proven)
                if pool is not None:
                    left[pool] -= take
        return demands

    def _oldest(self, take: int) -> int:
        """Return how many slots go to the oldest runs: one in eight; of fewer than eight, one in every eighth claim."""
        self._claims += 1
        return take // _ONE_IN or int(self._claims % _ONE_IN == 0)

    def _delay(self) -> float:
        now = self._clock.now()
        next_ready_at = self._lanes.next_ready_at(now)
        delay = self._lanes.poll_at - self._elapsed()
        if next_ready_at is not None:
            delay = min(delay, (next_ready_at - now).total_seconds())
        return max(0.0, delay)

    async def _claim(self, demands: list[LaneDemand], *, suspects: bool = False) -> Counter[str]:
        """Claim runs and start an attempt for each; return their number by lane."""
        trusted_until = self._leases.trust_from_now()
        with self._leases.claiming():
            now = self._clock.now()
            until = now + self._leases.duration
            runs = await self._store.claim(
                self._node, now, until, demands, suspects=suspects, suspect_after=self._suspect_after
            )
            of_lanes = Counter([run.lane for run in runs])
            if not runs:
                return of_lanes
            targets = {lane: self._serving(lane) for lane in of_lanes}
            taken = self._attempts.take(runs, targets, now, trusted_until)
        self._lanes.is_stale = True
        self._events.claimed(runs)
        try:
            await self._define(taken)
            await self._give_secrets(taken)
        except BaseException:
            self._attempts.hand_back(taken)
            raise
        self._attempts.start(taken)
        return of_lanes

    def _serving(self, lane: str) -> Target:
        target = self._served.target(lane)
        assert target is not None  # only lanes with a target are claimed
        return target

    async def _define(self, taken: list[ActiveAttempt]) -> None:
        """Set the definition of each attempt, from the cache or the store; NO_DEFINITION if it cannot be read."""
        if len(self._definitions) > _MAX_DEFINITIONS:
            self._definitions.clear()
        known = self._definitions
        missing = []
        for active in taken:
            run = active.run
            definition = known.get((run.job_id, run.job_version))
            if definition is None:
                missing.append(active)
            else:
                active.definition = definition
        if missing:
            await self._read_definitions({(each.run.job_id, each.run.job_version) for each in missing})
            for active in missing:
                version = active.run.job_id, active.run.job_version
                active.definition = known.get(version, NO_DEFINITION)

    async def _read_definitions(self, versions: set[tuple[UUID, int]]) -> None:
        try:
            self._definitions |= await self._store.definitions(versions)
        except UNREADABLE:  # one unreadable definition must not block the others
            for version in versions:
                with suppress(*UNREADABLE):
                    self._definitions |= await self._store.definitions({version})

    async def _give_secrets(self, taken: list[ActiveAttempt]) -> None:
        """Set the sealed secrets of attempts whose targets need them; not cached, so that a change takes effect."""
        readers = [active for active in taken if active.target.reads_secrets]
        if readers:
            jobs = {active.run.job_id for active in readers}
            secrets = await self._store.secrets(jobs, self._clock.now())
            for active in readers:
                active.secrets = secrets.get(active.run.job_id, ())


def _part_of(slots: int, lanes: int) -> int:
    """Return how many of a pool's free units one of so many ready lanes may take.

    A lane takes at most half, so that one lane's backlog does not take all units at once. The next claim uses the rest,
    with the lanes in a new order.
    """
    return slots if lanes == 1 else -(-slots // 2)
