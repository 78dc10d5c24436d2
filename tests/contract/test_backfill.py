"""backfill_job: runs for instants that planning has passed, each once, without moving the cursor."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority, Rank
from hourbell.core.run.run import scheduled_run_id
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    T0,
    add_backlog,
    add_job,
    claim,
    finish,
    occurrence,
    plan_all,
    refusal,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
NOW = T0 + HOUR
INSERT = """
insert into hourbell.jobs (id, name, schedule, target)
values ('00000000-0000-0000-0000-000000000001', 'by-sql', '* * * * *', '{"type": "task", "name": "a"}')
"""


async def backfill(
    control: ControlStore,
    job_id: UUID,
    instants: list[datetime],
    *,
    spacing: timedelta = MINUTE,
    pruned_until: datetime | None = None,
) -> list[UUID]:
    wanted = [occurrence(at) for at in instants]
    return await control.backfill_job(job_id, wanted, Actor(BY, NOW), spacing=spacing, pruned_until=pruned_until)


async def test_a_backfilled_instant_is_a_run_of_its_own_kind(control: ControlStore, database: Database) -> None:
    job = await add_job(control, max_age=DAY, overlap=Overlap.SKIP, delivery=Delivery.AT_MOST_ONCE)

    [run_id] = await backfill(control, job.id, [T0 - DAY])

    [row] = await database.rows("runs")
    assert (row["id"], row["kind"], row["state"], row["lane"]) == (run_id, "backfill", "pending", "task:a")
    assert run_id == scheduled_run_id(job.id, T0 - DAY)
    assert (row["scheduled_at"], row["local_at"]) == (T0 - DAY, (T0 - DAY).replace(tzinfo=None))
    assert (row["ready_at"], row["expires_at"], row["planned_at"]) == (NOW, NOW + DAY, NOW)
    assert (bool(row["exclusive"]), bool(row["at_most_once"]), row["job_version"]) == (True, True, 1)


async def test_backfilled_runs_become_ready_one_after_the_other(control: ControlStore, database: Database) -> None:
    job = await add_job(control)

    await backfill(control, job.id, [T0 - 3 * HOUR, T0 - 2 * HOUR, T0 - HOUR], spacing=5 * MINUTE)
    rows = await database.rows("runs", "scheduled_at")
    assert [row["ready_at"] for row in rows] == [NOW, NOW + 5 * MINUTE, NOW + 10 * MINUTE]
    assert [row["expires_at"] - row["ready_at"] for row in rows] == [DAY] * 3


@pytest.mark.parametrize(("priority", "rank"), [(Priority.HIGH, Rank.NORMAL), (Priority.LOW, Rank.LATE_LOW)])
async def test_backfilled_runs_have_a_lower_rank_than_due_runs(
    control: ControlStore, database: Database, priority: Priority, rank: Rank
) -> None:
    job = await add_job(control, priority=priority)

    await backfill(control, job.id, [T0 - HOUR])
    assert [row["rank"] for row in await database.rows("runs")] == [rank]


async def test_a_time_that_has_a_run_gets_no_other(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await plan_all(store, T0 + 2 * MINUTE)

    made = await backfill(control, job.id, [T0, T0 + MINUTE, T0 + 2 * MINUTE, T0])
    assert made == [scheduled_run_id(job.id, T0)]
    assert len(await database.rows("runs")) == 3
    assert await backfill(control, job.id, [T0, T0 + MINUTE]) == []
    assert [row["action"] for row in await database.rows("audit", "id")] == ["job.create", "job.backfill"]


async def test_instants_past_the_cursor_are_left_to_planning(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)

    assert await backfill(control, job.id, [T0, T0 + MINUTE]) == [scheduled_run_id(job.id, T0)]
    assert await control.get_job(job.id) == job
    await plan_all(store, T0 + MINUTE)
    assert [row["kind"] for row in await database.rows("runs", "scheduled_at")] == ["backfill", "scheduled"]


async def test_a_job_that_is_not_adopted_or_not_there_cannot_be_backfilled(
    control: ControlStore, database: Database
) -> None:
    await database.sql(INSERT)
    await database.sql("update hourbell.jobs set cursor_at = null")  # as a release before may have left it

    assert await refusal(backfill(control, UUID(int=1), [T0])) == "not_adopted"
    assert await refusal(backfill(control, uuid4(), [T0])) == "no_such_job"


async def test_a_version_made_by_sql_is_written_down_for_its_backfill(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await database.sql("update hourbell.jobs set description = 'words'")

    await backfill(control, job.id, [T0 - HOUR])
    [run] = await claim(store, now=NOW)
    assert (run.job_version, list(await store.definitions([(job.id, 2)]))) == (2, [(job.id, 2)])


async def test_thousands_of_instants_are_backfilled_at_once(control: ControlStore, database: Database) -> None:
    job = await add_job(control, catch_up=CatchUp.NONE)
    instants = [T0 - number * MINUTE for number in range(2_500)]

    made = await backfill(control, job.id, instants, spacing=timedelta(0))
    assert made == [scheduled_run_id(job.id, at) for at in instants]
    assert len(await database.rows("runs")) == 2_500


async def test_times_without_a_skip_are_found(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    job, other = await add_job(control), await add_job(control, "other", schedule="0 0 1 1 *")
    await plan_all(store, T0 + 5 * MINUTE)  # a run for the newest instant, a skip for those before it
    older, skipped, ran = (T0 + minutes * MINUTE for minutes in (-60, 2, 5))

    assert await lists.without_skip(job.id, [older, skipped, ran]) == [older, ran]
    assert await lists.without_skip(other.id, [older, skipped]) == [older, skipped]
    assert await lists.without_skip(job.id, []) == []


async def test_a_job_records_how_far_it_was_pruned(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await add_backlog(control)
    await plan_all(store, T0 + 3 * MINUTE)
    await control.trigger_job(job.id, UUID(int=1), Actor(BY, T0 + 4 * MINUTE))
    [first, second, third] = [T0 + minutes * MINUTE for minutes in (1, 2, 3)]
    runs = {run.scheduled_at: run for run in await claim(store, now=NOW, free=10)}
    marks = []
    for at in (second, first, T0 + 4 * MINUTE):  # the last is the manual run, which fills no instant
        await finish(store, [runs[at]], now=NOW)
        await store.prune(NOW + DAY, HOUR, keep=0, limit=10)
        view = await lists.job(job.id)
        marks.append(None if view is None else view.pruned_until)

    assert marks == [second, second, second]
    assert {row["scheduled_at"] for row in await database.rows("runs")} == {third}


async def test_instants_that_were_pruned_meanwhile_are_not_filled(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await plan_all(store, T0 + MINUTE)
    await run_and_finish(store, count=1, now=T0 + MINUTE)
    await store.prune(NOW + DAY, HOUR, keep=0, limit=10)

    with pytest.raises(Conflict, match="pruned meanwhile; try again"):
        await backfill(control, job.id, [T0 + MINUTE])
    assert await database.rows("runs") == []
    assert len(await backfill(control, job.id, [T0 + MINUTE], pruned_until=T0 + MINUTE)) == 1
