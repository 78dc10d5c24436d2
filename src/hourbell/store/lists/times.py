"""Scheduled times of jobs, as people look at them: their runs in a short form, and their skips."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.fates import Fate, fate_of, is_late, lateness
from hourbell.core.run.fingerprint import fingerprint_of
from hourbell.core.run.states import Kind, RunState, SkipReason


@dataclass(frozen=True, slots=True)
class RunTime:
    """A run as the ledger of its job shows it. Only the ledger itself reads what has a default here."""

    id: UUID
    job_id: UUID
    job_version: int
    kind: Kind
    state: RunState
    scheduled_at: datetime
    ready_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    late_after: timedelta | None  # of its job's version; None if that is gone
    attempt: int = 0
    reason: str | None = None
    local_at: datetime | None = None  # without a zone
    replay_of: UUID | None = None
    error: str | None = None  # the beginning of that of its last attempt
    status_code: int | None = None

    @property
    def is_late(self) -> bool:
        return is_late(self.kind, self.scheduled_at, self.started_at, self.late_after)

    @property
    def fate(self) -> Fate:
        return fate_of(self.state, is_late=self.is_late)

    @property
    def lateness(self) -> timedelta | None:
        return lateness(self.kind, self.scheduled_at, self.ready_at, self.started_at)

    @property
    def duration(self) -> timedelta | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return max(timedelta(0), self.finished_at - self.started_at)


@dataclass(frozen=True, slots=True)
class SkipTime:
    """Scheduled times of a job that got no run."""

    id: int
    job_id: UUID
    first_at: datetime
    last_at: datetime
    count: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class RecentTimes:
    """The newest runs and skips of one job, each newest first."""

    runs: Sequence[RunTime] = ()
    skips: Sequence[SkipTime] = ()


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A failed run with the facts about its cause."""

    id: UUID
    job_id: UUID
    job_name: str | None  # None if the job is gone
    lane: str
    reason: str | None
    scheduled_at: datetime
    finished_at: datetime
    cleared_at: datetime | None
    error: str | None  # the beginning of that of its last attempt

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.error, self.lane, self.reason)


@dataclass(frozen=True, slots=True)
class RunsOfDay:
    """The number of a local day's runs in a state, with late ones separate."""

    day: int  # since 1970-01-01
    state: RunState
    is_late: bool
    runs: int


@dataclass(frozen=True, slots=True)
class SkipsOfDay:
    """Skips that end on one local day: all that begin on it, too, or a single one that does not."""

    day: int  # of their ends
    first_day: int  # of their begins
    first_at: datetime
    last_at: datetime
    count: int
    records: int
