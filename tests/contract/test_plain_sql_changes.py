"""Rows that plain SQL inserts or changes while no node runs: every due time is a run or a skip, by the version then valid."""

from datetime import datetime

import pytest

from hourbell.store.base import EngineStore
from hourbell.store.control import ControlStore
from tests.contract.steps import HOUR, MINUTE, T0, add_backlog, add_job, plan_all
from tests.database import Database, Row

pytestmark = pytest.mark.anyio
TASK = '{{"type": "task", "name": "{}"}}'


async def at(database: Database, moment: datetime, statement: str) -> None:
    """Execute a statement at a moment of the database's clock."""
    await database.set_clock(moment)
    await database.sql(statement)


async def insert(database: Database, moment: datetime, schedule: str = "0 * * * *", **more: str) -> None:
    columns = {"name": "job", "schedule": schedule, "target": TASK.format("a")} | more
    values = ", ".join(f"'{value}'" for value in columns.values())
    await at(database, moment, f"insert into hourbell.jobs ({', '.join(columns)}) values ({values})")


async def the_job(database: Database) -> Row:
    [job] = await database.rows("jobs")
    return job


async def planned(database: Database) -> list[tuple[datetime, int]]:
    """The scheduled time and version of each run."""
    return [(run["scheduled_at"], run["job_version"]) for run in await database.rows("runs", "scheduled_at")]


async def skipped(database: Database) -> list[tuple[datetime, datetime, int, str]]:
    rows = await database.rows("skips", "first_at")
    return [(row["first_at"], row["last_at"], row["count"], row["reason"]) for row in rows]


async def test_a_job_inserted_before_its_time_runs_when_a_node_starts_after_it(
    store: EngineStore, database: Database
) -> None:
    await insert(database, T0 - 10 * MINUTE)  # due at T0, an hour's first minute

    await plan_all(store, T0 + 30 * MINUTE)

    assert (await planned(database), await skipped(database)) == ([(T0, 1)], [])


async def test_a_schedule_changed_while_no_node_runs_leaves_no_gap(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control, schedule="0 * * * *")
    await at(database, T0 + 150 * MINUTE, "update hourbell.jobs set schedule = '30 * * * *'")

    await plan_all(store, T0 + 4 * HOUR)

    old = [(T0 + HOUR, 1), (T0 + 2 * HOUR, 1)]
    assert await planned(database) == [*old, (T0 + 210 * MINUTE, 2)]
    assert await skipped(database) == []


async def test_several_changes_during_one_outage_lose_nothing(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control, schedule="0 * * * *")  # of each version, the newest time runs
    await at(database, T0 + 150 * MINUTE, "update hourbell.jobs set schedule = '*/10 * * * *'")
    await at(database, T0 + 185 * MINUTE, f"update hourbell.jobs set target = '{TASK.format('b')}'")
    await at(database, T0 + 215 * MINUTE, "update hourbell.jobs set schedule = '5 * * * *', catch_up = 'all'")

    await plan_all(store, T0 + 6 * HOUR)

    minutes = [(120, 1), (180, 2), (210, 3), (245, 4), (305, 4)]
    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in minutes]
    assert await skipped(database) == [
        (T0 + HOUR, T0 + HOUR, 1, "missed"),
        (T0 + 160 * MINUTE, T0 + 170 * MINUTE, 2, "missed"),
        (T0 + 190 * MINUTE, T0 + 200 * MINUTE, 2, "missed"),
    ]
    lanes = {run["job_version"]: run["lane"] for run in await database.rows("runs")}
    assert lanes == {1: "task:a", 2: "task:a", 3: "task:b", 4: "task:b"}
