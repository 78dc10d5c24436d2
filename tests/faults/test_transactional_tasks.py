"""Tasks that work in the transaction of their run, in processes that die at every point of it: exactly once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hourbell.store.control.actor import Actor
from tests.database import Database, PostgresDatabase
from tests.faults.accounts import unfinished
from tests.faults.process import Server
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

POINTS = ["before", "inside", "settled", "after"]
LEASE, REAP, GRACE = 3, 1, 20  # seconds; the last for a busy machine
SETTINGS = {
    "HOURBELL_LEASE": f"{LEASE}s",
    "HOURBELL_REAP_INTERVAL": f"{REAP}s",
    "HOURBELL_POISON_AFTER": "1000",  # out of the way
}

APP = """
import os, signal
from pathlib import Path
import asyncpg
from hourbell import Scheduler

scheduler = Scheduler()
point_file = Path("point")

def die(point):
    if point_file.read_text() == point:
        os.kill(os.getpid(), signal.SIGKILL)

async def die_before_the_commit(connection):
    if isinstance(connection, asyncpg.pool.PoolConnectionProxy):
        return  # executing_or_dying sees the commit
    def hook():
        die("settled")
        return False
    await connection._ask(lambda session: session.connection.set_commit_hook(hook))

execute = asyncpg.Connection.execute

async def executing_or_dying(connection, query, *arguments, **options):
    if query == "commit":  # only tasks' transactions say it so
        die("settled")
    return await execute(connection, query, *arguments, **options)

asyncpg.Connection.execute = executing_or_dying

@scheduler.job("* * * * * *", catch_up="all", retry={"attempts": 20, "backoff": [0]})
async def work(run):
    die("before")
    async with run.transaction() as connection:
        await die_before_the_commit(connection)
        await connection.execute("insert into effects values ($1, $2)", str(run.id), run.attempt)
        die("inside")
        run.result = "effected"
    die("after")
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with PostgresDatabase.made() if request.param == "postgres" else SqliteDatabase.in_file() as opened:
        await opened.sql("create table effects (run_id text, attempt integer)")
        yield opened


async def test_a_run_that_succeeded_has_its_effect_once_wherever_its_process_died(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    point = tmp_path / "point"
    settings = SETTINGS | {"DATABASE_URL": _url(database)}
    for wanted in POINTS:
        point.write_text(wanted)
        with Server(tmp_path, "--app", "app:scheduler", name=wanted, **settings) as server:
            assert server.wait(30) == -9
    point.write_text("nowhere")
    with Server(tmp_path, "--app", "app:scheduler", **settings) as server:
        server.wait_until_serving()
        await _pause(database)
        await _until_finished(database)

    runs, attempts = await database.rows("runs"), await database.rows("attempts")
    effects = await _effects(database)
    lost = [row for row in attempts if row["outcome"] == "lost"]
    assert {run["state"] for run in runs} == {"succeeded"}
    assert Counter(effects) == Counter((str(run["id"]), run["attempt"]) for run in runs)
    assert {run["result"] for run in runs} == {"effected"}
    assert len(lost) >= len(POINTS) - 1  # who died after the commit had nothing left to lose


async def _pause(database: Database) -> None:
    [job] = await database.rows("jobs")
    now = await database.engine().sample_time()
    await database.control().pause_job(job["id"], Actor("test", now), note="", until=None, cancel_waiting=False)


async def _until_finished(database: Database) -> None:
    end = time.monotonic() + LEASE + REAP + GRACE
    while left := unfinished(await database.rows("runs")):
        assert time.monotonic() < end, left
        await asyncio.sleep(0.1)


async def _effects(database: Database) -> list[tuple[str, int]]:
    if isinstance(database, SqliteDatabase):
        return [tuple(row) for row in database.connection.execute("select * from effects").fetchall()]
    assert isinstance(database, PostgresDatabase)
    return [tuple(row) for row in await database.connection.fetch("select * from effects")]


def _url(database: Database) -> str:
    if isinstance(database, SqliteDatabase):
        return f"sqlite:///{database.path}"
    assert isinstance(database, PostgresDatabase)
    return database.url
