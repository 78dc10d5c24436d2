"""Rows that `trigger_job` writes: the same as control's, with the same id for the same key."""

import asyncio
from typing import Any

import asyncpg
import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.policies import Delivery, Overlap, Priority
from hourbell.core.run.run import manual_run_id
from hourbell.sql import Statement, trigger_job
from hourbell.store.base import EngineStore, Wake
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, HOUR, MINUTE, PASS, T0, add_job
from tests.contract.test_wakes import hears, listening
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio
INSERT = "insert into hourbell.jobs (name, schedule, target) values ('job', '@daily', '{}')"
TIMES = {"id", "scheduled_at", "local_at", "ready_at", "expires_at", "planned_at"}


async def execute(database: Database, name: str = "job", **options: Any) -> None:
    if isinstance(database, PostgresDatabase):
        statement: Statement = trigger_job(name, paramstyle="numeric_dollar", **options)
        await database.connection.execute(statement.text, *statement.parameters)
    else:
        database.connection.execute(*trigger_job(name, dialect="sqlite", **options))  # type: ignore[attr-defined]


@pytest.mark.parametrize("payload", [None, {"a": [1, "é"]}, False], ids=repr)
@pytest.mark.parametrize(
    "policies",
    [{}, {"priority": Priority.HIGH, "overlap": Overlap.SKIP, "delivery": Delivery.AT_MOST_ONCE, "max_age": HOUR}],
    ids=["defaults", "its own"],
)
async def test_a_run_is_what_control_makes(
    database: Database, control: ControlStore, policies: dict[str, Any], payload: object
) -> None:
    job = await add_job(control, **policies)
    await control.trigger_job(job.id, job.id, Actor(BY, T0), payload)
    await execute(database, payload=payload)

    by_control, by_sql = await database.rows("runs", "planned_at")
    assert by_sql["expires_at"] - by_sql["ready_at"] == job.definition.max_age
    assert by_sql["scheduled_at"] == by_sql["ready_at"] == by_sql["planned_at"]
    assert {k: v for k, v in by_sql.items() if k not in TIMES} == {
        k: v for k, v in by_control.items() if k not in TIMES
    }


# The lengths at which a block of the digest ends and another is needed, before and after.
@pytest.mark.parametrize("key", ["a", "a" * 32, "a" * 33, "a" * 41, "a" * 96, "a" * 97, "é" * 255, "😀" * 255], ids=len)
async def test_a_key_makes_the_run_that_control_makes(database: Database, control: ControlStore, key: str) -> None:
    job = await add_job(control)
    await execute(database, key=key)
    await execute(database, key=key)
    await control.trigger_job(job.id, manual_run_id(job.id, key), Actor(BY, T0))

    assert [run["id"] for run in await database.rows("runs")] == [manual_run_id(job.id, key)]


async def test_keys_make_the_right_ids_of_many_jobs(database: Database, control: ControlStore) -> None:
    asked = {f"order-{number}" * number: await add_job(control, f"job-{number}") for number in range(1, 30)}
    for key, job in asked.items():
        await execute(database, job.definition.name, key=key)

    made = {run["id"] for run in await database.rows("runs")}
    assert made == {manual_run_id(job.id, key) for key, job in asked.items()}


async def test_without_a_key_each_call_is_a_run(database: Database, control: ControlStore) -> None:
    await add_job(control)
    await execute(database)
    await execute(database)

    assert len(await database.rows("runs")) == 2


async def test_an_unknown_job_is_an_error(database: Database) -> None:
    with pytest.raises(Exception, match="there is no job named nobody"):
        await execute(database, "nobody")


async def test_a_job_that_is_not_planned_yet_is_an_error(database: Database, store: EngineStore) -> None:
    await database.sql(INSERT.format('{"type": "task", "name": "a"}'))
    with pytest.raises(Exception, match="job is not planned yet; try again in a second"):
        await execute(database, key="k")

    await store.plan_due(await store.sample_time(), PASS, plan)
    await execute(database, key="k")
    assert len(await database.rows("runs")) == 1


async def test_a_job_in_error_is_an_error(database: Database, store: EngineStore) -> None:
    await database.sql(INSERT.format("{}"))
    await store.plan_due(await store.sample_time(), PASS, plan)

    with pytest.raises(Exception, match="job cannot run, target needs a type"):
        await execute(database)


async def test_a_deleted_job_is_not_there(database: Database, control: ControlStore) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0))

    with pytest.raises(Exception, match="there is no job named job"):
        await execute(database)


@pytest.mark.parametrize(
    "database", ["postgres", "sqlite"], indirect=True
)  # other processes cannot open a database in memory
async def test_a_triggered_run_wakes_nodes(store: EngineStore, control: ControlStore, database: Database) -> None:
    await add_job(control)
    async with listening(store) as wakes:
        await execute(database)
        assert await hears(wakes, Wake.RUNS)


async def test_postgresql_answers_with_the_run_and_notes_who_asked(postgres: PostgresDatabase) -> None:
    job = await add_job(postgres.control())
    statement: Statement = trigger_job("job", key="k", paramstyle="numeric_dollar")
    answers = [await postgres.connection.fetchval(statement.text, *statement.parameters) for _ in range(2)]

    run_id = str(manual_run_id(job.id, "k"))
    noted = [row for row in await postgres.rows("audit") if row["action"] == "job.trigger"]
    assert answers == [run_id, run_id]
    assert [(row["actor"], row["subject"], row["after"]) for row in noted] == [("sql", str(job.id), {"run": run_id})]


async def test_an_open_transaction_keeps_nobody_from_planning_or_changing_the_job(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    job = await add_job(control)
    user = await asyncpg.connect(postgres.url)
    statement: Statement = trigger_job("job", paramstyle="numeric_dollar")
    async with user.transaction():
        await user.execute(statement.text, *statement.parameters)
        assert (await store.plan_due(T0 + MINUTE, PASS, plan)).runs == 1
        await control.pause_job(job.id, Actor(BY, T0 + MINUTE), note="", until=None, cancel_waiting=False)
        assert len(await postgres.rows("runs")) == 1
    await user.close()

    assert len(await postgres.rows("runs")) == 2


async def test_two_transactions_with_one_key_make_one_run(postgres: PostgresDatabase) -> None:
    await add_job(postgres.control())
    first, second = await asyncpg.connect(postgres.url), await asyncpg.connect(postgres.url)
    statement: Statement = trigger_job("job", key="k", paramstyle="numeric_dollar")
    async with first.transaction():
        answer = await first.fetchval(statement.text, *statement.parameters)
        waiting = asyncio.create_task(second.fetchval(statement.text, *statement.parameters))
        while not await postgres.connection.fetchval("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0.01)

    assert await waiting == answer
    assert len(await postgres.rows("runs")) == 1
    await first.close()
    await second.close()
