"""Attempts of a node from claim to settlement: slots, and the outcomes written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.policies import Overlap
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Cancelled, Failed, Interrupted, Outcome, Succeeded, Unstarted
from hourbell.core.run.states import Reason, RunState
from hourbell.engine.attempts import ActiveAttempt
from hourbell.store.base import LeaseKey, SettledAttempt
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.base import Call, Target
from hourbell.targets.pool import Pool
from tests.core.values import SECOND, T0, a_definition
from tests.engine.scripted import NODE, Claiming, ScriptedStore, ScriptedTarget, a_run, turns
from tests.engine.virtual import VirtualTime, run_virtually

pytestmark = pytest.mark.anyio
TRUSTED = 155.0  # elapsed seconds; it is 100.0
A_MOMENT = 0.5


class Holding(Claiming):
    """Attempts without a runner: what is claimed is given to them."""

    def take(self, *runs: Run, until: float = TRUSTED, targets: dict[str, Target] | None = None) -> list[ActiveAttempt]:
        """Hold runs whose definition is known."""
        targets = targets or {run.lane: self.target for run in runs}
        taken = self.attempts.take(runs, targets, self.clock.now(), until)
        for active in taken:
            active.definition = self.store.definition
        return taken

    async def start(self, *runs: Run, **more: Any) -> list[ActiveAttempt]:
        """Hold runs and let their attempts begin."""
        taken = self.take(*runs, **more)
        self.attempts.start(taken)
        await turns()
        return taken

    async def end(self, *numbers: int, by: Outcome | BaseException | None = None) -> None:
        await self.target.answer(*numbers, by=by)

    async def settled(self) -> list[SettledAttempt]:
        """Return what is written."""
        await self.write()
        return self.store.written

    async def outcomes(self) -> list[Outcome]:
        return [each.settlement.outcome for each in await self.settled()]

    def observed(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"hourbell_{name}_seconds_count")


def reported(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [record.__dict__ for record in caplog.records if record.message == event]


async def test_a_slot_is_free_when_an_attempt_has_ended_and_the_run_is_held_until_that_is_written() -> None:
    holding = Holding()
    await holding.start(a_run(1), a_run(2), a_run(3))
    assert (holding.attempts.free(10), holding.attempts.is_idle) == (7, False)

    await holding.end(1, 2)
    assert (holding.attempts.free(10), len(holding.attempts.held())) == (9, 3)

    await holding.settled()
    assert (holding.attempts.free(10), holding.attempts.held()) == (9, [LeaseKey(UUID(int=3), 1)])
    await holding.end(3)
    await holding.settled()
    assert (holding.attempts.free(10), holding.attempts.is_idle) == (10, True)


async def test_while_nothing_is_written_no_more_is_held_than_twice_the_slots() -> None:
    holding = Holding()
    await holding.start(*map(a_run, range(1, 16)))
    await holding.end(*range(1, 16))

    assert holding.attempts.free(10) == 5


async def test_attempts_take_their_lane_and_their_pool_until_they_have_ended() -> None:
    pool = Pool("threads", 5)
    holding = Holding(None, ScriptedTarget(("a",), pool=pool), ScriptedTarget(("b",)))
    targets: dict[str, Target] = dict(zip("ab", holding.targets, strict=True))
    await holding.start(a_run(1, "a"), a_run(2, "a"), a_run(3, "b"), targets=targets)
    assert [holding.attempts.in_lane(lane) for lane in "abc"] == [2, 1, 0]
    assert holding.attempts.free_in(pool) == 3

    await holding.end(1)
    assert [holding.attempts.in_lane(lane) for lane in "abc"] == [1, 1, 0]
    assert holding.attempts.free_in(pool) == 4
    await holding.targets[1].answer(3)
    assert ([holding.attempts.in_lane(lane) for lane in "ab"], holding.attempts.free_in(pool)) == ([1, 0], 4)


async def test_a_slot_of_a_pool_is_held_while_anything_runs_in_it() -> None:
    pool = Pool("threads", 5)
    holding = Holding(None, ScriptedTarget(pool=pool))
    await holding.start(a_run(1))
    for _ in range(4):
        pool.enter()

    assert holding.attempts.free_in(pool) == 1


@pytest.mark.parametrize(("crashes", "is_suspect"), [(1, False), (2, True), (3, True)])
async def test_a_run_is_suspect_after_so_many_deaths(crashes: int, is_suspect: bool) -> None:
    holding = Holding()
    holding.take(a_run(1), a_run(2, crashes=crashes))

    assert holding.attempts.holds_suspect(2) is is_suspect


async def test_an_attempt_whose_lease_cannot_be_trusted_does_not_begin() -> None:
    holding = Holding()
    late = holding.take(a_run(1))
    holding.elapsed.seconds = TRUSTED
    holding.attempts.start(late)
    await turns()

    assert (holding.target.calls, await holding.outcomes()) == ({}, [Unstarted()])


async def test_a_lease_that_was_renewed_is_trusted_for_longer_and_never_for_less() -> None:
    holding = Holding()
    renewed, other = holding.take(a_run(1), a_run(2))
    holding.attempts.trust([renewed.held, LeaseKey(UUID(int=9), 1)], TRUSTED + 50)
    holding.attempts.trust([renewed.held], TRUSTED + 10)
    holding.elapsed.seconds = TRUSTED + 30
    holding.attempts.start([renewed, other])
    await turns()

    assert set(holding.target.calls) == {1}


async def test_after_the_node_began_to_stop_nothing_begins() -> None:
    holding = Holding()
    taken = holding.take(a_run(1))
    holding.attempts.take_no_more()
    holding.attempts.start(taken)
    await turns()

    assert (holding.attempts.accepts, holding.target.calls) == (False, {})
    assert [(each.node, each.settlement.state) for each in await holding.settled()] == [(None, RunState.PENDING)]


async def test_a_claim_of_new_runs_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding()
    taken = [*holding.take(a_run(1)), *holding.take(a_run(2), a_run(3, attempt=2))]

    assert [active.held for active in taken] == holding.attempts.held()
    assert (len(taken), reported(caplog, "runs_claimed_while_held")) == (3, [])


async def test_an_attempt_that_is_held_is_not_taken_again(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding()
    [first] = holding.take(a_run(1))
    taken = holding.take(a_run(1), a_run(2))

    assert [active.run.id.int for active in taken] == [2]
    assert (holding.attempts.free(10), holding.attempts.in_lane("a")) == (8, 2)
    assert holding.attempts._held[first.held] is first
    [facts] = reported(caplog, "runs_claimed_while_held")
    assert (facts["count"], facts["runs"]) == (1, [{"run": str(UUID(int=1)), "attempt": 1}])


async def test_a_run_that_one_claim_gives_twice_is_taken_once(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding()
    taken = holding.take(a_run(1), a_run(1), a_run(2))

    assert [active.run.id.int for active in taken] == [1, 2]
    assert [facts["count"] for facts in reported(caplog, "runs_claimed_while_held")] == [2]


@pytest.mark.parametrize(
    ("held", "claimed", "is_reported"), [(1, 2, True), (1, 3, True), (2, 5, True), (1, 5, False), (2, 1, False)]
)
async def test_a_later_attempt_of_a_held_run_is_taken_and_logged(
    caplog: pytest.LogCaptureFixture, held: int, claimed: int, is_reported: bool
) -> None:
    holding = Holding()
    holding.take(a_run(1, attempt=held))
    taken = holding.take(a_run(1, attempt=claimed))

    assert [active.run.attempt for active in taken] == [claimed]
    assert len(reported(caplog, "runs_claimed_while_held")) == is_reported


async def test_a_log_line_names_twenty_runs_at_most(caplog: pytest.LogCaptureFixture) -> None:
    holding, runs = Holding(), [a_run(number) for number in range(1, 26)]
    await holding.start(*runs)
    holding.take(*runs)
    holding.attempts.stop_lost(holding.attempts.held())

    for event in ("runs_claimed_while_held", "attempts_stopped_as_lost"):
        [facts] = reported(caplog, event)
        assert (facts["count"], len(facts["runs"])) == (25, 20)


async def test_calls_are_on_probation_while_their_lane_was_not_proven_when_they_were_claimed() -> None:
    holding = Holding()
    await holding.start(a_run(1, "a"), a_run(2, "a"))
    assert holding.probation.calls == 2
    await holding.end(1)
    assert (holding.probation.calls, holding.probation.is_proven("a")) == (1, True)

    proven, _ = await holding.start(a_run(3, "a"), a_run(4, "b"))
    assert holding.probation.calls == 2
    await holding.end(3)
    assert (holding.probation.calls, proven.on_probation) == (2, False)
    await holding.end(2, 4)
    assert holding.probation.calls == 0


@pytest.mark.parametrize(
    ("outcome", "after", "is_proven"),
    [
        (Succeeded(), A_MOMENT, True),
        (Failed("500"), A_MOMENT, True),
        (Succeeded(), 10.0, False),
        (Interrupted(), A_MOMENT, False),
    ],
)
async def test_a_lane_is_proven_by_a_call_that_answers_soon(outcome: Outcome, after: float, is_proven: bool) -> None:
    holding = Holding()
    await holding.start(a_run(1))
    holding.elapsed.seconds += after
    await holding.end(1, by=outcome)

    assert holding.probation.is_proven("a") is is_proven


async def test_a_call_that_never_began_proves_nothing() -> None:
    holding = Holding()
    [active] = holding.take(a_run(1))
    active.definition = Definition("", "", {})
    holding.attempts.hand_back([active])

    assert (holding.probation.calls, holding.probation.is_proven("a")) == (0, False)


async def test_a_lane_with_a_call_that_is_out_for_long_is_not_proven() -> None:
    holding = Holding()
    await holding.start(a_run(1, "a"), a_run(2, "a"), a_run(3, "b"))
    await holding.end(1, 3)
    holding.elapsed.seconds += 10
    assert [holding.probation.is_proven(lane) for lane in "ab"] == [True, True]

    holding.attempts.find_slow_lanes()
    assert [holding.probation.is_proven(lane) for lane in "ab"] == [False, True]


@pytest.mark.parametrize(("overlap", "lanes"), [(Overlap.ALLOW, []), (Overlap.SKIP, ["a", "b"])])
async def test_the_runner_gets_a_hint_for_lanes_whose_jobs_have_a_next_run(overlap: Overlap, lanes: list[str]) -> None:
    holding = Holding(ScriptedStore(definition=a_definition(overlap=overlap)))
    await holding.start(a_run(1, "a"), a_run(2, "b"))
    await holding.end(1, 2)
    await holding.settled()

    assert holding.released == lanes


async def test_a_run_is_released_once() -> None:
    holding = Holding(ScriptedStore(definition=a_definition(overlap=Overlap.SKIP)))
    taken = await holding.start(a_run(1))
    await holding.end(1)
    await holding.settled()

    assert holding.attempts.release(taken) == []
    assert holding.attempts.free(10) == 10


async def test_a_run_that_is_cancelled_is_stopped_and_no_other() -> None:
    holding = Holding()
    first, second = await holding.start(a_run(1), a_run(2))
    holding.attempts.stop_runs([first.run.id], Cancelled())
    await turns()

    assert (first.is_stopped(), second.is_stopped()) == (True, False)
    assert [(each.settlement.outcome, each.node) for each in await holding.settled()] == [(Cancelled(), NODE)]
    assert second.is_under_way
    assert not first.is_under_way


async def test_the_first_reason_to_stop_an_attempt_counts() -> None:
    holding = Holding()
    [active] = await holding.start(a_run(1))
    holding.attempts.stop_runs([active.run.id], Cancelled())
    holding.attempts.stop_lost([active.held])
    await turns()

    assert await holding.outcomes() == [Cancelled()]


async def test_an_attempt_that_is_stopped_before_its_first_step_is_settled_at_once() -> None:
    holding = Holding()
    taken = holding.take(a_run(1))
    holding.attempts.start(taken)
    holding.elapsed.seconds += A_MOMENT
    holding.attempts.stop_runs([UUID(int=1)], Cancelled())
    await turns()

    [settled] = await holding.settled()
    assert (settled.settlement.outcome, settled.started_at) == (Cancelled(), T0 + A_MOMENT * SECOND)
    assert holding.target.calls == {}


async def test_an_attempt_that_did_not_start_cannot_be_stopped() -> None:
    holding = Holding()
    [active] = holding.take(a_run(1))
    holding.attempts.stop_runs([active.run.id], Cancelled())

    assert (active.is_stopped(), active.is_under_way, await holding.settled()) == (False, False, [])


async def test_attempts_of_runs_that_were_lost_are_interrupted(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding()
    lost, kept = await holding.start(a_run(1), a_run(2))
    holding.attempts.stop_lost([lost.held, LeaseKey(UUID(int=9), 1)])
    await turns()

    assert (await holding.outcomes(), kept.is_under_way) == ([Interrupted()], True)
    assert [facts["runs"] for facts in reported(caplog, "attempts_stopped_as_lost")] == [[str(UUID(int=1))]]


async def test_a_run_lost_after_its_attempt_ended_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding()
    [active] = await holding.start(a_run(1))
    await holding.end(1)
    holding.attempts.stop_lost([active.held])
    await turns()

    assert await holding.outcomes() == [Succeeded()]
    assert reported(caplog, "attempts_stopped_as_lost") == []


async def test_a_task_cancelled_before_its_first_step_is_handed_back() -> None:
    holding = Holding()
    taken = holding.take(a_run(1), a_run(2))
    holding.attempts.start(taken)
    assert taken[0].task is not None
    taken[0].task.cancel()
    await turns()
    assert holding.settler.is_idle
    holding.attempts.settle_dead()

    assert [(each.settlement.outcome, each.node) for each in await holding.settled()] == [(Unstarted(), None)]
    assert taken[1].is_under_way


async def test_a_task_that_ended_by_an_exception_no_target_may_catch_has_failed() -> None:
    holding = Holding()
    [active] = await holding.start(a_run(1))
    await holding.end(1, by=GeneratorExit())
    assert holding.settler.is_idle
    holding.attempts.settle_dead()
    holding.attempts.settle_dead()

    assert active.task is not None
    assert isinstance(active.task.exception(), GeneratorExit)
    assert await holding.outcomes() == [Failed("its task ended by GeneratorExit")]


async def test_attempts_that_are_settled_or_not_started_are_not_settled_as_dead() -> None:
    holding = Holding()
    await holding.start(a_run(1))
    holding.take(a_run(2))
    await holding.end(1)
    holding.attempts.settle_dead()

    assert await holding.outcomes() == [Succeeded()]
    assert holding.attempts.held() == [LeaseKey(UUID(int=2), 1)]


async def test_an_attempt_begins_when_its_target_says_so_and_is_written_with_that_moment() -> None:
    holding = Holding()
    taken = holding.take(a_run(1))
    holding.elapsed.seconds += 3.0
    holding.attempts.start(taken)
    await turns()
    assert (holding.target.calls[1].now, holding.target.calls[1].secrets) == (T0 + 3 * SECOND, ())
    holding.elapsed.seconds += 4.0
    await holding.end(1)

    [settled] = await holding.settled()
    assert (settled.node, settled.started_at, settled.settlement.at) == (NODE, T0 + 3 * SECOND, T0 + 7 * SECOND)
    assert (holding.observed("dispatch"), holding.observed("lateness")) == (1, 1)
    assert holding.store.begun == []


AT_MOST_ONCE = a_run(1, at_most_once=True)


async def test_an_at_most_once_attempt_is_marked_before_it_begins() -> None:
    holding = Holding()
    await holding.start(AT_MOST_ONCE)

    assert (holding.store.begun, set(holding.target.calls)) == ([LeaseKey(UUID(int=1), 1)], {1})


@pytest.mark.parametrize("happens", ["refused", "trouble", "lease over", "node stops"])
async def test_an_at_most_once_attempt_that_could_not_be_marked_in_time_is_handed_back(happens: str) -> None:
    holding = Holding()

    def end_of_lease() -> None:
        holding.elapsed.seconds = TRUSTED

    match happens:
        case "refused":
            holding.store.may_begin = False
        case "trouble":
            holding.store.trouble["begin"] = StoreUnavailable("unreachable")
        case "lease over":
            holding.store.during["begin"] = end_of_lease
        case _:
            holding.store.during["begin"] = holding.attempts.take_no_more
    await holding.start(AT_MOST_ONCE)

    assert (holding.target.calls, holding.store.begun) == ({}, [LeaseKey(UUID(int=1), 1)])
    assert [(each.settlement.outcome, each.node) for each in await holding.settled()] == [(Unstarted(), None)]
    assert holding.observed("dispatch") == 0


async def test_an_at_most_once_attempt_without_a_valid_lease_is_not_marked() -> None:
    holding = Holding()
    await holding.start(AT_MOST_ONCE, until=100.0)

    assert (holding.store.begun, holding.target.calls) == ([], {})


async def test_an_attempt_without_a_definition_fails_for_good_without_a_call() -> None:
    holding = Holding()
    taken = holding.attempts.take([a_run(1)], {"a": holding.target}, T0, TRUSTED)
    holding.attempts.start(taken)
    await turns()

    [settled] = await holding.settled()
    assert (settled.settlement.state, settled.settlement.reason) == (RunState.FAILED, Reason.PERMANENT)
    assert (settled.node, holding.target.calls) == (NODE, {})
    assert (holding.observed("dispatch"), holding.observed("lateness")) == (0, 1)  # of an attempt that did not begin
    assert not holding.probation.is_proven("a")


class Broken(ScriptedTarget):
    async def deliver(self, call: Call) -> Outcome:
        await call.begin()
        raise RuntimeError("the payload")


async def test_a_crash_of_a_target_fails_its_attempt_without_the_message(caplog: pytest.LogCaptureFixture) -> None:
    holding = Holding(None, Broken())
    await holding.start(a_run(1))

    assert await holding.outcomes() == [Failed("the target crashed: RuntimeError")]
    assert "the payload" not in caplog.text
    assert (holding.observed("dispatch"), holding.observed("lateness")) == (1, 1)


@pytest.mark.parametrize("is_stopping", [False, True])
async def test_an_attempt_that_others_cancelled_has_failed_unless_the_program_ends(is_stopping: bool) -> None:
    holding = Holding()
    [active] = await holding.start(a_run(1))
    if is_stopping:
        holding.attempts.take_no_more()
    assert active.task is not None
    active.task.cancel()
    await turns()

    assert await holding.outcomes() == [Interrupted() if is_stopping else Failed("its own task was cancelled")]


async def test_an_attempt_that_waited_for_something_cancelled_has_failed() -> None:
    holding = Holding()
    await holding.start(a_run(1))
    await holding.end(1, by=asyncio.CancelledError())

    assert await holding.outcomes() == [Failed("something it waited for was cancelled")]


class Stubborn(ScriptedTarget):
    """Continues although it is cancelled."""

    async def deliver(self, call: Call) -> Outcome:
        await call.begin()
        while True:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                continue


def test_a_drain_waits_for_the_limit_and_a_second_for_what_it_interrupts() -> None:
    async def main(time: VirtualTime) -> tuple[float, list[Outcome]]:
        holding = Holding(None, Stubborn())
        [active] = await holding.start(a_run(1))
        await holding.attempts.drain(30 * SECOND)
        seconds, outcomes = time.elapsed(), await holding.outcomes()
        assert active.task is not None
        active.task.get_coro().close()  # type: ignore[union-attr]
        return seconds, outcomes

    seconds, outcomes = run_virtually(main)
    assert (seconds, outcomes) == (pytest.approx(31.0, abs=0.01), [Interrupted()])


def test_a_drain_interrupts_attempts_at_the_limit_before_they_are_handed_back() -> None:
    async def main(time: VirtualTime) -> tuple[float, bool, list[Outcome]]:
        holding = Holding()
        [active] = await holding.start(a_run(1))
        await holding.attempts.drain(30 * SECOND)
        return time.elapsed(), active.is_under_way, await holding.outcomes()

    assert run_virtually(main) == (pytest.approx(30.0, abs=0.01), False, [Interrupted()])


def test_a_drain_ends_with_the_last_attempt_and_hands_back_what_has_not_begun() -> None:
    async def main(time: VirtualTime) -> tuple[float, list[Outcome], bool]:
        holding = Holding()
        [begun] = await holding.start(a_run(1))
        waits = holding.take(a_run(2))
        holding.attempts.start(waits)
        asyncio.get_running_loop().call_later(5.0, lambda: asyncio.ensure_future(holding.end(1)))
        await holding.attempts.drain(30 * SECOND)
        return time.elapsed(), await holding.outcomes(), begun.is_stopped()

    seconds, outcomes, was_stopped = run_virtually(main)
    assert (seconds, was_stopped) == (pytest.approx(5.0, abs=0.01), False)
    assert outcomes == [Unstarted(), Succeeded()]


async def test_a_drain_with_nothing_under_way_ends_at_once_and_nothing_is_accepted() -> None:
    holding = Holding()
    await holding.attempts.drain(30 * SECOND)

    assert not holding.attempts.accepts


async def test_the_notes_of_an_attempt_are_stored_and_it_reads_the_last_success_of_its_job() -> None:
    holding = Holding()
    [active] = await holding.start(a_run(1))
    holding.store.successes[active.run.job_id, T0] = T0 - SECOND
    holding.elapsed.seconds += 1.0
    await active.note("notes")  # type: ignore[arg-type]

    assert holding.store.noted == [("notes", T0 + SECOND)]
    assert await active.last_success() == T0 - SECOND


@dataclass
class Lending:
    """A database that lends its transactions."""

    connection: str = "a connection"
    may_settle: bool = True
    held: list[LeaseKey] = field(default_factory=list)
    settled: list[SettledAttempt] = field(default_factory=list)

    @asynccontextmanager
    async def transaction(self, held: LeaseKey) -> AsyncIterator["Lending"]:
        self.held.append(held)
        yield self

    async def settle(self, settled: SettledAttempt) -> bool:
        self.settled.append(settled)
        return self.may_settle


@pytest.mark.parametrize("may_settle", [True, False])
async def test_an_attempt_may_settle_itself_in_a_transaction(may_settle: bool) -> None:
    lending = Lending(may_settle=may_settle)
    holding = Holding(transactions=lending)
    [active] = await holding.start(a_run(1))
    async with active.transaction() as transaction:
        assert transaction.connection == "a connection"
        assert await transaction.settle(Succeeded(7)) is may_settle

    assert lending.held == [active.held]
    assert [(each.node, each.settlement.outcome) for each in lending.settled] == [(NODE, Succeeded(7))]


async def test_a_database_without_transactions_lends_none() -> None:
    holding = Holding()
    [active] = await holding.start(a_run(1))

    with pytest.raises(RuntimeError, match="lends no transactions"):
        async with active.transaction():
            raise AssertionError
