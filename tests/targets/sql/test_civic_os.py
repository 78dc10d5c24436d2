"""The example of Civic OS's scheduled jobs, in our names: everything by SQL, and a node that does the rest."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from hourbell import clock
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.engine.engine import Engine, EngineSettings
from hourbell.metrics import Metrics
from hourbell.store.postgres.function_connections import FunctionConnections
from hourbell.store.postgres.transactions import PostgresTransactionStore
from hourbell.targets.sql.target import SqlTarget
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio

SCHEMA = """
create schema metadata;
create table metadata.some_temp_table (id integer, created_at timestamptz);
insert into metadata.some_temp_table
select n, now() - n * interval '1 day' + interval '1 hour' from generate_series(1, 40) as n;

create or replace function public.run_daily_cleanup(days integer default 30)
returns jsonb
language plpgsql
security definer
set search_path = metadata, public
as $$
declare
    v_deleted int;
begin
    delete from some_temp_table where created_at < now() - days * interval '1 day';
    get diagnostics v_deleted = row_count;

    return jsonb_build_object(
        'success', true,
        'message', format('Deleted %s old records', v_deleted),
        'details', jsonb_build_object('deleted_count', v_deleted)
    );
end;
$$;

create or replace function public.run_that_reports_its_error()
returns jsonb
language plpgsql
as $$
declare
    v_context text;
begin
    perform 1 / 0;
exception when others then
    get stacked diagnostics v_context = pg_exception_context;
    return jsonb_build_object('success', false, 'message', sqlerrm,
                              'details', jsonb_build_object('sqlstate', sqlstate, 'context', v_context));
end;
$$;
"""
REGISTER = """
insert into hourbell.jobs (name, target, schedule, timezone, description)
values (
    'daily_cleanup',
    '{"type": "sql", "function": "run_daily_cleanup", "args": {"days": 30}}',
    '0 3 * * *',           -- 3 AM daily
    'America/New_York',    -- Eastern time
    'Clean up temporary records older than 30 days'
)
"""
STATUS = """
select name, enabled, last_run_at, last_run_success, total_runs, success_rate_percent
from hourbell.job_status
"""
HISTORY = """
select r.started_at, r.finished_at, r.state = 'succeeded' as success, r.result ->> 'message' as message,
       r.result -> 'details' as details, r.kind as triggered_by
from hourbell.runs r
join hourbell.jobs j on j.id = r.job_id
where j.name = 'daily_cleanup'
order by r.started_at desc
limit 10
"""
QUEUE = """
select id, lane, state, attempt, planned_at
from hourbell.runs
where lane = 'sql:default' and state in ('pending', 'running', 'retrying')
order by planned_at desc
"""
ANALYSIS = """
select j.name,
       count(*) as total_runs,
       avg(extract(epoch from a.finished_at - a.started_at) * 1000) as avg_duration_ms,
       max(extract(epoch from a.finished_at - a.started_at) * 1000) as max_duration_ms,
       sum(case when a.outcome = 'succeeded' then 1 else 0 end)::float / count(*) * 100 as success_rate
from hourbell.attempts a
join hourbell.runs r on r.id = a.run_id
join hourbell.jobs j on j.id = r.job_id
where a.started_at > now() - interval '7 days'
group by j.name
"""


@pytest.fixture
async def civic(postgres: PostgresDatabase) -> AsyncIterator[PostgresDatabase]:
    """A database with the example's functions and a node at work on it."""
    await postgres.sql(SCHEMA)
    transactions = PostgresTransactionStore(FunctionConnections(postgres.url, size=2))
    engine = Engine(
        postgres.engine(),
        [SqlTarget({}, own_slots=2, elapsed=clock.elapsed)],
        EngineSettings(),
        node_id=uuid4(),
        host="here",
        tzdata=TZDATA_VERSION,
        metrics=Metrics(),
        elapsed=clock.elapsed,
        random=random.random,
        transactions=transactions,
    )
    await engine.start()
    yield postgres
    await engine.stop()
    await transactions.close()


async def until(database: PostgresDatabase, question: str) -> Any:
    """The answer to a question, once it has one."""
    async with asyncio.timeout(30):
        while not (answer := await database.connection.fetchval(question)):
            await asyncio.sleep(0.02)
    return answer


async def triggered(database: PostgresDatabase, name: str) -> dict[str, Any]:
    """Trigger a job once it is adopted, and wait for the end of its run."""
    await until(database, f"select next_at from hourbell.jobs where name = '{name}'")
    answer: dict[str, Any] = await database.connection.fetchval("select hourbell.trigger_job($1)", name)
    await until(database, f"select finished_at from hourbell.runs where id = '{answer['run_id']}'")
    return answer


async def test_a_job_registered_and_triggered_by_sql_runs_its_function(civic: PostgresDatabase) -> None:
    await civic.sql(REGISTER)

    answer = await triggered(civic, "daily_cleanup")

    assert (answer["success"], answer["job_name"]) == (True, "daily_cleanup")
    [last] = await civic.connection.fetch(HISTORY)
    assert (last["success"], last["message"], last["triggered_by"]) == (True, "Deleted 10 old records", "manual")
    assert last["details"] == {"deleted_count": 10}
    assert last["started_at"] <= last["finished_at"]
    assert await civic.connection.fetchval("select count(*) from metadata.some_temp_table") == 30


async def test_status_and_analysis_show_the_runs(civic: PostgresDatabase) -> None:
    await civic.sql(REGISTER)
    await triggered(civic, "daily_cleanup")
    await triggered(civic, "daily_cleanup")

    [status] = await civic.connection.fetch(STATUS)
    [analysis] = await civic.connection.fetch(ANALYSIS)
    assert (status["name"], status["enabled"], status["last_run_success"]) == ("daily_cleanup", True, True)
    assert (status["total_runs"], status["success_rate_percent"]) == (2, 100)
    assert (analysis["name"], analysis["total_runs"], analysis["success_rate"]) == ("daily_cleanup", 2, 100)
    assert 0 <= analysis["avg_duration_ms"] <= analysis["max_duration_ms"]
    assert await civic.connection.fetch(QUEUE) == []


async def test_a_function_that_catches_its_error_reports_it(civic: PostgresDatabase) -> None:
    await civic.sql(
        """insert into hourbell.jobs (name, target, schedule, retry)
        values ('reports', '{"type": "sql", "function": "run_that_reports_its_error"}', '0 3 * * *', '"none"')"""
    )

    await triggered(civic, "reports")

    [run] = await civic.rows("runs")
    assert (run["state"], run["result"]["message"]) == ("failed", "division by zero")
    assert run["result"]["details"]["sqlstate"] == "22012"
    assert "run_that_reports_its_error() line" in run["result"]["details"]["context"]


async def test_a_job_registered_by_sql_fires_on_its_schedule(civic: PostgresDatabase) -> None:
    await civic.sql(REGISTER.replace("'0 3 * * *', ", "'* * * * * *', "))

    await until(civic, "select 1 from hourbell.runs where kind = 'scheduled' and state = 'succeeded'")

    attempts, runs = await civic.rows("attempts"), await civic.rows("runs")
    assert {run["kind"] for run in runs} == {"scheduled"}
    assert {attempt["number"] for attempt in attempts} == {1}
