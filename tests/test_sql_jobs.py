"""Rows that `insert_job` writes, and its effect on an existing job of that name."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hourbell.core.job.body import parse_job
from hourbell.core.run.plan import plan
from hourbell.sql import Statement, insert_job
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, MINUTE, PASS, SECOND, T0, a_job, add_job
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio
BODY = {"name": "job", "schedule": "* * * * *", "target": {"type": "task", "name": "a"}}
FULL = BODY | {
    "schedule": "0 9 * * 1-5",
    "timezone": "Europe/Paris",
    "dst": "wall",
    "payload": {"quote": 'it\'s 100 % "fun" :so $1 ?', "list": [1, 2.5, None, True], "é": "😀"},
    "description": "It's\nthe :first",
    "catch_up": "all",
    "catch_up_window": "36500d",
    "overlap": "queue_one",
    "retry": {"attempts": 3, "backoff": ["30s", "5m"], "spread": 0.5},
    "delivery": "at_most_once",
    "max_age": "90m",
    "late_after": "1s",
    "priority": "high",
    "jitter": "10s",
    "starts_at": "2026-01-01T00:00:00.000001Z",
    "ends_at": "2199-12-31T23:59:59+02:00",
    "enabled": False,
    "tags": ["b", "a{}", 'q"'],
}


async def execute(database: Database, body: Any, **options: Any) -> None:
    if isinstance(database, PostgresDatabase):
        statement: Statement = insert_job(body, paramstyle="numeric_dollar", **options)
        await database.connection.execute(statement.text, *statement.parameters)
    else:
        database.connection.execute(*insert_job(body, dialect="sqlite", **options))  # type: ignore[attr-defined]


async def planned_runs(store: EngineStore, now: datetime) -> int:
    runs = 0
    while (planned := await store.plan_due(now, PASS, plan)).jobs:
        runs += planned.runs
    return runs


@pytest.mark.parametrize("body", [BODY, FULL], ids=["defaults", "everything"])
async def test_a_job_is_made_as_its_body_says(database: Database, control: ControlStore, body: dict[str, Any]) -> None:
    await execute(database, body)
    await planned_runs(database.engine(), T0)

    job = await control.get_job("job")
    assert job is not None
    wanted = parse_job(body).definition
    assert {name: getattr(job.definition, name) for name in body} == {name: getattr(wanted, name) for name in body}
    assert (job.definition.managed_by, job.definition.max_age, job.error) == ("sql", wanted.max_age, None)


async def test_a_definition_is_inserted_as_its_body_is(database: Database, control: ControlStore) -> None:
    await execute(database, parse_job(FULL).definition)

    job = await control.get_job("job")
    assert job is not None
    assert job.definition.payload == FULL["payload"]


async def test_times_due_before_the_commit_fire_after_it(database: Database, store: EngineStore) -> None:
    await execute(database, BODY)

    now = await store.sample_time()
    assert await planned_runs(store, now + 2 * MINUTE) == 1


async def test_a_job_never_fires_for_what_was_before_its_statement(database: Database, store: EngineStore) -> None:
    await execute(database, BODY | {"schedule": "@yearly", "catch_up": "all"})

    assert await planned_runs(store, await store.sample_time()) == 0


def one_shot(at: datetime) -> dict[str, Any]:
    return BODY | {"schedule": f"at {text_of(at)}"}


def text_of(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@pytest.mark.parametrize("before", [SECOND, 20 * SECOND], ids=str)
async def test_a_one_shot_job_for_right_now_fires(database: Database, store: EngineStore, before: Any) -> None:
    await execute(database, one_shot(await store.sample_time() - before))

    assert await planned_runs(store, await store.sample_time()) == 1


async def test_a_one_shot_job_of_the_past_is_an_error(database: Database, store: EngineStore) -> None:
    at = await store.sample_time() - 2 * MINUTE

    with pytest.raises(Exception, match=r"job would never fire: its end was .*; give it a later one"):
        await execute(database, one_shot(at))
    assert await database.rows("jobs") == []


async def test_a_job_that_has_ended_is_an_error(database: Database, store: EngineStore) -> None:
    now = await store.sample_time()

    with pytest.raises(Exception, match="job would never fire: its end was"):
        await execute(database, BODY | {"ends_at": text_of(now - SECOND)})
    await execute(database, BODY | {"ends_at": text_of(now + MINUTE)})
    assert len(await database.rows("jobs")) == 1


@pytest.mark.parametrize("way", ["ignore", "replace"])
async def test_a_job_of_the_past_that_may_be_there_can_be_asked_for_again(
    database: Database, store: EngineStore, way: str
) -> None:
    past = one_shot(await store.sample_time() - 2 * MINUTE)
    await execute(database, past, if_exists=way)
    await execute(database, past, if_exists=way)

    assert await planned_runs(store, await store.sample_time()) == 0
    assert len(await database.rows("jobs")) == 1


async def test_a_taken_name_is_an_error(database: Database, control: ControlStore) -> None:
    await add_job(control)

    with pytest.raises(Exception, match=r"(?i)unique constraint"):
        await execute(database, BODY)


async def test_a_taken_name_can_be_ignored(database: Database, control: ControlStore) -> None:
    job = await add_job(control)
    await execute(database, BODY | {"schedule": "@daily"}, if_exists="ignore")

    assert await control.get_job("job") == job


async def test_a_deleted_job_does_not_take_its_name(database: Database, control: ControlStore) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0))
    await execute(database, BODY)

    assert len(await database.rows("jobs")) == 2


async def test_a_replaced_job_is_a_new_version_of_the_same(
    database: Database, store: EngineStore, control: ControlStore
) -> None:
    await execute(database, BODY, if_exists="replace")
    await planned_runs(store, await store.sample_time())
    old = await control.get_job("job")
    await execute(database, BODY, if_exists="replace")
    same = await control.get_job("job")
    await execute(database, FULL | {"enabled": True}, if_exists="replace")
    await planned_runs(store, await store.sample_time())

    new = await control.get_job("job")
    assert old == same
    assert old is not None
    assert new is not None
    assert (new.id, new.version, new.definition.timezone) == (old.id, 2, "Europe/Paris")
    assert (await store.definitions([(new.id, 2)]))[new.id, 2] == new.definition


async def test_a_replaced_job_that_somebody_paused_stays_paused(database: Database, control: ControlStore) -> None:
    await execute(database, BODY)
    job = await control.get_job("job")
    assert job is not None
    await control.pause_job(job.id, Actor(BY, T0), note="tea", until=None, cancel_waiting=False)

    await execute(database, BODY | {"description": "new"}, if_exists="replace")

    [row] = await database.rows("jobs")
    assert (row["description"], bool(row["enabled"]), row["paused_note"]) == ("new", False, "tea")


async def test_a_replaced_job_that_sql_switched_off_is_switched_on(database: Database, control: ControlStore) -> None:
    await execute(database, BODY | {"enabled": False})
    await execute(database, BODY, if_exists="replace")

    job = await control.get_job("job")
    assert job is not None
    assert job.definition.enabled


async def test_a_job_that_is_managed_elsewhere_is_not_replaced(database: Database, control: ControlStore) -> None:
    job = await add_job(control)

    with pytest.raises(Exception, match="job is managed by api; change it there"):
        await execute(database, BODY, if_exists="replace")
    assert await control.get_job("job") == job


async def test_a_definition_of_code_is_managed_by_sql(database: Database) -> None:
    await execute(database, a_job(managed_by="code", source="app"))

    [row] = await database.rows("jobs")
    assert (row["managed_by"], row["source"]) == ("sql", "")
