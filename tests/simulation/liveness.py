"""Every due run begins while a healthy node could begin it, and every due job is planned while any node is healthy.

The checker looks twice a second. It believes nothing of the engine: which runs could begin follows from the ledger's
copy of the rows, which nodes are healthy from what the scenario did to them, and what they hold from the leases in the
rows. Whatever could have moved at every look for longer than its bound has been stuck while a healthy node was idle.
A run that waits behind others of its lane is not stuck while those begin: a backlog takes as long as it takes.
Beside lanes in which every call hangs, a lane that holds nothing on a healthy node moves whatever those lanes hold.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hourbell.engine.shares import last_slots, probation_slots
from tests.simulation.changes import Row
from tests.simulation.ledger import ENDED, SECOND, Ledger, Violation
from tests.simulation.scenario import CROWD_LANE, CROWDED_SLOTS, LEASE, THREADED

HUNG = f"task:{CROWD_LANE}"
POLL_SECONDS = 0.5
SETTLED_SECONDS = LEASE  # without trouble, after which a node is healthy: longer than any loop backs off
BEGIN_SECONDS = 6.0  # a waiting run begins, a claimed one too, a due job is planned
STUCK_SECONDS = 20.0  # a run that waits for so long is stuck
_LOST = "lost"  # stands for the lanes of functions that go on although their lease is lost
RECOVER_SECONDS = 1.5 * LEASE + 2.0 + BEGIN_SECONDS  # the lease, the reaper's warm-up and interval, then as above


class QueuePosition(NamedTuple):
    """The position of a waiting run in its lane."""

    lane: str
    rank: int
    ready_at: int


@dataclass(frozen=True)
class NodeView:
    """A node as the scenario knows it."""

    id: bytes
    is_healthy: bool  # nothing has been wrong with it for a while
    slots: int
    threads: int
    threads_in_use: int  # also by functions that go on although their lease is lost: they keep their slot, too


class Liveness:
    def __init__(self, ledger: Ledger, *, suspect_after: int) -> None:
        self._ledger = ledger
        self._suspect_after = suspect_after
        self._excused: set[tuple[bytes, int]] = set()
        self._takable_since: dict[bytes, float] = {}
        self._movable_since: dict[Hashable, float] = {}  # what could have moved at every look since then
        self._waiting: dict[bytes, QueuePosition] = {}  # the runs that waited at the last look

    def poll(self, elapsed: float, now: int, nodes: Collection[NodeView]) -> None:
        """Hold everything that can move to its bound. `now` is the database's time in microseconds."""
        movable = dict(self._movable_runs(now, nodes))
        if any(node.is_healthy for node in nodes):
            movable |= dict(self._due_jobs(now))
        behind = self._behind_moving_runs(now)
        self._movable_since = {
            key: elapsed if key in behind else self._movable_since.get(key, elapsed) for key in movable
        }
        for key, (seconds, story) in movable.items():
            waited = elapsed - self._movable_since[key]
            if waited > seconds:
                raise Violation(f"liveness: {story}; a healthy node could have moved it for {waited:.1f} s")

    def stuck(self, elapsed: float, now: int) -> Row | None:
        """Find a run that could have been taken at every look for `STUCK_SECONDS`, whoever is healthy."""
        takable = {
            run["id"]: run
            for run in self._ledger.unfinished(now)
            if run["state"] != "running" and not self._is_blocked(run)
        }
        self._takable_since = {run_id: self._takable_since.get(run_id, elapsed) for run_id in takable}
        for run_id, since in self._takable_since.items():
            run = takable[run_id]
            was_due_at = max(run["ready_at"], run["planned_at"])  # by the database's clock, which may have stepped
            if elapsed - since > STUCK_SECONDS and was_due_at < now - STUCK_SECONDS * SECOND:
                return run
        return None

    def excuse(self, run_id: bytes, attempt: int) -> None:
        """The scenario itself delays this attempt before it begins."""
        self._excused.add((run_id, attempt))

    def forget(self) -> None:
        """Time has stepped, or nobody can do anything: every wait counts anew."""
        self._movable_since.clear()

    def _behind_moving_runs(self, now: int) -> set[Hashable]:
        """Waiting runs of lanes in which a run that goes first was taken since the last look."""
        runs = [run for run in self._ledger.unfinished(now) if run["state"] != "running"]
        before, self._waiting = self._waiting, {run["id"]: _position(run) for run in runs}
        first_taken: dict[str, QueuePosition] = {}
        for run_id, position in before.items():
            if run_id not in self._waiting:
                first_taken[position.lane] = min(position, first_taken.get(position.lane, position))
        return {
            (run["id"], run["attempt"], run["state"])
            for run in runs
            if run["lane"] in first_taken and first_taken[run["lane"]] <= self._waiting[run["id"]]
        }

    def _movable_runs(self, now: int, nodes: Collection[NodeView]) -> Iterator[tuple[Hashable, tuple[float, str]]]:
        """Runs that have not begun although an idle node could begin them, each with its bound."""
        held: defaultdict[bytes, Counter[str]] = defaultdict(Counter)
        for run in self._ledger.runs.values():
            if run["state"] == "running":
                held[run["lease_owner"]][run["lane"]] += 1
        has_thread = set()
        for node in nodes:
            claimed = sum(held[node.id][lane] for lane in THREADED)
            held[node.id][_LOST] = max(0, node.threads_in_use - claimed)
            if max(claimed, node.threads_in_use) < node.threads:
                has_thread.add(node.id)
        healthy = {node.id for node in nodes if node.is_healthy}
        for run in self._ledger.unfinished(now):
            if run["crashes"] >= self._suspect_after:
                continue  # a node holds one of these at a time
            lane = run["lane"]
            idle = [node for node in nodes if node.is_healthy and _has_slot(node, lane, held[node.id])]
            if lane in THREADED:
                idle = [node for node in idle if node.id in has_thread]
            if not idle:
                continue
            key = (run["id"], run["attempt"], run["state"])
            if run["state"] == "running":
                if key[:2] not in self._ledger.effects and key[:2] not in self._excused:
                    seconds = BEGIN_SECONDS if run["lease_owner"] in healthy else RECOVER_SECONDS
                    yield key, (seconds, f"claimed and not begun: {_described(run)}")
            elif not self._is_blocked(run):
                yield key, (BEGIN_SECONDS, f"waits: {_described(run)}")

    def _is_blocked(self, run: Row) -> bool:
        """Return True if another run of its job goes first."""
        if not run["exclusive"]:
            return False
        return any(
            other["state"] == "running" or (other["scheduled_at"], other["id"]) < (run["scheduled_at"], run["id"])
            for other in self._ledger.runs.values()
            if other["job_id"] == run["job_id"] and other["id"] != run["id"] and other["state"] not in ENDED
        )

    def _due_jobs(self, now: int) -> Iterator[tuple[Hashable, tuple[float, str]]]:
        for job in self._ledger.jobs.values():
            is_active = job["enabled"] and job["deleted_at"] is None and job["plan_at"] is not None
            if is_active and job["plan_at"] < now - SECOND // 10:
                story = f"{job['name']} is due and not planned, its cursor is at {job['cursor_at']}"
                yield (job["id"], job["plan_at"]), (BEGIN_SECONDS, story)


def _has_slot(node: NodeView, lane: str, held: Counter[str]) -> bool:
    """Tell if a node has a slot for one more run of a lane. Lanes that hang leave one to a lane that holds none."""
    hung = sum(count for each, count in held.items() if each.startswith(HUNG))
    if node.slots != CROWDED_SLOTS:
        return held.total() < node.slots
    kept = node.slots - probation_slots(node.slots) - last_slots(node.slots)
    return not (lane.startswith(HUNG) or held[lane]) and held.total() - hung < kept


def _position(run: Row) -> QueuePosition:
    return QueuePosition(run["lane"], run["rank"], run["ready_at"])


def _described(run: Row) -> str:
    return f"run {run['id'].hex()} at {run['scheduled_at']} attempt {run['attempt']}, {run['state']}"
