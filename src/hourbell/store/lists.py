"""What people ask of a store: single things as they stand, and lists of them. Nothing here changes anything.

A list is read in pages. Each begins after a position in the list's order, never by counting rows. Every order has an
index, so a page costs the same wherever it begins. The database decides the order of rows with the same time, and it
does not change.

Lists leave out what is long: a payload, a result, a target's body, headers and arguments, and the two sides of an audit
entry, if they have over MAX_LISTED_BYTES as they are stored. `omitted` names them; the single object has them all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.notes import LogLine
from hourbell.core.run.states import Kind, RunState, SkipReason

MAX_LISTED_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class JobTotals:
    """How a job's runs went, ever. The last run is the one that began last, also while it is under way."""

    last_run_id: UUID | None = None
    last_run_at: datetime | None = None  # when it began; if it never did, when it ended
    last_state: str | None = None
    last_error: str | None = None  # of the last attempt that failed
    last_success_at: datetime | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as people see it."""

    job: Job
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    paused_note: str | None
    paused_by: str | None
    totals: JobTotals
    pruned_until: datetime | None  # an instant up to here without a run may have had one
    is_done: bool = False  # it never fires again, and none of its runs is unfinished
    omitted: tuple[str, ...] = ()  # payload, target (of which the short members are there)

    @property
    def state(self) -> "JobState":
        if self.job.error is not None:
            return JobState.ERROR
        if not self.job.definition.enabled:
            return JobState.PAUSED
        return JobState.DONE if self.is_done else JobState.ACTIVE


class JobSort(StrEnum):
    NAME = "name"
    NEXT = "next_at"  # by when the planner looks next: what fires first comes first; only jobs that will fire
    ID = "id"


class JobState(StrEnum):
    ACTIVE = "active"  # enabled, not in error, and not done
    DONE = "done"  # enabled, but it never fires again and none of its runs is unfinished
    PAUSED = "paused"
    ERROR = "error"  # it cannot be planned


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list. None asks nothing of a job. Deleted jobs are never listed."""

    sort: JobSort = JobSort.NAME
    prefix: str | None = None  # of the name
    tag: str | None = None
    state: JobState | None = None
    target: str | None = None  # its type
    managed_by: str | None = None
    source: str | None = None
    subject: str | None = None
    last_result: str | None = None  # the state in which the last of its runs to end did
    next_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Where a page of a list ended: the value it is sorted by, and the id that decides between equal ones."""

    key: str | datetime | None
    id: UUID


@dataclass(frozen=True, slots=True)
class Late:
    """Where a page of late runs ended."""

    lateness: timedelta
    id: UUID


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run says that it is."""

    fraction: float | None
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as people see it, with what they need of its job's version."""

    id: UUID
    job_id: UUID
    job_name: str | None  # None if the job is gone
    job_version: int
    definition: Definition | None  # the version it was planned with; None if that is gone
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
    has_payload: bool  # a payload of its own goes before its job's
    result: object
    is_cancel_requested: bool = False
    blocked_by: UUID | None = None  # while it waits: the run of its job that must end before it may begin
    error: str | None = None  # of its last attempt, where an instant is asked for
    progress: Progress | None = None  # while it is running, if it says so
    log: Sequence[LogLine] = ()  # of the attempt under way, where the run is asked for alone
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
    """The lists of runs, each in an order of its own."""

    RUNNING = "running"  # by scheduled_at, oldest first
    WAITING = "waiting"  # by expires_at: what would expire first comes first
    ENDED = "ended"  # by finished_at, newest first; of failed ones, only dead letters that nobody cleared
    OF_JOB = "of_job"  # every run of one job by scheduled_at, newest first
    OF_SUBJECT = "of_subject"  # every run of the jobs of a subject in the same order, also of deleted jobs


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs to list. `since` and `until` look at when a run ended, or was scheduled if it has not ended."""

    runs: RunList
    state: RunState | None = None  # one that occurs in that list
    job_id: UUID | None = None  # required for OF_JOB, and only there
    since: datetime | None = None  # at or after
    until: datetime | None = None  # before
    subject: str | None = None  # that of the run's job; for OF_SUBJECT and OF_JOB


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
    """What is known about one instant of a job."""

    job: JobView  # also if it was deleted
    version: VersionView | None  # the one that was valid then
    run: RunView | None  # the run of the instant itself, scheduled or backfilled
    replays: Sequence[UUID]  # runs that repeat it, oldest first
    skips: Sequence[SkipView]  # that cover it
    late_success: int | None = None  # the attempt of a failed run that succeeded after all


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What statistics need of a run that ended."""

    state: RunState
    due_at: datetime  # its instant; of a backfill or a replay, when it was to begin
    started_at: datetime | None
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """How many there are of what."""

    jobs: int
    paused: int
    in_error: int
    waiting: int
    running: int
    dead_letters: int
    ended: Mapping[RunState, int] = field(default_factory=dict)  # within the window asked for


@dataclass(frozen=True, slots=True)
class ScheduleGroup:
    """Jobs that name the same instants."""

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
    running: int  # runs it holds


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
    """How far somebody has heard of changes."""

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
    noted_at: datetime | None = None  # of a running one: when it last said something


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since a mark. `is_whole` is false if there was more than fits."""

    jobs: Sequence[ChangedJob]
    runs: Sequence[ChangedRun]
    is_whole: bool
    mark: ChangeMark
