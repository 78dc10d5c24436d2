"""Measurements of draining: waiting runs in a database, processed by nodes or by a bare loop.

Both answer the seconds they took and the CPU seconds of every part meanwhile.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.limits.databases import Database
from bench.limits.processes import Parts, Peer, cpu_of, cpu_of_machine, cpu_of_main_thread, spent
from bench.limits.task_jobs import LANES

_WARM_UP = 50
_LEAD, _LEAD_OF_ONE = 1.0, 0.00005  # seconds until inserted runs are ready: longer than the insert may take
_BATCH = 1_000
_LIMIT = 1_200.0

Measured = tuple[float, dict[str, float]]


@contextmanager
def nodes_on(
    database: Database, count: int, tasks: int = 1, notes: str | None = None, *, watches: bool = True
) -> Iterator[list[Peer]]:
    """Start this many nodes."""
    with ExitStack() as stack:
        nodes = []
        for _ in range(count):
            nodes.append(Peer("task_node", url=database.url, tasks=tasks, notes=notes, watches=watches))
            stack.callback(nodes[-1].stop)
        yield nodes


def drain_by_nodes(database: Database, count: int, processes: int, tasks: int = 1, *, watches: bool = True) -> Measured:
    """Measure from the first claim until the last outcome is committed."""
    database.tidy()
    with nodes_on(database, processes, tasks, watches=watches) as nodes:
        _drained(nodes, database, _WARM_UP * processes, lead=0.0)
        return _drained(nodes, database, count, lead=_LEAD + _LEAD_OF_ONE * count)


def _drained(nodes: Sequence[Peer], database: Database, count: int, *, lead: float) -> Measured:
    before = called(nodes)
    mark = database.add_runs(count, LANES, ready_in=lead)

    def wait() -> float:
        wait_until(lambda: called(nodes) - before >= count, 0.02)
        wait_until(lambda: database.unfinished() == 0, 0.005)
        end = time.time()
        first, succeeded = database.first_start(mark)
        if succeeded != count:
            raise RuntimeError(f"{succeeded:,} of {count:,} runs succeeded")
        return end - first

    return spent(parts_of([node.pid for node in nodes], database), wait)


def called(nodes: Sequence[Peer]) -> int:
    return sum(node.ask() for node in nodes)


def wait_until(is_so: Callable[[], Any], step: float) -> None:
    end = time.monotonic() + _LIMIT
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"it did not happen in {_LIMIT:g} s")
        time.sleep(step)


def drain_bare(database: Database, count: int, processes: int) -> Measured:
    """Measure from the first claim until the last hand-written loop finds nothing more."""
    return _by_loops("bare_drain" if database.name == "PostgreSQL" else "bare_sqlite_drain", database, count, processes)


def drain_by_store(database: Database, count: int, processes: int) -> Measured:
    """Measure the same with loops of our store's verbs."""
    return _by_loops("store_drain", database, count, processes)


def _by_loops(module: str, database: Database, count: int, processes: int) -> Measured:
    database.tidy()
    database.add_runs(count, LANES)
    with ExitStack() as stack:
        peers = [Peer(module, url=database.url, lane=LANES.replace("%", "0"), batch=_BATCH) for _ in range(processes)]
        for peer in peers:
            stack.callback(peer.stop)
        threads = stack.enter_context(ThreadPoolExecutor(processes))
        work = lambda: max(threads.map(Peer.ask, peers))  # noqa: E731
        measured = spent(parts_of([peer.pid for peer in peers], database), work)
    if database.unfinished():
        raise RuntimeError("the loop left runs behind")
    return measured


def parts_of(pids: Sequence[int], database: Database) -> Parts:
    parts: dict[str, Callable[[], float]] = {
        "main": lambda: sum(map(cpu_of_main_thread, pids)),
        "process": lambda: sum(map(cpu_of, pids)),
        "here": lambda: cpu_of(os.getpid()),
        "machine": cpu_of_machine,
        "wall": time.monotonic,
    }
    if database.cpu() is not None:
        parts["database"] = lambda: database.cpu() or 0.0
    return parts
