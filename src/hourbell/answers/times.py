"""Answers about the scheduled times of jobs: their fates, and figures about them."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated
from uuid import UUID

from hourbell.answers.base import Answer, Doc
from hourbell.core.run.fates import Fate
from hourbell.core.run.states import Kind, Reason, RunState, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfTime(Answer):
    """The run of a scheduled time in a short form."""

    id: UUID
    kind: Annotated[str, Doc(type=Kind)]
    state: Annotated[str, Doc(type=RunState)]
    reason: Annotated[str | None, Doc(type=Reason | None)] = None
    attempt: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lateness_ms: float | None = None
    duration_ms: float | None = None
    error: Annotated[str | None, Doc("Of the last attempt: its first 1,000 characters.")] = None
    status_code: int | None = None
    replay_of: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipOfTime(Answer):
    """The reason that a scheduled time got no run."""

    reason: Annotated[str, Doc(type=SkipReason)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerItem(Answer):
    """A scheduled time of a job, or the times of one skip, and its fate."""

    at: datetime
    local: Annotated[str, Doc("In the time zone of the job.", examples=("2026-11-18T09:00:00",))]
    until: Annotated[datetime | None, Doc("The last time of a skip of several times.")] = None
    count: Annotated[int, Doc("How many scheduled times this is.")] = 1
    fate: Annotated[str, Doc("`late`: succeeded, but began later than `late_after` allows.", type=Fate)]
    run: RunOfTime | None = None
    skip: SkipOfTime | None = None
    version: Annotated[int | None, Doc("The version of the job that it belongs to, if that is known.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTime(Answer):
    """One of the newest scheduled times of a job, or the times of one skip."""

    run_id: UUID | None = None
    at: datetime
    fate: Annotated[str, Doc(type=Fate)]
    lateness_ms: float | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint(Answer):
    """An ended run in a series."""

    run_id: UUID
    at: datetime
    state: Annotated[str, Doc(type=RunState)]
    duration_ms: float | None = None
    lateness_ms: float | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Answer):
    """The newest ended runs of a job, oldest first, with figures of those that began."""

    items: tuple[SeriesPoint, ...]
    median_duration_ms: int | None = None
    p95_duration_ms: int | None = None
    median_lateness_ms: int | None = None
    p95_lateness_ms: int | None = None
    duration_slope_ms_per_week: Annotated[
        int | None,
        Doc("How much longer runs that succeed get in a week; null for fewer than 12, or of less than a day."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Day(Answer):
    """The number of scheduled times of a date by fate. A skip counts each of its times."""

    date: Annotated[str, Doc("In the time zone of the job.", type=date, examples=("2026-11-18",))]
    succeeded: int = 0
    failed: int = 0
    late: Annotated[int, Doc("They succeeded, but began later than `late_after` allows.")] = 0
    cancelled: int = 0
    skipped: int = 0
    unfinished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Days(Answer):
    """The dates of a job that have scheduled times, oldest first."""

    items: tuple[Day, ...]
    timezone: str = "UTC"
    counted_from: Annotated[str, Doc("The first date that was counted.", type=date)] = ""
    is_sampled: Annotated[bool, Doc("True if dates before `counted_from` were left out, as they are too many.")] = False
