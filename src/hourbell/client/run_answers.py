"""What the API answers about runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.client.reading import Answer, Omitted
from hourbell.core.states import ENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(Answer):
    """What a task said, and when."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(Answer):
    """How far a running run says that it is: from 0 to 1, or None if it does not know."""

    at: datetime
    fraction: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Answer):
    number: int
    outcome: str
    finished_at: datetime
    node: UUID | None = None
    started_at: datetime | None = None
    status_code: int | None = None
    error: str | None = None
    excerpt: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    late_outcome: str | None = None
    duration_ms: float | None = None
    log: tuple[LogLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Answer):
    """A run as it stands; where it is asked for alone, with its attempts and the log of the one under way."""

    id: UUID
    job_id: UUID
    state: str
    kind: str
    scheduled_at: datetime
    job_name: str | None = None
    job_version: int | None = None
    trigger: str = ""
    reason: str | None = None
    local_at: str = ""
    planned_at: datetime | None = None
    ready_at: datetime | None = None
    expires_at: datetime | None = None
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
    progress: RunProgress | None = None
    payload: Any = None
    result: Any = None
    log: tuple[LogLine, ...] = ()
    waits_for: str | None = None
    late_success: int | None = None
    attempts: tuple[Attempt, ...] = ()
    omitted: tuple[Omitted, ...] = ()  # what a list leaves out

    @property
    def has_ended(self) -> bool:
        return self.state in ENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered(Answer):
    run_id: UUID
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(Answer):
    """The new run, and the one it repeats."""

    run_id: UUID
    replay_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Answer):
    """`ended` is False if the node that runs it was asked to stop it."""

    run_id: UUID
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Answer):
    run_id: UUID
    new_run_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Answer):
    run_id: UUID
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult(Answer):
    """What was done with the runs that matched; of a dry run, how many match."""

    dry_run: bool
    matched: int
    has_more: bool
    done: tuple[Done, ...] = ()
    refused: tuple[Refused, ...] = ()
