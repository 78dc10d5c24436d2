"""How much SQLite writes for a claim does not depend on how many runs wait."""

from pathlib import Path

import apsw
import pytest

from hourbell.store.base import Want
from hourbell.store.sqlite.engine import SqliteEngineStore
from hourbell.store.sqlite.values import microseconds
from tests.contract.steps import HOUR, NODE, T0
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
CLAIMED = 500
# Planned in one pass: they are ready and expire together, and their ids are random.
WAITING = """insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                                        rank, lane, planned_at)
with recursive n (n) as (select 0 union all select n + 1 from n where n + 1 < ?1)
select randomblob(16), zeroblob(16), 1, 'scheduled', ?2 + n, ?2, ?2, ?2 + 1, 1, 'task:a', ?2 from n"""


async def pages_of_a_claim(waiting: int) -> int:
    """The pages that a claim adds to the write-ahead log while so many runs wait."""
    async with SqliteDatabase.in_file() as database:
        database.connection.execute(WAITING, (waiting, microseconds(T0))).fetchall()
        store = SqliteEngineStore(database.runner())
        await store.sample_time()
        database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        runs = await store.claim(NODE, T0, T0 + HOUR, [Want("task:a", CLAIMED)])
        assert len(runs) == CLAIMED
        return Path(f"{database.path}-wal").stat().st_size // 4096


async def test_a_claim_writes_no_more_pages_the_more_runs_wait() -> None:
    few, many = await pages_of_a_claim(2 * CLAIMED), await pages_of_a_claim(100 * CLAIMED)

    assert many < 1.5 * few
