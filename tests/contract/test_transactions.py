"""The contract of transactions lent to tasks and functions: work and settlement, both or neither."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from hourbell import clock
from hourbell.core.run.run import Run
from hourbell.store.base import EngineStore, LeaseKey, Saved, TransactionStore
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import StoreUnavailable
from hourbell.store.postgres.function_connections import FunctionConnections
from hourbell.store.postgres.transactions import PostgresTransactionStore
from hourbell.store.sqlite.transactions import SqliteTransactionStore
from hourbell.store.sqlite.writer import WriterThread
from tests.contract.steps import HOUR, MINUTE, OTHER_NODE, T0, a_waiting_job, claim, lose, settled
from tests.database import Database, PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres", "sqlite"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    made = PostgresDatabase.made() if request.param == "postgres" else SqliteDatabase.in_file()
    async with made as opened:
        await opened.sql("create table effects (note text)")
        yield opened


@pytest.fixture
async def transactions(database: Database) -> AsyncIterator[TransactionStore]:
    made: TransactionStore
    if isinstance(database, SqliteDatabase):
        made = SqliteTransactionStore(WriterThread(database.path), elapsed=clock.elapsed)
    else:
        assert isinstance(database, PostgresDatabase)
        made = PostgresTransactionStore(FunctionConnections(database.url, size=2))
    yield made
    await made.close()


@pytest.fixture
async def run(store: EngineStore, control: ControlStore) -> Run:
    await a_waiting_job(store, control)
    [claimed] = await claim(store)
    return claimed


async def effects(database: Database) -> list[str]:
    assert isinstance(database, (SqliteDatabase, PostgresDatabase))
    if isinstance(database, SqliteDatabase):
        return [row[0] for row in database.connection.execute("select note from effects").fetchall()]
    return [row["note"] for row in await database.connection.fetch("select note from effects")]


async def state(database: Database) -> str:
    [row] = await database.rows("runs")
    return str(row["state"])


async def work(connection: Any) -> None:
    await connection.execute("insert into effects values ($1)", "done")


async def test_work_and_settlement_are_committed_together(
    transactions: TransactionStore, database: Database, store: EngineStore, run: Run
) -> None:
    async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
        await work(opened.connection)
        assert await opened.settle(settled(run))
        assert (await effects(database), await state(database)) == ([], "running")

    assert (await effects(database), await state(database)) == (["done"], "succeeded")
    assert [row["number"] for row in await database.rows("attempts")] == [1]
    assert await store.settle([settled(run)]) == [Saved.REPEATED]


@pytest.mark.parametrize("is_settled", [False, True])
async def test_an_exception_undoes_both(
    transactions: TransactionStore, database: Database, store: EngineStore, run: Run, is_settled: bool
) -> None:
    with suppress(ZeroDivisionError):
        async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
            await work(opened.connection)
            if is_settled:
                await opened.settle(settled(run))
            raise ZeroDivisionError

    assert (await effects(database), await state(database)) == ([], "running")
    assert await store.settle([settled(run)]) == [Saved.SAVED]


async def test_a_run_that_another_node_has_cannot_be_settled(
    transactions: TransactionStore, database: Database, store: EngineStore, run: Run
) -> None:
    await lose(store, T0 + HOUR + 2 * MINUTE)
    await claim(store, node=OTHER_NODE, now=T0 + HOUR + 3 * MINUTE)

    with suppress(LookupError):
        async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
            await work(opened.connection)
            assert not await opened.settle(settled(run))
            raise LookupError

    assert (await effects(database), await state(database)) == ([], "running")


async def test_a_block_that_is_cancelled_undoes_all_and_frees_the_next(
    transactions: TransactionStore, database: Database, run: Run
) -> None:
    begun = asyncio.Event()

    async def wait_for_ever() -> None:
        async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
            await work(opened.connection)
            begun.set()
            await asyncio.sleep(60)

    waiting = asyncio.create_task(wait_for_ever())
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
        assert await opened.settle(settled(run))
    assert (await effects(database), await state(database)) == ([], "succeeded")


@pytest.mark.parametrize("statement", ["commit", "rollback"])
async def test_a_transaction_cannot_be_ended_inside_its_block(
    transactions: TransactionStore, database: Database, run: Run, statement: str
) -> None:
    """A settlement that stood alone would promise what is not so."""

    async def end_it_inside() -> None:
        async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
            await work(opened.connection)
            await opened.connection.execute(statement)
            await opened.settle(settled(run))

    with pytest.raises((StoreUnavailable, ValueError), match="leave out begin, commit and rollback"):
        await end_it_inside()
    assert await state(database) == "running"


async def test_statements_answer_alike(transactions: TransactionStore, run: Run) -> None:
    async with transactions.transaction(LeaseKey(run.id, 1)) as opened:
        connection = opened.connection
        assert await connection.execute("insert into effects values ($1), ($2)", "b", "a") == "INSERT 0 2"
        await connection.executemany("insert into effects values ($1)", [("c",), ("d",)])
        assert await connection.execute("update effects set note = $2 where note = $1", "d", "e") == "UPDATE 1"
        rows = await connection.fetch("select note, $1 as said from effects order by note", "so")
        assert [tuple(row) for row in rows] == [("a", "so"), ("b", "so"), ("c", "so"), ("e", "so")]
        assert (rows[0]["note"], rows[0][1], dict(rows[1])) == ("a", "so", {"note": "b", "said": "so"})
        assert (await connection.fetchrow("select note from effects order by note desc"))["note"] == "e"
        assert await connection.fetchrow("select 1 from effects where false") is None
        assert await connection.fetchval("select count(*) from effects") == 4
        assert await connection.fetchval("select 1 where false") is None


async def test_one_transaction_after_another_leaves_the_engine_its_turn(
    transactions: TransactionStore, database: Database, store: EngineStore, control: ControlStore
) -> None:
    await a_waiting_job(store, control, count=40)
    runs = await claim(store, free=20)

    async def settle(one: Run) -> None:
        async with transactions.transaction(LeaseKey(one.id, 1)) as opened:
            await work(opened.connection)
            assert await opened.settle(settled(one))

    settling = asyncio.gather(*map(settle, runs))
    while not settling.done():
        await claim(store)
        await asyncio.sleep(0)

    await settling
    states = [row["state"] for row in await database.rows("runs")]
    assert (len(await effects(database)), states.count("succeeded")) == (20, 20)
    assert states.count("running") >= 1
