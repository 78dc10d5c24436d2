"""backfill_job: runs for instants that planning has passed, each once, without moving the cursor."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from hourbell.core.policies import CatchUp, Delivery, Overlap, Priority, Rank
from hourbell.core.run import scheduled_run_id
from hourbell.store.base import EngineStore
from hourbell.store.control import ControlStore
from hourbell.store.lists import ListStore
from tests.contract.steps import BY, DAY, HOUR, MINUTE, T0, add_backlog, add_job, claim, occurrence, plan_all, refusal
from tests.database import Database

pytestmark = pytest.mark.anyio
NOW = T0 + HOUR
INSERT = """
insert into hourbell.jobs (id, name, schedule, target)
values ('00000000-0000-0000-0000-000000000001', 'by-sql', '* * * * *', '{"type": "task", "name": "a"}')
"""


async def backfill(
    control: ControlStore, job_id: UUID, instants: list[datetime], *, spacing: timedelta = MINUTE
) -> list[UUID]:
    return await control.backfill_job(job_id, [occurrence(at) for at in instants], NOW, BY, spacing=spacing)


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
async def test_backfilled_runs_stand_behind_what_is_due(
    control: ControlStore, database: Database, priority: Priority, rank: Rank
) -> None:
    job = await add_job(control, priority=priority)

    await backfill(control, job.id, [T0 - HOUR])
    assert [row["rank"] for row in await database.rows("runs")] == [rank]


async def test_an_instant_that_has_a_run_gets_no_other(
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


async def test_what_is_older_than_every_scheduled_run_and_no_skip_is_without_record(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job, other = await add_job(control), await add_job(control, "other", schedule="0 0 1 1 *")
    await backfill(control, job.id, [T0 - DAY])
    await plan_all(store, T0 + 5 * MINUTE)  # a run for the newest instant, a skip for those before it
    older, skipped, ran, newer = (T0 + minutes * MINUTE for minutes in (-60, 2, 5, 6))

    assert await lists.without_record(job.id, [older, skipped, ran, newer]) == [older]
    assert await lists.without_record(other.id, [older, newer]) == [older, newer]
    assert await lists.without_record(job.id, []) == []
