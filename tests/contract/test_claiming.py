"""claim and lanes: leases on ready runs, in order, and never two for one attempt."""

import asyncio
from uuid import UUID

import pytest

from hourbell.core.run.policies import Overlap, Rank
from hourbell.core.run.run import Run
from hourbell.core.run.states import RunState
from hourbell.store.base import EngineStore, LaneDemand, LaneWork
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.settling import SQL
from tests.contract.steps import (
    BY,
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    T0,
    a_waiting_job,
    add_job,
    claim,
    claim_suspect,
    crash,
    finish,
    new_run,
    put_runs,
)
from tests.database import Database
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
EXCLUSIVE = [overlap for overlap in Overlap if overlap is not Overlap.ALLOW]


async def test_a_claimed_run_is_running_under_a_lease(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)

    [run] = await claim(store, now=T0 + HOUR)

    [row] = await database.rows("runs")
    assert (run.state, run.attempt, run.started_at) == (RunState.RUNNING, 1, None)
    assert (run.begun, run.payload, run.has_payload) == (False, None, False)
    assert (row["state"], row["attempt"], row["lease_owner"]) == ("running", 1, NODE)
    assert row["started_at"] == T0 + HOUR
    assert row["lease_until"] == T0 + HOUR + MINUTE


async def test_a_held_run_is_not_claimed_again(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    await claim(store)

    assert await claim(store, node=OTHER_NODE, now=T0 + 2 * HOUR) == []


async def test_a_run_is_not_claimed_before_it_is_ready(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, ready_at=T0 + HOUR)])

    assert await claim(store, now=T0 + HOUR - SECOND) == []
    assert len(await claim(store, now=T0 + HOUR)) == 1


async def test_no_more_are_claimed_than_wanted(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, count=5)

    assert len(await claim(store, free=3)) == 3
    assert await claim(store, free=0) == []
    assert len(await claim(store, free=3)) == 2


async def test_a_claim_without_demand_takes_nothing(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)

    assert await store.claim(NODE, T0 + HOUR, T0 + 2 * HOUR, []) == []


async def test_lower_ranks_come_first_then_the_longest_ready(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    ranks = [Rank.LOW, Rank.NORMAL, Rank.HIGH, Rank.NORMAL, Rank.LATE_LOW]
    await put_runs(store, job, [new_run(job, number, rank=rank) for number, rank in enumerate(ranks)])

    first = await claim(store, free=3)
    second = await claim(store, free=3)

    assert [numbered(run) for run in first] == [2, 1, 3]
    assert [numbered(run) for run in second] == [0, 4]


async def test_age_is_counted_from_ready_at_not_from_the_instant(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, number, ready_at=T0 - number * MINUTE) for number in range(3)])

    assert [numbered(run) for run in await claim(store, free=2)] == [2, 1]


async def test_some_slots_go_to_the_oldest_whatever_their_rank(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    ranks = [Rank.LATE_LOW, Rank.LOW, Rank.NORMAL, Rank.HIGH, Rank.HIGH]
    await put_runs(store, job, [new_run(job, number, rank=rank) for number, rank in enumerate(ranks)])

    assert {numbered(run) for run in await claim(store, free=3, oldest=1)} == {0, 3, 4}


async def test_lanes_are_independent(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, "slow", count=10, lane="slow")
    await a_waiting_job(store, control, "quick", count=3, lane="quick")

    runs = await store.claim(NODE, T0 + HOUR, T0 + 2 * HOUR, [LaneDemand("task:slow", 2), LaneDemand("task:quick", 5)])

    assert sorted(run.lane for run in runs) == ["task:quick"] * 3 + ["task:slow"] * 2


async def test_only_wanted_lanes_are_claimed_from(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, lane="elsewhere")

    assert await claim(store, lane="a", free=5) == []


async def test_lanes_carry_the_time_of_their_first_ready_run(store: EngineStore, control: ControlStore) -> None:
    first, second = await add_job(control, "first", lane="a"), await add_job(control, "second", lane="b")
    await put_runs(
        store, first, [new_run(first, 0, ready_at=T0 + HOUR, rank=Rank.HIGH), new_run(first, 1, rank=Rank.LOW)]
    )
    await put_runs(store, second, [new_run(second, 0, ready_at=T0 + HOUR)])

    found = sorted(await store.lanes(T0), key=lambda work: work.lane)
    assert found == [LaneWork("task:a", T0 + SECOND), LaneWork("task:b", T0 + HOUR)]


async def test_a_lane_without_waiting_runs_is_not_listed(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)
    await claim(store)

    assert await store.lanes(T0) == []


async def test_eight_claimers_never_take_a_run_twice(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, count=500)

    claimed = await claim_everything(database, claimers=8)

    assert len(claimed) == len({run.id for run in claimed}) == 500
    assert {run.attempt for run in claimed} == {1}


@pytest.mark.parametrize("overlap", EXCLUSIVE)
async def test_a_job_that_forbids_overlap_runs_one_at_a_time_oldest_first(
    store: EngineStore, control: ControlStore, overlap: Overlap
) -> None:
    await a_waiting_job(store, control, count=3, overlap=overlap)
    order = []

    for _ in range(3):
        [run] = await claim(store, free=10)
        assert await claim(store, free=10) == []
        order.append(numbered(run))
        await finish(store, [run])
    assert order == [0, 1, 2]


async def test_the_oldest_instant_goes_first_even_if_it_is_ready_last(
    store: EngineStore, control: ControlStore
) -> None:
    job = await add_job(control, overlap=Overlap.QUEUE_ALL)
    await put_runs(store, job, [new_run(job, 0, ready_at=T0 + 2 * HOUR), new_run(job, 1)])

    assert await claim(store, free=10, now=T0 + HOUR) == []
    assert [numbered(run) for run in await claim(store, free=10, now=T0 + 2 * HOUR)] == [0]


async def test_a_job_that_allows_overlap_runs_many_at_a_time(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control, count=3)

    assert len(await claim(store, free=10)) == 3


async def test_many_claimers_keep_exclusive_jobs_exclusive(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    for number in range(10):
        await a_waiting_job(store, control, f"job-{number}", count=20, overlap=Overlap.QUEUE_ALL)

    claimed = await claim_everything(database, claimers=8)

    assert len(claimed) == len({run.id for run in claimed}) == 200
    for job in {run.job_id for run in claimed}:
        order = [numbered(run) for run in claimed if run.job_id == job]
        assert order == sorted(order)


async def test_a_run_under_which_nodes_died_is_claimed_only_as_a_suspect(
    store: EngineStore, control: ControlStore
) -> None:
    await a_waiting_job(store, control)
    now = await crash(store, times=2)

    assert await claim(store, now=now) == []
    [run] = await claim_suspect(store, now=now)
    assert (run.crashes, run.attempt) == (2, 3)


async def test_the_caller_sets_how_many_deaths_make_a_suspect(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    await database.sql("update hourbell.runs set crashes = 3")
    asked = (NODE, T0 + HOUR, T0 + HOUR + MINUTE, [LaneDemand("task:a", 10)])

    assert await store.claim(*asked, suspects=True, suspect_after=4) == []
    assert len(await store.claim(*asked, suspect_after=4)) == 1


async def test_just_one_suspect_is_taken(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control, count=3)
    await database.sql("update hourbell.runs set crashes = 2")

    assert len(await claim_suspect(store)) == 1


async def test_asking_for_suspects_takes_no_others(store: EngineStore, control: ControlStore) -> None:
    await a_waiting_job(store, control)

    assert await claim_suspect(store) == []


async def test_a_suspect_is_not_claimed_before_it_is_ready_nor_while_it_is_held(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, ready_at=T0 + HOUR)])
    await database.sql("update hourbell.runs set crashes = 2")

    assert await claim_suspect(store, now=T0 + HOUR - SECOND) == []
    assert len(await claim_suspect(store, now=T0 + HOUR)) == 1
    assert await claim_suspect(store, node=OTHER_NODE, now=T0 + HOUR) == []


async def test_suspects_of_a_job_that_forbids_overlap_run_one_at_a_time_oldest_first(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, count=4, overlap=Overlap.QUEUE_ALL)
    [ended] = await claim(store)
    await finish(store, [ended])
    await database.sql("update hourbell.runs set crashes = 2 where state = 'pending'")

    [first] = await claim_suspect(store)
    assert await claim_suspect(store) == []
    await finish(store, [first])
    [second] = await claim_suspect(store)
    await finish(store, [second])
    assert [numbered(run) for run in (first, second)] == [1, 2]


async def test_a_suspect_waits_for_an_older_run_of_its_job_that_is_none(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, overlap=Overlap.QUEUE_ALL)
    await put_runs(store, job, [new_run(job, 0, ready_at=T0 + 2 * HOUR), new_run(job, 1)])
    await database.sql("update hourbell.runs set crashes = 2 where ready_at = scheduled_at")

    assert await claim_suspect(store, now=T0 + HOUR) == []
    await finish(store, await claim(store, now=T0 + 2 * HOUR))
    assert [numbered(run) for run in await claim_suspect(store, now=T0 + 2 * HOUR)] == [1]


async def test_a_payload_of_its_own_travels_with_the_run(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    await control.trigger_job(job.id, UUID(int=7), Actor(BY, T0), {"days": 30, "name": "é"})

    [run] = await claim(store)
    assert (run.payload, run.has_payload) == ({"days": 30, "name": "é"}, True)


def numbered(run: Run) -> int:
    """Return the number that `new_run` gave it."""
    return int((run.scheduled_at - T0) / SECOND)


async def claim_everything(database: Database, claimers: int) -> list[Run]:
    """Let nodes claim and finish runs until none waits; return the runs in the order of their claims."""
    claimed: list[Run] = []

    async def work(node: UUID) -> None:
        store = database.engine()
        while await store.lanes(T0):
            runs = await claim(store, node=node, free=7)
            claimed.extend(runs)
            if runs:
                await finish(store, runs)

    await asyncio.gather(*(work(UUID(int=number + 1)) for number in range(claimers)))
    return claimed


async def test_a_run_that_no_longer_waits_is_not_claimed() -> None:
    """On SQLite, where one statement hands places to the next: the update that claims tests the state again."""
    async with SqliteDatabase.in_memory() as database:
        store = database.engine()
        await a_waiting_job(store, database.control(), count=2)
        await claim(store, free=1)

        assert await database.runner().write(claim_every_row) == 1


def claim_every_row(session: Session) -> int:
    row_ids = "[" + ",".join(str(row["rowid"]) for row in session.fetch("select rowid from hourbell_runs")) + "]"
    return session.execute(SQL["claim"], row_ids, OTHER_NODE, T0 + HOUR, T0)
