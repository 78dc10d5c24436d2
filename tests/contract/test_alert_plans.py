"""The regular reads of the watchers take the intended indexes, and look at little more than a page, at a hundred
thousand jobs and runs and in a job with a long backlog."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from hourbell.store.postgres.session import STATEMENTS as ON_POSTGRES
from hourbell.store.sqlite.session import STATEMENTS as ON_SQLITE
from tests.contract.crowd import BUSY_JOBS, RUNS, fill_postgres, fill_sqlite
from tests.contract.plans import MODES, analyse_as_if_idle, explained
from tests.contract.steps import DAY, MINUTE, T0
from tests.contract.test_sqlite_plans import plan_of, steps_of
from tests.database import PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.full]
PAGE = 500
NOW = T0 + 2 * DAY
# Each statement with its values, the rows that it is about, and the indexes that may serve it.
ASKED: dict[str, tuple[dict[str, Any], int, set[str]]] = {
    "waiting_jobs": (
        {"now": NOW, "after": UUID(int=0), "limit": PAGE, "rows": 1_000},
        PAGE,
        {"runs_waiting", "jobs_pkey"},
    ),
    "begun_of_jobs": ({"ids": BUSY_JOBS[:200], "rows": 1_000}, 200, {"runs_waiting", "runs_running"}),
    "slow_runs": ({"before": T0 - DAY, "limit": PAGE, "rows": 1_000}, 2_000, {"runs_running", "runs_retrying"}),
    "quiet_is_over": ({"now": NOW}, 10, {"incidents_quiet"}),
}
# One job has ten thousand waiting runs, of which the oldest half has begun.
COUNTED = "with recursive c(n) as (select 1 union all select n + 1 from c where n < 10000)"
BACKLOG = """insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                           planned_at, rank, lane, state, attempt, exclusive)
select {id}, {job}, 1, 'manual', {at}, {local}, {at}, {at} + {day}, {at}, 1, 'task:1', 'pending',
       case when n <= 5000 then 1 else 0 end, {no} from {numbers}"""


def backlog(*, is_postgres: bool) -> str:
    job = BUSY_JOBS[0]
    if is_postgres:
        at = f"timestamptz '{T0.isoformat()}' + n * interval '1 second'"
        parts = {
            "id": "gen_random_uuid()", "job": f"'{job}'", "at": f"({at})", "local": "timestamp '2026-03-02 09:00'",
            "day": "interval '1 day'", "no": "false", "numbers": "generate_series(1, 10000) as n",
        }  # fmt: skip
    else:
        micros = int(T0.timestamp() * 1_000_000)
        parts = {
            "id": "randomblob(16)", "job": f"x'{job.hex}'", "at": f"({micros} + n * 1000000)", "local": str(micros),
            "day": str(int(timedelta(days=1).total_seconds() * 1_000_000)), "no": "0",
            "numbers": f"({COUNTED} select n from c)",
        }  # fmt: skip
    return BACKLOG.format(**parts)


async def test_on_postgres_they_read_little_more_than_their_page(postgres: PostgresDatabase) -> None:
    await postgres.sql(fill_postgres(1, RUNS))
    await postgres.sql(backlog(is_postgres=True))
    found: dict[str, Any] = {}
    for statistics in ("never", "fresh", "idle"):
        if statistics == "fresh":
            await postgres.sql("analyze")
        if statistics == "idle":
            await analyse_as_if_idle(postgres)
        async with postgres.connections(size=1).connection() as connection:
            for name, (values, size, intended) in ASKED.items():
                statement = ON_POSTGRES[name]
                for mode in MODES:
                    seen = await explained(connection, statement.text, tuple(statement.bind(values)), mode)
                    scanned = seen.scanned - {"incidents"}
                    flaws = seen.indexes - intended, scanned, seen.rows if seen.rows > 20 * size + 5_000 else 0
                    if any(flaws):
                        found[f"{name}, {statistics}, {mode}"] = flaws

    assert found == {}


async def test_on_sqlite_they_take_few_steps() -> None:
    async with SqliteDatabase.in_memory() as database:
        await database.sql(fill_sqlite(1, RUNS))
        await database.sql(backlog(is_postgres=False))
        found: dict[str, Any] = {}
        for statistics in ("never", "fresh"):
            if statistics == "fresh":
                await database.sql("analyze")
            for name, (values, size, _) in ASKED.items():
                statement = ON_SQLITE[name]
                arguments = tuple(statement.bind(values))
                scanned, _ = plan_of(database.connection, statement.text, arguments)
                steps = steps_of(database.connection, statement.text, arguments)
                whole = {each for each in scanned if each in ("r", "j")}
                if whole or steps > 400 * size + 100_000:
                    found[f"{name}, {statistics}"] = whole, steps

    assert found == {}


async def test_the_page_finds_the_late_run_behind_five_thousand_that_have_begun(postgres: PostgresDatabase) -> None:
    await postgres.sql(fill_postgres(1, RUNS))
    await postgres.sql(backlog(is_postgres=True))

    late, _ = await postgres.alerts().waiting_jobs(T0 + DAY + MINUTE, UUID(int=BUSY_JOBS[0].int - 1), 1)

    assert [each.job_id for each in late] == [BUSY_JOBS[0]]
