"""The database itself enforces the table of moves: final states never change, whoever writes."""

from random import Random
from uuid import UUID

import pytest

from hourbell.core.run.states import ENDS, MOVES, RunState
from hourbell.store.base import EngineStore, LeaseKey
from hourbell.store.control.store import ControlStore
from tests.contract.steps import HOUR, T0, a_node, a_waiting_job, claim, lose
from tests.database import Database

pytestmark = pytest.mark.anyio
WAYS = {  # how a pending run gets to each state
    RunState.PENDING: (),
    RunState.RUNNING: ("running",),
    RunState.RETRYING: ("running", "retrying"),
    RunState.SUCCEEDED: ("running", "succeeded"),
    RunState.FAILED: ("failed",),
    RunState.CANCELLED: ("cancelled",),
}
OTHER_CHANGES = ("attempt = attempt + 1", "reason = 'lost'", "failures = 9", "result = null", "rank = 2", "crashes = 1")


async def was_refused(database: Database, change: str, run: UUID | None = None) -> bool:
    where = "" if run is None else f" where id = '{run}'"
    try:
        await database.sql(f"update hourbell.runs set {change}{where}")
    except Exception:
        return True
    return False


@pytest.mark.parametrize("before", RunState)
async def test_only_the_moves_of_the_table_happen(
    store: EngineStore, control: ControlStore, database: Database, before: RunState
) -> None:
    await a_waiting_job(store, control, count=len(RunState))
    for state in WAYS[before]:
        await database.sql(f"update hourbell.runs set state = '{state}'")
    runs = [row["id"] for row in await database.rows("runs")]

    tried = zip(RunState, runs, strict=True)
    done = {after for after, run in tried if not await was_refused(database, f"state = '{after}'", run)}

    assert done == MOVES[before] | ({before} - ENDS)


async def test_hundreds_of_random_changes_make_no_move_that_is_not_in_the_table(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    random = Random(7)
    await a_waiting_job(store, control, count=10)

    for _ in range(500):
        before = {row["id"]: row for row in await database.rows("runs")}
        state = random.choice(list(RunState))
        await was_refused(database, random.choice([f"state = '{state}'", *OTHER_CHANGES]), random.choice(list(before)))
        for run in await database.rows("runs"):
            was = before[run["id"]]
            assert run == was or was["state"] not in ENDS
            assert run["state"] == was["state"] or RunState(run["state"]) in MOVES[RunState(was["state"])]
            assert run["attempt"] == was["attempt"] or was["state"] != RunState.RUNNING


async def test_a_running_run_cannot_be_claimed_but_its_lease_renewed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)
    before = await database.rows("runs")

    with pytest.raises(Exception, match="a run that is running cannot be claimed"):
        await database.sql("update hourbell.runs set state = 'running', attempt = attempt + 1")
    assert await database.rows("runs") == before
    assert (await store.heartbeat(a_node(), T0, T0 + 2 * HOUR, [LeaseKey(run.id, 1)])).lost == ()
    assert await store.begin(LeaseKey(run.id, 1))


async def test_an_expired_lease_is_claimed_again_by_way_of_the_reaper(
    store: EngineStore, control: ControlStore
) -> None:
    await a_waiting_job(store, control)
    await claim(store, now=T0 + HOUR)
    await lose(store, T0 + 2 * HOUR)

    assert [run.attempt for run in await claim(store, now=T0 + 2 * HOUR)] == [2]


async def test_an_ended_run_keeps_every_column(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control)
    await database.sql("update hourbell.runs set state = 'cancelled'")

    assert all([await was_refused(database, change) for change in OTHER_CHANGES])


async def test_a_job_without_overlap_has_one_running_run_at_most(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control, count=2)
    await database.sql("update hourbell.runs set exclusive = true")

    assert await was_refused(database, "state = 'running'")
