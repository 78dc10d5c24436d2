"""Connections are warmed up before a job is due."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.planning import SQL
from hourbell.store.postgres.warming import warm_up
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def connections(postgres: PostgresDatabase) -> AsyncIterator[Connections]:
    connections = Connections(postgres.url, by_key=True, warm_up=warm_up)
    yield connections
    await connections.close()


async def test_no_statement_of_the_engine_asks_for_types_first(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    ask = asyncpg.Connection._introspect_types

    async def note(self: Any, types: Any, timeout: Any) -> Any:
        asked.append(types)
        return await ask(self, types, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", note)
    async with connections.connection() as connection:
        assert len(asked) == 1, "the connection learns them all at once when it is opened"
        for statement in SQL.values():
            await connection.prepare(statement)

    assert len(asked) == 1


async def test_changes_between_a_scheduled_time_and_its_task_are_planned_first(connections: Connections) -> None:
    async with connections.connection() as connection:
        rows = await connection.fetch("select statement from pg_prepared_statements where generic_plans > 0")

    planned = {row["statement"] for row in rows}
    assert [name for name in ("due_jobs", "save_plans", "claim") if SQL[name] not in planned] == []


async def test_a_connection_is_known_as_its_own_until_it_is_gone(connections: Connections) -> None:
    async with connections.connection() as connection:
        pid = connection.get_server_pid()
        assert connections.has(pid)
        connection.terminate()
    await asyncio.sleep(0)  # listeners are notified in the next turn

    assert not connections.has(pid)


async def test_a_connection_that_comes_back_in_a_transaction_is_closed_and_logged(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    """A write on such a connection would not be committed: a claim would be handed out twice."""
    async with connections.connection() as connection:
        left = connection.get_server_pid()
        await connection.execute("begin")

    async with connections.connection() as connection:
        assert connection.get_server_pid() != left
        assert not connection.is_in_transaction()
    reported = [vars(record) for record in caplog.records if record.getMessage() == "connection_left_in_transaction"]
    assert [record["pid"] for record in reported] == [left]


async def test_a_transaction_that_fails_leaves_its_connection_in_use(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    pids = []

    async def fail() -> None:
        async with connections.transaction() as connection:
            pids.append(connection.get_server_pid())
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await fail()
    assert pids[0] == pids[1]
    assert caplog.records == []
