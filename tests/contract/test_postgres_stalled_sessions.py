"""A process that is frozen in the middle of a statement keeps no rows from the others."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from hourbell.core.run.settle import settle_lost
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.postgres.stalled_sessions import STALLED_AFTER
from hourbell.store.postgres.transactions import _step_back
from tests.contract.steps import HOUR, MINUTE, T0, a_waiting_job, claim
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio

STARTED = T0 + HOUR
LATER = STARTED + 2 * MINUTE
BATCH = 100
LOCK = "begin; select id from hourbell.runs for update"


@asynccontextmanager
async def stalled_session(postgres: PostgresDatabase, name: str, statement: str = LOCK) -> AsyncIterator[Any]:
    """A session that ran a statement and then sent only the first part of another one."""
    connection = await asyncpg.connect(postgres.url, server_settings={"application_name": name})
    await connection.execute(statement)
    parse = b"\0select 1\0" + struct.pack(">h", 0)
    connection._transport.write(b"P" + struct.pack(">i", 4 + len(parse)) + parse + b"H" + struct.pack(">i", 4))
    await _until_waits(postgres, connection.get_server_pid())
    yield connection
    connection.terminate()


async def _until_waits(postgres: PostgresDatabase, pid: int) -> None:
    waits = "select state = 'active' and wait_event = 'ClientRead' from pg_stat_activity where pid = $1"
    async with asyncio.timeout(10):
        while not await postgres.connection.fetchval(waits, pid):
            await asyncio.sleep(0.01)


async def _lives(postgres: PostgresDatabase, pid: int) -> bool:
    return bool(await postgres.connection.fetchval("select count(*) from pg_stat_activity where pid = $1", pid))


def _store(postgres: PostgresDatabase, stalled_after: timedelta = timedelta(0)) -> PostgresEngineStore:
    return PostgresEngineStore(postgres.connections(by_key=True), stalled_after=stalled_after)


@pytest.mark.parametrize("name", ["hourbell", "hourbell functions"])
async def test_runs_of_a_process_frozen_within_a_statement_are_taken_over(
    postgres: PostgresDatabase, name: str
) -> None:
    store = _store(postgres)
    await a_waiting_job(store, postgres.control())
    [run] = await claim(store, now=STARTED)

    async with stalled_session(postgres, name) as session:
        lost = []
        async with asyncio.timeout(10):
            while not lost:  # the session ends a moment after it was asked to
                lost = await store.reap(LATER, BATCH, settle_lost)
        assert not await _lives(postgres, session.get_server_pid())

    assert [settlement.run.id for settlement in lost] == [run.id]


async def test_from_version_17_on_the_server_ends_a_stalled_settlement_by_itself(postgres: PostgresDatabase) -> None:
    """So do those of a login for functions that the engine's role may not act for."""
    if postgres.connection.get_server_version().major < 17:
        return
    async with postgres.connection.transaction():
        await postgres.sql(_step_back(postgres.connection))
        assert await postgres.connection.fetchval("show transaction_timeout") == "30s"

    async with stalled_session(postgres, "other", f"{LOCK}; set local transaction_timeout = '200ms'") as session:
        async with asyncio.timeout(10):
            while await _lives(postgres, session.get_server_pid()):
                await asyncio.sleep(0.01)


async def test_a_session_that_waits_only_for_a_moment_is_left_alone(postgres: PostgresDatabase) -> None:
    store = _store(postgres, STALLED_AFTER)

    async with stalled_session(postgres, "hourbell") as session:
        await store.reap(LATER, BATCH, settle_lost)
        assert await _lives(postgres, session.get_server_pid())


async def test_sessions_of_other_programs_are_left_alone(postgres: PostgresDatabase) -> None:
    async with stalled_session(postgres, "psql") as session:
        await _store(postgres).reap(LATER, BATCH, settle_lost)
        assert await _lives(postgres, session.get_server_pid())


async def test_a_session_that_works_is_left_alone(postgres: PostgresDatabase) -> None:
    other = await asyncpg.connect(postgres.url, server_settings={"application_name": "hourbell"})
    working = asyncio.ensure_future(other.fetchval("select count(*) from pg_sleep(0.5)"))
    await asyncio.sleep(0.1)

    await _store(postgres).reap(LATER, BATCH, settle_lost)

    assert await working == 1
    await other.close()


@pytest.mark.parametrize("rule", ["select 1", "revoke execute on function pg_terminate_backend from public"])
async def test_sessions_that_this_role_may_not_end_are_left_alone(postgres: PostgresDatabase, rule: str) -> None:
    """And the reaper does not fail because of them."""
    name = f"limited_{uuid4().hex}"
    await postgres.sql(f"create role {name} login; grant all on schema hourbell to {name}")
    await postgres.sql(f"grant all on all tables in schema hourbell to {name}")
    await postgres.sql(rule)
    try:
        url = postgres.url.replace("postgres@", f"{name}@", 1)
        assert url != postgres.url
        limited = PostgresDatabase(url, postgres.connection)
        async with stalled_session(postgres, "hourbell", "begin") as session:
            store = _store(limited)
            assert await store.reap(LATER, BATCH, settle_lost) == []
            assert await _lives(postgres, session.get_server_pid())
        for connections in limited._opened:
            await connections.close()
    finally:
        await postgres.sql(f"drop owned by {name}; drop role {name}")
