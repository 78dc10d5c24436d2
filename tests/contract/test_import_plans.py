"""Pruning looks at the jobs of one owner and source, not at all jobs, also before anybody has analysed the tables."""

from uuid import UUID

import pytest

from hourbell.store.postgres.session import STATEMENTS as POSTGRES
from hourbell.store.sqlite.session import STATEMENTS as SQLITE
from tests.contract.plans import MODES, explained
from tests.database import PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
IMPORT = UUID(int=1)
JOBS = """insert into hourbell.jobs (name, schedule, target, managed_by, source)
    select 'job-' || n, '* * * * *', '{"type": "task", "name": "a"}',
           case when n % 20 = 0 then 'file' else 'api' end, ''
    from """
POSTGRES_NUMBERS = "generate_series(1, 5000) n"
SQLITE_NUMBERS = """(with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 5000)
    select n from numbers)"""


@pytest.mark.parametrize("analysed", [True, False])
async def test_pruning_on_postgres_takes_the_index_of_owners(postgres: PostgresDatabase, analysed: bool) -> None:
    await postgres.sql(JOBS + POSTGRES_NUMBERS)
    if analysed:
        await postgres.sql("analyze")

    values = ("file", "", IMPORT, 1_000)
    for mode in MODES:
        async with postgres.connections().connection() as connection:
            seen = await explained(connection, POSTGRES["lock_unseen_owned_jobs"].text, values, mode)
        assert "jobs_owned" in seen.indexes
        assert "jobs" not in seen.scanned


@pytest.mark.parametrize("analysed", [True, False])
async def test_pruning_on_sqlite_takes_the_index_of_owners(analysed: bool) -> None:
    async with SqliteDatabase.in_memory() as database:
        await database.sql(JOBS + SQLITE_NUMBERS)
        if analysed:
            await database.sql("analyze")

        values = ("file", "", IMPORT.bytes, 1_000)
        plan = database.connection.execute(
            f"explain query plan {SQLITE['lock_unseen_owned_jobs'].text}", values
        ).fetchall()

    assert "hourbell_jobs_owned (managed_by=? AND source=?)" in str(plan)
