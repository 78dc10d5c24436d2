"""Jobs that call a task which does nothing, very many of them, written by a few statements over sets.

Tasks are named by number, and each has a lane of its own. Jobs are due in ten years unless an instant is given. Their
ids are those of jobs that were made one after the other, a millisecond apart.
"""

import json
from datetime import UTC, datetime, timedelta

from bench.limits.databases import TIMED_ID, Database
from hourbell.core.job.definition import Definition
from hourbell.core.job.version_json import definition_to_json
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.store.sqlite.values import microseconds

LANES = "task:bench.noop.%"
_FAR = timedelta(days=3_650)
_META = """insert into {t}meta (key, value) values ('planned_by_tzdata', '{tzdata}') on conflict do nothing"""
_JOBS = {
    "PostgreSQL": """
        insert into hourbell.jobs (id, name, schedule, target, lane, saved_version, cursor_at, next_at, plan_at)
        select {id}, '{prefix}-' || lpad(n::text, 8, '0'), '{schedule}',
               jsonb_build_object('type', 'task', 'name', 'bench.noop.' || (n % {lanes})),
               'task:bench.noop.' || (n % {lanes}), 1, timestamptz '{now}', timestamptz '{due}', timestamptz '{due}'
        from generate_series(0, {count} - 1) n""",
    "SQLite": """with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n + 1 < {count})
        insert into hourbell_jobs (id, name, schedule, target, lane, saved_version, cursor_at, next_at, plan_at)
        select {id}, printf('{prefix}-%08d', n), '{schedule}',
               json_object('type', 'task', 'name', 'bench.noop.' || (n % {lanes})),
               'task:bench.noop.' || (n % {lanes}), 1, {now}, {due}, {due}
        from numbers where {count} > 0""",
}
_MADE_AT = {
    "PostgreSQL": "(timestamptz '{now}' + n * interval '1 millisecond')",
    "SQLite": "({now} + n * 1000)",
}
_VERSIONS = """insert into {t}job_versions (job_id, version, definition, changed_at, changed_by)
    select id, 1, {definition}, created_at, 'bench' from {t}jobs where name like '{prefix}-%'"""
_DEFINITION = {
    "PostgreSQL": "replace(replace('{text}', 'a-job', name), 'bench.noop.0', target ->> 'name')::jsonb",
    "SQLite": "replace(replace('{text}', 'a-job', name), 'bench.noop.0', target ->> 'name')",
}
_ENDED = {
    "PostgreSQL": """insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at,
            expires_at, rank, lane, planned_at, state, attempt, started_at, finished_at)
        select {id}, line.id, 1, 'scheduled', n.at, n.at at time zone 'UTC', n.at, n.at + interval '1 day', 1,
               line.lane, n.at, 'succeeded', 1, n.at, n.at
        from (select n, timestamptz '{now}' - (n + 1) * interval '100 milliseconds' as at
              from generate_series({first}, {count} - 1) n) as n
        join (select id, lane, row_number() over (order by name) - 1 as place from hourbell.jobs) as line
            on line.place = n.n % (select count(*) from hourbell.jobs)""",
    "SQLite": """
        with recursive numbers (n) as (select {first} union all select n + 1 from numbers where n + 1 < {count}),
        line as materialized (
            select id, lane, row_number() over (order by name) - 1 as place from hourbell_jobs)
        insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank,
            lane, planned_at, state, attempt, started_at, finished_at)
        select {id}, line.id, 1, 'scheduled', at, at, at, at + 86400000000, 1, line.lane, at, 'succeeded', 1, at, at
        from (select n, {now} - (n + 1) * 100000 as at from numbers where {first} < {count}) as n
        join line on line.place = n.n % (select count(*) from hourbell_jobs)""",
}


def add_task_jobs(
    database: Database,
    count: int,
    *,
    lanes: int = 1,
    prefix: str = "job",
    schedule: str = "0 3 1 1 *",
    due: datetime | None = None,
) -> None:
    """Write jobs that are planned up to now, with their versions."""
    now = datetime.now(UTC)
    prefixed = "hourbell." if database.name == "PostgreSQL" else "hourbell_"
    target = {"type": "task", "name": "bench.noop.0"}
    text = json.dumps(definition_to_json(Definition("a-job", schedule, target, lane="task:bench.noop.0")))
    database.ask(_META.format(t=prefixed, tzdata=TZDATA_VERSION))
    database.ask(
        _JOBS[database.name].format(
            id=TIMED_ID[database.name].format(at=_MADE_AT[database.name].format(now=_written(database, now))),
            prefix=prefix,
            schedule=schedule,
            lanes=lanes,
            count=count,
            now=_written(database, now),
            due=_written(database, due or now + _FAR),
        )
    )
    definition = _DEFINITION[database.name].format(text=text)
    database.ask(_VERSIONS.format(t=prefixed, definition=definition, prefix=prefix))


def add_ended_runs(database: Database, count: int, there: int = 0) -> None:
    """Write history until there are so many ended runs, over all jobs in turn, ten a second up to now."""
    now = _written(database, datetime.now(UTC).replace(microsecond=0))
    new_id = TIMED_ID[database.name].format(at="n.at")
    database.ask(_ENDED[database.name].format(id=new_id, first=there, count=count, now=now))


def _written(database: Database, at: datetime) -> str:
    return at.isoformat() if database.name == "PostgreSQL" else str(microseconds(at))
