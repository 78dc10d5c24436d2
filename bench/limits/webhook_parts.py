"""Measurements of webhooks: the whole path through nodes, and its two halves alone, each in separate processes.

Each of the three answers the seconds it took and the CPU seconds of every part meanwhile.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from bench.limits.certificate import make_certificate
from bench.limits.databases import Database
from bench.limits.processes import Parts, Peer, cpu_of, cpu_of_machine, cpu_of_main_thread, spent
from bench.sizes import size
from hourbell.sealing import KEY_BYTES

_WARM_UP = 64
_LEAD, _LEAD_OF_ONE = 1.0, 0.0002  # seconds until inserted runs are ready: longer than the insert may take
_BATCH = 1_000
_LIMIT = 120.0  # seconds
_RESULTS = Path(__file__).parents[1] / "results"
_EVIDENCE = {
    "runs": (
        *("id", "job_id", "lane", "state", "reason", "attempt", "failures", "crashes", "lease_owner", "lease_until"),
        *("ready_at", "planned_at", "started_at", "finished_at"),
    ),
    "attempts": ("run_id", "number", "node", "started_at", "finished_at", "outcome", "late_outcome", "error"),
    "nodes": ("id", "started_at", "beat_at"),
}

Measured = tuple[float, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Sizes:
    hooks: int
    jobs: int
    ports: int
    slots: int  # attempts under way at once, of all nodes together as of the bare client
    nodes: int
    rounds: int

    @classmethod
    def given(cls) -> "Sizes":
        usual = {"hooks": 10_000, "jobs": 1_000, "ports": 8, "slots": 800, "nodes": 1, "rounds": 5}
        return cls(**{name: size(name, of) for name, of in usual.items()})


@dataclass(frozen=True, slots=True)
class Setup:
    """The resources that all candidates share."""

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

    def repeats(self) -> list[tuple[str, str, int]]:
        """Requests that came more than once, of the newest: run, attempt and how often."""
        return [(run, attempt, times) for run, attempt, times in self.receiver.ask("repeats")]

    def urls(self, scheme: str) -> list[str]:
        return [f"{scheme}://127.0.0.1:{port}/hook" for port in self.receiver.ready_message[scheme]]


@contextmanager
def open_setup(sizes: Sizes) -> Iterator[Setup]:
    with TemporaryDirectory(prefix="hourbell-bench-") as name:
        ca_file, certificate = make_certificate(Path(name))
        receiver = Peer("receiver", ports=sizes.ports, certificate=str(certificate))
        try:
            yield Setup(sizes, Path(name), ca_file, receiver, os.urandom(KEY_BYTES))
        finally:
            receiver.stop()


class Node:
    """A `hourbell serve` on a database."""

    def __init__(self, database: Database, setup: Setup) -> None:
        self._log = setup.folder / f"{token_hex(4)}.log"
        slots = setup.sizes.slots // setup.sizes.nodes
        settings = {
            "DATABASE_URL": database.url,
            "HTTP_ADDR": "127.0.0.1:0",
            "HOURBELL_CA_FILE": str(setup.ca_file),
            "HOURBELL_SECRET_KEY": base64.b64encode(setup.key).decode(),
            "HOURBELL_SLOTS": str(slots),
            "HOURBELL_LANE_SLOTS": str(-(-slots // setup.sizes.ports)),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hourbell", "serve"],
                cwd=setup.folder,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid

    @property
    def log(self) -> Path:
        return self._log

    @property
    def is_serving(self) -> bool:
        return b'"serving"' in self._log.read_bytes()

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"the node ended:\n{self._log.read_text()[-2_000:]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def deliver(database: Database, scheme: str, setup: Setup) -> Measured:
    """The whole path: from the first claim until the last outcome is seen committed."""
    database.tidy()
    with serving(database, setup) as nodes:
        delivered(nodes, database, scheme, setup, _WARM_UP, lead=0.0)
        hooks = setup.sizes.hooks
        return delivered(nodes, database, scheme, setup, hooks, lead=_LEAD + _LEAD_OF_ONE * hooks)


@contextmanager
def serving(database: Database, setup: Setup) -> Iterator[list[Node]]:
    """Nodes that serve a database until the end of the block."""
    with ExitStack() as stack:
        nodes = [Node(database, setup) for _ in range(setup.sizes.nodes)]
        for node in nodes:
            stack.callback(node.stop)
        _wait_until(lambda: all(node.is_serving for node in nodes), nodes, 0.01)
        yield nodes


def delivered(
    nodes: Sequence[Node], database: Database, scheme: str, setup: Setup, count: int, *, lead: float
) -> Measured:
    """Insert runs, and wait until each is delivered and its outcome committed; other requests are an error."""
    received = setup.received() + count
    mark = database.add_runs(count, f"{scheme}://%", ready_in=lead)

    def wait() -> float:
        _wait_until(lambda: setup.received() >= received, nodes, 0.02)
        _wait_until(lambda: database.unfinished() == 0, nodes, 0.002)
        end = time.time()
        first, succeeded = database.first_start(mark)
        if (setup.received(), succeeded) != (received, count):
            raise mismatch(nodes, database, setup, succeeded, count, setup.received() - received)
        return end - first

    return spent(_parts([node.pid for node in nodes], setup, database), wait)


def mismatch(
    nodes: Sequence[Node], database: Database, setup: Setup, succeeded: int, count: int, too_many: int
) -> RuntimeError:
    """Save the logs, requests and rows that may explain a mismatch; return the folder."""
    kept = _RESULTS / f"mismatch-{token_hex(4)}"
    kept.mkdir(parents=True)
    for node in nodes:
        shutil.copy(node.log, kept)
    setup.receiver.ask(f"write {kept / 'requests.jsonl'}")
    for table, columns in _EVIDENCE.items():
        rows = database.rows(table, columns)
        (kept / f"{table}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    repeats = setup.repeats()
    message = (
        f"{succeeded} of {count} succeeded, with {too_many} calls too many; {len(repeats)} attempts came repeatedly"
    )
    return RuntimeError(f"{message}; node logs, requests and rows are in {kept}")


def _wait_until(is_so: Callable[[], bool], nodes: Sequence[Node], step: float) -> None:
    end = time.monotonic() + _LIMIT
    while not is_so():
        for node in nodes:
            node.check()
        if time.monotonic() > end:
            raise RuntimeError(f"the nodes did not get there in {_LIMIT:g} s")
        time.sleep(step)


def send(client: str, scheme: str, setup: Setup) -> Measured:
    """Measure a client alone."""
    sizes = setup.sizes
    peer = Peer(
        "clients",
        client=client,
        urls=setup.urls(scheme),
        count=sizes.hooks,
        at_once=sizes.slots,
        warm_up=_WARM_UP,
        ca_file=str(setup.ca_file),
    )
    return _measure_peer(peer, _parts([peer.pid], setup))


def claim_and_settle(database: Database, setup: Setup) -> Measured:
    """Measure the rows alone."""
    database.tidy()
    database.add_runs(setup.sizes.hooks, "http://%")
    lanes = [url.removesuffix("/hook") for url in setup.urls("http")]
    peer = Peer("rows", url=database.url, lanes=lanes, batch=_BATCH)
    measured = _measure_peer(peer, _parts([peer.pid], setup, database))
    if database.unfinished():
        raise RuntimeError("the bare loop left runs behind")
    return measured


def _measure_peer(peer: Peer, parts: Parts) -> Measured:
    try:
        return spent(parts, peer.ask)
    finally:
        peer.stop()


def _parts(pids: Sequence[int], setup: Setup, database: Database | None = None) -> Parts:
    parts: dict[str, Callable[[], float]] = {
        "main": lambda: sum(map(cpu_of_main_thread, pids)),
        "process": lambda: sum(map(cpu_of, pids)),
        "receiver": lambda: cpu_of(setup.receiver.pid),
        "connections": setup.connections,
        "here": lambda: cpu_of(os.getpid()),
        "machine": cpu_of_machine,
        "wall": time.monotonic,
    }
    if database is not None and database.cpu() is not None:
        parts["database"] = lambda: database.cpu() or 0.0
    return parts
