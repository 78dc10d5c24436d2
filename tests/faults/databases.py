"""A database for a scenario, its URL for processes, and the end of a scenario before its tables are checked."""

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager

import apsw

from hourbell.clock import elapsed
from hourbell.store.control.actor import Actor
from tests.database import Database, PostgresDatabase
from tests.faults.verdict import Backend
from tests.sqlite_database import SqliteDatabase


def database_for(backend: Backend) -> AbstractAsyncContextManager[Database]:
    """An empty database with the schema, which is gone after the scenario."""
    return PostgresDatabase.made() if backend == "postgres" else SqliteDatabase.in_file()


def url_of(database: Database) -> str:
    if isinstance(database, SqliteDatabase):
        return f"sqlite:///{database.path}"
    assert isinstance(database, PostgresDatabase)
    return database.url


async def is_writable(database: Database) -> bool:
    """Return True if no process blocks all other writers, as a transaction on SQLite does, for half a second."""
    if not isinstance(database, SqliteDatabase):
        return True
    connection = apsw.Connection(database.path)
    try:
        connection.set_busy_timeout(500)
        await asyncio.to_thread(lambda: connection.execute("begin immediate; rollback").fetchall())
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


async def pause_all(database: Database) -> None:
    """Each job plans what is due and then nothing more, so that there is an end to look at."""
    store, control = database.engine(), database.control()
    for job in await database.rows("jobs"):
        now = await store.sample_time()
        await control.pause_job(job["id"], Actor("campaign", now), note="", until=None, cancel_waiting=False)


async def come_to_rest(database: Database, seconds: float) -> Counter[str]:
    """Plan nothing more and wait until every run has ended; the states of those that have not by then."""
    await pause_all(database)
    end = elapsed() + seconds
    while True:
        left = Counter(run["state"] for run in await database.rows("runs") if run["finished_at"] is None)
        if not left or elapsed() > end:
            return left
        await asyncio.sleep(0.2)


def integrity_of(database: SqliteDatabase) -> str:
    """Run SQLite's integrity check: `ok`, or the damage."""
    return "; ".join(str(row[0]) for row in database.connection.execute("pragma integrity_check"))
