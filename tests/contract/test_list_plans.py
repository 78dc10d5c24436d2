"""A page costs about the same wherever it begins and however much there is: at a hundred thousand jobs and runs, every
list reads little more than it shows, also before anybody has analysed the tables, and with the statistics of a time at
which nothing waited."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import apsw
import pytest

from hourbell.core.run.attention import GROUPS, Attention
from hourbell.core.run.states import RunState
from hourbell.core.run.timeline import Window
from hourbell.store.lists.pages import numbered
from hourbell.store.lists.query import ChangeMark, JobQuery, JobSort, JobState, ListPosition, RunList, RunQuery
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.statements import Wanted
from hourbell.store.postgres.lists import PostgresListStore
from hourbell.store.rows import Row
from hourbell.store.sqlite.lists import SqliteListStore
from hourbell.store.sqlite.values import bound, microseconds
from tests.contract.plans import analyse_as_if_idle, literal, walk
from tests.contract.steps import DAY, HOUR, MINUTE, NODE, SECOND, T0
from tests.database import PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.full]
JOBS = RUNS = 100_000
LIMIT = 50
MAX_ROWS = 20 * LIMIT  # that a page may look at, of a hundred thousand
MAX_STEPS = 2_000 * LIMIT  # of SQLite's machine: a row costs about a hundred
JOB, BUSY_JOB = UUID(int=50_000), UUID(int=7)

# One job in ten has the same instant; one in a thousand is paused, in error or done, and a few are owned by files. One
# run in twenty began late. The runs of the busy job must not overlap.
JOB_COLUMNS = """insert into hourbell.jobs (id, name, schedule, target, tags, subject, lane, managed_by, source,
    enabled, error, version, saved_version, cursor_at, next_at, plan_at, created_at, updated_at)"""
RUN_COLUMNS = """insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
    planned_at, rank, lane, exclusive, state, attempt, lease_owner, lease_until, started_at, finished_at, cleared_at)"""
STATE = """case when n % 1000 = 1 then 'running' when n % 100 < 5 then 'pending' when n % 100 = 6 then 'retrying'
           when n % 100 in (7, 8) then 'failed' when n % 100 = 9 then 'cancelled' else 'succeeded' end"""
SUBJECT = "case when n % 2000 = 11 then 'few' when n % 10 = 2 then 'many' when n = 7 then 'busy' else '' end"
ENDED = "state in ('succeeded', 'failed', 'cancelled')"
SHAPE = {
    "jobs": JOBS,
    "runs": RUNS,
    "busy": BUSY_JOB.int,
    "state": STATE,
    "subject": SUBJECT,
    "ended": ENDED,
    "job_columns": JOB_COLUMNS,
    "run_columns": RUN_COLUMNS,
    "node": NODE,
    "t0": T0,
    "us": microseconds(T0),
}
FILL_POSTGRES = """
{job_columns}
select lpad(to_hex(n), 32, '0')::uuid, 'job-' || lpad(n::text, 6, '0'), '* * * * *',
       case when n % 100 = 3 then '{{"type": "task", "name": "a"}}'::jsonb
            else '{{"type": "http", "url": "https://example.com/"}}' end,
       case when n % 1000 = 4 then array['rare'] when n % 10 = 4 then array['common'] else '{{}}' end,
       {subject}, 'http',
       case when n % 500 = 5 then 'file' when n % 10 = 5 then 'code' else 'api' end,
       case when n % 10 = 5 then 'source-' || (n % 3) else '' end,
       n % 1000 <> 6, case when n % 1000 = 7 then 'unreadable' end, 1, 1, '{t0}',
       case when n % 1000 not in (6, 7, 9) then timestamptz '{t0}' + n / 10 * interval '1 second' end,
       case when n % 1000 not in (6, 7, 9) then timestamptz '{t0}' + n / 10 * interval '1 second' end, '{t0}', '{t0}'
from generate_series(1, {jobs}) n;
insert into hourbell.job_versions (job_id, version, definition, changed_at, changed_by)
select id, 1, '{{"late_after": 300}}', created_at, 'somebody' from hourbell.jobs;
insert into hourbell.skips (job_id, first_at, last_at, count, reason)
select lpad(to_hex(case when n % 5 = 0 then {busy} else n end), 32, '0')::uuid, at, at, 1, 'missed'
from (select n, timestamptz '{t0}' + n * interval '1 second' as at from generate_series(1, {jobs}) n) as made;
insert into hourbell.job_stats (job_id, last_run_id, last_state)
select lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid,
       case when n % 1000 = 8 then 'failed' else 'succeeded' end
from generate_series(1, {jobs}) n;
{run_columns}
select lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(case when n % 10 = 0 then {busy} else n end), 32, '0')::uuid, 1,
       'manual', at, at at time zone 'UTC', at, at + interval '1 day', at, 1, 'http', n % 10 = 0, state, 1,
       case when state = 'running' then '{node}'::uuid end, case when state = 'running' then at end,
       case when n % 20 = 3 then at + n * interval '1 second' else at end,
       case when {ended} then at end, case when state = 'failed' and n % 200 = 7 then at end
from (select n, timestamptz '{t0}' + n * interval '1 second' as at, {state} as state
      from generate_series(1, {runs}) n) as made;
""".format(**SHAPE)
FILL_SQLITE = """
create temp table numbers as
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {jobs}) select n from numbers;
{job_columns}
select unhex(printf('%032x', n)), printf('job-%06d', n), '* * * * *',
       case when n % 100 = 3 then '{{"type": "task", "name": "a"}}'
            else '{{"type": "http", "url": "https://example.com/"}}' end,
       case when n % 1000 = 4 then '["rare"]' when n % 10 = 4 then '["common"]' else '[]' end,
       {subject}, 'http',
       case when n % 500 = 5 then 'file' when n % 10 = 5 then 'code' else 'api' end,
       case when n % 10 = 5 then 'source-' || (n % 3) else '' end,
       n % 1000 <> 6, case when n % 1000 = 7 then 'unreadable' end, 1, 1, {us},
       case when n % 1000 not in (6, 7, 9) then {us} + n / 10 * 1000000 end,
       case when n % 1000 not in (6, 7, 9) then {us} + n / 10 * 1000000 end, {us}, {us}
from numbers;
insert into hourbell.job_versions (job_id, version, definition, changed_at, changed_by)
select id, 1, '{{"late_after": 300}}', created_at, 'somebody' from hourbell.jobs;
insert into hourbell.skips (job_id, first_at, last_at, count, reason)
select unhex(printf('%032x', case when n % 5 = 0 then {busy} else n end)), {us} + n * 1000000, {us} + n * 1000000, 1,
       'missed' from numbers;
insert into hourbell.job_stats (job_id, last_run_id, last_state)
select unhex(printf('%032x', n)), unhex(printf('%032x', n)),
       case when n % 1000 = 8 then 'failed' else 'succeeded' end from numbers;
{run_columns}
select unhex(printf('%032x', n)), unhex(printf('%032x', case when n % 10 = 0 then {busy} else n end)), 1,
       'manual', at, at, at, at + 86400000000, at, 1, 'http', n % 10 = 0, state, 1,
       case when state = 'running' then '{node}' end, case when state = 'running' then at end,
       case when n % 20 = 3 then at + n * 1000000 else at end,
       case when {ended} then at end, case when state = 'failed' and n % 200 = 7 then at end
from (select n, {us} + n * 1000000 as at, {state} as state from numbers) as made;
""".format(**SHAPE)


def position(key: Any = None) -> ListPosition:
    return ListPosition(key, JOB)


MIDDLE = T0 + 50_000 * SECOND
# These look at ten thousand rows, whatever they show: at late runs, and at each of the jobs of a subject.
WINDOWS = {"late runs": 30, "runs of a common subject": 30}
# These look at a thousand candidates, or at each of ten thousand that they count.
WINDOWS |= {"late jobs": 4, "retrying jobs": 4, "losing jobs": 8, "very many losing jobs": 15, "very many due jobs": 2}
WINDOWS |= {"time line": 4}
WINDOWS |= {"jobs, counted": 30, "jobs of a prefix and a state, counted": 30}
WINDOWS |= {"jobs by attention": 15, "attention in figures": 40, "buckets": 20}
BY_NAME, BY_ID = position("job-050000"), position()
BY_NEXT, BY_TIME = position(T0 + 5_000 * SECOND), position(MIDDLE)
BY_EXPIRY = position(MIDDLE + DAY)
EVENING = T0 + 100_000 * SECOND + 23 * HOUR + 54 * MINUTE  # few of the lost times are less than a day old
TOTALS: dict[str, int] = {}  # steps of each statement on the one connection to SQLite
Ask = Callable[[ListStore], Awaitable[object]]


def jobs(after: ListPosition, *, first: bool = True, **query: Any) -> list[Ask]:
    pages = [None, after] if first else [after]
    return [lambda lists, page=page: lists.jobs(JobQuery(**query), LIMIT, page) for page in pages]  # type: ignore[misc]


def attentive(after: ListPosition, reason: Attention, now: datetime = EVENING, **query: Any) -> list[Ask]:
    asked = JobQuery(attention=reason, **query)
    return [lambda lists, page=page: lists.jobs(asked, LIMIT, page, now) for page in (None, after)]  # type: ignore[misc]


async def by_attention(lists: ListStore) -> None:
    sets = await lists.attention_sets(EVENING, GROUPS)
    for group in GROUPS:
        for after in (None, BY_NAME):
            await lists.chosen_jobs(JobQuery(), sets, LIMIT, after, groups=[group])


async def time_line(lists: ListStore) -> None:
    views = await lists.jobs(JobQuery(), LIMIT // 2)
    busy = await lists.job(BUSY_JOB)
    assert busy is not None
    jobs = [view.job for view in (*views, busy)]
    sets = await lists.attention_sets(MIDDLE, [Attention.RETRYING])
    await lists.timeline_rows(jobs, sets, Window.of(T0, T0 + DAY), 200)


async def in_buckets(lists: ListStore) -> None:
    await lists.timeline_buckets({BUSY_JOB: MINUTE, JOB: MINUTE}, Window.of(T0, T0 + DAY))


async def figures(lists: ListStore) -> None:
    await lists.attention_counts(EVENING)
    await lists.oldest_due_at()
    await lists.ready_heads(EVENING)


def runs(which: RunList, after: ListPosition, **query: Any) -> list[Ask]:
    asked = RunQuery(which, **query)
    return [lambda lists, page=page: lists.runs(asked, LIMIT, page) for page in (None, after)]  # type: ignore[misc]


def times(job: UUID = JOB, **query: Any) -> list[Ask]:
    pages = (None, position(MIDDLE))
    return [lambda lists, page=page: lists.run_times(job, LIMIT, after=page, **query) for page in pages]  # type: ignore[misc]


ASKED: dict[str, list[Ask]] = {
    "jobs": jobs(BY_NAME),
    "jobs, counted": [lambda lists: lists.count_jobs(JobQuery(), 10_001, MIDDLE)],
    "jobs of a prefix and a state, counted": [
        lambda lists: lists.count_jobs(JobQuery(prefix="job-05", state=JobState.ACTIVE), 10_001, MIDDLE)
    ],
    "jobs of a rare tag, counted": [lambda lists: lists.count_jobs(JobQuery(tag="rare"), 10_001, MIDDLE)],
    "jobs by id": jobs(BY_ID, sort=JobSort.ID),
    "jobs by next": jobs(BY_NEXT, sort=JobSort.NEXT),
    "jobs of a prefix": jobs(BY_NAME, prefix="job-05"),
    "jobs of a narrow prefix": jobs(BY_NAME, prefix="job-05000"),
    "jobs of a common tag": jobs(BY_NAME, tag="common"),
    "jobs of a rare tag": jobs(BY_NAME, tag="rare"),
    "jobs of no such tag": jobs(BY_NAME, tag="none"),
    "jobs of a tag and a prefix": jobs(BY_NAME, tag="common", prefix="job-05"),
    "active jobs": jobs(BY_NAME, state=JobState.ACTIVE),
    "done jobs": jobs(BY_NAME, state=JobState.DONE),
    "paused jobs": jobs(BY_NAME, state=JobState.PAUSED),
    "jobs in error": jobs(BY_NAME, state=JobState.ERROR),
    "http jobs": jobs(BY_NAME, target="http"),
    "task jobs": jobs(BY_NAME, target="task"),
    "jobs of no such target": jobs(BY_NAME, target="none"),
    "jobs of the api": jobs(BY_NAME, managed_by="api"),
    "jobs of a file": jobs(BY_NAME, managed_by="file", source="source-1"),
    "jobs of code": jobs(BY_NAME, managed_by="code", source="source-1"),
    "jobs of files": jobs(BY_NAME, managed_by="file"),
    "jobs of all code": jobs(BY_NAME, managed_by="code"),
    "jobs of nobody": jobs(BY_NAME, managed_by="sql"),
    "jobs of a subject": jobs(BY_NAME, subject="few"),
    "jobs of a common subject": jobs(BY_NAME, subject="many"),
    "jobs of no such subject": jobs(BY_NAME, subject="none"),
    "jobs that failed": jobs(BY_ID, sort=JobSort.ID, last_result="failed"),
    "jobs that succeeded": jobs(BY_ID, sort=JobSort.ID, last_result="succeeded"),
    "jobs that fire soon": jobs(BY_NEXT, sort=JobSort.NEXT, next_before=T0 + 2 * SECOND),
    "jobs that fire some time": jobs(BY_NEXT, sort=JobSort.NEXT, next_before=T0 + DAY),
    "tags": [lambda lists: lists.tags(LIMIT), lambda lists: lists.tags(LIMIT, "common")],
    "a job": [lambda lists: lists.job(JOB), lambda lists: lists.job("job-050000")],
    "running": runs(RunList.RUNNING, BY_TIME),
    "waiting": runs(RunList.WAITING, BY_EXPIRY),
    "pending": runs(RunList.WAITING, BY_EXPIRY, state=RunState.PENDING),
    "retrying": runs(RunList.WAITING, BY_EXPIRY, state=RunState.RETRYING),
    "ended": runs(RunList.ENDED, BY_TIME),
    "ended between": runs(RunList.ENDED, BY_TIME, since=MIDDLE - HOUR, until=MIDDLE),
    "succeeded": runs(RunList.ENDED, BY_TIME, state=RunState.SUCCEEDED),
    "dead letters": runs(RunList.ENDED, BY_TIME, state=RunState.FAILED),
    "dead letters of an hour": runs(RunList.ENDED, BY_TIME, state=RunState.FAILED, since=MIDDLE - HOUR, until=MIDDLE),
    "cancelled": runs(RunList.ENDED, BY_TIME, state=RunState.CANCELLED),
    "runs of a job": runs(RunList.OF_JOB, BY_TIME, job_id=JOB),
    "runs of a busy job": runs(RunList.OF_JOB, BY_TIME, job_id=BUSY_JOB),
    "failed runs of a busy job": runs(RunList.OF_JOB, BY_TIME, job_id=BUSY_JOB, state=RunState.FAILED),
    "pending runs of a busy job": runs(RunList.OF_JOB, BY_TIME, job_id=BUSY_JOB, state=RunState.PENDING),
    "retrying runs of a busy job": runs(RunList.OF_JOB, BY_TIME, job_id=BUSY_JOB, state=RunState.RETRYING),
    "running runs of a busy job": runs(RunList.OF_JOB, BY_TIME, job_id=BUSY_JOB, state=RunState.RUNNING),
    "runs of a subject": runs(RunList.OF_SUBJECT, BY_TIME, subject="few"),
    "runs of a common subject": runs(RunList.OF_SUBJECT, BY_TIME, subject="many"),
    "runs of a busy subject": runs(RunList.OF_SUBJECT, BY_TIME, subject="busy"),
    "failed runs of a busy subject": runs(RunList.OF_SUBJECT, BY_TIME, subject="busy", state=RunState.FAILED),
    "a run": [lambda lists: lists.run(JOB), lambda lists: lists.attempts(JOB)],
    "stuck runs": [lambda lists: lists.stuck_runs(MIDDLE, LIMIT)],
    "skips": [lambda lists: lists.skips(JOB, LIMIT), lambda lists: lists.skips(JOB, LIMIT, (T0, 5))],
    "versions": [lambda lists: lists.versions(JOB, LIMIT)],
    "an instant": [lambda lists: lists.instant(BUSY_JOB, MIDDLE)],
    "statistics": [lambda lists: lists.ended(BUSY_JOB, T0, LIMIT)],
    "instants without a run": [lambda lists: lists.without_run(BUSY_JOB, [MIDDLE, MIDDLE + HOUR])],
    "times of a job": times(),
    "times of a busy job": times(BUSY_JOB),
    "failed times of a busy job": times(BUSY_JOB, states={RunState.FAILED}),
    "unsuccessful times of a busy job": times(BUSY_JOB, states={RunState.FAILED, RunState.CANCELLED}),
    "running times of a busy job": times(BUSY_JOB, states={RunState.RUNNING}),
    "waiting times of a busy job": times(BUSY_JOB, states={RunState.PENDING, RunState.RETRYING}),
    "times of a busy job in a window": times(BUSY_JOB, since=MIDDLE - HOUR, until=MIDDLE + HOUR),
    "skipped times of a busy job": [
        lambda lists: lists.skip_times(BUSY_JOB, LIMIT),
        lambda lists: lists.skip_times(BUSY_JOB, LIMIT, before=(MIDDLE, 5)),
        lambda lists: lists.skip_times(BUSY_JOB, LIMIT, since=MIDDLE - HOUR, until=MIDDLE),
        lambda lists: lists.skip_times(BUSY_JOB, LIMIT, until=MIDDLE, before=(MIDDLE - HOUR, 5)),
    ],
    "recent times": [lambda lists: lists.recent_times([BUSY_JOB, JOB, UUID(int=5), UUID(int=2**127)], 10)],
    "ended times of a busy job": [lambda lists: lists.ended_times(BUSY_JOB, LIMIT)],
    "days of a busy job": [
        lambda lists: lists.run_days(BUSY_JOB, T0, T0 + 30 * DAY, HOUR, LIMIT),
        lambda lists: lists.skip_days(BUSY_JOB, T0, T0 + 30 * DAY, HOUR, LIMIT),
    ],
    "failed runs by cause": [
        lambda lists: lists.failed_runs(RunQuery(RunList.ENDED, RunState.FAILED), LIMIT),
        lambda lists: lists.failed_runs(RunQuery(RunList.ENDED, RunState.FAILED), LIMIT, position(MIDDLE)),
        lambda lists: lists.failed_runs(RunQuery(RunList.OF_JOB, RunState.FAILED, BUSY_JOB), LIMIT),
    ],
    "versions by time": [lambda lists: lists.version_times(BUSY_JOB)],
    "nodes": [lambda lists: lists.nodes(T0)],
    "audit": [lambda lists: lists.audit(LIMIT), lambda lists: lists.audit(LIMIT, 50, str(JOB))],
    "failing jobs": attentive(BY_NAME, Attention.FAILING),
    "failing jobs of a tag": attentive(BY_NAME, Attention.FAILING, tag="common"),
    "retrying jobs": attentive(BY_NAME, Attention.RETRYING),
    "losing jobs": attentive(BY_NAME, Attention.LOSING),
    "very many losing jobs": attentive(BY_NAME, Attention.LOSING, T0 + DAY),
    "late jobs": attentive(BY_NAME, Attention.LATE),
    "paused jobs by attention": attentive(BY_NAME, Attention.PAUSED),
    "due jobs": attentive(BY_NAME, Attention.DUE, T0 - HOUR),
    "due jobs by next": attentive(BY_NEXT, Attention.DUE, T0 - HOUR, sort=JobSort.NEXT),
    "very many due jobs": attentive(BY_NAME, Attention.DUE),
    "jobs of names": jobs(BY_NAME, names=["job-050000", "job-050001"]),
    "jobs by attention": [by_attention],
    "time line": [time_line],
    "buckets": [in_buckets],
    "attention in figures": [figures],
    "late runs": [lambda lists: lists.late_runs(T0, LIMIT)],
    "changes": [lambda lists: lists.changes(ChangeMark(T0 + 99_900 * SECOND, 0), T0, LIMIT)],
}


class PostgresWork(PostgresListStore):
    """Counts the rows that its statements look at, with the values given and without looking at them."""

    counts: list[float]

    async def _read(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        async with self._connections.connection() as connection:
            for statement, values in wanted:
                text, names = numbered(statement, "$")
                given = ", ".join(literal(values[name]) for name in names)
                for mode in ("force_custom_plan", "force_generic_plan"):
                    await connection.execute(f"set plan_cache_mode = {mode}; prepare asked as {text}")
                    execute = f"execute asked({given})" if given else "execute asked"
                    plan = await connection.fetchval(f"explain (analyze, timing off, format json) {execute}")
                    await connection.execute("deallocate asked; reset plan_cache_mode")
                    self.counts.append(sum(map(rows_of_node, walk(json.loads(plan)[0]["Plan"]))))
        return await super()._read(wanted)


def rows_of_node(node: dict[str, Any]) -> float:
    """The rows a scan of a table looked at, also those it did not want."""
    if "Relation Name" not in node:
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


class SqliteWork(SqliteListStore):
    """Counts the steps of SQLite's machine that its statements take."""

    counts: list[float]
    connection: apsw.Connection

    async def _read(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        def note(event: dict[str, Any]) -> None:
            """Count the steps of this time: a statement that is prepared already adds them to those before."""
            total, before = event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"], TOTALS.get(event["sql"], 0)
            TOTALS[event["sql"]] = total
            self.counts.append(total - before if total > before else total)

        self.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        for statement, values in wanted:
            text, names = numbered(statement, "?")
            self.connection.execute(text, tuple(bound(values[name]) for name in names)).fetchall()
        self.connection.trace_v2(0, None)
        return await super()._read(wanted)


@pytest.fixture(scope="module")
async def filled_postgres() -> AsyncIterator[PostgresDatabase]:
    async with PostgresDatabase.made() as database:
        await database.sql(FILL_POSTGRES)
        yield database


@pytest.fixture(scope="module", params=["fresh", "analysed", "idle"])
async def postgres_work(request: pytest.FixtureRequest, filled_postgres: PostgresDatabase) -> PostgresWork:
    if request.param == "analysed":
        await filled_postgres.sql("vacuum analyze")
    elif request.param == "idle":
        await analyse_as_if_idle(filled_postgres)
    return PostgresWork(filled_postgres.connections())


@pytest.fixture(scope="module")
async def filled_sqlite() -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase.in_memory() as database:
        await database.sql(FILL_SQLITE)
        yield database


@pytest.fixture(scope="module", params=["fresh", "analysed"])
async def sqlite_work(request: pytest.FixtureRequest, filled_sqlite: SqliteDatabase) -> SqliteWork:
    if request.param == "analysed":
        await filled_sqlite.sql("analyze")
    made = SqliteWork(filled_sqlite.runner())
    made.connection = filled_sqlite.connection
    return made


@pytest.mark.parametrize("name", ASKED)
async def test_a_page_on_postgres_reads_few_rows(postgres_work: PostgresWork, name: str) -> None:
    postgres_work.counts = []
    for ask in ASKED[name]:
        await ask(postgres_work)

    assert max(postgres_work.counts) <= WINDOWS.get(name, 1) * MAX_ROWS


@pytest.mark.parametrize("name", ASKED)
async def test_a_page_on_sqlite_takes_few_steps(sqlite_work: SqliteWork, name: str) -> None:
    sqlite_work.counts = []
    for ask in ASKED[name]:
        await ask(sqlite_work)

    assert max(sqlite_work.counts) <= WINDOWS.get(name, 1) * MAX_STEPS
