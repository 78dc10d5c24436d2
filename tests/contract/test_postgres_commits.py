"""Acknowledged writes are on disk: a claim before its effect begins, and a settlement before the run is released."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.store.base import EngineStore
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.engine import PostgresEngineStore
from tests.contract.steps import a_waiting_job, claim, finish
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def durable(postgres: PostgresDatabase) -> AsyncIterator[Connections]:
    """Connections with the default of a server; that of the tests does not wait for its disk."""
    connections = Connections(f"{postgres.url}&synchronous_commit=on", by_key=True)
    yield connections
    await connections.close()


async def test_a_claim_and_a_settlement_are_on_disk_with_all_that_came_before(
    postgres: PostgresDatabase, durable: Connections
) -> None:
    store: EngineStore = PostgresEngineStore(durable)
    await a_waiting_job(store, postgres.control(), count=3)
    planned = await written(postgres)
    [run, *_] = await claim(store, free=3)
    on_disk_when_claimed = await flushed(postgres)
    claimed = await written(postgres)
    await finish(store, [run])

    assert on_disk_when_claimed >= planned
    assert await flushed(postgres) >= claimed


async def written(database: PostgresDatabase) -> Any:
    """Return the flushed position of the log; 0 is its beginning."""
    return await database.connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'")


async def flushed(database: PostgresDatabase) -> Any:
    return await database.connection.fetchval("select pg_current_wal_flush_lsn() - '0/0'")
