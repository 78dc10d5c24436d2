"""Answers about the time line."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from hourbell.answers.base import Answer, Doc
from hourbell.core.run.attention import Attention
from hourbell.core.run.states import Kind, Reason, RunState, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePause(Answer):
    """The pause of a job: its reason, who paused it, until when, and since when if that is known."""

    note: str | None = None
    by: str | None = None
    until: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRetry(Answer):
    """A run whose last attempt failed, and that gets another one."""

    run_id: UUID
    attempt: Annotated[int, Doc("The attempt that failed.")]
    next_at: Annotated[datetime | None, Doc("When the next attempt may begin; null while it is running.")] = None
    error: Annotated[str | None, Doc("Of the attempt that failed; at most 500 characters.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineJob(Answer):
    """A job on the time line."""

    id: UUID
    name: str
    schedule: str
    words: str | None = None
    timezone: str = "UTC"
    state: Annotated[str, Doc(type=Literal["active", "done", "paused", "error"])]
    tags: tuple[str, ...] = ()
    next_at: datetime | None = None
    paused: TimelinePause | None = None
    last_state: Annotated[str | None, Doc("Of the last run to end.", type=RunState | None)] = None
    attention: Annotated[
        str | None, Doc("The first reason to look at it; null if there is none.", type=Attention | None)
    ] = None
    attention_note: str | None = None
    streak: Annotated[int, Doc("Failed runs in a row up to now, at most 1,000.")] = 0
    retry: Annotated[
        TimelineRetry | None, Doc("The run with the next attempt, if an attempt failed and another one follows.")
    ] = None
    median_duration_ms: Annotated[
        float | None, Doc("Of the last 20 runs that succeeded, among the newest 100 runs.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRun(Answer):
    """A run on the time line."""

    id: UUID
    kind: Annotated[str, Doc(type=Kind)]
    state: Annotated[str, Doc(type=RunState)]
    reason: Annotated[str | None, Doc(type=Reason | None)] = None
    scheduled_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int = 0
    lateness_ms: float | None = None
    duration_ms: float | None = None
    is_late: Annotated[
        bool, Doc("It began, or still waits, later than the job's `late_after`. Backfills and replays never are.")
    ] = False
    error: Annotated[str | None, Doc("Of its last attempt, if that failed; at most 500 characters.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSkip(Answer):
    """A range of scheduled times that got no run, and the reason."""

    first_at: datetime
    last_at: datetime
    count: int
    reason: Annotated[str, Doc(type=SkipReason)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBucket(Answer):
    """Counts of the scheduled times from `at` on. A run that succeeded late counts as late and not as succeeded."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    late: int = 0
    cancelled: int = 0
    unfinished: int = 0
    skipped: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineItem(Answer):
    """A job with its runs, its skips and its planned times in the window, or with counts of them by bucket."""

    job: TimelineJob
    runs: tuple[TimelineRun, ...] = ()
    skips: tuple[TimelineSkip, ...] = ()
    planned: tuple[datetime, ...] = ()
    buckets: Annotated[
        tuple[TimelineBucket, ...] | None,
        Doc("Instead of `runs` and `planned` if they are more than `max_marks`; empty buckets are left out."),
    ] = None
    is_sampled: Annotated[bool, Doc("There were more runs or skips than are counted here.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage(Answer):
    """A time at which no node ran, or the database was unreachable."""

    start: Annotated[datetime, Doc(key="from")]
    until: datetime | None = None
    of: Annotated[str, Doc(type=Literal["nodes", "database"])]
    found_by: Annotated[UUID | None, Doc("The node that recorded it.", is_extra=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(Answer):
    """A page of jobs with what happened in a window, and what is planned in it."""

    now: datetime
    start: Annotated[datetime, Doc(key="from")]
    until: datetime
    bucket_seconds: float
    items: tuple[TimelineItem, ...] = ()
    outages: tuple[Outage, ...] = ()
    next_cursor: str | None = None
