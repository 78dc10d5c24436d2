"""Queries of users: single objects and lists. Nothing here changes anything.

A list is read in pages. Each page continues from a position in the list's order, never by counting rows. Every order
has an index, so that a page costs the same wherever it starts and however large the list is. The order of entries with
equal sort values is up to the database, but stable.

Lists omit long values: a payload, a result, a target's body, headers and arguments, and the two sides of an audit
entry, if they have more than MAX_LISTED_BYTES in storage. `omitted` names them; the single object has them all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.attention import Attention
from hourbell.core.run.notes import LogLine
from hourbell.core.run.outages import Outage
from hourbell.core.run.states import Kind, RunState, SkipReason

MAX_LISTED_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class JobTotals:
    """The totals of a job's runs. The last run is the one that started last, even if it is still running."""

    last_run_id: UUID | None = None
    last_run_at: datetime | None = None  # its start; if it never started, its end
    last_state: str | None = None
    last_error: str | None = None  # of the last failed attempt
    last_success_at: datetime | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as shown to users."""

    job: Job
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    paused_note: str | None
    paused_by: str | None
    totals: JobTotals
    pruned_until: datetime | None  # scheduled times up to here may have had a run that was pruned
    is_done: bool = False  # it never fires again, and all of its runs have ended
    omitted: tuple[str, ...] = ()  # payload, target (whose short fields are present)

    @property
    def state(self) -> "JobState":
        if self.job.error is not None:
            return JobState.ERROR
        if not self.job.definition.enabled:
            return JobState.PAUSED
        return JobState.DONE if self.is_done else JobState.ACTIVE


class JobSort(StrEnum):
    NAME = "name"
    NEXT = "next_at"  # by next planning time, so the next to fire comes first; only jobs that will fire
    ID = "id"


class JobState(StrEnum):
    ACTIVE = "active"  # enabled, not in error, and not done
    DONE = "done"  # enabled, but it never fires again and all of its runs have ended
    PAUSED = "paused"
    ERROR = "error"  # it cannot be planned


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A filter on jobs. None does not filter. Deleted jobs are never listed."""

    sort: JobSort = JobSort.NAME
    prefix: str | None = None  # of the name
    tag: str | None = None
    state: JobState | None = None
    target: str | None = None  # its type
    managed_by: str | None = None
    source: str | None = None
    subject: str | None = None
    last_result: str | None = None  # the state of the last of its runs to end
    next_before: datetime | None = None
    attention: Attention | None = None
    names: Sequence[str] | None = None  # whole names


@dataclass(frozen=True, slots=True)
class ListPosition:
    """The position at which a page ended: the sort value, and the id as tie-breaker."""

    key: str | datetime | None
    id: UUID


@dataclass(frozen=True, slots=True)
class Late:
    """The position at which a page of late runs ended."""

    lateness: timedelta
    id: UUID


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a run reports."""

    fraction: float | None
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as shown to users, with fields of its job's version."""

    id: UUID
    job_id: UUID
    job_name: str | None  # None if the job was purged
    job_version: int
    definition: Definition | None  # the version it was planned with; None if that is no longer stored
    kind: Kind
    state: RunState
    reason: str | None
    scheduled_at: datetime
    local_at: datetime  # without a zone
    ready_at: datetime
    expires_at: datetime
    planned_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cleared_at: datetime | None
    lane: str
    attempt: int
    failures: int
    crashes: int
    lease_owner: UUID | None
    lease_until: datetime | None
    replay_of: UUID | None
    payload: object
    has_payload: bool  # the run's own payload overrides its job's
    result: object
    is_cancel_requested: bool = False
    blocked_by: UUID | None = None  # while it waits: the run of its job that must end first
    error: str | None = None  # of its last attempt; only when one scheduled time is requested
    progress: Progress | None = None  # while it is running, if it reported progress
    log: Sequence[LogLine] = ()  # of the current attempt; only when a single run is requested
    omitted: tuple[str, ...] = ()  # payload, result


@dataclass(frozen=True, slots=True)
class AttemptView:
    number: int
    node: UUID | None
    started_at: datetime | None
    finished_at: datetime
    outcome: str
    status_code: int | None
    error: str | None
    excerpt: str | None
    phases: Mapping[str, float]
    late_outcome: str | None
    log: Sequence[LogLine] = ()


class RunList(StrEnum):
    """The lists of runs, each with its own order."""

    RUNNING = "running"  # by scheduled_at, oldest first
    WAITING = "waiting"  # by expires_at: the next to expire comes first
    ENDED = "ended"  # by finished_at, newest first; of failed ones only dead letters
    OF_JOB = "of_job"  # every run of one job by scheduled_at, newest first
    OF_SUBJECT = "of_subject"  # every run of the jobs of a subject, same order, including deleted jobs


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A filter on runs. `since` and `until` compare the end of a run, or its scheduled time if it has not ended."""

    runs: RunList
    state: RunState | None = None  # a state that occurs in that list
    job_id: UUID | None = None  # required for OF_JOB, and only there
    since: datetime | None = None  # inclusive
    until: datetime | None = None  # exclusive
    subject: str | None = None  # of the run's job; for OF_SUBJECT and OF_JOB


@dataclass(frozen=True, slots=True)
class SkipView:
    id: int
    first_at: datetime
    last_at: datetime
    count: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class VersionView:
    version: int
    definition: Definition
    changed_at: datetime
    changed_by: str
    omitted: tuple[str, ...] = ()  # definition.payload, definition.target


@dataclass(frozen=True, slots=True)
class InstantFacts:
    """The facts about one scheduled time of a job."""

    job: JobView  # also if it was deleted
    version: VersionView | None  # the version valid at that time
    run: RunView | None  # the run of the scheduled time itself, scheduled or backfilled
    replays: Sequence[UUID]  # runs that repeat it, oldest first
    skips: Sequence[SkipView]  # skips that cover it
    late_success: int | None = None  # the attempt of a failed run that succeeded after all
    outages: Sequence[Outage] = ()  # outages that it fell into


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The fields of an ended run that statistics need."""

    state: RunState
    due_at: datetime  # its scheduled time; for a backfill or a replay, its planned start
    started_at: datetime | None
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts of jobs, runs and nodes."""

    jobs: int
    paused: int
    in_error: int
    waiting: int
    running: int
    dead_letters: int
    ended: Mapping[RunState, int] = field(default_factory=dict)  # within the requested window


@dataclass(frozen=True, slots=True)
class ScheduleGroup:
    """Jobs with the same scheduled times."""

    definition: Definition  # of one of them
    jobs: int


@dataclass(frozen=True, slots=True)
class NodeView:
    id: UUID
    host: str
    started_at: datetime
    beat_at: datetime
    lanes: Sequence[str]
    tzdata: str
    running: int  # number of runs it holds


@dataclass(frozen=True, slots=True)
class AuditRow:
    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    before: object
    after: object
    token_id: UUID | None
    ip: str | None
    request_id: str | None
    chain_position: int | None  # None until it is chained
    chain_hash: str | None
    omitted: tuple[str, ...] = ()  # before, after


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """The position of a client in the stream of changes."""

    at: datetime
    audit_id: int


@dataclass(frozen=True, slots=True)
class ChangedJob:
    id: UUID
    version: int | None  # None if it was deleted


@dataclass(frozen=True, slots=True)
class ChangedRun:
    id: UUID
    job_id: UUID
    state: RunState
    noted_at: datetime | None = None  # of a running run: its last report


@dataclass(frozen=True, slots=True)
class ChangedIncident:
    """An incident that was opened, acknowledged or resolved."""

    id: UUID
    state: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes since a mark. `is_whole` is false if there were more than the limit."""

    jobs: Sequence[ChangedJob]
    runs: Sequence[ChangedRun]
    is_whole: bool
    mark: ChangeMark
    incidents: Sequence[ChangedIncident] = ()
