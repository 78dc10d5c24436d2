"""Cost of alerts where nothing is wrong: a batch of successes takes no further round trip and touches no index."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hourbell.core.run.settle import Failed
from hourbell.store.base import EngineStore, LaneDemand
from hourbell.store.control.store import ControlStore
from hourbell.store.postgres.engine import PostgresEngineStore
from tests.contract.steps import HOUR, MINUTE, NODE, SECOND, T0, a_waiting_job, settled
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio
JOBS, BATCHES = 10, 4  # few enough for one page of the table, where a row finds room for its next version
BROKEN = Failed("HTTP 503", retryable=False)


async def claim_one_of_each(store: EngineStore, batch: int) -> list[Any]:
    now = T0 + HOUR + batch * MINUTE
    demands = [LaneDemand(f"task:lane-{number:02}", 1) for number in range(JOBS)]
    return await store.claim(NODE, now, now + MINUTE, demands)


async def add_jobs(store: EngineStore, control: ControlStore) -> None:
    for number in range(JOBS):
        await a_waiting_job(store, control, f"job-{number:02}", BATCHES, lane=f"lane-{number:02}")


@pytest.fixture
async def postgres() -> AsyncIterator[PostgresDatabase]:
    async with PostgresDatabase.made() as made:
        yield made


async def test_successes_leave_the_watchers_nothing_to_do(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_jobs(store, control)
    for batch in range(BATCHES):
        now = T0 + HOUR + batch * MINUTE + SECOND
        runs = await claim_one_of_each(store, batch)
        await store.settle([settled(run, now=now) for run in runs])

        assert len(runs) == JOBS
        assert {row["alert_at"] for row in await database.rows("job_stats")} == {None}
        assert not await database.alerts().has_work(now)


async def test_a_batch_of_successes_is_one_statement(
    postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, statements = postgres.engine(), list[str]()
    await add_jobs(store, postgres.control())
    runs = await claim_one_of_each(store, 0)
    connections: Any = store._connections
    connect = connections.connection

    @asynccontextmanager
    async def logged() -> AsyncIterator[Any]:
        async with connect() as connection:
            with connection.query_logger(lambda record: statements.append(record.query)):
                yield connection

    monkeypatch.setattr(connections, "connection", logged)
    await store.settle([settled(run) for run in runs])

    assert len(statements) == 1, statements


async def test_successes_after_successes_touch_no_index_and_a_failure_does(postgres: PostgresDatabase) -> None:
    store = postgres.engine()
    await add_jobs(store, postgres.control())
    found = []
    for batch in range(BATCHES):
        runs = await claim_one_of_each(store, batch)
        now, before = T0 + HOUR + batch * MINUTE + SECOND, await updates(postgres, store)
        outcome = BROKEN if batch == BATCHES - 1 else None
        await store.settle([settled(run, outcome, now=now) for run in runs])
        found.append(tuple(after - first for first, after in zip(before, await updates(postgres, store), strict=True)))

    assert found == [(0, 0), (JOBS, JOBS), (JOBS, JOBS), (JOBS, 0)]


async def updates(postgres: PostgresDatabase, store: PostgresEngineStore) -> tuple[int, int]:
    """Return how many rows of the statistics were updated, and how many of these touched no index."""
    async with store._connections.connection() as one, store._connections.connection() as other:
        for connection in (one, other):
            await connection.execute("select pg_stat_force_next_flush()")
    query = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'job_stats'"
    row = await postgres.connection.fetchrow(query)
    return row["n_tup_upd"], row["n_tup_hot_upd"]
