"""reap and expire: runs whose node is gone, and runs that waited too long."""

import asyncio

import pytest

from hourbell.core.run.policies import Delivery, Overlap
from hourbell.core.run.settle import Failed, Lost, Unstarted, settle, settle_lost
from hourbell.core.run.states import Reason, RunState
from hourbell.store.base import EngineStore, LeaseKey, Saved, SettledAttempt
from hourbell.store.control.store import ControlStore
from tests.contract.steps import (
    DAY,
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    T0,
    a_job,
    a_node,
    a_waiting_job,
    claim,
    claim_suspect,
    crash,
    finish,
    lose,
    run_and_finish,
    settled,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
STARTED = T0 + HOUR
LATER = STARTED + 2 * MINUTE
OLD = T0 + 2 * DAY  # older than any run's max_age


async def test_a_run_whose_lease_ran_out_is_ready_again_at_once(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store, now=STARTED)

    [settlement] = await lose(store, LATER)

    assert (settlement.run.id, settlement.outcome, settlement.state) == (run.id, Lost(), RunState.RETRYING)
    [again] = await claim(store, node=OTHER_NODE, now=LATER)
    assert (again.id, again.attempt, again.crashes, again.failures) == (run.id, 2, 1, 0)


async def test_a_lease_that_still_holds_is_left_alone(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    await claim(store, now=STARTED)

    assert await lose(store, STARTED + MINUTE) == []


async def test_runs_that_wait_or_ended_are_not_reaped(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, count=2)
    await run_and_finish(store)

    assert await lose(store, OLD) == []


async def test_the_lost_attempt_is_written_down(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store, now=STARTED)
    await lose(store, LATER)

    [attempt] = await database.rows("attempts")
    assert (attempt["run_id"], attempt["number"], attempt["node"]) == (run.id, 1, NODE)
    assert (attempt["outcome"], attempt["started_at"], attempt["finished_at"]) == ("lost", STARTED, LATER)


async def test_a_lost_attempt_after_the_first_does_not_take_the_begin_of_the_first(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    await crash(store, times=2)

    first, second = await database.rows("attempts", "number")
    assert (first["outcome"], second["outcome"]) == ("lost", "lost")
    assert (first["started_at"] is None, second["started_at"]) == (False, None)


async def test_a_lost_run_that_must_not_repeat_fails(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, delivery=Delivery.AT_MOST_ONCE)
    [run] = await claim(store, now=STARTED)
    await store.begin(LeaseKey(run.id, run.attempt))

    await lose(store, LATER)

    [row] = await database.rows("runs")
    assert (row["state"], row["reason"], row["finished_at"]) == ("failed", "lost", LATER)


async def test_the_third_death_is_poison(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control)

    now = await crash(store, times=3)

    [row] = await database.rows("runs")
    [stats] = await database.rows("job_stats")
    assert (row["state"], row["reason"], row["crashes"]) == ("failed", Reason.POISON, 3)
    assert (stats["failed"], stats["last_run_at"]) == (1, now)


async def test_a_node_that_sends_heartbeats_again_was_no_death(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    now = await crash(store, times=2)
    await store.heartbeat(a_node(), now + SECOND, now + MINUTE, [])
    [third] = await claim_suspect(store, now=now, node=OTHER_NODE)

    [settlement] = await lose(store, now + 2 * MINUTE)

    assert (settlement.run.id, settlement.state, settlement.crashes) == (third.id, RunState.RETRYING, 1)
    [row] = await database.rows("runs")
    assert (row["state"], row["crashes"]) == ("retrying", 1)


async def test_a_heartbeat_from_before_the_loss_does_not_undo_a_death(
    store: EngineStore, control: ControlStore
) -> None:
    await a_waiting_job(store, control)
    await store.heartbeat(a_node(), STARTED, STARTED + MINUTE, [])
    now = await crash(store, times=2)
    await claim_suspect(store, now=now)

    [settlement] = await lose(store, now + 2 * MINUTE)

    assert (settlement.reason, settlement.crashes) == (Reason.POISON, 3)


async def test_an_outcome_that_came_late_was_no_death(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    now = STARTED
    for _ in range(3):
        [run] = await claim(store, now=now)
        now += 2 * MINUTE
        [settlement] = await lose(store, now)
        assert (settlement.state, settlement.crashes) == (RunState.RETRYING, 1)
        assert await store.settle([settled(run, now=now)]) == [Saved.SUPERSEDED]


async def test_an_attempt_that_ended_was_no_death(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store, now=STARTED)
    await finish(store, [run], Failed("HTTP 500"), STARTED)
    now, charged = STARTED + HOUR, []
    for _ in range(2):
        [run] = await claim(store, now=now)
        now += 2 * MINUTE
        charged += [settlement.crashes for settlement in await lose(store, now)]
        await store.settle([settled(run, now=now)])  # late

    assert charged == [1, 1]


async def test_at_most_so_many_are_reaped_the_longest_lost_first(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, count=3)
    claimed = [(await claim(store, now=STARTED + second * SECOND))[0].id for second in range(3)]

    first = await store.reap(LATER, 2, settle_lost)
    second = await store.reap(LATER, 2, settle_lost)

    assert [settlement.run.id for settlement in first + second] == claimed


async def test_eight_reapers_lose_each_run_once(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control, count=200)
    await claim(store, free=200, now=STARTED)

    lost = await asyncio.gather(*(database.engine().reap(LATER, 50, settle_lost) for _ in range(8)))

    ids = [settlement.run.id for each in lost for settlement in each]
    assert len(ids) == len(set(ids)) == 200
    assert {row["crashes"] for row in await database.rows("runs")} == {1}


async def test_a_lost_run_of_an_exclusive_job_keeps_its_position(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, count=2, overlap=Overlap.QUEUE_ALL)
    [run] = await claim(store, now=STARTED)
    await lose(store, LATER)

    assert [again.id for again in await claim(store, free=5, now=LATER)] == [run.id]


async def test_a_run_never_attempted_expires_while_nobody_serves_its_lane(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    await store.heartbeat(a_node("task:other", "http:*"), OLD, OLD, [])

    [expired] = await store.expire(OLD, 10)

    [row] = await database.rows("runs")
    [stats] = await database.rows("job_stats")
    assert (row["id"], row["state"], row["reason"], row["finished_at"]) == (expired, "failed", "expired", OLD)
    assert (stats["failed"], stats["last_state"], stats["last_run_id"]) == (1, "failed", expired)


@pytest.mark.parametrize("served", ["task:a", "task:*", "*"])
async def test_a_run_never_attempted_waits_for_a_node_that_serves_it(
    store: EngineStore, control: ControlStore, served: str
) -> None:
    await a_waiting_job(store, control)
    await store.heartbeat(a_node("sql:x", served), OLD, OLD, [])

    assert await store.expire(OLD, 10) == []


async def test_a_node_that_fell_silent_serves_nothing(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    await store.heartbeat(a_node("task:a"), OLD - 5 * MINUTE, OLD, [])

    assert await store.expire(OLD, 10, live_for=10 * MINUTE) == []  # under a long lease it beats that seldom
    assert len(await store.expire(OLD, 10)) == 1


async def test_a_run_handed_back_unstarted_counts_as_never_attempted(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)
    await store.settle([SettledAttempt(settle(run, Unstarted(), STARTED, a_job().retry))])
    await store.heartbeat(a_node("task:a"), OLD, OLD, [])

    assert await store.expire(OLD, 10) == []


async def test_a_run_that_waits_for_another_attempt_gets_it_where_its_lane_is_served(
    store: EngineStore, control: ControlStore
) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)
    await finish(store, [run], Failed("no"))
    await store.heartbeat(a_node("task:a"), OLD, OLD, [])

    assert await store.expire(OLD, 10) == []
    assert len(await claim(store, now=OLD)) == 1


async def test_a_run_that_was_attempted_expires_while_nobody_serves_its_lane(
    store: EngineStore, control: ControlStore
) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)
    await finish(store, [run], Failed("no"))

    assert await store.expire(OLD, 10) == [run.id]


async def test_a_run_within_its_max_age_does_not_expire(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, max_age=HOUR)

    assert await store.expire(T0 + HOUR - SECOND, 10) == []
    assert len(await store.expire(T0 + HOUR, 10)) == 1


async def test_a_running_run_does_not_expire(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    await claim(store)

    assert await store.expire(OLD, 10) == []


async def test_at_most_so_many_expire_the_oldest_first(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, count=5)

    assert len(await store.expire(OLD, 3)) == 3
    states = [row["state"] for row in await database.rows("runs", "scheduled_at")]
    assert states == ["failed"] * 3 + ["pending"] * 2
