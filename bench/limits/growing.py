"""One place of the growth: a database with so much in it, and what draining, planning and lateness cost there."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from statistics import median

from bench.limits.databases import Database
from bench.limits.drains import nodes_on, wait_until
from bench.limits.plans import AT
from bench.limits.processes import Peer
from bench.limits.task_jobs import LANES, add_ended_runs, add_task_jobs
from bench.timers.contest import latenesses

_LEAD = timedelta(seconds=8)
_ELSEWHERE = "task:bench.elsewhere"


@dataclass(frozen=True, slots=True)
class Place:
    """How much there is. Waiting runs are in a lane that no node serves, until they are to be drained."""

    jobs: int = 1_000
    waiting: int = 0
    ended: int = 0
    lanes: int = 1
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured at each place."""

    drained: int
    due: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds: of one run to be drained, of one due job to be planned, and the median lateness of one job."""

    drain: float
    plan: float
    lateness: float


def cost_of(place: Place, effort: Effort, make: Callable[[], Database], folder: Path) -> Cost:
    database = make()
    try:
        _fill(database, place, effort)
        plan = _plan(database, effort)
        lateness = _lateness(database, place, effort, folder)
        return Cost(_drain(database, place, effort), plan, lateness)
    finally:
        database.drop()


def _fill(database: Database, place: Place, effort: Effort) -> None:
    add_task_jobs(database, place.jobs, lanes=place.lanes)
    if place.ended:
        add_ended_runs(database, place.ended)
    if place.waiting:
        runs = "hourbell.runs" if database.name == "PostgreSQL" else "hourbell_runs"
        database.add_runs(place.waiting, LANES)
        database.ask(f"update {runs} set lane = '{_ELSEWHERE}' where state = 'pending'")
    add_task_jobs(database, effort.due, prefix="due", schedule="0 3 * * *", due=AT)
    database.tidy()


def _plan(database: Database, effort: Effort) -> float:
    peer = Peer("store_plan", url=database.url, probes=1)
    try:
        _, burst, _ = peer.ask()
    finally:
        peer.stop()
    return float(burst) / effort.due


def _lateness(database: Database, place: Place, effort: Effort, folder: Path) -> float:
    notes = folder / f"{token_hex(4)}.notes"
    at = datetime.now(UTC).replace(microsecond=0) + _LEAD
    add_task_jobs(database, 1, prefix="second", schedule="* * * * * *", due=at)
    with nodes_on(database, place.nodes, tasks=place.lanes, notes=str(notes)):
        time.sleep(max(0.0, at.timestamp() - time.time()) + effort.seconds + 1)
    prefix = "hourbell." if database.name == "PostgreSQL" else "hourbell_"
    database.ask(f"update {prefix}jobs set plan_at = null, next_at = null where name like 'second-%'")
    return median(latenesses(notes, 1, at.timestamp() - 1))


def _drain(database: Database, place: Place, effort: Effort) -> float:
    """What one of the first runs costs of all that wait; where more wait, the rest stay behind."""
    waiting = max(effort.drained, place.waiting)
    database.tidy()
    with nodes_on(database, place.nodes, tasks=place.lanes) as nodes:
        called = sum(node.ask() for node in nodes)
        mark = database.add_runs(waiting, LANES, ready_in=2 + waiting / 20_000)
        wait_until(lambda: sum(node.ask() for node in nodes) - called >= effort.drained, 0.01)
        end = time.time()
        first, _ = database.first_start(mark)
    return (end - first) / effort.drained
