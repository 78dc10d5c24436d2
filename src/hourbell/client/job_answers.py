"""What the API answers about jobs. Durations are text, as the API writes them; instants are aware and in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.client.reading import Answer, Omitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Answer):
    """What became of a job's runs, ever."""

    last_run_id: UUID | None = None
    last_run_at: datetime | None = None
    last_state: str | None = None
    last_error: str | None = None
    last_success_at: datetime | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    success_rate_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Answer):
    note: str | None = None
    by: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Answer):
    """What may surprise about a schedule, with the instants at which it does."""

    code: str
    message: str
    at: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret(Answer):
    """That a job has a secret; what it is, nobody can read."""

    field: str
    created_at: datetime
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Answer):
    """A job as it stands: its definition, and what became of it."""

    id: UUID
    name: str
    schedule: str
    target: Mapping[str, Any]
    version: int
    state: str  # active, done, paused or error
    timezone: str = "UTC"
    dst: str = "once"
    payload: Any = None
    description: str = ""
    catch_up: str | None = None
    catch_up_window: str | float | None = None
    overlap: str = "allow"
    retry: str | Mapping[str, Any] = "default"
    delivery: str = "at_least_once"
    max_age: str | float | None = None
    late_after: str | float | None = None
    priority: str = "normal"
    jitter: str | float | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    enabled: bool = True
    tags: tuple[str, ...] = ()
    subject: str = ""
    error: str | None = None
    paused: Paused | None = None
    managed_by: str = "api"
    source: str = ""
    next_at: datetime | None = None
    words: str | None = None
    totals: Totals | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    secrets: tuple[KeptSecret, ...] = ()  # told by `get`, and by `list` if it is asked for
    omitted: tuple[Omitted, ...] = ()  # what a list leaves out
    warnings: tuple[Warned, ...] = ()  # told when it is defined
    generated_secret: str | None = field(default=None, repr=False)  # told when it is made, once


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming(Answer):
    """An instant at which a job fires, with the reading of the clock on the wall."""

    at: datetime
    local: str
    zone_abbreviation: str = ""
    nominal_local: str = ""
    shifted: bool = False
    fold: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention(Answer):
    """What a change would do. Nothing was stored."""

    action: str  # create, change or none
    job: Mapping[str, Any]
    before: tuple[Upcoming, ...] = ()
    after: tuple[Upcoming, ...] = ()
    fires_now: bool = False
    warnings: tuple[Warned, ...] = ()
    dry_run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange(Answer):
    """A field of a job before and after; what is secret is a word."""

    field: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(Answer):
    """What becomes of a job of a source."""

    name: str
    action: str  # create, change or none
    id: UUID | None = None
    version: int | None = None
    fields: tuple[FieldChange, ...] = ()
    before: tuple[Upcoming, ...] = ()
    after: tuple[Upcoming, ...] = ()
    warnings: tuple[Warned, ...] = ()
    notes: tuple[str, ...] = ()
    generated_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedJob(Answer):
    name: str
    id: UUID
    before: tuple[Upcoming, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Answer):
    """What applying the jobs of a source does, or in a dry run would do."""

    source: str
    state: str
    jobs: tuple[PlannedJob, ...]
    deleted: tuple[DeletedJob, ...] = ()
    dry_run: bool = False

    @property
    def created(self) -> tuple[PlannedJob, ...]:
        return tuple(job for job in self.jobs if job.action == "create")

    @property
    def changed(self) -> tuple[PlannedJob, ...]:
        return tuple(job for job in self.jobs if job.action == "change")

    @property
    def unchanged(self) -> tuple[PlannedJob, ...]:
        return tuple(job for job in self.jobs if job.action == "none")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be changed."""
        return len(self.unchanged) == len(self.jobs) and not self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(Answer):
    """The instants that got a run, or would get one, and their runs."""

    instants: tuple[datetime, ...]
    runs: tuple[UUID, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedSecret(Answer):
    """A new signing secret, told this once."""

    secret: str = field(repr=False)
    old_valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Answer):
    """Instants that got no run."""

    first_at: datetime
    last_at: datetime
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Answer):
    """A definition that a job has had."""

    version: int
    changed_at: datetime
    changed_by: str
    definition: Mapping[str, Any]
    omitted: tuple[Omitted, ...] = ()  # what a list leaves out


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Answer):
    """How the runs of a job ended since a time, and ever."""

    job: str
    since: datetime
    total: int
    succeeded: int
    failed: int
    cancelled: int
    is_sampled: bool = False
    totals: Totals | None = None
    success_rate_percent: float | None = None
    average_duration_ms: float | None = None
    p95_duration_ms: float | None = None
    longest_duration_ms: float | None = None
    average_lateness_ms: float | None = None
    p95_lateness_ms: float | None = None
    longest_lateness_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineError(Answer):
    pointer: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult(Answer):
    """What became of a line of an import. Jobs that were pruned have no line."""

    result: str  # created, changed, unchanged, refused, pruned or not_pruned
    line: int | None = None
    name: str | None = None
    id: UUID | None = None
    version: int | None = None
    code: str | None = None
    message: str | None = None
    errors: tuple[LineError, ...] = ()
