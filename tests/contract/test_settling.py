"""settle, begin and definitions: an outcome is written once, and only by the holder of the run."""

from datetime import timedelta
from uuid import UUID

import pytest

from hourbell.core.run.policies import Delivery
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Answer, Cancelled, Failed, Interrupted, Outcome, Succeeded, Unstarted, settle
from hourbell.store.base import EngineStore, LeaseKey, Saved, SettledAttempt
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import (
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    T0,
    a_job,
    a_waiting_job,
    add_job,
    claim,
    finish,
    lose,
    settled,
)
from tests.database import Database

pytestmark = pytest.mark.anyio


async def claimed(store: EngineStore, control: ControlStore, count: int = 1) -> list[Run]:
    await a_waiting_job(store, control, count=count)
    return await claim(store, free=count)


async def superseded(store: EngineStore, control: ControlStore) -> tuple[Run, Run]:
    """Return a run as its first holder knew it, and as its second holder does."""
    [first] = await claimed(store, control)
    await lose(store, T0 + 2 * HOUR)
    [second] = await claim(store, node=OTHER_NODE, now=T0 + 2 * HOUR)
    return first, second


async def test_a_success_ends_the_run(store: EngineStore, control: ControlStore, database: Database) -> None:
    [run] = await claimed(store, control)

    assert await store.settle([settled(run, Succeeded({"rows": 3}), T0 + HOUR)]) == [Saved.SAVED]

    [row] = await database.rows("runs")
    assert (row["state"], row["finished_at"], row["result"]) == ("succeeded", T0 + HOUR, {"rows": 3})
    assert (row["lease_owner"], row["lease_until"]) == (None, None)


async def test_a_failure_waits_and_is_claimed_again_when_ready(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run], Failed("HTTP 500"), T0 + HOUR)

    [row] = await database.rows("runs")
    assert (row["state"], row["failures"], row["finished_at"]) == ("retrying", 1, None)
    assert await claim(store, now=row["ready_at"] - timedelta(microseconds=1)) == []
    [again] = await claim(store, now=row["ready_at"])
    assert (again.attempt, again.failures, again.started_at) == (2, 1, T0 + HOUR)


@pytest.mark.parametrize("outcome", [Succeeded(), Succeeded(3), Failed("HTTP 500"), Cancelled(), Interrupted()])
async def test_a_run_started_when_its_first_attempt_did(
    store: EngineStore, control: ControlStore, database: Database, outcome: Outcome
) -> None:
    """The claim was a minute earlier."""
    [run] = await claimed(store, control)
    begun_at = T0 + HOUR + MINUTE
    settlement = settle(run, outcome, begun_at + MINUTE, a_job().retry)
    await store.settle([SettledAttempt(settlement, NODE, begun_at)])

    [row] = await database.rows("runs")
    assert row["started_at"] == begun_at


@pytest.mark.parametrize("outcome", [Succeeded(), Failed("HTTP 500", retryable=False)])
async def test_a_later_attempt_does_not_move_the_start_of_its_run(
    store: EngineStore, control: ControlStore, database: Database, outcome: Outcome
) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run], Failed("HTTP 500"), T0 + HOUR)
    [again] = await claim(store, now=T0 + 2 * HOUR)
    await finish(store, [again], outcome, T0 + 2 * HOUR)

    [row] = await database.rows("runs")
    assert (row["attempt"], row["started_at"]) == (2, T0 + HOUR)


@pytest.mark.parametrize("outcome", [Succeeded(), Failed("HTTP 500", retryable=False)])
async def test_a_run_that_was_handed_back_starts_with_the_attempt_that_is_made(
    store: EngineStore, control: ControlStore, database: Database, outcome: Outcome
) -> None:
    [run] = await claimed(store, control)
    await store.settle([SettledAttempt(settle(run, Unstarted(), T0 + HOUR, a_job().retry))])
    [again] = await claim(store, now=T0 + 2 * HOUR)
    assert (again.attempt, again.started_at) == (2, None)

    begun_at = T0 + 2 * HOUR + MINUTE
    await store.settle([SettledAttempt(settle(again, outcome, begun_at + MINUTE, a_job().retry), NODE, begun_at)])
    [row] = await database.rows("runs")
    assert row["started_at"] == begun_at


async def test_a_permanent_failure_keeps_its_reason(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run], Failed("HTTP 404", retryable=False))

    [row] = await database.rows("runs")
    assert (row["state"], row["reason"], row["failures"]) == ("failed", "permanent", 1)


async def test_the_attempt_is_written_down_with_it(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    [run] = await claimed(store, control)
    failed = Failed("HTTP 503", answer=Answer(503, "busy", {"connect": 0.5}))

    await store.settle([SettledAttempt(settle(run, failed, T0 + MINUTE, a_job().retry), NODE, T0)])

    [row] = await database.rows("attempts")
    assert (row["run_id"], row["number"], row["node"], row["outcome"]) == (run.id, 1, NODE, "failed")
    assert (row["started_at"], row["finished_at"]) == (T0, T0 + MINUTE)
    assert (row["error"], row["status_code"], row["excerpt"]) == ("HTTP 503", 503, "busy")
    assert (row["phases"], row["late_outcome"]) == ({"connect": 0.5}, None)


async def test_a_run_handed_back_unstarted_is_as_before_but_for_its_attempt(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    [run] = await claimed(store, control)
    handed_back = SettledAttempt(settle(run, Unstarted(), T0 + HOUR, a_job().retry))

    assert await store.settle([handed_back]) == [Saved.SAVED]
    assert await store.settle([handed_back]) == [Saved.REPEATED]

    [row] = await database.rows("runs")
    assert (row["state"], row["attempt"], row["started_at"], row["failures"]) == ("pending", 1, None, 0)
    assert await database.rows("attempts") == []


async def test_an_interrupted_run_is_ready_at_once(store: EngineStore, control: ControlStore) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run], Interrupted(), T0 + HOUR)

    [again] = await claim(store, now=T0 + HOUR)
    assert (again.attempt, again.failures, again.crashes) == (2, 0, 0)


async def test_outcomes_that_arrive_together_are_written_together(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    runs = await claimed(store, control, count=300)
    outcomes: list[Outcome] = [Succeeded(), Failed("no"), Failed("never", retryable=False), Cancelled()]

    answers = await store.settle([settled(run, outcomes[index % 4]) for index, run in enumerate(runs)])

    assert answers == [Saved.SAVED] * 300
    states = [row["state"] for row in await database.rows("runs")]
    assert {state: states.count(state) for state in set(states)} == dict.fromkeys(
        ("succeeded", "retrying", "failed", "cancelled"), 75
    )
    assert len(await database.rows("attempts")) == 300


async def test_an_attempt_written_by_another_node_holds_up_nobody(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    first, second = await claimed(store, control, count=2)
    await finish(store, [first], Succeeded())
    await database.sql(
        """insert into hourbell.attempts (run_id, number, finished_at, outcome)
        select id, attempt, finished_at, 'failed' from (
            select r.id, r.attempt, o.finished_at from hourbell.runs r, hourbell.runs o
            where r.state = 'running' and o.state = 'succeeded') as copied"""
    )

    assert await store.settle([settled(second, Succeeded())]) == [Saved.SAVED]
    assert {run["state"] for run in await database.rows("runs")} == {"succeeded"}
    assert {each["outcome"] for each in await database.rows("attempts")} == {"succeeded", "failed"}


async def test_settling_nothing_is_fine(store: EngineStore) -> None:
    assert await store.settle([]) == []


@pytest.mark.parametrize("outcome", [Succeeded({"n": 1}), Failed("no"), Failed("never", retryable=False), Cancelled()])
async def test_repeating_a_settlement_changes_nothing(
    store: EngineStore, control: ControlStore, database: Database, outcome: Succeeded | Failed | Cancelled
) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run], outcome)
    tables = ("runs", "attempts", "job_stats")
    before = [await database.rows(table) for table in tables]

    assert await store.settle([settled(run, outcome)]) == [Saved.REPEATED]
    assert [await database.rows(table) for table in tables] == before


async def test_a_repeated_settlement_is_known_after_the_run_moved_on(store: EngineStore, control: ControlStore) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run], Failed("no"), T0 + HOUR)
    await claim(store, now=T0 + 2 * HOUR)

    assert await store.settle([settled(run, Failed("no"), T0 + HOUR)]) == [Saved.REPEATED]


async def test_a_node_that_lost_its_lease_cannot_settle(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    first, second = await superseded(store, control)
    before = await database.rows("runs")

    assert await store.settle([settled(first)]) == [Saved.SUPERSEDED]
    assert await database.rows("runs") == before
    assert await store.settle([settled(second, node=OTHER_NODE)]) == [Saved.SAVED]


async def test_a_late_outcome_is_stored_with_its_attempt(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    first, second = await superseded(store, control)
    await finish(store, [second], Failed("never", retryable=False))

    await store.settle([settled(first, Succeeded())])

    attempts = await database.rows("attempts", "number")
    assert [(row["outcome"], row["late_outcome"]) for row in attempts] == [("lost", "succeeded"), ("failed", None)]
    [stats] = await database.rows("job_stats")
    assert (stats["succeeded"], stats["failed"]) == (0, 1)


async def test_a_late_outcome_is_stored_with_no_other_attempt(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    _, second = await superseded(store, control)
    await lose(store, T0 + 4 * HOUR)

    await store.settle([settled(second, Succeeded(), node=OTHER_NODE)])

    attempts = await database.rows("attempts", "number")
    assert [(row["outcome"], row["late_outcome"]) for row in attempts] == [("lost", None), ("lost", "succeeded")]


def handed_back(run: Run) -> SettledAttempt:
    return SettledAttempt(settle(run, Unstarted(), T0 + HOUR, a_job().retry))


async def test_handing_a_run_back_twice_is_known_while_nobody_has_claimed_it(
    store: EngineStore, control: ControlStore
) -> None:
    [run] = await claimed(store, control)

    assert [await store.settle([handed_back(run)]) for _ in range(2)] == [[Saved.SAVED], [Saved.REPEATED]]
    [again] = await claim(store, node=OTHER_NODE)
    assert await store.settle([handed_back(run)]) == [Saved.SUPERSEDED]
    await finish(store, [again])
    assert await store.settle([handed_back(run)]) == [Saved.SUPERSEDED]


async def test_handing_back_a_run_that_was_lost_is_too_late(store: EngineStore, control: ControlStore) -> None:
    [run] = await claimed(store, control)
    await lose(store, T0 + 2 * HOUR)

    assert await store.settle([handed_back(run)]) == [Saved.SUPERSEDED]


@pytest.mark.parametrize("node", [NODE, OTHER_NODE], ids=["same-node", "other-node"])
@pytest.mark.parametrize(("outcome", "kept"), [(Succeeded(), "succeeded"), (Failed("no"), "failed")])
@pytest.mark.parametrize(("late", "kept_late"), [(Succeeded(), "succeeded"), (Failed("late"), "failed")])
async def test_both_attempts_of_a_run_may_arrive_together(
    store: EngineStore,
    control: ControlStore,
    database: Database,
    late: Outcome,
    kept_late: str,
    outcome: Outcome,
    kept: str,
    node: UUID,
) -> None:
    first, second = await superseded(store, control)

    answers = await store.settle([settled(first, late), settled(second, outcome, node=node)])

    assert answers == [Saved.SUPERSEDED, Saved.SAVED]
    attempts = await database.rows("attempts", "number")
    assert [(row["outcome"], row["late_outcome"]) for row in attempts] == [("lost", kept_late), (kept, None)]


async def test_a_deleted_run_is_superseded(store: EngineStore, control: ControlStore) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run])
    await store.prune(T0 + 2 * HOUR, timedelta(0), keep=0, limit=10)

    assert await store.settle([settled(run)]) == [Saved.SUPERSEDED]


@pytest.mark.parametrize("outcome", [Succeeded(), Failed("no")], ids=["succeeded", "failed"])
async def test_nothing_is_written_for_a_deleted_run_in_a_batch_with_others(
    store: EngineStore, control: ControlStore, database: Database, outcome: Outcome
) -> None:
    gone, kept = await claimed(store, control, count=2)
    await finish(store, [gone])
    await store.prune(T0 + 2 * HOUR, timedelta(0), keep=0, limit=10)

    assert await store.settle([settled(gone, outcome), settled(kept, outcome)]) == [Saved.SUPERSEDED, Saved.SAVED]
    assert [attempt["run_id"] for attempt in await database.rows("attempts")] == [kept.id]


async def test_the_statistics_of_the_job_follow(store: EngineStore, control: ControlStore, database: Database) -> None:
    runs = await claimed(store, control, count=4)
    await finish(store, runs[:2], Succeeded(), T0 + HOUR)
    await finish(store, runs[2:3], Failed("HTTP 404", retryable=False), T0 + HOUR + MINUTE)
    await finish(store, runs[3:], Failed("HTTP 500"), T0 + HOUR + 2 * MINUTE)

    [stats] = await database.rows("job_stats")
    assert (stats["succeeded"], stats["failed"], stats["cancelled"]) == (2, 1, 0)
    assert (stats["last_run_id"], stats["last_state"]) == (runs[3].id, "failed")  # the state of the last that ended
    assert (stats["last_run_at"], stats["last_success_at"]) == (T0 + HOUR + 2 * MINUTE, T0 + HOUR)
    assert stats["last_error"] == "HTTP 500"


async def test_the_error_of_a_run_that_is_retried_is_the_last_of_its_job(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    runs = await claimed(store, control, count=2)
    await store.settle([settled(runs[0], Failed("HTTP 500")), settled(runs[1], Succeeded())])

    [stats] = await database.rows("job_stats")
    assert (stats["last_error"], stats["last_state"]) == ("HTTP 500", "succeeded")
    assert (stats["succeeded"], stats["failed"], stats["cancelled"]) == (1, 0, 0)


GONE, LATER, CANCELLED = Failed("HTTP 404", retryable=False), Failed("HTTP 500"), Cancelled()
BATCHES: list[tuple[list[tuple[Outcome, int]], tuple[object, ...], tuple[int, int, int]]] = [
    ([(GONE, 1), (Succeeded(), 2), (Succeeded(), 3)], (2, 3, "succeeded", "HTTP 404", 3), (2, 1, 0)),
    ([(Succeeded(), 3), (Succeeded(), 2), (GONE, 1)], (0, 3, "succeeded", "HTTP 404", 3), (2, 1, 0)),
    ([(Succeeded(), 2), (Succeeded(), 1)], (0, 2, "succeeded", None, 2), (2, 0, 0)),
    ([(Succeeded(), 1), (CANCELLED, 2)], (1, 2, "cancelled", None, 1), (1, 0, 1)),
    ([(LATER, 1), (CANCELLED, 2)], (1, 2, "cancelled", "HTTP 500", None), (0, 0, 1)),
    ([(LATER, 2), (CANCELLED, 1)], (0, 2, "cancelled", "HTTP 500", None), (0, 0, 1)),
    ([(CANCELLED, 1), (LATER, 2)], (1, 2, "cancelled", "HTTP 500", None), (0, 0, 1)),
    ([(LATER, 1), (LATER, 2)], (1, 2, None, "HTTP 500", None), (0, 0, 0)),
    ([(LATER, 2), (LATER, 1)], (0, 2, None, "HTTP 500", None), (0, 0, 0)),
    ([(Interrupted(), 2), (Succeeded(), 1)], (1, 1, "succeeded", None, 1), (1, 0, 0)),
]


@pytest.mark.parametrize(("batch", "last", "counts"), BATCHES)
async def test_the_statistics_of_outcomes_that_are_written_together_follow_their_times(
    store: EngineStore,
    control: ControlStore,
    database: Database,
    batch: list[tuple[Outcome, int]],
    last: tuple[object, ...],
    counts: tuple[int, int, int],
) -> None:
    runs = await claimed(store, control, count=len(batch))
    hour = T0 + HOUR
    ended = [settled(run, each, hour + minutes * MINUTE) for run, (each, minutes) in zip(runs, batch, strict=True)]
    await store.settle(ended)

    [stats] = await database.rows("job_stats")
    index, run_minutes, state, error, success_minutes = last
    assert (stats["succeeded"], stats["failed"], stats["cancelled"]) == counts
    assert ([run.id for run in runs].index(stats["last_run_id"]), stats["last_state"]) == (index, state)
    assert (stats["last_run_at"] - hour, stats["last_error"]) == (run_minutes * MINUTE, error)
    assert stats["last_success_at"] == (None if success_minutes is None else hour + success_minutes * MINUTE)


async def test_an_effect_begins_once_for_an_attempt(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, delivery=Delivery.AT_MOST_ONCE)
    [run] = await claim(store)

    assert run.at_most_once
    assert await store.begin(LeaseKey(run.id, 1)) is True
    assert await store.begin(LeaseKey(run.id, 1)) is False


async def test_an_effect_does_not_begin_after_the_run_has_ended(store: EngineStore, control: ControlStore) -> None:
    [run] = await claimed(store, control)
    await finish(store, [run])

    assert not await store.begin(LeaseKey(run.id, run.attempt))


async def test_an_effect_does_not_begin_for_a_node_that_lost_the_run(store: EngineStore, control: ControlStore) -> None:
    first, second = await superseded(store, control)

    assert await store.begin(LeaseKey(first.id, first.attempt)) is False
    assert await store.begin(LeaseKey(second.id, second.attempt)) is True


async def test_a_run_finds_the_definition_it_was_planned_with(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control, description="old", retry=a_job().retry, tags=("x",), payload={"n": 1})
    await control.edit_job(job.id, lambda _: a_job(description="new"), Actor("me", T0))

    found = await store.definitions([(job.id, 1), (job.id, 2), (UUID(int=9), 1)])

    assert found == {(job.id, 1): job.definition, (job.id, 2): a_job(description="new")}
    assert set(await store.definitions([(job.id, 1)])) == {(job.id, 1)}


async def test_no_definitions_are_found_for_nothing(store: EngineStore) -> None:
    assert await store.definitions([]) == {}
