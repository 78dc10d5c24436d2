"""Final checks of every scenario: the database's rows against the receiver's log.

An instant has one place, a run has one identity, an effect has its attempt, and whatever was delivered twice carries
the same id and was cut short the first time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any
from uuid import UUID

from tests.database import Database
from tests.faults.accounts import Row, faults_of, unfinished, wrong_ids
from tests.faults.fleet import LEASE, Cut, Fleet, Life, elapsed_at_epoch
from tests.faults.liveness import Beginning, healthy_stretches, late_beginnings
from tests.faults.receiver import Line
from tests.faults.verdict import Verdict

Key = tuple[UUID, int]  # run and attempt
SETTLING = float(LEASE)  # seconds from the end of a delivery until it is settled, on a very busy machine


@dataclass(frozen=True)
class Books:
    """The tables after a scenario, the receiver's log, and the injected faults."""

    jobs: Sequence[Row]
    runs: Sequence[Row]
    skips: Sequence[Row]
    attempts: Mapping[Key, Row]
    lines: Sequence[Line]
    cuts: Sequence[Cut]
    members: Mapping[UUID, str]  # the process of each node
    lives: Sequence[Life] = ()
    elapsed_at_epoch: float = 0.0

    @classmethod
    async def read(cls, database: Database, fleet: Fleet) -> "Books":
        return cls(
            await database.rows("jobs"),
            await database.rows("runs"),
            await database.rows("skips"),
            {(row["run_id"], row["number"]): row for row in await database.rows("attempts")},
            fleet.lines(),
            fleet.cuts,
            {node: member.name for node, member in fleet.nodes().items()},
            fleet.lives(),
            elapsed_at_epoch(),
        )

    @cached_property
    def begun(self) -> dict[Key, Line]:
        return {line.key: line for line in self.lines if line.what == "begun"}

    @cached_property
    def ended(self) -> dict[Key, Line]:
        return {line.key: line for line in self.lines if line.what == "ended"}

    @property
    def skipped(self) -> int:
        return sum(skip["count"] for skip in self.skips)

    def misplaced(self) -> list[str]:
        """Due instants that have no place or several, and places that no instant has. For jobs never edited."""
        runs_of, skips_of = by_job(self.runs), by_job(self.skips)
        return [fault for job in self.jobs for fault in faults_of(job, runs_of[job["id"]], skips_of[job["id"]])]

    def lost(self) -> list[Row]:
        """Runs that failed or never ended, and those that ended well without an effect."""
        effects = {run_id for run_id, _ in self.ended}
        return [run for run in self.runs if run["state"] != "succeeded" or run["id"] not in effects]

    def planned_twice(self) -> list[object]:
        """Instants with several runs, ids that do not follow from the instant, and effects under several ids."""
        runs = Counter((run["job_id"], run["scheduled_at"]) for run in self.runs)
        ids = defaultdict(set)
        for line in self.lines:
            ids[line.job_id, line.scheduled_at].add(line.run_id)
        several = [instant for instant, number in runs.items() if number > 1]
        return [*several, *wrong_ids(self.runs), *(instant for instant, found in ids.items() if len(found) > 1)]

    def unclaimed(self) -> list[Key]:
        """Return effects without a row in attempts, which began before their claim was committed."""
        return [key for key in self.begun if key not in self.attempts]

    def begun_twice(self) -> list[Key]:
        numbers = Counter(line.key for line in self.lines if line.what == "begun")
        return [key for key, number in numbers.items() if number > 1]

    def repeated(self) -> list[tuple[Line, Line]]:
        """Deliveries of a run that had been delivered before, each with the one before it."""
        by_run = defaultdict(list)
        for line in self.begun.values():
            by_run[line.run_id].append(line)
        ordered = [sorted(lines, key=lambda line: line.attempt) for lines in by_run.values()]
        return [pair for lines in ordered for pair in pairwise(lines)]

    def unexplained(self) -> list[tuple[Line, Line]]:
        """Repeated deliveries whose earlier one was not cut short by any fault."""
        return [(first, again) for first, again in self.repeated() if not self._was_cut(first, again)]

    def lost_by_the_sound(self) -> list[Key]:
        """Attempts that were taken from processes which no fault hit at any time."""
        hit = {cut.member for cut in self.cuts}
        sound = {node for node, member in self.members.items() if member not in hit and None not in hit}
        return [key for key, row in self.attempts.items() if row["outcome"] == "lost" and row["node"] in sound]

    def _was_cut(self, first: Line, again: Line) -> bool:
        """Return True if a fault came between a delivery and its settlement, and before the next delivery."""
        row, ended = self.attempts.get(first.key), self.ended.get(first.key)
        if row is None or row["outcome"] == "succeeded":
            return False
        settled_by = float("inf") if ended is None else ended.at + SETTLING
        return any(
            cut.member in (None, first.member)
            and first.at <= cut.ended_at
            and cut.began_at <= min(settled_by, again.at)
            for cut in self.cuts
        )

    def stuck(self) -> list[str]:
        """Runs that waited too long to begin for the first time although a process was healthy.

        Left out is what has a reason to wait: a run behind another of its job, and one under which several died.
        """
        free = {job["id"] for job in self.jobs if job["overlap"] == "allow"}
        first_begun = {run_id: line.at for (run_id, number), line in sorted(self.begun.items(), reverse=True)}
        end = max((life.ended_at for life in self.lives), default=0.0)
        beginnings = [
            Beginning(
                run,
                max(run["ready_at"], run["planned_at"]).timestamp() + self.elapsed_at_epoch,
                first_begun.get(run["id"], end),
            )
            for run in self.runs
            if run["job_id"] in free and run["crashes"] <= 1
        ]
        return late_beginnings(beginnings, healthy_stretches(self.lives, self.cuts))

    def recoveries(self, kind: str = "kill") -> list[float]:
        """Seconds from each fault of a kind until the runs it took from a process were delivered again.

        If the process that took over was hit in its turn before it could begin, it is counted up to that moment.
        """
        cuts = {cut.member: cut for cut in self.cuts if cut.kind == kind}
        found = []
        for (run_id, number), row in self.attempts.items():
            cut = cuts.get(self.members.get(row["node"]))
            if row["outcome"] == "lost" and cut is not None:
                again_at = self._taken_over_at(run_id, number, cuts)
                if again_at is not None:
                    found.append(again_at - cut.began_at)
        return found

    def _taken_over_at(self, run_id: UUID, number: int, cuts: Mapping[str | None, Cut]) -> float | None:
        for later in range(number + 1, number + 50):
            if line := self.begun.get((run_id, later)):
                return line.at
            row = self.attempts.get((run_id, later))
            if row is not None and (cut := cuts.get(self.members.get(row["node"]))):
                return cut.began_at
        return None


def by_job(rows: Iterable[Row]) -> defaultdict[UUID, list[Row]]:
    grouped: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row["job_id"]].append(row)
    return grouped


def check_books(verdict: Verdict, books: Books) -> None:
    """The promises that hold whatever happened."""
    none_of(verdict, "instants without exactly one place", books.misplaced())
    none_of(verdict, "runs lost (failed, unfinished or without an effect)", books.lost())
    none_of(verdict, "runs planned twice", books.planned_twice())
    none_of(verdict, "effects without a claimed attempt", books.unclaimed())
    none_of(verdict, "attempts begun twice", books.begun_twice())
    none_of(verdict, "attempts lost by processes that no fault hit", books.lost_by_the_sound())
    none_of(verdict, "repeated deliveries that no fault explains", books.unexplained())
    if books.lives:
        none_of(verdict, "due runs that did not begin beside a healthy process", books.stuck())
    verdict.figures |= {
        "runs": len(books.runs),
        "skipped": books.skipped,
        "deliveries": len(books.begun),
        "repeated": len(books.repeated()),
        "unfinished": len(unfinished(books.runs)),
    }


def none_of(verdict: Verdict, promise: str, found: Sequence[Any]) -> None:
    """Check that there is nothing of a kind; what there is goes into the figures, to be looked at."""
    verdict.equal(promise, 0, len(found))
    if found:
        verdict.figures[f"{promise}: the first"] = [str(each)[:400] for each in found[:3]]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent do not exceed; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
