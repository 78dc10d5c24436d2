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
from hourbell.store.base import EngineStore, LeaseKey, OpenTransaction, SettledAttempt, TransactionStore
from hourbell.targets.base import Call, Target, Transaction
from hourbell.targets.pool import Pool

log = logging.getLogger("hourbell.engine")

NO_DEFINITION = Definition("", "", {}, retry=RETRY_PRESETS["none"])  # for one that is deleted or cannot be read
_UNDEFINED = Failed("the definition of this run's job is missing or unreadable", retryable=False)
_STOP_SECONDS = 1.0  # for attempts to end after they were interrupted
_NAMED = 20  # runs in one log line
_ALLOW = Overlap.ALLOW  # attribute access on the enum takes longer than the comparison


class ActiveAttempt(Call):
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
        self.held = LeaseKey(run.id, run.attempt)
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

    def command_seal(self) -> Coroutine[Any, Any, str | None]:
        return self._attempts.command_seal(self.run)

    def is_stopped(self) -> bool:
        return self.stop is not None

    def is_interrupted(self) -> bool:
        return isinstance(self.stop, Interrupted)


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
        random: Callable[[], float],
        transactions: TransactionStore | None,
        probation: Probation,
    ) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self._leases = leases
        self._settler = settler
        self._events = events
        self._random = random
        self._transactions = transactions
        self._probation = probation
        self._held: dict[LeaseKey, ActiveAttempt] = {}
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
        return any(active.run.crashes >= suspect_after for active in self._held.values())

    def held(self) -> list[LeaseKey]:
        """Return the leases of this node. Safe to call from another thread."""
        return list(self._held.copy())

    def trust(self, renewed: Iterable[LeaseKey], until: float) -> None:
        """Extend the trust in these leases, which were renewed."""
        for held in renewed:
            active = self._held.get(held)
            if active is not None:
                active.trusted_until = max(active.trusted_until, until)

    def take(
        self, runs: Sequence[Run], targets: Mapping[str, Target], now: datetime, trusted_until: float
    ) -> list[ActiveAttempt]:
        """Hold newly claimed runs, each for the target of its lane, and return their attempts.

        An attempt that this node already holds is not taken again, because it would be made twice.
        """
        claimed = [ActiveAttempt(self, run, targets[run.lane], now, trusted_until) for run in runs]
        new = {active.held: active for active in claimed}
        repeats = len(new) < len(claimed) or not self._held.keys().isdisjoint(new)
        if repeats or any(self._holds_earlier(run) for run in runs if run.attempt > 1):
            self._warn_of_held(runs)
            new = {held: active for held, active in new.items() if held not in self._held}
        taken = list(new.values())
        self._held |= new
        self._in_lane.update([active.run.lane for active in taken])
        self._put_on_probation(taken, targets)
        pools = {lane: pool for lane, target in targets.items() if (pool := target.pool(lane)) is not None}
        if pools:
            for active in taken:
                active.pool = pool = pools.get(active.run.lane)
                if pool is not None:
                    self._in_pool[pool] += 1
        return taken

    def _put_on_probation(self, taken: Sequence[ActiveAttempt], lanes: Iterable[str]) -> None:
        """Record when attempts took their slots, and put those of unproven lanes on probation."""
        taken_at = self._probation.elapsed()
        unproven = {lane for lane in lanes if not self._probation.is_proven(lane)}
        for active in taken:
            active.taken_at = taken_at
            if unproven and active.run.lane in unproven:
                active.on_probation = True
                self._probation.calls += 1

    def find_slow_lanes(self) -> None:
        """Find the lanes with an attempt that has been in flight for long."""
        held = self._held.values()
        self._probation.observe((each.run.lane, each.taken_at) for each in held if not each.is_settled)

    def start(self, taken: Iterable[ActiveAttempt]) -> None:
        create_task = asyncio.get_running_loop().create_task
        for active in taken:
            active.task = create_task(self._attempt(active))

    def hand_back(self, taken: Iterable[ActiveAttempt]) -> None:
        """Return runs that were not started to the queue; else the heartbeat would renew their leases forever."""
        for active in taken:
            self._settle(active, Unstarted())

    def release(self, written: Iterable[ActiveAttempt]) -> list[str]:
        """Release attempts whose settlements are written.

        Return the lanes of jobs that do not allow overlap, because their next run may now be ready.
        """
        held = self._held
        lanes = []
        for active in written:
            if held.pop(active.held, None) is None:
                continue
            self._unwritten -= 1
            if active.definition.overlap is not _ALLOW:
                lanes.append(active.run.lane)
        return lanes

    def stop_runs(self, run_ids: Iterable[UUID], outcome: Outcome) -> None:
        """Stop the attempts of these runs, and settle them with this outcome."""
        wanted = set(run_ids)
        for active in self._held.values():
            if active.run.id in wanted:
                self._stop(active, outcome)

    def stop_lost(self, lost: Iterable[LeaseKey]) -> None:
        """Stop attempts whose leases this node has lost."""
        stopped = [self._held[held] for held in lost if held in self._held]
        under_way = [active.held for active in stopped if active.is_under_way]
        for active in stopped:
            self._stop(active, Interrupted())
        if under_way:
            facts = {"count": len(under_way), "runs": [str(held.run_id) for held in under_way[:_NAMED]]}
            log.warning("attempts_stopped_as_lost", extra=facts)

    def settle_dead(self) -> None:
        """Settle attempts whose task ended without an outcome; else they would be held forever.

        Such a task was cancelled from outside before its first step, or raised a BaseException such as SystemExit.
        """
        for active in list(self._held.values()):
            task = active.task
            if not active.is_settled and task is not None and task.done():
                error = None if task.cancelled() else task.exception()
                ended = Interrupted() if error is None else Failed(f"its task ended by {type(error).__name__}")
                self._settle(active, ended)

    def take_no_more(self) -> None:
        """Stop claiming runs and starting claimed ones, for shutdown."""
        self._accepts = False

    async def drain(self, limit: timedelta) -> None:
        """Hand back attempts that have not begun, wait for the others up to the limit, then interrupt them."""
        self.take_no_more()
        for active in self._under_way():
            if not active.begun:
                self._stop(active, Interrupted())
        await _wait_for(self._under_way(), limit.total_seconds())
        left = self._under_way()
        if not left:
            return
        log.warning("drain_limit_reached", extra={"interrupted": len(left)})
        for active in left:
            self._stop(active, Interrupted())
        await _wait_for(left, max([_STOP_SECONDS, *(active.pool.stop_seconds for active in left if active.pool)]))
        for active in self._under_way():
            self._settle(active, Interrupted())  # it cannot be stopped, because it runs in a thread

    async def begin(self, active: ActiveAttempt) -> bool:
        """Mark the attempt as begun; return False if this node may no longer start it, so that it must do nothing.

        An at-most-once run is first marked in the store.
        """
        if active.run.at_most_once and self._may_begin(active):
            try:
                if not await self._store.begin(active.held):
                    return False
            except Exception:  # nothing has been sent, so the run can be handed back
                return False
        active.begun = begun = self._may_begin(active)
        if begun:
            active.now = now = self._clock.now()
            self._events.started(active.run, active.definition, now)
        return begun

    @asynccontextmanager
    async def transaction(self, active: ActiveAttempt) -> AsyncIterator[Transaction]:
        """Open a transaction that also settles the attempt."""
        if self._transactions is None:
            raise RuntimeError("this node's database lends no transactions")
        async with self._transactions.transaction(active.held) as opened:
            yield _Transaction(opened, lambda outcome: self._settled(active, outcome))

    async def note(self, notes: Notes) -> None:
        """Store the notes of an attempt."""
        await self._store.write_notes([notes], self._clock.now())

    async def last_success(self, run: Run) -> datetime | None:
        """Return the scheduled time of the same job's newest successful run before this one."""
        return await self._store.last_success(run.job_id, run.scheduled_at)

    async def command_seal(self, run: Run) -> str | None:
        """Return the seal of the command of the run's job version; None if it has none."""
        return await self._store.command_seal(run.job_id, run.job_version)

    def _holds_earlier(self, run: Run) -> bool:
        return any(LeaseKey(run.id, number) in self._held for number in range(max(1, run.attempt - 3), run.attempt))

    def _warn_of_held(self, runs: Sequence[Run]) -> None:
        """Log claimed runs that this node already holds, with this attempt or an earlier one."""
        known = {held.run_id for held in self._held}
        counted = Counter(run.id for run in runs)
        again = [run for run in runs if run.id in known or counted[run.id] > 1]
        named = [{"run": str(run.id), "attempt": run.attempt} for run in again[:_NAMED]]
        log.warning("runs_claimed_while_held", extra={"count": len(again), "runs": named})

    def _under_way(self) -> list[ActiveAttempt]:
        return [active for active in self._held.values() if active.is_under_way]

    def _may_begin(self, active: ActiveAttempt) -> bool:
        return self._accepts and self._leases.is_trusted(active.trusted_until)

    def _stop(self, active: ActiveAttempt, outcome: Outcome) -> None:
        if active.task is not None and active.stop is None:
            active.stop = outcome
            active.task.cancel()
            if not active.started:
                self._settle(active, outcome)  # its task never runs

    async def _attempt(self, active: ActiveAttempt) -> None:
        active.started = True
        try:
            if active.definition is NO_DEFINITION:
                outcome: Outcome = _UNDEFINED
            else:
                outcome = await active.target.deliver(active)
        except asyncio.CancelledError:
            outcome = active.stop or self._cancelled_by_others()
        except Exception as error:  # else the run would be held forever
            # Log the traceback but not the message, which may contain the payload.
            trace = "".join(traceback.format_tb(error.__traceback__)[-8:])
            facts = {"run": str(active.run.id), "lane": active.run.lane}
            log.error("target_crashed", extra=facts | {"error": type(error).__name__, "trace": trace})
            outcome = Failed(f"the target crashed: {type(error).__name__}")
        self._settle(active, outcome)

    def _settle(self, active: ActiveAttempt, outcome: Outcome) -> None:
        """Pass an outcome to the settler, once, and free the slot."""
        if active.is_settled:
            return
        settled = self._settled(active, outcome)
        if isinstance(outcome, Failed) and not active.begun:
            self._events.failed_to_begin(active.run, active.now)
        self._settler.add(settled, active.definition, active)
        active.is_settled = True
        self._unwritten += 1
        self._leave_lane(active.run.lane)
        if active.on_probation:
            self._probation.calls -= 1
        if active.begun and isinstance(outcome, (Succeeded, Failed)):
            self._probation.ended(active.run.lane, active.taken_at)
        if active.pool is not None:
            self._in_pool[active.pool] -= 1

    def _settled(self, active: ActiveAttempt, outcome: Outcome) -> SettledAttempt:
        """Return the settlement of an outcome, with the attempt to record.

        An attempt that was interrupted or handed back before it began is not recorded, and settles as `Unstarted`.
        """
        now = self._clock.now()
        has_attempt = active.begun or not isinstance(outcome, (Unstarted, Interrupted))
        if not has_attempt:
            outcome = Unstarted()
        settlement = settle(active.run, outcome, now, active.definition.retry, self._random())
        if not has_attempt:
            return SettledAttempt(settlement)
        return SettledAttempt(settlement, self._node, active.now if active.started else now)

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
    settled: Callable[[Outcome], SettledAttempt]

    @property
    def connection(self) -> Any:
        return self.opened.connection

    async def settle(self, outcome: Outcome) -> bool:
        return await self.opened.settle(self.settled(outcome))


async def _wait_for(attempts: Sequence[ActiveAttempt], seconds: float) -> None:
    tasks = [active.task for active in attempts if active.task is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
