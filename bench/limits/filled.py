"""Databases with very many jobs and runs, filled by a few statements over sets, for lists to be read from.

One job in ten has the same instant; one in a thousand is paused, or in error, and a few are owned by files.
"""

import json
from datetime import datetime

from bench.limits.bare_lists import BUSY_JOB, T0
from hourbell.core.job.definition import Definition
from hourbell.core.job.version_json import definition_to_json
from hourbell.store.sqlite.values import microseconds

_JOBS = """insert into {t}jobs (id, name, schedule, target, tags, lane, managed_by, source, enabled, error,
    version, saved_version, cursor_at, next_at, plan_at, created_at, updated_at)"""
_RUNS = """insert into {t}runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
    planned_at, rank, lane, state, attempt, lease_owner, lease_until, started_at, finished_at, cleared_at)"""
_STATE = """case when n % 1000 = 1 then 'running' when n % 100 < 5 then 'pending' when n % 100 = 6 then 'retrying'
    when n % 100 in (7, 8) then 'failed' when n % 100 = 9 then 'cancelled' else 'succeeded' end"""
_OWNER = """case when n % 500 = 5 then 'file' when n % 10 = 5 then 'code' else 'api' end,
    case when n % 10 = 5 then 'source-' || (n % 3) else '' end"""
_WRITTEN = Definition(
    "a-job", "0 3 1 1 *", {"type": "http", "url": "https://example.com/"}, lane="https://example.com:443"
)
_DEFINITION = json.dumps(definition_to_json(_WRITTEN))
_POSTGRES = """
{jobs_in}
select lpad(to_hex(n), 32, '0')::uuid, 'job-' || lpad(n::text, 8, '0'), '0 3 1 1 *',
       case when n % 100 = 3 then '{{"type": "task", "name": "a"}}'::jsonb
            else jsonb_build_object('type', 'http', 'url', 'https://example.com/' || n) end,
       case when n % 1000 = 4 then array['rare'] when n % 10 = 4 then array['common'] else '{{}}' end,
       'https://example.com:443', {owner}, n % 1000 <> 6, case when n % 1000 = 7 then 'unreadable' end, 1, 1, '{t0}',
       case when n % 1000 not in (6, 7) then timestamptz '{t0}' + n / 10 * interval '1 second' end,
       case when n % 1000 not in (6, 7) then timestamptz '{t0}' + n / 10 * interval '1 second' end, '{t0}', '{t0}'
from generate_series(1, {jobs}) n;
insert into hourbell.job_versions (job_id, version, definition, changed_at, changed_by)
select id, 1, replace('{definition}', 'a-job', name)::jsonb, created_at, 'somebody' from hourbell.jobs;
insert into hourbell.job_stats (job_id, last_state)
select id, case when name like '%008' then 'failed' else 'succeeded' end from hourbell.jobs;
{runs_in}
select lpad(to_hex(n), 32, '0')::uuid,
       lpad(to_hex(case when n % 10 in (0, 7) then {busy} else n % {jobs} + 1 end), 32, '0')::uuid, 1,
       'manual', at, at at time zone 'UTC', at, at + interval '1 day', at, 1, 'https://example.com:443', state, 1,
       case when state = 'running' then '00000000-0000-0000-0000-000000000001'::uuid end,
       case when state = 'running' then at end, at,
       case when state in ('succeeded', 'failed', 'cancelled') then at end,
       case when state = 'failed' and n % 200 = 7 then at end
from (select n, timestamptz '{t0}' + n * interval '1 second' as at, {state} as state
      from generate_series(1, {runs}) n) as made;
"""
_SQLITE = """
{jobs_in}
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {jobs})
select unhex(printf('%032x', n)), printf('job-%08d', n), '0 3 1 1 *',
       case when n % 100 = 3 then '{{"type": "task", "name": "a"}}'
            else '{{"type": "http", "url": "https://example.com/' || n || '"}}' end,
       case when n % 1000 = 4 then '["rare"]' when n % 10 = 4 then '["common"]' else '[]' end,
       'https://example.com:443', {owner}, n % 1000 <> 6, case when n % 1000 = 7 then 'unreadable' end, 1, 1, {us},
       case when n % 1000 not in (6, 7) then {us} + n / 10 * 1000000 end,
       case when n % 1000 not in (6, 7) then {us} + n / 10 * 1000000 end, {us}, {us}
from numbers;
insert into hourbell_job_versions (job_id, version, definition, changed_at, changed_by)
select id, 1, replace('{definition}', 'a-job', name), created_at, 'somebody' from hourbell_jobs;
insert into hourbell_job_stats (job_id, last_state)
select id, case when name like '%008' then 'failed' else 'succeeded' end from hourbell_jobs;
{runs_in}
select unhex(printf('%032x', n)),
       unhex(printf('%032x', case when n % 10 in (0, 7) then {busy} else n % {jobs} + 1 end)), 1,
       'manual', at, at, at, at + 86400000000, at, 1, 'https://example.com:443', state, 1,
       case when state = 'running' then zeroblob(16) end, case when state = 'running' then at end, at,
       case when state in ('succeeded', 'failed', 'cancelled') then at end,
       case when state = 'failed' and n % 200 = 7 then at end
from (with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {runs})
      select n, {us} + n * 1000000 as at, {state} as state from numbers) as made;
analyze;
"""


def filling(database: str, jobs: int, runs: int, t0: datetime = T0) -> str:
    """The script that fills a database of this kind."""
    prefix, script = ("hourbell.", _POSTGRES) if database == "PostgreSQL" else ("hourbell_", _SQLITE)
    return script.format(
        jobs=jobs,
        runs=runs,
        jobs_in=_JOBS.format(t=prefix),
        runs_in=_RUNS.format(t=prefix),
        state=_STATE,
        owner=_OWNER,
        definition=_DEFINITION,
        busy=BUSY_JOB.int,
        t0=t0,
        us=microseconds(t0),
    )
