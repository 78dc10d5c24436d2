"""Rows of the store for the time line and for attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from hourbell.core.run.outages import Outage
from hourbell.core.run.states import Kind, RunState, SkipReason
from hourbell.core.run.timeline import RunCount

MAX_CHOSEN_JOBS = 1_000  # up to so many jobs are looked up one by one; more are found by walking through all names


class RetryingRun(NamedTuple):
    """A run whose last attempt failed. `ready_at` is when the next one may begin; while that runs, when it could."""

    run_id: UUID
    attempt: int  # the last that began
    ready_at: datetime
    is_running: bool


@dataclass(frozen=True, slots=True)
class AttentionSets:
    """The jobs that need attention at a time. None: more than MAX_CHOSEN_JOBS jobs, or not asked for."""

    now: datetime | None = None
    failing: Sequence[UUID] | None = None
    retrying: Mapping[UUID, RetryingRun] = field(default_factory=dict)  # of each job the run with the next attempt
    losing: Sequence[UUID] | None = None
    late: Mapping[UUID, datetime] = field(default_factory=dict)  # since when the oldest of its late runs is due
    due: Sequence[UUID] | None = None
    of_result: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class AttentionCounts:
    """The number of jobs that need attention, by reason. Those in `at_least` are lower bounds."""

    failing: int
    retrying: int
    losing: int
    late: int
    due_within_hour: int
    at_least: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReadyHead:
    """A lane, and since when the oldest of its runs that may begin is ready."""

    lane: str
    ready_at: datetime


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts of a job for the time line, besides its definition."""

    last_state: str | None = None  # of the last run to end
    last_error: str | None = None
    streak: int = 0  # runs that failed since one succeeded, of a job whose last run failed
    paused_at: datetime | None = None
    lost: Mapping[SkipReason, int] = field(default_factory=dict)  # scheduled times lost lately, by reason
    durations: Sequence[timedelta] = ()  # of the newest runs that succeeded
    retrying: RetryingRun | None = None
    retry_error: str | None = None  # of its last attempt


class TimelineRun(NamedTuple):  # a page has thousands, and a dataclass takes several times as long
    id: UUID
    kind: Kind
    state: RunState
    reason: str | None
    scheduled_at: datetime
    ready_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    late_after: timedelta | None  # of its version of the job; None if that is gone
    error: str | None  # of its last attempt, if that failed


@dataclass(frozen=True, slots=True)
class TimelineSkip:
    first_at: datetime
    last_at: datetime
    count: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class TimelineRows:
    """Jobs in a window: their facts, and their runs and skips, oldest first, up to a limit for each job."""

    facts: Mapping[UUID, JobFacts]
    runs: Mapping[UUID, Sequence[TimelineRun]]
    skips: Mapping[UUID, Sequence[TimelineSkip]]
    outages: Sequence[Outage]  # the newest that touch the window, newest first


@dataclass(frozen=True, slots=True)
class BucketedRuns:
    """The runs of a job by bucket. `is_sampled` if a bucket has more runs than were counted."""

    counts: Sequence[RunCount]
    is_sampled: bool
