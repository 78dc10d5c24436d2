"""Answers about the scheduled times of jobs: their fates, and figures about them."""

from dataclasses import dataclass
from datetime import datetime
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
    """Why a scheduled time got no run."""

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
