"""The files of the Civic OS example, executed as they stand on a real PostgreSQL beside a real node."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.database import PostgresDatabase
from tests.examples.processes import EXAMPLES
from tests.faults.process import Server

pytestmark = pytest.mark.anyio

FOLDER = EXAMPLES / "civic_os"
RECORDS = """
insert into metadata.some_temp_table (note, created_at)
select 'record', now() - n * interval '1 day' + interval '1 hour' from generate_series(1, 40) as n
"""


@pytest.fixture
async def civic(postgres: PostgresDatabase, tmp_path: Path) -> AsyncIterator[PostgresDatabase]:
    """A node at work, forty records of which ten are old, and the job."""
    with Server(tmp_path, DATABASE_URL=postgres.url) as server:
        await asyncio.to_thread(server.wait_until_serving)
        await postgres.sql(text_of("schema.sql"))
        await postgres.sql(RECORDS)
        await postgres.sql(text_of("register.sql"))
        await until(postgres, "select next_at from hourbell.jobs")
        yield postgres


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


def query(name: str) -> str:
    """A query of the example by its name."""
    parts = re.split(r"^-- name: (\w+)\n", text_of("queries.sql"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[name]


async def until(database: PostgresDatabase, question: str) -> Any:
    """The answer to a question, once it has one."""
    async with asyncio.timeout(30):
        while not (answer := await database.connection.fetchval(question)):
            await asyncio.sleep(0.05)
    return answer


async def trigger(database: PostgresDatabase) -> dict[str, Any]:
    """Run the job now, and wait for the end of the run."""
    answer: dict[str, Any] = await database.connection.fetchval(query("trigger"))
    await until(database, f"select finished_at from hourbell.runs where id = '{answer['run_id']}'")
    return answer


async def test_a_triggered_cleanup_deletes_what_is_old_and_says_how_much(civic: PostgresDatabase) -> None:
    answer = await trigger(civic)

    assert answer == {"success": True, "run_id": answer["run_id"], "job_name": "daily_cleanup"}
    [run] = await civic.connection.fetch(query("recent_runs"))
    assert (run["success"], run["message"], run["triggered_by"]) == (True, "Deleted 10 old records", "manual")
    assert run["details"] == {"deleted_count": 10}
    assert run["scheduled_for"] <= run["started_at"] <= run["completed_at"]
    assert await civic.connection.fetchval("select count(*) from metadata.some_temp_table") == 30


async def test_the_commands_of_the_readme_run_the_job_right_after_the_insert(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    await postgres.sql(text_of("schema.sql"))
    await postgres.sql(text_of("register.sql"))
    before = await postgres.connection.fetchval(query("trigger"))
    with Server(tmp_path, DATABASE_URL=postgres.url) as server:
        await asyncio.to_thread(server.wait_until_serving)
        await until(postgres, re.search(r'psql "\$DATABASE_URL" -qtAc "(.*?)"', text_of("README.md")).group(1))  # type: ignore[union-attr]
        answer = await trigger(postgres)

    assert (before["success"], before["message"][:15]) == (False, "not adopted yet")
    assert answer["success"] is True


async def test_the_queries_show_how_the_runs_went(civic: PostgresDatabase) -> None:
    await trigger(civic)
    await civic.sql("alter table metadata.some_temp_table rename to out_of_the_way")
    await civic.sql("""update hourbell.jobs set retry = '"none"'""")
    await until(civic, "select saved_version = version from hourbell.jobs")
    await trigger(civic)

    [status] = await civic.connection.fetch(query("status"))
    assert (status["name"], status["enabled"], status["last_run_success"]) == ("daily_cleanup", True, False)
    assert (status["total_runs"], status["success_rate_percent"]) == (2, 50)
    [failed, _] = await civic.connection.fetch(query("recent_runs"))
    assert failed["message"] == 'relation "some_temp_table" does not exist'
    assert failed["details"]["sqlstate"] == "42P01"
    [week] = await civic.connection.fetch(query("seven_days"))
    assert (week["name"], week["total_runs"], week["success_rate_percent"]) == ("daily_cleanup", 2, 50)
    assert 0 <= week["avg_duration_ms"] <= week["max_duration_ms"]
    assert await civic.connection.fetch(query("queue")) == []


async def test_registering_again_changes_nothing_and_another_schedule_counts_from_now_on(
    civic: PostgresDatabase,
) -> None:
    await civic.sql(text_of("register.sql"))
    [job] = await civic.rows("jobs")
    assert (job["version"], job["error"]) == (1, None)

    await civic.sql(text_of("register.sql").replace("'0 3 * * *', ", "'* * * * * *', "))
    await until(civic, "select 1 from hourbell.runs where state = 'succeeded'")

    runs = await civic.connection.fetch(query("recent_runs"))
    assert {run["triggered_by"] for run in runs} == {"scheduler"}
