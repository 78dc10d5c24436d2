"""A small model of the store: it records what planning decides and checks that every instant is accounted for."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from hourbell.core.job.change import Change
from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.plan import Plan, Skip, plan
from hourbell.core.run.run import NewRun
from tests.core.values import MICROSECOND

Accounted = tuple[datetime, str]  # an instant, and what it became


@dataclass
class Ledger:
    """A job with its runs and skips. `others` are waiting runs that no schedule made."""

    job: Job
    others: int = 0
    runs: dict[UUID, NewRun] = field(default_factory=dict)
    unfinished: set[UUID] = field(default_factory=set)
    skips: list[Skip] = field(default_factory=list)
    versions: list[tuple[Definition, datetime]] = field(default_factory=list)  # each with when it was adopted

    @property
    def loaded(self) -> Job:
        return replace(self.job, waiting=self.others + len(self.unfinished), unfinished=len(self.unfinished))

    def plan(self, now: datetime) -> Plan:
        made = plan(self.loaded, now)
        if self.job.cursor_at is None and made.cursor_at is not None:
            self.versions.append((self.job.definition, made.cursor_at))
        self._keep(made)
        if made.resumes:
            self.job = replace(self.job, definition=replace(self.job.definition, enabled=True), paused_until=None)
        return made

    def plan_all(self, now: datetime) -> None:
        """Plan until nothing is due, or the job has to wait itself."""
        while (at := self.plan(now).plan_at) is not None and at <= now:
            pass

    def change(self, change: Change) -> None:
        self._keep(change)
        if change.cursor_at is not None:
            self.versions.append((change.definition, change.cursor_at))
        self.job = replace(self.job, definition=change.definition, paused_until=change.paused_until)

    def finish(self, count: int) -> None:
        """Let the oldest runs end."""
        for run_id in sorted(self.unfinished, key=lambda each: self.runs[each].scheduled_at)[:count]:
            self.unfinished.remove(run_id)

    def _keep(self, made: Plan | Change) -> None:
        if made.cancels_others:
            self.unfinished.clear()
        for run in made.runs:
            assert run.id not in self.runs, f"{run.scheduled_at} was planned before"
            self.runs[run.id] = run
            self.unfinished.add(run.id)
        self.skips += made.skips
        if self.job.cursor_at is not None:
            assert made.cursor_at is not None, "a cursor was lost"
            assert made.cursor_at >= self.job.cursor_at, "a cursor moved back"
        self.job = replace(self.job, cursor_at=made.cursor_at, next_at=made.next_at, plan_at=made.plan_at)

    @property
    def total(self) -> int:
        return len(self.runs) + sum(skip.count for skip in self.skips)

    def expected(self) -> list[datetime]:
        """Every instant of each version from its adoption to the next one's, or to the cursor. Walked, not counted."""
        ends = [adopted_at for _, adopted_at in self.versions[1:]] + [self.job.cursor_at]
        return [
            instant
            for (definition, start), end in zip(self.versions, ends, strict=False)
            if end is not None
            for instant in definition.parsed().between(start, end)
            if (definition.starts_at is None or definition.starts_at <= instant)
            and (definition.ends_at is None or instant <= definition.ends_at)
        ]

    def check(self) -> None:
        """Every instant is a run or lies in exactly one skip, and there is nothing else."""
        expected = self.expected()
        planned = {run.scheduled_at for run in self.runs.values()}
        covers = [[at for at in expected if skip.first_at <= at <= skip.last_at] for skip in self.skips]
        assert [len(cover) for cover in covers] == [skip.count for skip in self.skips]
        assert all(
            (cover[0], cover[-1]) == (s.first_at, s.last_at) for cover, s in zip(covers, self.skips, strict=True)
        )
        assert sorted([*planned, *(at for cover in covers for at in cover)]) == expected
        assert self.total == len(expected)

    def count(self) -> int:
        """Count the times of the first version up to the cursor, by arithmetic."""
        [(definition, after)] = self.versions
        until = self.job.cursor_at
        assert until is not None
        if definition.starts_at is not None:
            after = max(after, definition.starts_at - MICROSECOND)
        if definition.ends_at is not None:
            until = min(until, definition.ends_at)
        return definition.parsed().count(after, until) if after < until else 0
