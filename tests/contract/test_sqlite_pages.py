"""Planning, claiming and settling runs writes few pages however many there are, and each page of a list is cheap."""

from datetime import timedelta
from pathlib import Path
from uuid import UUID

import apsw
import pytest

from hourbell.core.run.run import scheduled_run_id
from hourbell.store.base import LaneDemand
from hourbell.store.lists.query import ListPosition, RunList, RunQuery
from hourbell.store.sqlite.engine import SqliteEngineStore
from hourbell.store.sqlite.values import microseconds
from tests.contract.steps import HOUR, MINUTE, NODE, T0, add_backlog, plan_all, run_and_finish
from tests.contract.test_list_plans import SqliteWork
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
CLAIMED = 500
MICROSECOND = timedelta(microseconds=1)
# Planned in one pass: they are ready and expire together, and their ids are random.
WAITING = """insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                                        rank, lane, planned_at)
with recursive n (n) as (select 0 union all select n + 1 from n where n + 1 < ?1)
select randomblob(16), zeroblob(16), 1, 'scheduled', ?2 + n, ?2, ?2, ?2 + 1, 1, 'task:a', ?2 from n"""


# A history of one job, as far as indexes by id go.
ENDED = """insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank,
                                      lane, planned_at, state, attempt, started_at, finished_at)
values (?1, ?2, 1, 'scheduled', ?3, ?3, ?3, ?3, 1, 'task:a', ?3, 'succeeded', 1, ?3, ?3)"""
TRIED = """insert into hourbell_attempts (run_id, number, node, started_at, finished_at, outcome)
select id, 1, job_id, started_at, finished_at, 'succeeded' from hourbell_runs"""


async def pages_of_runs(ended: int) -> int:
    """The pages that runs add to the write-ahead log from their planning to their end, after so many others."""
    async with SqliteDatabase.in_file() as database:
        store, job = database.engine(), await add_backlog(database.control())
        instants = [T0 - number * MINUTE for number in range(ended)]
        rows = [(scheduled_run_id(job.id, at).bytes, job.id.bytes, microseconds(at)) for at in instants]
        with database.connection:
            database.connection.executemany(ENDED, rows)
            database.connection.execute(TRIED)
        database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        now = T0 + CLAIMED * MINUTE
        await plan_all(store, now)
        assert len(await run_and_finish(store, count=CLAIMED, now=now)) == CLAIMED
        return Path(f"{database.path}-wal").stat().st_size // 4096


async def test_a_run_writes_no_more_pages_the_more_have_ended() -> None:
    few, many = await pages_of_runs(CLAIMED), await pages_of_runs(100 * CLAIMED)

    assert many < 1.5 * few


async def pages_of_a_claim(waiting: int) -> int:
    """The pages that a claim adds to the write-ahead log while so many runs wait."""
    async with SqliteDatabase.in_file() as database:
        database.connection.execute(WAITING, (waiting, microseconds(T0))).fetchall()
        store = SqliteEngineStore(database.runner())
        await store.sample_time()
        database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        runs = await store.claim(NODE, T0, T0 + HOUR, [LaneDemand("task:a", CLAIMED)])
        assert len(runs) == CLAIMED
        return Path(f"{database.path}-wal").stat().st_size // 4096


async def test_a_claim_writes_no_more_pages_the_more_runs_wait() -> None:
    few, many = await pages_of_a_claim(2 * CLAIMED), await pages_of_a_claim(100 * CLAIMED)

    assert many < 1.5 * few


async def test_a_page_of_runs_that_expire_together_costs_the_same_wherever_it_begins() -> None:
    async with SqliteDatabase.in_memory() as database:
        database.connection.execute(WAITING, (100 * CLAIMED, microseconds(T0))).fetchall()
        lists = SqliteWork(database.runner())
        lists.connection, lists.counts = database.connection, []
        [(late,)] = database.connection.execute("select id from hourbell_runs where rowid = ?", (99 * CLAIMED,))
        query, last = RunQuery(RunList.WAITING), ListPosition(T0 + MICROSECOND, UUID(bytes=late))
        first_page = await lists.runs(query, 50)
        near_the_start = sum(lists.counts)
        lists.counts.clear()
        later_page = await lists.runs(query, 50, last)
        near_the_end = sum(lists.counts)

        assert {run.id for run in first_page}.isdisjoint(run.id for run in later_page)
        assert len(first_page) == len(later_page) == 50
        assert near_the_end < 1.5 * near_the_start
