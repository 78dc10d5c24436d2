"""Jobs that come as rows by the thousand are adopted in bounded passes, and none of them fires for the past."""

import pytest

from hourbell.core.run.plan import plan
from hourbell.store.base import EngineStore
from tests.contract.steps import PASS
from tests.database import Database

pytestmark = pytest.mark.anyio


async def adopt(store: EngineStore, database: Database, count: int) -> None:
    """Insert jobs by SQL in steps of a thousand, then plan until nothing is due."""
    for first in range(0, count, 1_000):
        rows = ", ".join(
            f'(\'job-{number}\', \'* * * * *\', \'{{"type": "task", "name": "a"}}\')'
            for number in range(first, min(first + 1_000, count))
        )
        await database.sql(f"insert into hourbell.jobs (name, schedule, target) values {rows}")
    now = await store.sample_time()
    passes = 0
    while (planned := await store.plan_due(now, PASS, plan)).jobs:
        passes += 1
        assert (planned.runs, planned.errors) == (0, ())
        assert passes <= count // PASS + 1


@pytest.mark.parametrize("count", [2_500, pytest.param(100_000, marks=pytest.mark.sweep)])
async def test_rows_inserted_by_sql_are_adopted_without_firing(
    store: EngineStore, database: Database, count: int
) -> None:
    await adopt(store, database, count)

    jobs = await database.rows("jobs")
    assert len(jobs) == count
    assert all(job["cursor_at"] and job["next_at"] > job["cursor_at"] for job in jobs)
    assert all((job["lane"], job["saved_version"]) == ("task:a", 1) for job in jobs)
    assert await database.rows("runs") == []
    assert await database.rows("skips") == []
