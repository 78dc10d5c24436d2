"""One step of the growth: a database of that size, and the cost of draining, planning and lateness there."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from statistics import median

from bench.limits.databases import Database
from bench.limits.drains import called, nodes_on, wait_until
from bench.limits.plans import AT
from bench.limits.processes import Peer
from bench.limits.task_jobs import LANES, add_ended_runs, add_task_jobs
from bench.timers.harness import latenesses

_LEAD = timedelta(seconds=8)
_ELSEWHERE = "task:bench.elsewhere"


@dataclass(frozen=True, slots=True)
class Point:
    """The size of a step. Waiting runs are in a lane that no node serves, until they are drained."""

    jobs: int = 1_000
    waiting: int = 0
    ended: int = 0
    lanes: int = 1
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount measured at each step: rounds of draining and planning, and seconds of one job that is due each."""

    drained: int
    due: int
    seconds: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians in seconds: of one run to be drained, of one due job to be planned, and the lateness of one job."""

    drain: float
    plan: float
    lateness: float


def cost_of(point: Point, effort: Effort, make: Callable[[], Database], folder: Path) -> Cost:
    database = make()
    try:
        _fill(database, point)
        plan = median(_plan(database, effort, round_) for round_ in range(effort.rounds))
        lateness = _lateness(database, point, effort, folder)
        return Cost(median(_drains(database, point, effort)), plan, lateness)
    finally:
        database.drop()


def _fill(database: Database, point: Point) -> None:
    add_task_jobs(database, point.jobs, lanes=point.lanes)
    if point.ended:
        add_ended_runs(database, point.ended)
    if point.waiting:
        runs = "hourbell.runs" if database.name == "PostgreSQL" else "hourbell_runs"
        database.add_runs(point.waiting, LANES)
        database.ask(f"update {runs} set lane = '{_ELSEWHERE}' where state = 'pending'")


def _plan(database: Database, effort: Effort, round_: int) -> float:
    add_task_jobs(database, effort.due, prefix=f"due{round_}", schedule="0 3 * * *", due=AT)
    database.tidy()
    peer = Peer("store_plan", url=database.url, probes=1)
    try:
        _, burst, _ = peer.ask()
    finally:
        peer.stop()
    return float(burst) / effort.due


def _lateness(database: Database, point: Point, effort: Effort, folder: Path) -> float:
    notes = folder / f"{token_hex(4)}.notes"
    at = datetime.now(UTC).replace(microsecond=0) + _LEAD
    add_task_jobs(database, 1, prefix="second", schedule="* * * * * *", due=at)
    with nodes_on(database, point.nodes, tasks=point.lanes, notes=str(notes)):
        time.sleep(max(0.0, at.timestamp() - time.time()) + effort.seconds + 1)
    prefix = "hourbell." if database.name == "PostgreSQL" else "hourbell_"
    database.ask(f"update {prefix}jobs set plan_at = null, next_at = null where name like 'second-%'")
    return median(latenesses(notes, 1, at.timestamp() - 1))


def _drains(database: Database, point: Point, effort: Effort) -> list[float]:
    """Return the cost of one of the first waiting runs, of the next ones and so on; the rest stay."""
    waiting = max(effort.rounds * effort.drained, point.waiting)
    database.tidy()
    with nodes_on(database, point.nodes, tasks=point.lanes) as nodes:
        before = called(nodes)
        mark = database.add_runs(waiting, LANES, ready_in=2 + waiting / 20_000)
        ends = [_end_of(nodes, before + done * effort.drained) for done in range(1, effort.rounds + 1)]
        first, _ = database.first_start(mark)
    return [(end - begin) / effort.drained for begin, end in pairwise([first, *ends])]


def _end_of(nodes: list[Peer], calls: int) -> float:
    """Return when this many calls have been made."""
    wait_until(lambda: called(nodes) >= calls, 0.005)
    return time.time()
