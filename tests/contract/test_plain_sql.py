"""Jobs written by plain SQL are adopted, never fire by surprise, and block nobody."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.policies import Overlap
from hourbell.store.base import EngineStore, Planned
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, DAY, HOUR, MINUTE, PASS, SECOND, T0, a_waiting_job, add_job, claim, plan_all
from tests.database import Database, Row

pytestmark = pytest.mark.anyio
MILLISECOND = timedelta(milliseconds=1)
INSERT = """insert into hourbell.jobs (name, schedule, target) values ('{}', '{}', '{{"type": "task", "name": "a"}}')"""


async def the_job(database: Database, name: str = "job") -> Row:
    return next(row for row in await database.rows("jobs") if row["name"] == name)


async def plan_now(store: EngineStore) -> tuple[datetime, Planned]:
    """Plan what is due: a version that was changed, then the one after it."""
    now = await store.sample_time()
    await store.plan_due(now, PASS, plan)
    return now, await store.plan_due(now, PASS, plan)


async def insert(database: Database, name: str = "job", schedule: str = "* * * * *") -> None:
    await database.sql(INSERT.format(name, schedule))


async def test_an_inserted_job_is_adopted_without_firing_for_the_past(store: EngineStore, database: Database) -> None:
    await database.set_clock(await store.sample_time() - MILLISECOND)
    await insert(database)

    now = await store.sample_time()
    planned = await store.plan_due(now, PASS, plan)

    job = await the_job(database)
    assert (planned.jobs, planned.runs, await database.rows("skips")) == (1, 0, [])
    assert (job["cursor_at"], job["lane"], job["managed_by"]) == (now, "task:a", "sql")
    assert now < job["next_at"] == job["plan_at"] <= now + MINUTE


async def test_an_adopted_job_fires_from_then_on(store: EngineStore, database: Database) -> None:
    await insert(database)
    now, _ = await plan_now(store)

    planned = await store.plan_due(now + 2 * MINUTE, PASS, plan)
    assert planned.runs == 1


async def test_the_version_of_an_inserted_job_is_written_down(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await insert(database)
    await plan_now(store)

    job = await control.get_job("job")
    assert job is not None
    assert (await store.definitions([(job.id, 1)]))[job.id, 1] == job.definition


async def test_an_invalid_job_gets_its_error_once_and_blocks_nobody(store: EngineStore, database: Database) -> None:
    await insert(database, "bad", "99 * * * *")
    await insert(database, "good")

    first = await store.plan_due(await store.sample_time(), PASS, plan)
    _, second = await plan_now(store)

    assert [name for name, _ in first.errors] == ["bad"]
    assert (second.jobs, second.errors) == (0, ())
    assert (await the_job(database, "bad"))["error"] is not None
    assert (await the_job(database, "good"))["cursor_at"] is not None


@pytest.mark.parametrize(
    "change",
    [
        "schedule = '*/5 * * * *'",
        "timezone = 'Asia/Tokyo'",
        "dst = 'wall'",
        "catch_up = 'all'",
        "starts_at = created_at",
        "ends_at = deleted_at, starts_at = created_at",
    ],
)
async def test_a_change_of_planning_columns_counts_from_its_moment(
    store: EngineStore, control: ControlStore, database: Database, change: str
) -> None:
    await add_job(control)
    await database.set_clock(T0 + 10 * MINUTE + 30 * SECOND)
    await database.sql(f"update hourbell.jobs set {change}")
    changed = await the_job(database)

    await plan_all(store, T0 + 11 * MINUTE)

    runs = [(run["scheduled_at"], run["job_version"]) for run in await database.rows("runs", "scheduled_at")]
    assert (changed["version"], changed["cursor_at"], changed["next_at"]) == (2, T0, None)
    # of the two versions only the second may name times every five minutes
    assert runs == [(T0 + 10 * MINUTE, 1), (T0 + 11 * MINUTE, 2)][: 1 if "schedule" in change else 2]
    assert [skip["count"] for skip in await database.rows("skips")] == [9]
    assert [row["version"] for row in await database.rows("job_versions", "version")] == [1, 2]


@pytest.mark.parametrize("overlap", [Overlap.ALLOW, Overlap.SKIP], ids=["the newest is a run", "the newest is a skip"])
async def test_a_job_adopted_by_a_clock_that_is_behind_plans_no_instant_again(
    store: EngineStore, control: ControlStore, database: Database, overlap: Overlap
) -> None:
    await add_job(control, overlap=overlap)
    await store.plan_due(T0 + MINUTE, PASS, plan)
    await store.plan_due(T0 + 3 * MINUTE, PASS, plan)
    await database.sql("update hourbell.jobs set dst = 'wall'")
    await database.sql("update hourbell.jobs set plan_at = created_at")
    before = (await database.rows("runs"), await database.rows("skips"))

    await store.plan_due(T0 + 2 * MINUTE, PASS, plan)

    assert (await the_job(database))["cursor_at"] == T0 + 3 * MINUTE
    await store.plan_due(T0 + 3 * MINUTE, PASS, plan)
    assert (await database.rows("runs"), await database.rows("skips")) == before


async def test_a_job_edited_by_a_clock_that_is_behind_plans_no_instant_again(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await store.plan_due(T0 + 3 * MINUTE, PASS, plan)
    await database.sql("update hourbell.jobs set dst = 'wall'")

    edited = (
        await control.edit_job(
            job.id, lambda old: replace(old.definition, timezone="Asia/Tokyo"), Actor(BY, T0 + 2 * MINUTE)
        )
    ).job

    await plan_all(store, T0 + 2 * MINUTE)
    planned = await the_job(database)
    assert (edited.cursor_at, planned["cursor_at"], planned["next_at"]) == (T0 + 3 * MINUTE,) * 2 + (T0 + 4 * MINUTE,)
    assert (len(await database.rows("runs")), planned["has_changes"]) == (1, False)


async def test_a_change_of_other_columns_keeps_the_cursor(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await database.set_clock(T0 + 30 * SECOND)
    await database.sql("""update hourbell.jobs set priority = 'high', target = '{"type": "task", "name": "b"}'""")
    changed = await the_job(database)

    await plan_all(store, T0 + MINUTE)

    assert (changed["version"], changed["cursor_at"]) == (2, job.cursor_at)
    assert (await store.definitions([(job.id, 2)]))[job.id, 2].lane == "task:b"
    [run] = await database.rows("runs")
    assert (run["job_version"], run["lane"]) == (2, "task:b")


async def test_a_change_that_changes_nothing_is_no_version(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await database.sql("update hourbell.jobs set schedule = schedule, priority = 'normal'")

    row = await the_job(database)
    assert (row["version"], row["cursor_at"]) == (1, job.cursor_at)


async def test_a_job_in_error_is_adopted_when_it_is_fixed(store: EngineStore, database: Database) -> None:
    await insert(database)
    await database.sql("update hourbell.jobs set target = '{}'")
    await plan_now(store)
    await database.sql("""update hourbell.jobs set target = '{"type": "task", "name": "b"}'""")

    now, planned = await plan_now(store)

    row = await the_job(database)
    assert (planned.errors, row["error"], row["cursor_at"], row["lane"]) == ((), None, now, "task:b")


async def test_a_job_disabled_and_enabled_by_sql_fires_from_then_on(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await control.pause_job(job.id, Actor(BY, T0), note="tea", until=T0 + DAY, cancel_waiting=False)
    await database.set_clock(T0 + HOUR)
    await database.sql("update hourbell.jobs set enabled = true")
    enabled = await the_job(database)

    await plan_all(store, T0 + HOUR)

    assert (enabled["paused_until"], enabled["paused_note"], enabled["paused_by"]) == (None, None, None)
    assert ((await the_job(database))["cursor_at"], await database.rows("runs")) == (T0 + HOUR, [])
    assert [(skip["count"], skip["reason"]) for skip in await database.rows("skips")] == [(60, "paused")]
    await database.set_clock(T0 + HOUR + 30 * SECOND)
    await database.sql("update hourbell.jobs set enabled = false")
    await plan_all(store, T0 + DAY)
    assert await database.rows("runs") == []


async def test_a_job_is_not_deleted_by_sql(control: ControlStore, database: Database) -> None:
    await add_job(control)

    with pytest.raises(Exception, match="not deleted by SQL"):
        await database.sql("delete from hourbell.jobs")
    assert len(await database.rows("jobs")) == 1


async def test_a_job_changed_by_sql_can_be_triggered_before_it_is_adopted(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await insert(database)
    job = await control.get_job("job")
    assert job is not None

    run = await control.trigger_job(job.id, job.id, Actor(BY, T0))

    assert (job.id, run.job_version) in await store.definitions([(job.id, run.job_version)])
    assert len(await claim(store)) == 1


async def test_runs_of_the_old_version_find_it_though_it_was_never_written_down(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await database.set_clock(T0 + 30 * SECOND)
    await database.sql("update hourbell.jobs set description = 'by sql'")

    await control.pause_job(job.id, Actor(BY, T0 + MINUTE), note="", until=None, cancel_waiting=False)
    await plan_all(store, T0 + MINUTE)

    [run] = await database.rows("runs")
    found = await store.definitions([(job.id, run["job_version"])])
    assert found[job.id, 2].description == "by sql"


async def test_planning_by_the_engine_makes_no_version(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    await add_job(control, "other")
    await store.plan_due(T0 + HOUR, PASS, plan)

    assert [row["version"] for row in await database.rows("jobs")] == [1, 1]
