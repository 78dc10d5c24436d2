"""plan_due: one job that cannot be planned spares the others."""

import json
from datetime import datetime
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import TargetError
from hourbell.core.run.plan import Plan, Skip, plan
from hourbell.core.run.states import SkipReason
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, MINUTE, PASS, T0, add_job, plan_all
from tests.database import Database
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio


async def add_many(control: ControlStore, count: int) -> None:
    """Many jobs that are due a minute after T0, one of them named `odd`."""
    for number in range(count):
        await add_job(control, f"job-{number}" if number != count // 2 else "odd")


def invalid_skip(now: datetime) -> Skip:
    """A skip of nothing, which the tables refuse."""
    return Skip(now, now, 0, SkipReason.MISSED)


async def runs_and_errors(database: Database) -> tuple[int, dict[str, str]]:
    jobs = await database.rows("jobs")
    return len(await database.rows("runs")), {job["name"]: job["error"] for job in jobs if job["error"]}


async def test_a_job_in_error_among_many_spares_the_others(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_many(control, 600)
    await database.sql("update hourbell.jobs set schedule = '61 * * * *', version = version + 1 where name = 'odd'")

    planned = await store.plan_due(T0 + MINUTE, PASS, plan)
    again = await store.plan_due(T0 + MINUTE, PASS, plan)  # the first one ended the version before the change

    runs, errors = await runs_and_errors(database)
    assert (runs, list(errors), planned.runs) == (600, ["odd"], 600)
    assert ([name for name, _ in again.errors], again.jobs) == (["odd"], 1)
    assert "minute" in errors["odd"]


async def test_a_job_in_error_is_not_planned_again(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)
    await database.sql("update hourbell.jobs set schedule = 'never', version = version + 1")
    await plan_all(store, T0 + MINUTE)

    again = await store.plan_due(T0 + MINUTE, PASS, plan)

    assert (again.jobs, again.errors, again.next_plan_at) == (0, (), None)


@pytest.mark.parametrize(
    "change", ['target = \'{"type": "pigeon"}\'', 'retry = \'{"attempts": "many"}\'', "retry = '7'"]
)
async def test_an_invalid_job_is_set_aside(
    store: EngineStore, control: ControlStore, database: Database, change: str
) -> None:
    await add_many(control, 5)
    await database.sql(f"update hourbell.jobs set {change}, version = version + 1 where name = 'odd'")

    await plan_all(store, T0 + MINUTE)

    runs, errors = await runs_and_errors(database)
    assert (runs, list(errors)) == (5, ["odd"])


async def test_the_error_of_a_job_lists_everything_that_is_wrong(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)
    await database.sql(
        """update hourbell.jobs set schedule = '61 * * * *', target = '{"type": "http", "url": "ftp://x"}', """
        "retry = '7', version = version + 1"
    )

    await plan_all(store, T0 + MINUTE)

    _, errors = await runs_and_errors(database)
    schedule, url, *_ = errors["job"].split("; ")
    assert (schedule, url[:18]) == ("minute field, column 1: 61 is outside 0-59", "url: a URL begins ")
    assert "retry" in errors["job"]


async def test_a_rule_that_fails_for_one_job_spares_the_others(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_many(control, 5)

    def decide(job: Job, now: datetime) -> Plan:
        if job.definition.name == "odd":
            raise OverflowError("date value out of range")
        return plan(job, now)

    planned = await store.plan_due(T0 + MINUTE, PASS, decide)

    assert await runs_and_errors(database) == (4, {"odd": "date value out of range"})
    assert planned.errors == (("odd", "date value out of range"),)


async def test_a_statement_that_fails_for_one_job_bisects_the_batch(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_many(control, 100)

    def decide(job: Job, now: datetime) -> Plan:
        made = plan(job, now)
        skip = invalid_skip(now) if job.definition.name == "odd" else Skip(T0, T0, 1, SkipReason.MISSED)
        return Plan(job, made.cursor_at, made.next_at, made.plan_at, runs=made.runs, skips=(skip,))

    planned = await store.plan_due(T0 + MINUTE, PASS, decide)

    runs, errors = await runs_and_errors(database)
    assert (runs, list(errors)) == (99, ["odd"])
    assert (planned.jobs, planned.runs, [name for name, _ in planned.errors]) == (100, 99, ["odd"])
    assert planned.skipped == {"missed": 99}


async def test_a_job_set_aside_by_a_failing_statement_keeps_its_cursor(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)

    await store.plan_due(T0 + MINUTE, PASS, lambda job, now: Plan(job, now, None, None, skips=(invalid_skip(now),)))

    [row] = await database.rows("jobs")
    assert (row["cursor_at"], row["plan_at"], row["next_at"]) == (job.cursor_at, None, None)


@pytest.mark.parametrize("column", ["target", "payload"])
async def test_a_row_nested_deep_gets_its_error_and_blocks_nobody(
    store: EngineStore, database: Database, column: str
) -> None:
    deep = "[" * 900 + "]" * 900
    target = '{"type": "http", "url": "https://example.com", "body": %s}' % (deep if column == "target" else "null")
    payload = deep if column == "payload" else "null"
    values = f"('deep', '* * * * *', '{target}', '{payload}')"
    await database.sql(f"insert into hourbell.jobs (name, schedule, target, payload) values {values}")
    await database.sql(
        "insert into hourbell.jobs (name, schedule, target) values ('good', '* * * * *', "
        """'{"type": "task", "name": "a"}')"""
    )

    await store.plan_due(await store.sample_time(), 10, plan)
    jobs = {row["name"]: row for row in await database.rows("jobs")}
    assert jobs["good"]["cursor_at"] is not None
    assert column == "payload" or "nested" in jobs["deep"]["error"]


async def test_a_function_of_the_database_itself_is_refused_on_sqlite_and_spares_the_others() -> None:
    target = {"type": "sql", "function": "refresh"}
    async with SqliteDatabase.in_memory() as database:
        control, store = database.control(), database.engine()
        await add_many(control, 3)
        await database.sql(
            f"update hourbell.jobs set target = '{json.dumps(target)}', version = version + 1 where name = 'odd'"
        )
        await plan_all(store, T0 + MINUTE)

        runs, errors = await runs_and_errors(database)
        assert (runs, list(errors)) == (3, ["odd"])
        assert "SQLite has no functions to call" in errors["odd"]
        with pytest.raises(TargetError):
            await control.create_job(Definition("own", "* * * * *", target), UUID(int=1), Actor(BY, T0))
