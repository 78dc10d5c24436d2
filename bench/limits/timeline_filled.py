"""Databases with jobs that ran for a day, for the time line to be read from.

A job fires every quarter of an hour and is planned an hour ahead, so that nothing is due while this is read. One job in
a hundred failed last, one lost a time, one is paused, and one has a run that waits for a node that nobody runs.
"""

import json
from contextlib import closing
from datetime import datetime

import apsw
import asyncpg

from bench.limits.databases import Database, Postgres
from hourbell.core.job.definition import Definition
from hourbell.core.job.version_json import definition_to_json
from hourbell.store.sqlite.values import microseconds

_JOBS = """insert into {t}jobs (id, name, schedule, target, lane, managed_by, enabled, version, saved_version,
    cursor_at, next_at, plan_at, created_at, updated_at)"""
_RUNS = """insert into {t}runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, planned_at,
    rank, lane, state, attempt, started_at, finished_at)"""
_STATE = """case when job % 100 = 1 and turn = 0 then 'failed' when job % 100 = 2 and turn = 0 then 'pending'
    when n % 200 = 9 then 'failed' else 'succeeded' end"""
_WRITTEN = Definition(
    "a-job", "*/15 * * * *", {"type": "http", "url": "https://example.com/"}, lane="https://example.com:443"
)
_DEFINITION = json.dumps(definition_to_json(_WRITTEN))
_STATS = "case when number % 100 = 1 then 'failed' else 'succeeded' end"
_PAUSED = "case when number % 100 = 3 then null else {ahead} end"
_POSTGRES = """
{jobs_in}
select lpad(to_hex(number), 32, '0')::uuid, 'job-' || lpad(number::text, 8, '0'), '*/15 * * * *',
       jsonb_build_object('type', 'http', 'url', 'https://example.com/' || number), 'https://example.com:443', 'api',
       number % 100 <> 3, 1, 1, {ahead}, {paused}, {paused}, {start}, {start}
from generate_series(1, {jobs}) number;
insert into hourbell.job_versions (job_id, version, definition, changed_at, changed_by)
select id, 1, replace('{definition}', 'a-job', name)::jsonb, created_at, 'somebody' from hourbell.jobs;
insert into hourbell.job_stats (job_id, last_state, last_error)
select lpad(to_hex(number), 32, '0')::uuid, {stats}, 'HTTP 503' from generate_series(1, {jobs}) number;
insert into hourbell.skips (job_id, first_at, last_at, count, reason)
select lpad(to_hex(number), 32, '0')::uuid, {now} - interval '1 hour', {now} - interval '1 hour', 1, 'overlap'
from generate_series(4, {jobs}, 100) number;
{runs_in}
select lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(job), 32, '0')::uuid, 1, 'scheduled', at, at at time zone 'UTC', at,
       at + interval '1 day', at, 1, case when state = 'pending' then 'task:nobody' else 'https://example.com:443' end,
       state, 1, case when state <> 'pending' then at + interval '5 ms' end,
       case when state <> 'pending' then at + interval '800 ms' end
from (select n, job, {state} as state,
             {now} - interval '30 minutes' - turn::bigint * {step} * interval '1 microsecond' as at
      from (select n, n % {jobs} + 1 as job, n / {jobs} as turn from generate_series(0, {runs} - 1) n) turns) as made;
insert into hourbell.attempts (run_id, number, started_at, finished_at, outcome, error)
select id, 1, started_at, finished_at, 'failed', 'HTTP 503' from hourbell.runs where state = 'failed';
"""
_SQLITE = """
{jobs_in}
with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < {jobs})
select unhex(printf('%032x', number)), printf('job-%08d', number), '*/15 * * * *',
       '{{"type": "http", "url": "https://example.com/' || number || '"}}', 'https://example.com:443', 'api',
       number % 100 <> 3, 1, 1, {ahead}, {paused}, {paused}, {start}, {start}
from numbers;
insert into hourbell_job_versions (job_id, version, definition, changed_at, changed_by)
select id, 1, replace('{definition}', 'a-job', name), created_at, 'somebody' from hourbell_jobs;
with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < {jobs})
insert into hourbell_job_stats (job_id, last_state, last_error)
select unhex(printf('%032x', number)), {stats}, 'HTTP 503' from numbers;
with recursive numbers (number) as (select 4 union all select number + 100 from numbers where number + 100 <= {jobs})
insert into hourbell_skips (job_id, first_at, last_at, count, reason)
select unhex(printf('%032x', number)), {now} - 3600000000, {now} - 3600000000, 1, 'overlap' from numbers;
{runs_in}
select unhex(printf('%032x', n)), unhex(printf('%032x', job)), 1, 'scheduled', at, at, at, at + 86400000000, at, 1,
       case when state = 'pending' then 'task:nobody' else 'https://example.com:443' end,
       state, 1, case when state <> 'pending' then at + 5000 end, case when state <> 'pending' then at + 800000 end
from (with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < {runs} - 1),
           turns as (select n, n % {jobs} + 1 as job, n / {jobs} as turn from numbers)
      select n, job, {state} as state, {now} - 1800000000 - turn * {step} as at from turns) as made;
insert into hourbell_attempts (run_id, number, started_at, finished_at, outcome, error)
select id, 1, started_at, finished_at, 'failed', 'HTTP 503' from hourbell_runs where state = 'failed';
analyze;
"""


def filling(database: str, jobs: int, runs: int, now: datetime) -> str:
    """The script that fills a database of this kind: every job's runs are spread over the last day."""
    is_postgres = database == "PostgreSQL"
    prefix, script = ("hourbell.", _POSTGRES) if is_postgres else ("hourbell_", _SQLITE)
    moment = f"timestamptz '{now.isoformat()}'" if is_postgres else str(microseconds(now))
    hour, day = ("interval '1 hour'", "interval '1 day'") if is_postgres else ("3600000000", "86400000000")
    ahead = f"{moment} + {hour}"
    return script.format(
        jobs=jobs,
        runs=runs,
        jobs_in=_JOBS.format(t=prefix),
        runs_in=_RUNS.format(t=prefix),
        state=_STATE,
        stats=_STATS,
        paused=_PAUSED.format(ahead=ahead),
        ahead=ahead,
        start=f"{moment} - {day}",
        now=moment,
        definition=_DEFINITION,
        step=23 * 3_600_000_000 // max(1, runs // jobs),
    )


async def fill(database: Database, jobs: int, runs: int, now: datetime) -> None:
    """Fill an empty database, and leave it as one that has run for a while: vacuumed, with an empty log."""
    script = filling(database.name, jobs, runs, now)
    if isinstance(database, Postgres):
        connection = await asyncpg.connect(database.url)
        await connection.execute(script)
        await connection.execute("vacuum analyze")
        await connection.close()
    else:
        with closing(apsw.Connection(database.url.removeprefix("sqlite:///"))) as file:
            file.execute("pragma cache_size = -65536").fetchall()
            file.execute(script).fetchall()
            file.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
