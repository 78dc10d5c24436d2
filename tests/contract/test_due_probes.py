"""After a burst of advances PostgreSQL finds out quickly that nothing is due: the first probe passes over what the
burst left in the index, and marks it as dead for the second."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from hourbell.core.run.plan import plan
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.postgres.planning import SQL
from tests.contract.crowd import BATCH, JOBS
from tests.contract.plans import MODES, explained
from tests.contract.steps import HOUR, T0
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio
BURST = 10_000
FEW_BLOCKS = 10
ITS_PAGES = BURST // 50  # of the index, at about 150 entries each, with some that are half empty
PROBES = ("due_jobs", "next_plan_at")
OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
NEXT = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
# A burst of jobs is looked at every hour, and put off to the next year.
FILL = f"""
alter table hourbell.jobs set (autovacuum_enabled = off);
insert into hourbell.jobs (name, schedule, target, lane, version, saved_version, cursor_at, next_at, plan_at)
select 'job-' || n, '0 0 1 1 *', '{{"type": "http", "url": "https://example.com/"}}', 'http', 1, 1, '{T0}', '{T0}',
       timestamptz '{T0}' + n / {BURST} * interval '1 hour'
from generate_series(0, {JOBS - 1}) n;
analyze hourbell.jobs
"""


@dataclass
class Planning:
    """Jobs, of which the first burst is due at `now`."""

    database: PostgresDatabase
    store: PostgresEngineStore
    now: datetime = T0

    async def advance(self) -> None:
        """Put the burst off, batch by batch."""
        for _ in range(BURST // BATCH):
            assert (await self.store.plan_due(self.now, BATCH, plan)).jobs == BATCH
        await self.let_older_transactions_end()

    async def let_older_transactions_end(self) -> None:
        """Rows stay visible to a probe while an older transaction is open in any database of the server."""
        end = await self.database.connection.fetchval(f"select {NEXT}")
        async with asyncio.timeout(60):
            while await self.database.connection.fetchval(f"select {OLDEST}") < end:
                await asyncio.sleep(0.05)

    async def blocks(self, name: str, *settings: str) -> int:
        """Count the blocks read by a probe that finds nothing due, on a fresh connection."""
        arguments = (self.now, BATCH) if name == "due_jobs" else ()
        async with self.database.connections().dedicated() as connection:
            for setting in settings:
                await connection.execute(f"set {setting}")
            return (await explained(connection, SQL[name], arguments, MODES[0])).blocks

    async def has_few_blocks_soon(self, name: str) -> bool:
        """The second probe skips rows that the first found dead; the first may not, while statistics of the
        same database are collected."""
        for _ in range(50):
            if await self.blocks(name) <= ITS_PAGES:
                return True
            await asyncio.sleep(0.2)
        return False


@pytest.fixture(scope="module")
async def filled() -> AsyncIterator[Planning]:
    async with PostgresDatabase.made() as database:
        await database.sql(FILL)
        yield Planning(database, database.engine())


@pytest.fixture
async def planning(filled: Planning) -> AsyncIterator[Planning]:
    """Each probe has a burst of its own and sees none of the earlier ones."""
    await filled.database.sql("vacuum hourbell.jobs")
    yield filled
    filled.now += HOUR


@pytest.mark.parametrize("name", PROBES)
async def test_the_second_probe_after_a_burst_touches_few_blocks(planning: Planning, name: str) -> None:
    await planning.advance()

    assert await planning.blocks(name) > ITS_PAGES
    assert await planning.has_few_blocks_soon(name)


@pytest.mark.xfail(strict=True, reason="without a lower bound, a probe walks the pages of the index that are all dead")
async def test_the_second_probe_touches_as_few_whatever_the_burst(planning: Planning) -> None:
    await planning.advance()
    await planning.blocks("due_jobs")

    assert await planning.blocks("due_jobs") <= FEW_BLOCKS


async def test_after_vacuum_a_probe_touches_few_blocks_whatever_the_burst(planning: Planning) -> None:
    await planning.advance()
    await planning.database.sql("vacuum hourbell.jobs")

    assert [name for name in PROBES if await planning.blocks(name) > FEW_BLOCKS] == []


async def test_the_check_sees_a_bitmap_scan(planning: Planning) -> None:
    await planning.advance()
    bitmaps = ("enable_bitmapscan = on", "enable_indexscan = off")

    for _ in range(2):
        assert await planning.blocks("due_jobs", *bitmaps) > 2 * ITS_PAGES
