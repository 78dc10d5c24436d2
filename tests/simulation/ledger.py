"""Invariants of the tables after each commit, by any writer: the engine's promises, checked change by change.

The ledger believes nothing of the engine. It keeps its own copy of every row from the changes themselves, has its own
table of legal moves and its own instants, and is told who made each commit and what left the process.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha1
from typing import Any
from uuid import UUID

from tests.simulation.changes import Changed, Changes, Row
from tests.simulation.expected import MAX_PASS_RUNS, runs_of, wrong_reason
from tests.simulation.oracle import instants_of
from tests.simulation.scenario import LEASE

SECOND = 1_000_000
ENDED = frozenset({"succeeded", "failed", "cancelled"})
MOVES = {
    "pending": {"pending", "running", "failed", "cancelled"},
    "running": {"running", "pending", "retrying", "succeeded", "failed", "cancelled"},
    "retrying": {"retrying", "running", "failed", "cancelled"},
}
PRESETS = {"none": 1, "fixed": 3, "default": 4, "exponential": 8}
MAX_LEASE = int(LEASE) * SECOND

MAX_WAITING_RUNS = 1_000


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Earlier:
    """A version of a job that was changed by plain SQL, or behind such a change, and until when it was valid."""

    row: Row
    until: int


@dataclass(frozen=True)
class Commit:
    """The author of a commit, and its time by the database's clock."""

    node: UUID | None  # None for a user
    verb: str
    at: int
    knows_the_time: bool  # the database's clock has not been put forward or back of late


class Ledger:
    def __init__(self, changes: Changes, moment: datetime, *, poison_after: int, has_excuse: Callable[[bytes], bool]):
        self._changes = changes
        self._moment = moment
        self._poison_after = poison_after
        self._suspect_after = max(2, poison_after - 1)
        self._has_excuse = has_excuse  # whether a node was unwell, so that its lease may be taken from it
        self.jobs: dict[bytes, Row] = {}
        self.runs: dict[bytes, Row] = {}
        self.attempts: dict[tuple[bytes, int], Row] = {}
        self.skips: dict[int, Row] = {}
        self.effects: Counter[tuple[bytes, int]] = Counter()
        self.claims: dict[tuple[bytes, int], bytes] = {}
        self._max_attempts: dict[tuple[bytes, int], int] = {}
        self._ended_well: dict[tuple[bytes, int], bool] = {}
        self._cancels: set[bytes] = set()  # runs that somebody wanted stopped
        self._commits = 0
        self._lost: defaultdict[bytes, dict[int, int]] = defaultdict(dict)  # attempts of a run, by a reaper's commit
        self._heard: dict[bytes, int] = {}  # nodes, by the commit of their last heartbeat
        self._retired: set[bytes] = set()
        self._has_stepped = self._has_stepped_back = False
        self._instants: set[tuple[bytes, int]] = set()  # every one that ever got a run
        self._unfinished: defaultdict[bytes, dict[bytes, Row]] = defaultdict(dict)  # of each job
        self._earlier: defaultdict[bytes, list[Earlier]] = defaultdict(list)  # versions that are still to be planned

    def commit(self, commit: Commit) -> dict[str, list[Changed]] | None:
        """Check what a commit changed against every invariant."""
        self._commits += 1
        if commit.node is not None and commit.verb == "heartbeat":
            self._heard[commit.node.bytes] = self._commits
        if commit.node is not None and commit.verb == "retire":
            self._retired.add(commit.node.bytes)
        changes = self._changes.poll()
        if changes is None:
            return None
        before = dict(self.jobs)
        valid = {job_id: self._valid(job) for job_id, job in before.items()}
        unfinished = {
            job_id: sum(run["kind"] == "scheduled" for run in runs.values())
            for job_id, runs in self._unfinished.items()
        }
        self._cancels |= {change.key for change in changes["cancels"]}
        added: defaultdict[bytes, list[Row]] = defaultdict(list)
        skipped: defaultdict[bytes, list[int]] = defaultdict(list)
        for change in _in_turn(changes["runs"], commit.verb):
            self._run_changed(change, commit, added)
        for change in changes["skips"]:
            self._skip_changed(change, valid, skipped)
        for change in changes["attempts"]:
            self._attempt_changed(change, commit)
        for change in changes["jobs"]:
            self._job_changed(change)
        for change in changes["job_changes"]:
            if change.op == "delete":
                self._earlier_ended(change.row["job_id"])
        for job_id in {change.key for change in changes["jobs"]}:
            self._note_earlier(before.get(job_id), commit)
        for job_id in {*added, *skipped, *(change.key for change in changes["jobs"])}:
            if job_id in before:
                of_job = added[job_id], skipped[job_id]
                self._account(before[job_id], valid[job_id], *of_job, commit, unfinished.get(job_id, 0))
        return changes

    def ended(self, run_id: UUID, attempt: int, *, well: bool) -> None:
        """Record the outcome of an attempt that ended."""
        self._ended_well[run_id.bytes, attempt] = well

    def stepped(self, *, back: bool) -> None:
        """The database's clock was put forward, or back: leases given before may last longer than any."""
        self._has_stepped = True
        self._has_stepped_back |= back

    def effect(self, node: UUID, run_id: UUID, attempt: int, *, may_be_late: bool) -> None:
        """The first byte of an attempt leaves its node."""
        key = (run_id.bytes, attempt)
        run = self.runs.get(run_id.bytes)
        _hold(self.claims.get(key) == node.bytes, f"I10: an effect of {run_id} #{attempt} without a claim of its node")
        self.effects[key] += 1
        _hold(self.effects[key] == 1, f"I10: {run_id} #{attempt} began twice")
        if run is None:
            return
        is_holder = run["attempt"] == attempt and run["state"] == "running"
        _hold(is_holder or may_be_late, f"I5: {run_id} #{attempt} began after it was taken over: {_facts_of(run)}")
        begun = [number for found, number in self.effects if found == run_id.bytes]
        _hold(not run["at_most_once"] or len(begun) == 1, f"I21: {run_id}, at most once, began in attempts {begun}")

    def _run_changed(self, change: Changed, commit: Commit, added: dict[bytes, list[Row]]) -> None:
        row = change.row
        if change.op == "insert":
            self._run_added(row)
            if row["kind"] == "scheduled":
                added[row["job_id"]].append(row)
        elif change.op == "delete":
            was = self.runs.pop(change.key)
            _hold(was["state"] in ENDED, f"I20: an unfinished run was removed: {_facts_of(was)}")
            return
        else:
            self._run_moved(self.runs[change.key], row, commit)
        self.runs[change.key] = row
        if row["state"] in ENDED:
            self._unfinished[row["job_id"]].pop(change.key, None)
        else:
            self._unfinished[row["job_id"]][change.key] = row

    def _run_added(self, row: Row) -> None:
        _hold(row["state"] == "pending" and row["attempt"] == 0, f"I4: a run begins as {_facts_of(row)}")
        if row["kind"] != "scheduled":
            return
        instant = (row["job_id"], row["scheduled_at"])
        _hold(instant not in self._instants, f"I1: a second run for {_facts_of(row)}")
        self._instants.add(instant)
        derived = _id_of(*instant)
        _hold(row["id"].hex() == derived, f"I9: the id does not follow from job and instant: {_facts_of(row)}")

    def _run_moved(self, was: Row, row: Row, commit: Commit) -> None:
        story = f"{_facts_of(was)} to {_facts_of(row)} by {commit.verb}"
        _hold(was["state"] not in ENDED, f"I4: an end was changed: {story}")
        _hold(row["state"] in MOVES[was["state"]], f"I4: an illegal move: {story}")
        fixed = ("job_id", "job_version", "kind", "scheduled_at", "planned_at", "expires_at")
        _hold(all(was[name] == row[name] for name in fixed), f"I4: what never changes was changed: {story}")
        owner = commit.node.bytes if commit.node else None
        if row["attempt"] != was["attempt"] or (row["state"] == "running") != (was["state"] == "running"):
            self._lease_moved(was, row, owner, commit, story)
        if commit.verb in ("settle", "heartbeat", "begin"):
            is_holder = was["state"] == "running" and was["lease_owner"] == owner
            _hold(is_holder, f"I5: written by a node that does not hold it: {story}")
        limit = self._max_attempts[row["job_id"], row["job_version"]]
        _hold(row["failures"] <= limit, f"I11: more than {limit} failures: {story}")
        if row["state"] in ENDED:
            self._hold_end(was, row, limit, commit, story)
        if row["lease_until"] != was["lease_until"] and row["state"] == "running" and commit.knows_the_time:
            is_a_lease = row["lease_until"] <= commit.at + MAX_LEASE + SECOND
            _hold(is_a_lease, f"I3: a lease that lasts too long: {story}")
        _hold(row["failures"] >= was["failures"], f"I11: {story}")
        _hold(commit.verb == "reap" or row["crashes"] == was["crashes"], f"I12: charged by no reaper: {story}")

    def _hold_end(self, was: Row, row: Row, max_attempts: int, commit: Commit, story: str) -> None:
        """A run ends for a reason that can be seen: a failed one that had attempts left would be lost."""
        if row["state"] == "succeeded":
            _hold(
                self._ended_well.get((row["id"], row["attempt"]), False),
                f"succeeded, its target did not say so: {story}",
            )
        elif row["state"] == "failed":
            at = commit.at if commit.knows_the_time else row["expires_at"]
            wrong = wrong_reason(
                row, max_attempts=max_attempts, poison_after=self._poison_after, verb=commit.verb, at=at
            )
            _hold(wrong is None, f"I11: failed, though {wrong}: {story}")
        elif commit.verb in ("plan_due", "edit", "pause") and was["state"] != "running":
            gives_way = self._valid(self.jobs[row["job_id"]])["overlap"] == "cancel_running" or commit.verb == "pause"
            _hold(gives_way, f"cancelled, its job does not say so: {story}")
        elif commit.node is not None:
            _hold(row["id"] in self._cancels, f"cancelled, nobody asked for it: {story}")

    def _lease_moved(self, was: Row, row: Row, owner: bytes | None, commit: Commit, story: str) -> None:
        if row["state"] == "running":
            _hold(commit.verb == "claim" and row["lease_owner"] == owner, f"I5: not claimed: {story}")
            _hold(row["attempt"] == was["attempt"] + 1, f"I5: the attempt is not the next one: {story}")
            is_ready = row["ready_at"] <= commit.at + SECOND // 10
            _hold(is_ready or not commit.knows_the_time, f"I8: claimed before it was ready: {story}")
            self.claims[row["id"], row["attempt"]] = row["lease_owner"]
            self._claimed(was, row, story)
            return
        _hold(row["attempt"] == was["attempt"], f"I5: the attempt changed without a claim: {story}")
        if commit.verb == "heartbeat":
            _hold((was["id"], was["attempt"]) not in self.effects, f"I10: handed back, though it had begun: {story}")
        if commit.verb == "reap":
            is_set_aside = row["crashes"] < self._poison_after or row["state"] == "failed"
            _hold(is_set_aside, f"I12: it is tried again although {row['crashes']} nodes died: {story}")
            has_run_out = was["lease_until"] <= commit.at + SECOND // 10 or not commit.knows_the_time
            _hold(has_run_out, f"I3: a lease was taken that had not run out: {story}")
            is_delivering = (was["id"], was["attempt"]) in self.effects  # else the answer to its claim may be lost
            is_excused = not is_delivering or self._has_excuse(was["lease_owner"])
            _hold(is_excused, f"I17: a lease was taken from a node that is well: {story}")
            self._lost[was["id"]][was["attempt"]] = self._commits
            self._hold_deaths(row, story)

    def _hold_deaths(self, row: Row, story: str) -> None:
        """Compare a run's crashes with the nodes that are gone: at least those known to be, at most those that may be.

        A node that beat again, or whose outcome came late, is not gone. One that left the list may be. A clock that was
        put back makes old heartbeats look new, and new ones old.
        """
        if row["at_most_once"]:
            _hold(row["crashes"] <= (row["reason"] == "lost"), f"I12: a death without an effect is charged: {story}")
            return
        lost = self._lost[row["id"]]
        silent = {number: owner for number in lost if (owner := self._owner_without_a_word(row["id"], number))}
        gone = {number for number, owner in silent.items() if self._heard.get(owner, 0) <= lost[number]}
        left = {number for number, owner in silent.items() if owner in self._retired}
        begun = sum((row["id"], number) in self.effects for number in gone)
        if not self._has_stepped_back:
            _hold(row["crashes"] <= len(gone | left), f"I12: only {len(gone | left)} nodes are gone: {story}")
            _hold(row["crashes"] >= begun, f"I12: {begun} nodes are gone: {story}")

    def _owner_without_a_word(self, run_id: bytes, number: int) -> bytes | None:
        """The node that lost an attempt, unless its outcome came late."""
        attempt = self.attempts.get((run_id, number))
        return None if attempt is not None and attempt["late_outcome"] else self.claims[run_id, number]

    def _claimed(self, was: Row, row: Row, story: str) -> None:
        if row["exclusive"]:
            others = [other for other in self._unfinished[row["job_id"]].values() if other["id"] != row["id"]]
            running = [other for other in others if other["state"] == "running"]
            _hold(not running, f"I13: another run of its job is running: {story}")
            older = [other for other in others if _age(other) < _age(row)]
            _hold(not older, f"I13: an older run of its job is unfinished: {story}")
        if was["crashes"] >= self._suspect_after:
            suspects = [
                run
                for runs in self._unfinished.values()
                for run in runs.values()
                if _is_held_by(run, row["lease_owner"]) and run["crashes"] >= self._suspect_after
            ]
            _hold(not suspects, f"I12: a node holds a second suspect: {story}")

    def _skip_changed(self, change: Changed, jobs: dict[bytes, Row], skipped: dict[bytes, list[int]]) -> None:
        row, job = change.row, jobs.get(change.row["job_id"])
        if change.op == "delete":
            del self.skips[change.key]
            return
        was = self.skips.get(change.key)
        self.skips[change.key] = row
        if job is None:
            raise Violation(f"I2: a skip of a job that was not there: {row}")
        after = row["first_at"] - 1 if was is None else was["last_at"]
        covered = self._instants_of(job, after, row["last_at"])
        count = row["count"] - (was["count"] if was else 0)
        _hold(len(covered) == count, f"I2: a skip of {count} instants covers {len(covered)}: {row}")
        skipped[row["job_id"]] += covered

    def _attempt_changed(self, change: Changed, commit: Commit) -> None:
        if change.op == "delete":
            del self.attempts[change.key]
            return
        row, was = change.row, self.attempts.get(change.key)
        if was is None:
            _hold(self.claims.get(change.key) == row["node"], f"I10: an attempt of nobody's: {row}")
        else:
            kept = all(was[name] == row[name] for name in row if name != "late_outcome")
            _hold(kept, f"I5: an attempt was written again by {commit.verb}: {was} to {row}")
        self.attempts[change.key] = row

    def _job_changed(self, change: Changed) -> None:
        if change.op == "delete":
            del self.jobs[change.key]
        else:
            self.jobs[change.key] = job = change.row
            self._max_attempts[job["id"], job["version"]] = _attempts(json.loads(job["retry"]))

    def _note_earlier(self, was: Row | None, commit: Commit) -> None:
        """Keep what plain SQL replaced, and what users replaced before all that was planned."""
        row = None if was is None else self.jobs.get(was["id"])
        if was is None or row is None or row["version"] == was["version"]:
            return
        is_switched = row["enabled"] != was["enabled"]
        by_users = commit.verb == "edit" or (commit.verb in ("pause", "resume") and is_switched)
        if commit.verb == "plain sql":
            self._earlier[was["id"]].append(
                Earlier(was, round(commit.at / 1_000) * 1_000)
            )  # SQLite's clock has no less
        elif by_users and self._earlier[was["id"]]:
            self._earlier[was["id"]].append(Earlier(was, commit.at))

    def _earlier_ended(self, job_id: bytes) -> None:
        """The oldest of the versions to be planned is planned, up to where it was valid.

        While a node and the database do not agree on the time, it may end where the node met the change.
        """
        ended = self._earlier[job_id].pop(0)
        job = self.jobs.get(job_id)
        is_planned = job is None or job["cursor_at"] >= ended.until
        _hold(is_planned or self._has_stepped, f"I19: {ended.row['name']} was valid until {ended.until}: {job}")

    def _valid(self, job: Row) -> Row:
        """The version that the next instants belong to."""
        earlier = self._earlier[job["id"]]
        return earlier[0].row if earlier else job

    def _account(
        self, was: Row, valid: Row, added: list[Row], skipped: list[int], commit: Commit, unfinished: int
    ) -> None:
        """Every instant the cursor passed over has its one place, by the version that was valid."""
        row = self.jobs.get(was["id"])
        if row is None:
            return
        name = row["name"]
        counts = Counter([*(run["scheduled_at"] for run in added), *skipped])
        if was["cursor_at"] is None or row["cursor_at"] is None:
            _hold(not counts, f"I2: {name} got runs or skips for the time before it was adopted: {counts}")
            return
        _hold(row["cursor_at"] >= was["cursor_at"], f"I2: the cursor of {name} moved back in {commit.verb}")
        due = Counter(self._instants_of(valid, was["cursor_at"], row["cursor_at"]))
        _hold(counts == due, f"I2: {name} in {commit.verb}: missing {due - counts}, too much {counts - due}")
        versions = {run["job_version"] for run in added}
        _hold(versions <= {valid["version"]}, f"I19: {name} {valid['version']} got runs of versions {versions}")
        _hold(len(added) <= MAX_PASS_RUNS, f"I14: {name} got {len(added)} runs in one pass")
        if added:
            waiting = sum(run["state"] != "running" for run in self._unfinished[was["id"]].values())
            _hold(waiting <= MAX_WAITING_RUNS, f"I14: {name} has {waiting} runs waiting")
        if valid["enabled"] and commit.verb in ("plan_due", "edit", "pause"):
            now = row["cursor_at"] if valid is was else commit.at
            if added:
                # A pass that had to wait decides by a later time than it was asked at, and a node that has not yet met
                # a step of the clock by the time before it: a run expires `max_age` after the time it was decided by.
                now = added[0]["expires_at"] - valid["max_age"]
                _hold(
                    now >= max(added[0]["planned_at"], row["cursor_at"]), f"I2: {name} was decided in the past: {now}"
                )
                _hold(self._has_stepped or now <= commit.at + SECOND, f"I2: {name} was decided ahead of time: {now}")
            wanted = runs_of(valid, sorted(due), now, unfinished)
            got = sorted(run["scheduled_at"] for run in added)
            _hold(
                got == wanted[:MAX_PASS_RUNS],
                f"{name}, {valid['catch_up']}, {valid['overlap']}: {got} of {sorted(due)}",
            )
        if commit.verb == "edit" and was["enabled"] and due.total() < MAX_PASS_RUNS and not self._earlier[was["id"]]:
            _hold(row["cursor_at"] >= commit.at, f"I19: {name}: an edit left what was due to the new version")

    def _instants_of(self, job: Row, after: int, until: int) -> list[int]:
        return instants_of(job["schedule"], job["timezone"], self._moment).between(after, until)

    def unfinished(self, until: int) -> list[Row]:
        """Runs that have not ended and were to be ready by then.

        A clock that went back leaves some for later, and lets the lease of a node that died since last for as long as
        it went back; either keeps the runs of its job that must not overlap waiting, too.
        """
        return [
            run
            for runs in self._unfinished.values()
            for run in runs.values()
            if run["ready_at"] < until and not self._waits_for_long(run, runs.values(), until)
        ]

    def _waits_for_long(self, run: Row, of_its_job: Iterable[Row], now: int) -> bool:
        if not self._has_stepped_back:
            return False
        return _ends_far_ahead(run, now) or (
            bool(run["exclusive"])
            and any(_ends_far_ahead(other, now) or _is_before(other, run, now) for other in of_its_job)
        )

    def hold_planned(self, now: int) -> None:
        """While nothing is wrong, no job waits to be planned."""
        for job in self.jobs.values():
            left = [] if job["deleted_at"] is not None else self._earlier[job["id"]]
            _hold(not left or self._has_stepped, f"I19: earlier versions of {job['name']} are not planned: {left}")
            is_active = job["enabled"] and job["deleted_at"] is None and job["plan_at"] is not None
            is_behind = is_active and job["plan_at"] < now - 10 * SECOND
            _hold(not is_behind, f"I2: {job['name']} is not planned, its cursor is at {job['cursor_at']}")

    def close(self, now: int) -> None:
        """Check the end: nothing is unfinished, and every effect has its rows."""
        left = self.unfinished(now)
        _hold(not left, f"I3: left unfinished: {[_facts_of(run) for run in left[:3]]}")
        for job in self.jobs.values():
            is_behind = job["plan_at"] is not None and job["plan_at"] < now - 30 * SECOND and job["deleted_at"] is None
            _hold(not is_behind, f"I2: {job['name']} is not planned any more, its cursor is at {job['cursor_at']}")
            _hold(job["error"] is None, f"{job['name']}: {job['error']}")
        for run_id, attempt in self.effects:
            run = self.runs.get(run_id)
            is_over = run is not None and (run["state"] in ENDED or run["attempt"] > attempt)
            _hold(
                not is_over or (run_id, attempt) in self.attempts, f"I10: no trace of {UUID(bytes=run_id)} #{attempt}"
            )
        for run in self.runs.values():
            if run["state"] == "succeeded":
                begun = (run["id"], run["attempt"]) in self.effects
                _hold(begun, f"I10: succeeded without an effect: {_facts_of(run)}")


def _hold(is_so: bool, broken: str) -> None:
    if not is_so:
        raise Violation(broken)


def _attempts(retry: Any) -> int:
    return int(retry["attempts"]) if isinstance(retry, dict) else PRESETS[retry]


def _ends_far_ahead(run: Row, now: int) -> bool:
    """Return True if a lease lasts longer than any that is granted."""
    return bool(run["state"] == "running" and run["lease_until"] > now + 2 * MAX_LEASE)


def _is_before(other: Row, run: Row, now: int) -> bool:
    """Return True if another run of the job comes first, and may not be tried earlier."""
    is_older = (other["scheduled_at"], other["id"]) < (run["scheduled_at"], run["id"])
    return bool(is_older and other["state"] != "running" and other["ready_at"] >= now)


def _is_held_by(run: Row, owner: bytes) -> bool:
    return bool(run["state"] == "running" and run["lease_owner"] == owner)


def _in_turn(runs: list[Changed], verb: str) -> list[Changed]:
    """The runs of a commit; what is claimed at once is claimed in any order, and runs that go alone may go first.

    Others of their job do not mind: they were planned when it still allowed overlap.
    """
    return sorted(runs, key=lambda change: not change.row["exclusive"]) if verb == "claim" else runs


def _age(run: Row) -> tuple[Any, ...]:
    return run["scheduled_at"], run["id"]


def _id_of(job_id: bytes, scheduled_at: int) -> str:
    """Twelve digits of time, then a digest of which one digit says that it is version 8, and two bits the variant."""
    digest = sha1(job_id + str(scheduled_at).encode(), usedforsecurity=False).hexdigest()
    return f"{scheduled_at // 1_000:012x}8{digest[1:4]}{'89ab'[int(digest[4], 16) % 4]}{digest[5:20]}"


def _facts_of(run: Row) -> str:
    parts: Iterable[str] = (f"{name}={run[name]}" for name in ("state", "reason", "attempt", "failures", "crashes"))
    return f"[{UUID(bytes=run['id'])} at {run['scheduled_at']} {' '.join(parts)}]"
