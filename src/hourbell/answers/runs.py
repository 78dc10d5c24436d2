"""Answers about runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from hourbell.answers.base import Answer, Doc
from hourbell.answers.jobs import OmittedValues
from hourbell.core.run.states import ENDS, Kind, Reason, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(Answer):
    """A line that a task logged, or that a command wrote."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(Answer):
    """The progress that a running task reports."""

    fraction: Annotated[float | None, Doc("From 0 to 1; null if unknown.")] = None
    message: str = ""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Answer):
    """One try at a run."""

    number: int
    node: UUID | None = None
    started_at: datetime | None = None
    finished_at: datetime
    outcome: str
    status_code: int | None = None
    error: str | None = None
    excerpt: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    late_outcome: Annotated[str | None, Doc("The outcome that the node of a lost attempt reported later.")] = None
    duration_ms: float | None = None
    log: Annotated[
        tuple[LogLine, ...],
        Doc("Lines that a task logged, the newest 64 KiB; or the first and last 64 KiB of a command's output."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Answer):
    """A run: its state and its times. A request for a single run also returns its attempts and the current log."""

    id: UUID
    job_id: UUID
    job_name: str | None = None
    job_version: Annotated[int | None, Doc(type=int)] = None
    kind: Annotated[str, Doc(type=Kind)]
    trigger: str = ""
    state: Annotated[str, Doc(type=RunState)]
    reason: Annotated[str | None, Doc(type=Reason | None)] = None
    waits_for: Annotated[str | None, Doc("The reason the run is waiting; null if it is not.")] = None
    scheduled_at: datetime
    local_at: str = ""
    planned_at: Annotated[datetime | None, Doc(type=datetime)] = None
    ready_at: Annotated[datetime | None, Doc(type=datetime)] = None
    expires_at: Annotated[datetime | None, Doc(type=datetime)] = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cleared_at: datetime | None = None
    lane: str = ""
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    node: UUID | None = None
    lateness_ms: float | None = None
    duration_ms: float | None = None
    replay_of: UUID | None = None
    cancel_requested: bool = False
    progress: Annotated[RunProgress | None, Doc("The progress of a running run, if it reports any.")] = None
    payload: Any = None
    result: Any = None
    # In some answers only.
    late_success: Annotated[
        int | None,
        Doc(
            "The attempt of a failed run that succeeded after its lease was lost.",
            is_extra=True,
        ),
    ] = None
    log: Annotated[tuple[LogLine, ...], Doc("The log of the current attempt.", is_extra=True)] = ()
    attempts: Annotated[tuple[Attempt, ...], Doc(is_extra=True)] = ()
    omitted: OmittedValues = ()

    @property
    def has_ended(self) -> bool:
        return self.state in ENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered(Answer):
    """The run that a trigger added."""

    run_id: UUID
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(Answer):
    """The new run of a replay, and the run that it repeats."""

    run_id: UUID
    replay_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Answer):
    """A run that was cancelled or was asked to stop."""

    run_id: UUID
    ended: Annotated[bool, Doc("False if the run's node was asked to stop it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Answer):
    """A run that a bulk action changed and, for a replay, the new run."""

    run_id: UUID
    new_run_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Answer):
    """A run that a bulk action could not change, and the reason."""

    run_id: UUID
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult(Answer):
    """The result of a bulk action on the runs that matched; a dry run only counts them."""

    dry_run: bool
    matched: int
    has_more: bool
    done: tuple[Done, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup(Answer):
    """Failed runs of one cause, which nobody has replayed or discarded."""

    fingerprint: Annotated[str, Doc("Pass it to `/runs/replay` or `/runs/discard` to act on exactly these runs.")]
    error: Annotated[str | None, Doc("Of the newest: its first 1,000 characters.")] = None
    reason: Annotated[str | None, Doc(type=Reason | None)] = None
    lane: str = ""
    count: int
    first_at: Annotated[datetime, Doc("When the first of them ended.")]
    last_at: Annotated[datetime, Doc("When the last of them ended.")]
    jobs: Annotated[tuple[str, ...], Doc("Up to ten names, those with the most failures first.")] = ()
    job_count: int
    sample_run_id: Annotated[UUID, Doc("The newest of them.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroups(Answer):
    """Failed runs grouped by cause, the most common first."""

    items: tuple[FailureGroup, ...]
    is_sampled: Annotated[bool, Doc("True if older failed runs were not looked at.")] = False
