"""heartbeat, retire, backlog and check_tzdata: live nodes, their leases and the backlog."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.run.policies import Delivery
from hourbell.core.run.settle import Failed
from hourbell.store.base import Backlog, EngineStore, LeaseKey, Tzdata
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    T0,
    a_node,
    a_waiting_job,
    add_job,
    claim,
    finish,
    lose,
    new_run,
    plan_all,
    put_runs,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
NOW = T0 + HOUR


async def held(store: EngineStore, control: ControlStore, count: int = 1) -> list[LeaseKey]:
    await a_waiting_job(store, control, count=count)
    return [LeaseKey(run.id, run.attempt) for run in await claim(store, free=count, now=NOW)]


async def test_a_heartbeat_announces_the_node(store: EngineStore, database: Database) -> None:
    await store.heartbeat(a_node("task:a"), NOW, NOW + MINUTE, [])
    await store.heartbeat(a_node("task:a", "http*"), NOW + SECOND, NOW + MINUTE, [])

    [node] = await database.rows("nodes")
    assert (node["id"], node["host"], node["started_at"]) == (NODE, "here", T0)
    assert (node["beat_at"], list(node["lanes"])) == (NOW + SECOND, ["task:a", "http*"])


async def test_a_heartbeat_renews_what_the_node_holds(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    runs = await held(store, control, count=3)

    beat = await store.heartbeat(a_node(), NOW, NOW + HOUR, runs)

    assert (beat.lost, beat.cancels) == ((), ())
    assert {row["lease_until"] for row in await database.rows("runs")} == {NOW + HOUR}
    assert await lose(store, NOW + 30 * MINUTE) == []


async def test_a_lease_is_never_shortened(store: EngineStore, control: ControlStore, database: Database) -> None:
    runs = await held(store, control)
    await store.heartbeat(a_node(), NOW, NOW + HOUR, runs)
    await store.heartbeat(a_node(), NOW, NOW + SECOND, runs)

    [row] = await database.rows("runs")
    assert row["lease_until"] == NOW + HOUR


async def test_only_what_is_named_is_renewed(store: EngineStore, control: ControlStore, database: Database) -> None:
    first, second = await held(store, control, count=2)

    await store.heartbeat(a_node(), NOW, NOW + HOUR, [first])

    leases = {row["id"]: row["lease_until"] for row in await database.rows("runs")}
    assert leases == {first.run_id: NOW + HOUR, second.run_id: NOW + MINUTE}


async def test_a_lease_that_was_lost_is_not_renewed(store: EngineStore, control: ControlStore) -> None:
    [lost] = await held(store, control)
    await lose(store, NOW + 2 * MINUTE)

    assert (await store.heartbeat(a_node(), NOW + 2 * MINUTE, NOW + HOUR, [lost])).lost == (lost,)
    [again] = await claim(store, now=NOW + 2 * MINUTE)
    assert again.attempt == 2


async def test_a_lease_of_another_node_is_not_renewed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    [other] = await held(store, control)

    beat = await store.heartbeat(a_node(node=OTHER_NODE), NOW, NOW + HOUR, [other])

    [row] = await database.rows("runs")
    assert (beat.lost, row["lease_until"]) == ((other,), NOW + MINUTE)


async def test_an_earlier_attempt_of_the_same_node_is_lost(store: EngineStore, control: ControlStore) -> None:
    [first] = await held(store, control)
    await lose(store, NOW + 2 * MINUTE)
    [run] = await claim(store, now=NOW + 2 * MINUTE)
    second = LeaseKey(run.id, run.attempt)

    assert (await store.heartbeat(a_node(), NOW, NOW + HOUR, [first, second])).lost == (first,)


async def test_a_later_attempt_is_not_renewed_by_the_name_of_an_earlier_one(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    [first] = await claim(store, now=T0 + HOUR)
    await lose(store, T0 + 2 * HOUR)
    await claim(store, now=T0 + 2 * HOUR)

    await store.heartbeat(a_node(), T0 + 2 * HOUR, T0 + 3 * HOUR, [LeaseKey(first.id, first.attempt)])

    [row] = await database.rows("runs")
    assert (row["attempt"], row["lease_until"]) == (2, T0 + 2 * HOUR + MINUTE)


async def test_a_lease_that_ran_out_but_was_not_reaped_is_renewed(store: EngineStore, control: ControlStore) -> None:
    runs = await held(store, control)

    beat = await store.heartbeat(a_node(), NOW + HOUR, NOW + 2 * HOUR, runs)

    assert beat.lost == ()
    assert await lose(store, NOW + HOUR + MINUTE) == []


async def test_a_run_that_ended_is_lost(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)
    await finish(store, [run])

    assert (await store.heartbeat(a_node(), NOW, NOW, [LeaseKey(run.id, 1)])).lost == (LeaseKey(run.id, 1),)


async def test_a_heartbeat_learns_what_somebody_wants_stopped(store: EngineStore, control: ControlStore) -> None:
    first, second = await held(store, control, count=2)
    await control.cancel_run(first.run_id, Actor(BY, NOW))

    beat = await store.heartbeat(a_node(), NOW, NOW + MINUTE, [first, second])

    assert (beat.cancels, beat.lost) == ((first.run_id,), ())


async def beat_with_orphans(store: EngineStore, runs: list[LeaseKey], **more: Any) -> tuple[LeaseKey, ...]:
    """Send two heartbeats with no claim in progress; return the leases handed back."""
    first = await store.heartbeat(a_node(), NOW, NOW + HOUR, runs, **more)
    assert first.handed_back == ()
    second = await store.heartbeat(a_node(), NOW, NOW + HOUR, runs, orphans=first.unheld, **more)
    assert (second.handed_back, second.unheld) == (first.unheld, ())
    return second.handed_back


async def test_a_lease_that_the_node_does_not_hold_is_handed_back(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    first, second = await held(store, control, count=2)

    assert await beat_with_orphans(store, [first]) == (second,)

    [row] = [row for row in await database.rows("runs") if row["id"] == second.run_id]
    assert (row["state"], row["attempt"], row["failures"], row["crashes"]) == ("pending", 1, 0, 0)
    assert (row["lease_owner"], row["lease_until"], row["started_at"]) == (None, None, None)
    assert await database.rows("attempts") == []
    [again] = await claim(store, node=OTHER_NODE, now=NOW)
    assert (again.id, again.attempt) == (second.run_id, 2)


async def test_a_run_that_had_failed_before_is_handed_back_to_its_retry(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    await finish(store, await claim(store, now=T0 + MINUTE), Failed("no"), T0 + MINUTE)
    [run] = await claim(store, now=NOW)

    assert await beat_with_orphans(store, []) == (LeaseKey(run.id, 2),)
    [row] = await database.rows("runs")
    assert (row["state"], row["failures"], row["ready_at"]) == ("retrying", 1, run.ready_at)


async def test_a_lease_that_a_claim_in_progress_may_have_taken_is_left_alone(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    earlier, later = await held(store, control, count=2)

    beat = await store.heartbeat(a_node(), NOW + HOUR, NOW + 2 * HOUR, [], orphans=[earlier])

    assert (beat.handed_back, beat.unheld) == ((earlier,), (later,))
    [row] = [row for row in await database.rows("runs") if row["id"] == later.run_id]
    assert row["state"] == "running"


async def test_an_orphan_that_is_held_or_leased_again_is_not_handed_back(
    store: EngineStore, control: ControlStore
) -> None:
    first, second = await held(store, control, count=2)
    await lose(store, NOW + 2 * MINUTE)
    [again] = await claim(store, now=NOW + 2 * MINUTE)

    beat = await store.heartbeat(a_node(), NOW, NOW + HOUR, [LeaseKey(again.id, 2)], orphans=[first, second, again])

    assert (beat.handed_back, beat.unheld) == ((), ())


async def test_a_lease_of_another_node_is_not_handed_back(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    await claim(store, node=OTHER_NODE, now=NOW)

    assert await beat_with_orphans(store, []) == ()


async def test_a_later_attempt_of_a_run_that_is_held_is_handed_back(store: EngineStore, control: ControlStore) -> None:
    [first] = await held(store, control)
    await lose(store, NOW + 2 * MINUTE)
    [second] = await claim(store, now=NOW + 2 * MINUTE)

    assert await beat_with_orphans(store, [first]) == (LeaseKey(second.id, 2),)


async def test_an_attempt_at_most_once_that_has_begun_is_not_handed_back(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, count=2, delivery=Delivery.AT_MOST_ONCE)
    begun, unbegun = [LeaseKey(run.id, run.attempt) for run in await claim(store, free=2, now=NOW)]
    await store.begin(begun)

    assert await beat_with_orphans(store, []) == (unbegun,)
    await lose(store, NOW + 2 * MINUTE)
    assert {row["state"]: row["reason"] for row in await database.rows("runs")} == {"failed": "lost", "pending": None}


async def test_a_lease_that_the_node_gave_up_is_not_handed_back(store: EngineStore, control: ControlStore) -> None:
    given_up, orphan = await held(store, control, count=2)

    assert await beat_with_orphans(store, [], given_up={given_up}) == (orphan,)


async def test_a_run_somebody_wants_stopped_is_cancelled_when_it_is_handed_back(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    [orphan] = await held(store, control)
    await control.cancel_run(orphan.run_id, Actor(BY, NOW))

    assert await beat_with_orphans(store, []) == (orphan,)
    [row] = await database.rows("runs")
    assert (row["state"], row["finished_at"]) == ("cancelled", NOW)


async def test_a_node_that_stops_leaves_the_list_and_keeps_its_leases(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await held(store, control)
    await store.heartbeat(a_node(), NOW, NOW + MINUTE, [])
    before = await database.rows("runs")

    await store.retire(NODE)

    assert await database.rows("nodes") == []
    assert await database.rows("runs") == before


async def test_the_backlog_counts_what_is_ready(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    runs = [new_run(job, 1), new_run(job, 2), new_run(job, 3, ready_at=NOW + HOUR)]
    await put_runs(store, job, runs)
    await store.heartbeat(a_node("task:*"), NOW, NOW, [])

    assert await store.backlog(NOW) == Backlog(2, T0 + MINUTE, ())  # not before they were planned


async def test_the_backlog_after_an_outage_is_as_old_as_its_plan(store: EngineStore, control: ControlStore) -> None:
    await add_job(control, schedule="30 9 * * *")
    await store.heartbeat(a_node("task:*"), NOW + DAY, NOW + DAY, [])
    await plan_all(store, NOW + DAY)

    assert await store.backlog(NOW + DAY) == Backlog(1, NOW + DAY, ())


async def test_the_backlog_names_lanes_that_nobody_serves(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, "first", lane="a")
    await a_waiting_job(store, control, "second", lane="b")
    await store.heartbeat(a_node("task:a"), NOW, NOW, [])
    await store.heartbeat(a_node("task:b", node=UUID(int=8)), NOW - HOUR, NOW, [])

    assert (await store.backlog(NOW)).unserved == ("task:b",)


async def test_without_work_there_is_no_backlog(store: EngineStore) -> None:
    assert await store.backlog(NOW) == Backlog(0, None, ())


async def test_time_zone_data_only_rises(store: EngineStore) -> None:
    assert await store.check_tzdata("2026a") is Tzdata.NEWER
    assert await store.check_tzdata("2026c") is Tzdata.NEWER
    assert await store.check_tzdata("2026b") is Tzdata.OUTDATED


async def test_the_database_returns_its_own_time(store: EngineStore) -> None:
    first = await store.sample_time()
    second = await store.sample_time()

    assert first.utcoffset() is not None
    assert first <= second


async def test_heartbeats_and_settlements_of_the_same_runs_do_not_block_each_other(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, count=400)
    runs = await claim(store, free=400)
    other = database.engine()

    async def beat(order: int) -> None:
        held = [LeaseKey(run.id, run.attempt) for run in runs[::order]]
        for _ in range(10):
            await other.heartbeat(a_node(), NOW, NOW + HOUR, held)

    async def settle() -> None:
        for start in range(0, 400, 40):
            await finish(store, runs[start : start + 40])

    await asyncio.gather(beat(1), beat(-1), settle())
