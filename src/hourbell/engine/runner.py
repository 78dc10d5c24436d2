"""Claims ready runs for its free slots and delivers one attempt of each.

1. `tick` learns which lanes have ready runs (a scan at most once a second, and hints in between).
2. It claims at most as many as it has free slots, lane by lane and in portions, so that some are delivered while others
   are claimed. The claim is committed before anything leaves.
3. Each claimed run becomes a task that delivers one attempt, unless its lease can no longer be trusted.
4. The outcome goes to the settler, and the slot is free. The run is held until its settlement is written.
"""

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job import Definition
from hourbell.core.notes import Notes
from hourbell.core.policies import RETRY_PRESETS, Overlap
from hourbell.core.run import Run
from hourbell.core.settle import Failed, Interrupted, Outcome, Unstarted, settle
from hourbell.engine.events import EngineEvents
from hourbell.engine.lanes import Lanes, Portion, Served
from hourbell.engine.leases import Leases
from hourbell.engine.settler import Settler
from hourbell.engine.time import DatabaseClock
from hourbell.store.base import EngineStore, Held, OpenTransaction, Settled, TransactionStore, Want
from hourbell.store.rows import UNREADABLE
from hourbell.targets.base import Call, Target, Transaction

log = logging.getLogger("hourbell.engine")

MOST_LANES = 200
_GATHER = 0.005  # seconds for more slots to become free, where there are fewer than a portion
_ONE_IN = 8  # of so many slots, one goes to the oldest run whatever its rank
_MOST_DEFINITIONS = 10_000


class Attempting(Call):
    """A run this node holds, and the call that is made of it. Its definition and its secrets come after the claim.

    All that a call has is set here and not by its own constructor: there are too many of them for a second call each.
    """

    __slots__ = ("_runner", "begun", "held", "is_settled", "started", "stop", "target", "task", "trusted_until")

    def __init__(self, runner: "Runner", run: Run, target: Target, now: datetime, trusted_until: float) -> None:
        self.run = run
        self.definition = _NO_DEFINITION
        self.now = now  # when it was claimed, and from its first step on when that was
        self.secrets = ()
        self.held = Held(run.id, run.attempt)
        self.target = target
        self.trusted_until = trusted_until  # elapsed seconds
        self.task: asyncio.Task[None] | None = None
        self.stop: Outcome | None = None  # what to settle it as when it is stopped from outside
        self.started = False  # its task has made its first step
        self.begun = False
        self.is_settled = False
        self._runner = runner

    @property
    def is_under_way(self) -> bool:
        return self.task is not None and not self.task.done()

    def begin(self) -> Coroutine[Any, Any, bool]:
        return self._runner.begin(self)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._runner.transaction(self)

    def note(self, notes: Notes) -> Coroutine[Any, Any, None]:
        return self._runner.note(notes)

    def is_stopped(self) -> bool:
        return self.stop is not None


class Runner:
    name = "runner"

    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        targets: Iterable[Target],
        *,
        node: UUID,
        leases: Leases,
        settler: Settler,
        events: EngineEvents,
        elapsed: Callable[[], float],
        luck: Callable[[], float],
        slots: int,
        suspect_after: int,
        transactions: TransactionStore | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._targets = tuple(targets)
        self._node = node
        self._leases = leases
        self._settler = settler
        self._events = events
        self._elapsed = elapsed
        self._luck = luck
        self._slots = slots
        self._portion = Portion()
        self._suspect_after = suspect_after
        self._transactions = transactions
        self._lanes = Lanes()
        self._served = Served(self._targets)  # anew with each look: functions may be registered at any time
        self._held: dict[Held, Attempting] = {}
        self._in_lane: Counter[str] = Counter()  # without what is settled
        self._unwritten = 0  # settled, and not written yet
        self._definitions: dict[tuple[UUID, int], Definition] = {}
        self._claims = 0
        self._accepts = True
        settler.on_written = self._release

    async def tick(self) -> float:
        """Claim for the free slots; return seconds until there may be more."""
        if not self._accepts or not self._leases.is_renewing:
            return 1.0
        if self._clock.confirmations < 1:
            return 0.1  # time has stepped: wait for a sample that confirms it
        looks = self._lanes.is_look_due(self._elapsed())
        if looks:
            await self._look_at_lanes()
        lanes = self._lanes.ready(self._clock.now())
        claimed = await self._claim_ready()
        if looks and self._may_claim:
            await self._claim_suspect(lanes)
        while claimed:
            if self._free < self._portion.size:
                return _GATHER
            if not self._may_claim or self._lanes.is_look_due(self._elapsed()):
                return 0
            claimed = await self._claim_ready()  # while attempts of what was claimed before are made
        if self._lanes.is_stale and self._free > 0:  # else what is known is enough until a slot is free
            self.look_again()
        return self._delay()

    def hint(self, lanes: Iterable[str]) -> None:
        """Runs were added to these lanes."""
        self._lanes.hint(lanes, self._clock.now())

    def look_again(self) -> None:
        """Somebody added runs somewhere."""
        self._lanes.look_again(self._elapsed())

    def held(self) -> list[Held]:
        """The leases of this node. May be asked from another thread."""
        return list(self._held.copy())

    def trust(self, renewed: Iterable[Held], until: float) -> None:
        """The leases of these were renewed."""
        for held in renewed:
            attempting = self._held.get(held)
            if attempting is not None:
                attempting.trusted_until = max(attempting.trusted_until, until)

    def stop_runs(self, run_ids: Iterable[UUID], outcome: Outcome) -> None:
        """Stop attempts, and settle them as this."""
        wanted = set(run_ids)
        for attempting in self._held.values():
            if attempting.run.id in wanted:
                self._stop(attempting, outcome)

    def stop_lost(self, lost: Iterable[Held]) -> None:
        """Stop attempts whose runs are this node's no longer."""
        for held in lost:
            if held in self._held:
                self._stop(self._held[held], Interrupted())

    def take_no_more(self) -> None:
        """Claim nothing, and begin nothing that is claimed already."""
        self._accepts = False

    async def drain(self, limit: timedelta) -> None:
        """Hand back what has not begun; let what has end within the limit, and interrupt what does not."""
        self.take_no_more()
        for attempting in self._under_way():
            if not attempting.begun:
                self._stop(attempting, Interrupted())
        await self._wait_for(self._under_way(), limit.total_seconds())
        left = self._under_way()
        if not left:
            return
        log.warning("drain_limit_reached", extra={"interrupted": len(left)})
        for attempting in left:
            self._stop(attempting, Interrupted())
        await self._wait_for(left, 1.0)
        for attempting in self._under_way():
            self._settle(attempting, Interrupted())  # it cannot be stopped: a thread is at work

    @property
    def _may_claim(self) -> bool:
        return self._accepts and self._leases.is_renewing and self._clock.confirmations >= 1

    @property
    def is_idle(self) -> bool:
        return not self._held

    @property
    def _free(self) -> int:
        """The slots without an attempt. However slowly the database writes, no more is held than twice the slots."""
        held = len(self._held)
        return min(self._slots - held + self._unwritten, 2 * self._slots - held)

    def _under_way(self) -> list[Attempting]:
        return [attempting for attempting in self._held.values() if attempting.is_under_way]

    async def _wait_for(self, attempts: list[Attempting], seconds: float) -> None:
        tasks = [attempting.task for attempting in attempts if attempting.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _stop(self, attempting: Attempting, outcome: Outcome) -> None:
        if attempting.task is not None and attempting.stop is None:
            attempting.stop = outcome
            attempting.task.cancel()
            if not attempting.started:
                self._settle(attempting, outcome)  # its task never runs

    async def _claim_ready(self) -> int:
        """Claim a portion of what is known to be ready; how many."""
        wants = self._wants(self._lanes.ready(self._clock.now()))
        self._lanes.begin_claim()
        if not wants:
            return 0
        claimed = await self._claim(wants)
        self._lanes.answered(wants, claimed)
        self._portion.learn(wants, claimed)
        return claimed.total()

    async def _claim_suspect(self, lanes: list[str]) -> None:
        """Claim one, while this node holds none: a suspect may take its node down."""
        if any(attempting.run.crashes >= self._suspect_after for attempting in self._held.values()):
            return
        if wants := [Want(want.lane, 1) for want in self._wants(lanes)]:
            await self._claim(wants, suspects=True)

    async def _look_at_lanes(self) -> None:
        self._lanes.begin_look(self._elapsed())
        self._settle_unentered()
        found = await self._store.lanes(self._clock.now())
        self._served = Served(self._targets)
        self._lanes.seen({work.lane: work.ready_at for work in found if self._served.target(work.lane) is not None})

    def _wants(self, lanes: list[str]) -> list[Want]:
        """What to ask of these lanes for the free slots."""
        free = min(self._free, self._portion.size)
        wants: list[Want] = []
        share = self._portion.of_lane(len(lanes))
        for lane in lanes:
            target = self._served.target(lane)
            if free <= 0 or len(wants) == MOST_LANES:
                break
            if target is None:
                continue
            most = target.slots(lane)
            take = min(free, share if most is None else min(share, most - self._in_lane[lane]))
            if take > 0:
                wants.append(Want(lane, take, self._oldest(take)))
                free -= take
        return wants

    def _oldest(self, take: int) -> int:
        """One slot in eight; of fewer than eight, every eighth claim."""
        self._claims += 1
        return take // _ONE_IN or int(self._claims % _ONE_IN == 0)

    def _delay(self) -> float:
        now = self._clock.now()
        next_ready_at = self._lanes.next_ready_at(now)
        delay = self._lanes.look_at - self._elapsed()
        if next_ready_at is not None:
            delay = min(delay, (next_ready_at - now).total_seconds())
        return max(0.0, delay)

    async def _claim(self, wants: list[Want], *, suspects: bool = False) -> Counter[str]:
        """Claim, and begin what was claimed; how many of each lane."""
        trusted_until = self._leases.trust_from_now()
        now = self._clock.now()
        until = now + self._leases.duration
        runs = await self._store.claim(
            self._node, now, until, wants, suspects=suspects, suspect_after=self._suspect_after
        )
        of_lanes = Counter([run.lane for run in runs])
        if not runs:
            return of_lanes
        self._lanes.is_stale = True
        self._events.claimed(runs)
        targets = {lane: self._served.target(lane) for lane in of_lanes}
        self._in_lane.update(of_lanes)
        claimed = [Attempting(self, run, _serving(targets[run.lane]), now, trusted_until) for run in runs]
        self._held |= {attempting.held: attempting for attempting in claimed}
        try:
            await self._define(claimed)
            await self._give_secrets(claimed)
        except BaseException:
            for attempting in claimed:
                self._settle(attempting, Unstarted())  # else its lease would be renewed for ever
            raise
        create_task = asyncio.get_running_loop().create_task
        for attempting in claimed:
            attempting.task = create_task(self._attempt(attempting))
        return of_lanes

    async def _define(self, claimed: list[Attempting]) -> None:
        """Give each its definition, as far as there is one that can be read."""
        if len(self._definitions) > _MOST_DEFINITIONS:
            self._definitions.clear()
        known = self._definitions
        missing = []
        for attempting in claimed:
            run = attempting.run
            definition = known.get((run.job_id, run.job_version))
            if definition is None:
                missing.append(attempting)
            else:
                attempting.definition = definition
        if missing:
            await self._read_definitions({(each.run.job_id, each.run.job_version) for each in missing})
            for attempting in missing:
                version = attempting.run.job_id, attempting.run.job_version
                attempting.definition = known.get(version, _NO_DEFINITION)

    async def _read_definitions(self, versions: set[tuple[UUID, int]]) -> None:
        try:
            self._definitions |= await self._store.definitions(versions)
        except UNREADABLE:  # one of them, which must not keep the others
            for version in versions:
                with suppress(*UNREADABLE):
                    self._definitions |= await self._store.definitions({version})

    async def _give_secrets(self, claimed: list[Attempting]) -> None:
        """The sealed secrets of the jobs whose targets read them: asked for each time, so that a change counts."""
        readers = [attempting for attempting in claimed if attempting.target.reads_secrets]
        if readers:
            jobs = {attempting.run.job_id for attempting in readers}
            secrets = await self._store.secrets(jobs, self._clock.now())
            for attempting in readers:
                attempting.secrets = secrets.get(attempting.run.job_id, ())

    async def _attempt(self, attempting: Attempting) -> None:
        attempting.now = self._clock.now()
        attempting.started = True
        try:
            if attempting.definition is _NO_DEFINITION:
                outcome: Outcome = _UNDEFINED
            else:
                outcome = await attempting.target.deliver(attempting)
        except asyncio.CancelledError:
            outcome = attempting.stop or _stopped_by_whom()
        except Exception as error:  # else the run would be held for ever
            # Where, but not the words: they may hold the payload.
            trace = "".join(traceback.format_tb(error.__traceback__)[-8:])
            facts = {"run": str(attempting.run.id), "lane": attempting.run.lane}
            log.error("target_broke", extra=facts | {"error": type(error).__name__, "trace": trace})
            outcome = Failed(f"the target broke: {type(error).__name__}")
        self._settle(attempting, outcome)

    def _settle_unentered(self) -> None:
        """Settle what somebody else cancelled before its first step: it never runs, and would be held for ever."""
        for attempting in list(self._held.values()):
            if not attempting.is_settled and attempting.task is not None and attempting.task.done():
                self._settle(attempting, Interrupted())

    async def note(self, notes: Notes) -> None:
        """Keep what an attempt says."""
        await self._store.write_notes([notes], self._clock.now())

    @asynccontextmanager
    async def transaction(self, attempting: Attempting) -> AsyncIterator[Transaction]:
        """A transaction that settles the attempt."""
        if self._transactions is None:
            raise RuntimeError("this node's database lends no transactions")
        async with self._transactions.transaction(attempting.held) as opened:
            yield _Transaction(opened, lambda outcome: self._settled(attempting, outcome))

    async def begin(self, attempting: Attempting) -> bool:
        """Whether the attempt may have its effect now."""
        if attempting.run.at_most_once and self._may_begin(attempting):
            try:
                if not await self._store.begin(attempting.held):
                    return False
            except Exception:  # nothing has left, so it can be handed back
                return False
        attempting.begun = begun = self._may_begin(attempting)
        if begun:
            self._events.started(attempting.run, attempting.definition, attempting.now)
        return begun

    def _may_begin(self, attempting: Attempting) -> bool:
        return self._accepts and self._leases.is_trusted(attempting.trusted_until)

    def _settle(self, attempting: Attempting, outcome: Outcome) -> None:
        """Hand an outcome to the settler, once; what has not begun counts as not started."""
        if attempting.is_settled:
            return
        settled = self._settled(attempting, outcome)
        self._settler.add(settled, attempting.definition.name, attempting)
        attempting.is_settled = True
        self._unwritten += 1
        self._leave_lane(attempting.run.lane)

    def _settled(self, attempting: Attempting, outcome: Outcome) -> Settled:
        """What an outcome makes of the run, with the attempt that is written down; none if nothing has begun."""
        now = self._clock.now()
        has_attempt = attempting.begun or not isinstance(outcome, (Unstarted, Interrupted))
        if not has_attempt:
            outcome = Unstarted()
        settlement = settle(attempting.run, outcome, now, attempting.definition.retry, self._luck())
        if not has_attempt:
            return Settled(settlement)
        return Settled(settlement, self._node, attempting.now if attempting.started else now)

    def _release(self, written: Iterable[Attempting]) -> None:
        """Hold these runs no longer; where runs of a job go one at a time, the next one may be ready."""
        held = self._held
        for attempting in written:
            if held.pop(attempting.held, None) is None:
                continue
            self._unwritten -= 1
            if attempting.definition.overlap is not _ALLOW:
                self.hint([attempting.run.lane])

    def _leave_lane(self, lane: str) -> None:
        self._in_lane[lane] -= 1
        if not self._in_lane[lane]:
            del self._in_lane[lane]


@dataclass(frozen=True, slots=True)
class _Transaction:
    """The store's transaction, as a target sees it: it speaks of outcomes."""

    opened: OpenTransaction
    settled: Callable[[Outcome], Settled]

    @property
    def connection(self) -> Any:
        return self.opened.connection

    async def settle(self, outcome: Outcome) -> bool:
        return await self.opened.settle(self.settled(outcome))


def _stopped_by_whom() -> Outcome:
    """An attempt that ends as cancelled although its node did not stop it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return Interrupted()  # the event loop ends
    return Failed("something it waited for was cancelled")


def _serving(target: Target | None) -> Target:
    assert target is not None  # only lanes with a target are claimed
    return target


_ALLOW = Overlap.ALLOW  # asking the enum for it takes longer than comparing
_NO_DEFINITION = Definition("", "", {}, retry=RETRY_PRESETS["none"])  # is gone, or cannot be read
_UNDEFINED = Failed("the definition of this run's job is gone or cannot be read", retryable=False)
