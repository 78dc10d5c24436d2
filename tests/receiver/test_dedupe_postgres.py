"""Each run once, in the receiver's own transaction, on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from hourbell.receiver import CREATE_TABLE, forget, forget_async, once, once_async
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio
DAY = timedelta(days=1)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A receiver's own database, which has never seen Hourbell."""
    async with PostgresDatabase.made(migrated=False) as made:
        await made.connection.execute(CREATE_TABLE)
        yield made.url


@pytest.fixture
async def pair(url: str) -> AsyncIterator[tuple[Any, Any]]:
    first, second = await asyncpg.connect(url), await asyncpg.connect(url)
    yield first, second
    await first.close()
    await second.close()


async def until_waiting(observer: Any, waiting: asyncio.Task[bool]) -> None:
    """Come back when a session waits for another one's transaction."""
    while not await observer.fetchval("select count(*) from pg_locks where not granted"):
        assert not waiting.done()
        await asyncio.sleep(0.01)


async def test_a_run_is_new_the_first_time_only(pair: tuple[Any, Any]) -> None:
    first, second = pair
    async with first.transaction():
        assert await once_async(first, "a")
        assert not await once_async(first, "a")

    async with second.transaction():
        assert not await once_async(second, "a")
        assert await once_async(second, "b")


@pytest.mark.parametrize("first_commits", [True, False])
async def test_a_second_delivery_waits_for_the_end_of_the_first(pair: tuple[Any, Any], first_commits: bool) -> None:
    first, second = pair
    holding = first.transaction()
    await holding.start()
    assert await once_async(first, "a")

    async with second.transaction():
        waiting = asyncio.create_task(once_async(second, "a"))
        await until_waiting(first, waiting)
        await (holding.commit() if first_commits else holding.rollback())
        assert await waiting is not first_commits


async def test_one_of_many_concurrent_deliveries_does_the_work(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=1, max_size=8) as pool:
        await pool.execute("create table work (id text)")

        async def deliver() -> None:
            async with pool.acquire() as connection, connection.transaction():
                if await once_async(connection, "a"):
                    await connection.execute("insert into work values ('a')")

        await asyncio.gather(*(deliver() for _ in range(24)))
        assert [row["id"] for row in await pool.fetch("select id from work")] == ["a"]


async def test_without_a_transaction_nothing_is_written(pair: tuple[Any, Any]) -> None:
    with pytest.raises(RuntimeError, match="begin a transaction first"):
        await once_async(pair[0], "a")

    assert await pair[0].fetchval("select count(*) from hourbell_received") == 0


async def test_old_ids_are_forgotten(pair: tuple[Any, Any]) -> None:
    connection, _ = pair
    for days in (29, 31, 32):
        age = days * DAY
        await connection.execute("insert into hourbell_received values ($1, now() - $2::interval)", str(days), age)

    assert await forget_async(connection, 30 * DAY) == 2
    assert [row["id"] for row in await connection.fetch("select id from hourbell_received")] == ["29"]
    with pytest.raises(ValueError, match="older than some time"):
        await forget_async(connection, timedelta(0))


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    made = psycopg.connect(url)
    yield made
    made.close()


async def test_psycopg_writes_in_its_own_transaction(connection: Any) -> None:
    assert once(connection, "a")
    connection.rollback()
    assert once(connection, "a")
    connection.commit()
    assert not once(connection, "a")


async def test_psycopg_without_a_transaction_writes_nothing(connection: Any) -> None:
    connection.autocommit = True

    with pytest.raises(RuntimeError, match="begin a transaction first"):
        once(connection, "a")
    connection.cursor().execute("begin")
    assert once(connection, "a")


async def test_psycopg_forgets_old_ids(connection: Any) -> None:
    connection.cursor().execute("insert into hourbell_received values ('old', now() - interval '31 days')")
    once(connection, "new")

    assert forget(connection, 30 * DAY) == 1
    assert not once(connection, "new")
