"""The attempts of this node, from the claim of their runs until their settlements are written.

1. `take` holds claimed runs. The heartbeat renews their leases from then on.
2. `start` creates an asyncio task for each, in which its target delivers it; `begin` refuses an untrusted lease.
3. The outcome goes to the settler, which frees the slot. The run is held until its settlement is written: `release`.
"""

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.run.notes import Notes
from hourbell.core.run.policies import RETRY_PRESETS, Overlap
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Failed, Interrupted, Outcome, Succeeded, Unstarted, settle
from hourbell.engine.events import EngineEvents
from hourbell.engine.leases import Leases
from hourbell.engine.settler import Settler
from hourbell.engine.shares import Probation
from hourbell.engine.time import DatabaseClock
from hourbell.store.base import EngineStore, Held, OpenTransaction, Settled, TransactionStore
from hourbell.targets.base import Call, Target, Transaction
from hourbell.targets.pool import Pool

log = logging.getLogger("hourbell.engine")

NO_DEFINITION = Definition("", "", {}, retry=RETRY_PRESETS["none"])  # for one that is deleted or cannot be read
_UNDEFINED = Failed("the definition of this run's job is gone or cannot be read", retryable=False)
_NAMED = 20  # runs in one log line
_ALLOW = Overlap.ALLOW  # attribute access on the enum takes longer than the comparison


class Attempting(Call):
    """A run that this node holds, and its call. The definition and the secrets are set after the claim.

    The constructor sets the fields of `Call` itself: a call of the base constructor would cost too much per run.
    """

    __slots__ = (
        "_attempts",
        "begun",
        "held",
        "is_settled",
        "on_probation",
        "pool",
        "started",
        "stop",
        "taken_at",
        "target",
        "task",
        "trusted_until",
    )

    def __init__(self, attempts: "Attempts", run: Run, target: Target, now: datetime, trusted_until: float) -> None:
        self.run = run
        self.definition = NO_DEFINITION
        self.now = now  # the claim time, and after `begin` the start time
        self.secrets = ()
        self.held = Held(run.id, run.attempt)
        self.target = target
        self.pool: Pool | None = None
        self.trusted_until = trusted_until  # elapsed seconds
        self.taken_at = 0.0  # elapsed seconds
        self.on_probation = False
        self.task: asyncio.Task[None] | None = None
        self.stop: Outcome | None = None  # the outcome to settle it with, once the node has stopped it
        self.started = False  # its task has run its first step
        self.begun = False
        self.is_settled = False
        self._attempts = attempts

    @property
    def is_under_way(self) -> bool:
        return self.task is not None and not self.task.done()

    def begin(self) -> Coroutine[Any, Any, bool]:
        return self._attempts.begin(self)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._attempts.transaction(self)

    def note(self, notes: Notes) -> Coroutine[Any, Any, None]:
        return self._attempts.note(notes)

    def last_success(self) -> Coroutine[Any, Any, datetime | None]:
        return self._attempts.last_success(self.run)

    def is_stopped(self) -> bool:
        return self.stop is not None


class Attempts:
    def __init__(
        self,
        store: EngineStore,
        clock: DatabaseClock,
        *,
        node: UUID,
        leases: Leases,
        settler: Settler,
        events: EngineEvents,
        luck: Callable[[], float],
        transactions: TransactionStore | None,
        probation: Probation,
    ) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self._leases = leases
        self._settler = settler
        self._events = events
        self._luck = luck
        self._transactions = transactions
        self._probation = probation
        self._held: dict[Held, Attempting] = {}
        self._in_lane: Counter[str] = Counter()  # without settled attempts
        self._in_pool: Counter[Pool] = Counter()  # without settled attempts
        self._unwritten = 0  # attempts that are settled and not written yet
        self._accepts = True

    @property
    def accepts(self) -> bool:
        """True if the node may claim runs and start claimed ones; False during shutdown."""
        return self._accepts

    @property
    def is_idle(self) -> bool:
        return not self._held

    def free(self, slots: int) -> int:
        """Return the number of free slots. The node holds at most twice `slots` runs, however slow the writes are."""
        held = len(self._held)
        return min(slots - held + self._unwritten, 2 * slots - held)

    def in_lane(self, lane: str) -> int:
        """Return how many attempts of a lane occupy a slot."""
        return self._in_lane[lane]

    def free_in(self, pool: Pool) -> int:
        """Return how many more attempts can begin in a pool. A claimed attempt counts, because it takes a unit soon."""
        return pool.size - max(pool.taken, self._in_pool[pool])

    def holds_suspect(self, suspect_after: int) -> bool:
        return any(attempting.run.crashes >= suspect_after for attempting in self._held.values())

    def held(self) -> list[Held]:
        """Return the leases of this node. Safe to call from another thread."""
        return list(self._held.copy())

    def trust(self, renewed: Iterable[Held], until: float) -> None:
        """Extend the trust in these leases, which were renewed."""
        for held in renewed:
            attempting = self._held.get(held)
            if attempting is not None:
                attempting.trusted_until = max(attempting.trusted_until, until)

    def take(
        self, runs: Sequence[Run], targets: Mapping[str, Target], now: datetime, trusted_until: float
    ) -> list[Attempting]:
        """Hold newly claimed runs, each for the target of its lane, and return their attempts.

        An attempt that this node already holds is not taken again, because it would be made twice.
        """
        claimed = [Attempting(self, run, targets[run.lane], now, trusted_until) for run in runs]
        new = {attempting.held: attempting for attempting in claimed}
        repeats = len(new) < len(claimed) or not self._held.keys().isdisjoint(new)
        if repeats or any(self._holds_earlier(run) for run in runs if run.attempt > 1):
            self._warn_of_held(runs)
            new = {held: attempting for held, attempting in new.items() if held not in self._held}
        taken = list(new.values())
        self._held |= new
        self._in_lane.update([attempting.run.lane for attempting in taken])
        self._put_on_probation(taken, targets)
        pools = {lane: pool for lane, target in targets.items() if (pool := target.pool(lane)) is not None}
        if pools:
            for attempting in taken:
                attempting.pool = pool = pools.get(attempting.run.lane)
                if pool is not None:
                    self._in_pool[pool] += 1
        return taken

    def _put_on_probation(self, taken: Sequence[Attempting], lanes: Iterable[str]) -> None:
        """Record when attempts took their slots, and put those of unproven lanes on probation."""
        taken_at = self._probation.elapsed()
        unproven = {lane for lane in lanes if not self._probation.is_proven(lane)}
        for attempting in taken:
            attempting.taken_at = taken_at
            if unproven and attempting.run.lane in unproven:
                attempting.on_probation = True
                self._probation.calls += 1

    def find_slow_lanes(self) -> None:
        """Find the lanes with an attempt that has been in flight for long."""
        held = self._held.values()
        self._probation.look((each.run.lane, each.taken_at) for each in held if not each.is_settled)

    def start(self, taken: Iterable[Attempting]) -> None:
        create_task = asyncio.get_running_loop().create_task
        for attempting in taken:
            attempting.task = create_task(self._attempt(attempting))

    def hand_back(self, taken: Iterable[Attempting]) -> None:
        """Return runs that were not started to the queue; else the heartbeat would renew their leases forever."""
        for attempting in taken:
            self._settle(attempting, Unstarted())

    def release(self, written: Iterable[Attempting]) -> list[str]:
        """Release attempts whose settlements are written.

        Return the lanes of jobs that do not allow overlap, because their next run may now be ready.
        """
        held = self._held
        lanes = []
        for attempting in written:
            if held.pop(attempting.held, None) is None:
                continue
            self._unwritten -= 1
            if attempting.definition.overlap is not _ALLOW:
                lanes.append(attempting.run.lane)
        return lanes

    def stop_runs(self, run_ids: Iterable[UUID], outcome: Outcome) -> None:
        """Stop the attempts of these runs, and settle them with this outcome."""
        wanted = set(run_ids)
        for attempting in self._held.values():
            if attempting.run.id in wanted:
                self._stop(attempting, outcome)

    def stop_lost(self, lost: Iterable[Held]) -> None:
        """Stop attempts whose leases this node has lost."""
        stopped = [self._held[held] for held in lost if held in self._held]
        under_way = [attempting.held for attempting in stopped if attempting.is_under_way]
        for attempting in stopped:
            self._stop(attempting, Interrupted())
        if under_way:
            facts = {"count": len(under_way), "runs": [str(held.run_id) for held in under_way[:_NAMED]]}
            log.warning("attempts_stopped_as_lost", extra=facts)

    def settle_dead(self) -> None:
        """Settle attempts whose task ended without an outcome; else they would be held forever.

        Such a task was cancelled from outside before its first step, or raised a BaseException such as SystemExit.
        """
        for attempting in list(self._held.values()):
            task = attempting.task
            if not attempting.is_settled and task is not None and task.done():
                error = None if task.cancelled() else task.exception()
                ended = Interrupted() if error is None else Failed(f"its task ended by {type(error).__name__}")
                self._settle(attempting, ended)

    def take_no_more(self) -> None:
        """Stop claiming runs and starting claimed ones, for shutdown."""
        self._accepts = False

    async def drain(self, limit: timedelta) -> None:
        """Hand back attempts that have not begun, wait for the others up to the limit, then interrupt them."""
        self.take_no_more()
        for attempting in self._under_way():
            if not attempting.begun:
                self._stop(attempting, Interrupted())
        await _wait_for(self._under_way(), limit.total_seconds())
        left = self._under_way()
        if not left:
            return
        log.warning("drain_limit_reached", extra={"interrupted": len(left)})
        for attempting in left:
            self._stop(attempting, Interrupted())
        await _wait_for(left, 1.0)
        for attempting in self._under_way():
            self._settle(attempting, Interrupted())  # it cannot be stopped, because it runs in a thread

    async def begin(self, attempting: Attempting) -> bool:
        """Mark the attempt as begun; return False if this node may no longer start it, so that it must do nothing.

        An at-most-once run is first marked in the store.
        """
        if attempting.run.at_most_once and self._may_begin(attempting):
            try:
                if not await self._store.begin(attempting.held):
                    return False
            except Exception:  # nothing has been sent, so the run can be handed back
                return False
        attempting.begun = begun = self._may_begin(attempting)
        if begun:
            attempting.now = now = self._clock.now()
            self._events.started(attempting.run, attempting.definition, now)
        return begun

    @asynccontextmanager
    async def transaction(self, attempting: Attempting) -> AsyncIterator[Transaction]:
        """Open a transaction that also settles the attempt."""
        if self._transactions is None:
            raise RuntimeError("this node's database lends no transactions")
        async with self._transactions.transaction(attempting.held) as opened:
            yield _Transaction(opened, lambda outcome: self._settled(attempting, outcome))

    async def note(self, notes: Notes) -> None:
        """Store the notes of an attempt."""
        await self._store.write_notes([notes], self._clock.now())

    async def last_success(self, run: Run) -> datetime | None:
        """Return the scheduled time of the same job's newest successful run before this one."""
        return await self._store.last_success(run.job_id, run.scheduled_at)

    def _holds_earlier(self, run: Run) -> bool:
        return any(Held(run.id, number) in self._held for number in range(max(1, run.attempt - 3), run.attempt))

    def _warn_of_held(self, runs: Sequence[Run]) -> None:
        """Log claimed runs that this node already holds, with this attempt or an earlier one."""
        known = {held.run_id for held in self._held}
        counted = Counter(run.id for run in runs)
        again = [run for run in runs if run.id in known or counted[run.id] > 1]
        named = [{"run": str(run.id), "attempt": run.attempt} for run in again[:_NAMED]]
        log.warning("runs_claimed_while_held", extra={"count": len(again), "runs": named})

    def _under_way(self) -> list[Attempting]:
        return [attempting for attempting in self._held.values() if attempting.is_under_way]

    def _may_begin(self, attempting: Attempting) -> bool:
        return self._accepts and self._leases.is_trusted(attempting.trusted_until)

    def _stop(self, attempting: Attempting, outcome: Outcome) -> None:
        if attempting.task is not None and attempting.stop is None:
            attempting.stop = outcome
            attempting.task.cancel()
            if not attempting.started:
                self._settle(attempting, outcome)  # its task never runs

    async def _attempt(self, attempting: Attempting) -> None:
        attempting.started = True
        try:
            if attempting.definition is NO_DEFINITION:
                outcome: Outcome = _UNDEFINED
            else:
                outcome = await attempting.target.deliver(attempting)
        except asyncio.CancelledError:
            outcome = attempting.stop or self._cancelled_by_others()
        except Exception as error:  # else the run would be held forever
            # Log the traceback but not the message, which may contain the payload.
            trace = "".join(traceback.format_tb(error.__traceback__)[-8:])
            facts = {"run": str(attempting.run.id), "lane": attempting.run.lane}
            log.error("target_broke", extra=facts | {"error": type(error).__name__, "trace": trace})
            outcome = Failed(f"the target broke: {type(error).__name__}")
        self._settle(attempting, outcome)

    def _settle(self, attempting: Attempting, outcome: Outcome) -> None:
        """Pass an outcome to the settler, once, and free the slot."""
        if attempting.is_settled:
            return
        settled = self._settled(attempting, outcome)
        if isinstance(outcome, Failed) and not attempting.begun:
            self._events.failed_to_begin(attempting.run, attempting.now)
        self._settler.add(settled, attempting.definition.name, attempting)
        attempting.is_settled = True
        self._unwritten += 1
        self._leave_lane(attempting.run.lane)
        if attempting.on_probation:
            self._probation.calls -= 1
        if attempting.begun and isinstance(outcome, (Succeeded, Failed)):
            self._probation.ended(attempting.run.lane, attempting.taken_at)
        if attempting.pool is not None:
            self._in_pool[attempting.pool] -= 1

    def _settled(self, attempting: Attempting, outcome: Outcome) -> Settled:
        """Return the settlement of an outcome, with the attempt to record.

        An attempt that was interrupted or handed back before it began is not recorded, and settles as `Unstarted`.
        """
        now = self._clock.now()
        has_attempt = attempting.begun or not isinstance(outcome, (Unstarted, Interrupted))
        if not has_attempt:
            outcome = Unstarted()
        settlement = settle(attempting.run, outcome, now, attempting.definition.retry, self._luck())
        if not has_attempt:
            return Settled(settlement)
        return Settled(settlement, self._node, attempting.now if attempting.started else now)

    def _cancelled_by_others(self) -> Outcome:
        """Return the outcome of an attempt that was cancelled although its node did not stop it."""
        if not self._accepts:
            return Interrupted()  # the program shuts down
        task = asyncio.current_task()
        who = "its own task" if task is not None and task.cancelling() else "something it waited for"
        return Failed(f"{who} was cancelled")

    def _leave_lane(self, lane: str) -> None:
        self._in_lane[lane] -= 1
        if not self._in_lane[lane]:
            del self._in_lane[lane]


@dataclass(frozen=True, slots=True)
class _Transaction:
    """An adapter of the store's transaction for targets: it settles with outcomes."""

    opened: OpenTransaction
    settled: Callable[[Outcome], Settled]

    @property
    def connection(self) -> Any:
        return self.opened.connection

    async def settle(self, outcome: Outcome) -> bool:
        return await self.opened.settle(self.settled(outcome))


async def _wait_for(attempts: Sequence[Attempting], seconds: float) -> None:
    tasks = [attempting.task for attempting in attempts if attempting.task is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
