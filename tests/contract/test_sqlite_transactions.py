"""SQLite's write lock is never held for long or by mistake."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from itertools import count
from uuid import UUID

import apsw
import pytest

from hourbell import clock
from hourbell.core.run.run import Run
from hourbell.store.base import LeaseKey
from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.transactions import MAX_TRANSACTION_SECONDS, SqliteTransactionStore, TooLong
from hourbell.store.sqlite.writer import WriterThread
from tests.contract.steps import a_waiting_job, claim, settled
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

NOBODY = LeaseKey(UUID(int=1), 1)
FOR_EVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"


@pytest.fixture
async def database() -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase.in_file() as made:
        await made.sql("create table effects (note text primary key)")
        yield made


@pytest.fixture
async def run(database: SqliteDatabase) -> Run:
    store = database.engine()
    await a_waiting_job(store, database.control())
    [claimed] = await claim(store)
    return claimed


def made(database: SqliteDatabase, elapsed: Callable[[], float] = clock.elapsed) -> SqliteTransactionStore:
    return SqliteTransactionStore(WriterThread(database.path), elapsed=elapsed)


async def ask_for_ever(transactions: SqliteTransactionStore) -> None:
    async with transactions.transaction(NOBODY) as opened:
        await opened.connection.execute("insert into effects values ('a')")
        await opened.connection.fetchval(FOR_EVER)


async def notes(database: SqliteDatabase) -> list[str]:
    return [row[0] for row in database.connection.execute("select note from effects order by 1").fetchall()]


async def test_the_event_loop_is_not_blocked_while_a_statement_runs(database: SqliteDatabase) -> None:
    transactions = made(database, lambda: 0.0)
    async with transactions.transaction(NOBODY) as opened:
        asking = asyncio.ensure_future(opened.connection.fetchval(FOR_EVER.replace("from n)", "from n where i < 3e5)")))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1

    assert turns > 10
    await transactions.close()


async def test_the_engine_waits_for_the_block_and_then_continues(database: SqliteDatabase, run: Run) -> None:
    transactions, store = made(database), database.engine()
    async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
        await opened.connection.execute("insert into effects values ('a')")
        waiting = asyncio.ensure_future(store.check_tzdata("2026a"))
        await asyncio.sleep(0.05)
        assert not waiting.done()

    await waiting
    await transactions.close()


async def test_until_its_first_statement_a_block_holds_nobody_up(database: SqliteDatabase) -> None:
    transactions, store = made(database), database.engine()
    async with transactions.transaction(NOBODY):
        await store.check_tzdata("2026a")
    await transactions.close()


async def test_a_block_that_takes_too_long_is_rolled_back(database: SqliteDatabase, run: Run) -> None:
    times = count(0, MAX_TRANSACTION_SECONDS)
    transactions = made(database, lambda: next(times))

    async def work_slowly() -> None:
        async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
            await opened.connection.execute("insert into effects values ('a')")
            await opened.settle(settled(run))

    with pytest.raises(TooLong, match="may last 5 s"):
        await work_slowly()
    assert await notes(database) == []
    await database.engine().check_tzdata("2026a")
    await transactions.close()


async def test_a_statement_that_takes_too_long_is_interrupted(database: SqliteDatabase) -> None:
    times = count(0.0, MAX_TRANSACTION_SECONDS / 5)
    transactions = made(database, lambda: next(times))
    with pytest.raises(TooLong):
        await ask_for_ever(transactions)
    assert await notes(database) == []
    await transactions.close()


async def test_a_transaction_that_sqlite_rolled_back_goes_no_further(database: SqliteDatabase, run: Run) -> None:
    transactions = made(database)

    async def go_on_regardless() -> None:
        async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
            await opened.connection.execute("insert into effects values ('a')")
            with pytest.raises(apsw.ConstraintError):
                await opened.connection.execute("insert or rollback into effects values ('a')")
            await opened.settle(settled(run))

    with pytest.raises(StoreUnavailable, match="rolled back"):
        await go_on_regardless()
    assert await notes(database) == []
    assert [row["state"] for row in await database.rows("runs")] == ["running"]
    await transactions.close()


async def test_a_statement_that_fails_undoes_only_itself(database: SqliteDatabase) -> None:
    transactions = made(database)
    async with transactions.transaction(NOBODY) as opened:
        await opened.connection.execute("insert into effects values ('a')")
        with pytest.raises(apsw.ConstraintError):
            await opened.connection.execute("insert into effects values ('a')")
        await opened.connection.execute("savepoint one")
        await opened.connection.execute("insert into effects values ('b')")
        await opened.connection.execute("rollback to one")

    assert await notes(database) == ["a"]
    await transactions.close()


async def test_values_are_bound_to_either_kind_of_placeholder(database: SqliteDatabase) -> None:
    transactions = made(database)
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    async with transactions.transaction(NOBODY) as opened:
        fetchrow = opened.connection.fetchrow
        assert tuple(await fetchrow("select ?, ?", 1, "b")) == (1, "b")
        assert tuple(await fetchrow("select $2, $1, $2, '$3'", "a", "b")) == ("b", "a", "b", "$3")
        assert tuple(await fetchrow("select $1, $2", UUID(int=7), at)) == (
            str(UUID(int=7)),
            "2026-03-02T09:00:00+00:00",
        )
        with pytest.raises(apsw.BindingsError):
            await fetchrow("select ?, ?", 1)
    await transactions.close()


async def test_a_block_may_ask_for_several_things_at_once(database: SqliteDatabase) -> None:
    transactions = made(database)
    async with transactions.transaction(NOBODY) as opened:
        execute = opened.connection.execute
        await asyncio.gather(*(execute("insert into effects values (?)", letter) for letter in "abc"))

    assert await notes(database) == ["a", "b", "c"]
    await transactions.close()


async def test_a_statement_that_nobody_waits_for_any_more_ends_with_its_block(database: SqliteDatabase) -> None:
    transactions = made(database)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask_for_ever(transactions), 0.2)

    assert await notes(database) == []
    await database.engine().check_tzdata("2026a")
    await transactions.close()
