"""wakes and StoreUnavailable: hints arrive, and an unreachable database is reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast
from uuid import uuid4

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.settle import settle_lost
from hourbell.store.base import EngineStore, Wake
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import StoreUnavailable
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.engine import MAX_NOTIFICATIONS_A_SECOND, PostgresEngineStore
from hourbell.store.postgres.session import PostgresSessions
from tests.contract.steps import BY, HOUR, MINUTE, PASS, T0, a_waiting_job, add_job, claim, lose
from tests.database import Database, PostgresDatabase
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(store: EngineStore) -> AsyncIterator[AsyncIterator[Wake]]:
    """The hints of a store, after those that every listener gets at first."""
    async with aclosing(cast(Any, store.wakes())) as wakes:
        assert {await heard(wakes) for _ in Wake} == set(Wake)
        yield wakes


async def heard(wakes: AsyncIterator[Wake]) -> Wake:
    async with asyncio.timeout(10):
        return await anext(wakes)


async def hears(wakes: AsyncIterator[Wake], wake: Wake) -> bool:
    """Wait for a hint, whatever comes before it."""
    while await heard(wakes) is not wake:
        pass
    return True


async def test_a_new_job_wakes_other_nodes(store: EngineStore, control: ControlStore) -> None:
    async with listening(store) as wakes:
        await add_job(control)
        assert await hears(wakes, Wake.JOBS)


@pytest.mark.parametrize(
    "database", ["postgres", "sqlite"], indirect=True
)  # other processes cannot open a database in memory
async def test_a_job_changed_by_sql_wakes_nodes(store: EngineStore, control: ControlStore, database: Database) -> None:
    await add_job(control)
    async with listening(store) as wakes:
        await database.sql("update hourbell.jobs set schedule = '0 * * * *'")
        assert await hears(wakes, Wake.JOBS)


async def test_planned_runs_wake_nodes(store: EngineStore, control: ControlStore, database: Database) -> None:
    await add_job(control)
    async with listening(store) as wakes:
        await database.engine().plan_due(T0 + MINUTE, PASS, plan)
        assert await hears(wakes, Wake.RUNS)


async def test_a_triggered_run_wakes_nodes(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    async with listening(store) as wakes:
        await control.trigger_job(job.id, uuid4(), Actor(BY, T0))
        assert await hears(wakes, Wake.RUNS)


async def test_a_lost_run_wakes_nodes(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control)
    await claim(store)
    async with listening(store) as wakes:
        await lose(database.engine(), T0 + 2 * HOUR)
        assert await hears(wakes, Wake.RUNS)


async def test_planning_alone_is_no_change_of_a_job(postgres: PostgresDatabase) -> None:
    await add_job(postgres.control())
    async with listening(postgres.engine()) as wakes:
        await postgres.engine().plan_due(T0 + MINUTE, PASS, plan)
        assert await heard(wakes) is Wake.RUNS


async def test_the_node_that_planned_runs_gets_no_hint_about_them(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    await add_job(control)
    async with listening(store) as wakes:
        await store.plan_due(T0 + MINUTE, PASS, plan)
        await add_job(control, "another")
        assert await heard(wakes) is Wake.JOBS


async def test_a_flooded_listener_leaves_its_connection(postgres: PostgresDatabase) -> None:
    """Every login may notify. A listener that is flooded leaves, and gets all hints when it is back."""
    store = postgres.engine()
    async with listening(store) as wakes:
        await postgres.sql("select pg_notify('hourbell', 'jobs ' || n) from generate_series(1, 1000) n")
        assert await heard(wakes) is Wake.JOBS
        await postgres.sql(
            f"select pg_notify('hourbell', 'jobs ' || n) from generate_series(1, {MAX_NOTIFICATIONS_A_SECOND + 1}) n"
        )
        assert await hears(wakes, Wake.RUNS)  # no notification for it was sent
        assert store.hears_others


async def test_a_listener_whose_connection_died_gets_all_hints_again(postgres: PostgresDatabase) -> None:
    store = postgres.engine()
    async with listening(store) as wakes:
        assert store.hears_others
        await postgres.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and query ilike 'listen%'"
        )
        assert {await heard(wakes) for _ in Wake} == set(Wake)
        assert store.hears_others
    assert not store.hears_others


async def test_an_unknown_notification_is_a_hint_too(postgres: PostgresDatabase) -> None:
    async with listening(postgres.engine()) as wakes:
        await postgres.sql("notify hourbell, 'what is this'")
        assert await heard(wakes) in Wake


async def every_verb(store: EngineStore, control: ControlStore) -> list[str]:
    """The verbs that do not say that the database is unreachable."""
    job_id = uuid4()
    calls = {
        "sample_time": store.sample_time(),
        "plan_due": store.plan_due(T0, PASS, plan),
        "lanes": store.lanes(T0),
        "claim": claim(store),
        "reap": store.reap(T0, 10, settle_lost),
        "expire": store.expire(T0, 10),
        "settle": store.settle([]),
        "backlog": store.backlog(T0),
        "retire": store.retire(job_id),
        "create_job": add_job(control),
        "get_job": control.get_job(job_id),
        "cancel_run": control.cancel_run(job_id, Actor(BY, T0)),
    }
    answers = await asyncio.gather(*calls.values(), return_exceptions=True)
    return [name for name, answer in zip(calls, answers, strict=True) if not isinstance(answer, StoreUnavailable)]


async def test_a_server_that_was_never_there_is_unavailable() -> None:
    connections = Connections("postgresql://postgres@127.0.0.1:1/postgres")

    assert await every_verb(PostgresEngineStore(connections), ControlStore(PostgresSessions(connections))) == []


async def test_a_server_that_goes_is_unavailable_until_it_is_back(postgres: PostgresDatabase) -> None:
    with Proxy(postgres.url) as proxy:
        connections = Connections(proxy.url)
        store, control = PostgresEngineStore(connections), ControlStore(PostgresSessions(connections))
        await add_job(control)
        proxy.drop()
        assert await every_verb(store, control) == []

        proxy.restore()
        assert (await store.plan_due(T0 + MINUTE, PASS, plan)).runs == 1
        await connections.close()


async def test_a_connection_killed_in_the_middle_changes_nothing(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    await add_job(control)
    await postgres.sql(
        "create function kill_me() returns trigger language plpgsql as "
        "$$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;"
        "create trigger kill_me after insert on hourbell.runs for each statement execute function kill_me()"
    )
    with pytest.raises(StoreUnavailable):
        await store.plan_due(T0 + MINUTE, PASS, plan)

    await postgres.sql("drop trigger kill_me on hourbell.runs")
    assert (await store.plan_due(T0 + MINUTE, PASS, plan)).runs == 1
