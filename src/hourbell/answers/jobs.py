"""Answers about jobs. Durations are text, as the API writes them; times are time-zone aware and in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from hourbell.answers.base import Answer, Doc
from hourbell.answers.times import RecentTime
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.core.run.states import RunState, SkipReason

_ACTION = Doc(type=Literal["create", "change", "none"])
_GENERATED = Doc("The generated secret of this job. It is shown only in this response.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted(Answer):
    """A value that is too long for a list. The list shows null instead, or only the short members of a target."""

    field: Annotated[str, Doc(examples=("payload", "definition.payload"))]
    url: Annotated[str, Doc("The URL of the full object.", examples=("/api/v1/jobs/report",))]


OmittedValues = Annotated[
    tuple[Omitted, ...],
    Doc("Values over 4 KiB that this list omits; absent if nothing is omitted.", is_extra=True),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Answer):
    """Counts of all runs of a job by final state, and its last run."""

    last_run_id: Annotated[UUID | None, Doc("The run that started last, even if it is still running.")] = None
    last_run_at: Annotated[datetime | None, Doc("Its start; if it never started, its end.")] = None
    last_state: Annotated[str | None, Doc("Its current state.", type=RunState | None)] = None
    last_error: Annotated[str | None, Doc("The error of the last failed attempt, even while its run is retrying.")] = (
        None
    )
    last_success_at: datetime | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    success_rate_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Answer):
    """The pause of a job: its reason, who paused it and until when."""

    note: str | None = None
    by: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Answer):
    """A warning about a schedule, with the times that it concerns."""

    code: str
    message: str
    at: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret(Answer):
    """A secret of a job, without its value."""

    field: str
    origin: Annotated[
        str | None, Doc("The origin a secret header is sent to; null for signing secrets and unbound headers.")
    ] = None
    created_at: datetime
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Answer):
    """A custom retry policy, not one of the presets."""

    attempts: int
    backoff: tuple[str | float, ...]
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Answer):
    """A job: its definition, its state and the totals of its runs."""

    id: UUID
    # The definition, as `core.job_body` writes it.
    name: str
    schedule: str
    timezone: str = "UTC"
    dst: str = "once"
    target: Mapping[str, Any]
    payload: Any = None
    description: str = ""
    catch_up: Annotated[str | None, Doc(type=CatchUp)] = None
    catch_up_window: str | float | None = None
    overlap: Annotated[str, Doc(type=Overlap)] = "allow"
    retry: Annotated[str | Mapping[str, Any], Doc(type=Literal["default", "fixed", "exponential", "none"] | Retry)] = (
        "default"
    )
    delivery: Annotated[str, Doc(type=Delivery)] = "at_least_once"
    max_age: Annotated[str | float | None, Doc(type=str | float)] = None
    late_after: Annotated[str | float | None, Doc(type=str | float)] = None
    priority: Annotated[str, Doc(type=Priority)] = "normal"
    jitter: Annotated[str | float | None, Doc(type=str | float)] = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    enabled: bool = True
    tags: tuple[str, ...] = ()
    subject: str = ""
    alert_policy: str = ""
    # State that Hourbell maintains.
    version: int
    state: Annotated[str, Doc(type=Literal["active", "done", "paused", "error"])]
    error: str | None = None
    paused: Paused | None = None
    managed_by: Annotated[str, Doc(type=Literal["api", "app", "code", "sql", "file", "system"])] = "api"
    source: str = ""
    next_at: datetime | None = None
    words: str | None = None
    totals: Annotated[Totals | None, Doc(type=Totals)] = None
    created_at: Annotated[datetime | None, Doc(type=datetime)] = None
    updated_at: Annotated[datetime | None, Doc(type=datetime)] = None
    # In some answers only.
    secrets: Annotated[
        tuple[StoredSecret, ...], Doc("The secrets of the job; in lists only on request.", is_extra=True)
    ] = ()
    warnings: Annotated[tuple[Warned, ...], Doc(is_extra=True)] = ()
    generated_secret: Annotated[str | None, Doc(_GENERATED.text, is_extra=True)] = field(default=None, repr=False)
    omitted: OmittedValues = ()
    # Only if `recent` is asked for.
    recent: Annotated[tuple[RecentTime, ...], Doc("The newest scheduled times, oldest first.", is_extra=True)] = ()
    median_duration_ms: Annotated[int | None, Doc("Of the newest 50 runs.", is_extra=True)] = None
    p95_duration_ms: Annotated[int | None, Doc("Of the newest 50 runs.", is_extra=True)] = None
    streak: Annotated[
        int | None,
        Doc("How many runs in a row failed up to now; 100 means 100 or more.", type=int, is_extra=True),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming(Answer):
    """A time at which a schedule fires, with the local time in its time zone."""

    at: datetime
    local: str
    zone_abbreviation: str = ""
    nominal_local: str = ""
    shifted: bool = False
    fold: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention(Answer):
    """The effect of a change in a dry run. Nothing was stored."""

    dry_run: Annotated[bool, Doc(type=Literal[True])] = True
    action: Annotated[str, _ACTION]
    job: Mapping[str, Any]
    before: tuple[Upcoming, ...] = ()
    after: tuple[Upcoming, ...] = ()
    fires_now: Annotated[bool, Doc(type=Literal[False])] = False
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange(Answer):
    """A field of a job before and after a change. A placeholder replaces secret values."""

    field: Annotated[str, Doc(examples=("schedule", "target.url"))]
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(Answer):
    """The planned action for one job of the source. Secrets and header values are not shown."""

    name: str
    id: Annotated[UUID | None, Doc("Null for a new job in a dry run.")] = None
    version: int | None = None
    action: Annotated[str, _ACTION]
    fields: tuple[FieldChange, ...] = ()
    before: Annotated[tuple[Upcoming, ...], Doc("The next times; absent for an unchanged job.")] = ()
    after: tuple[Upcoming, ...] = ()
    warnings: tuple[Warned, ...] = ()
    notes: tuple[str, ...] = ()
    generated_secret: Annotated[str | None, _GENERATED] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedJob(Answer):
    """A job of the source that is deleted, with the next times at which it would have fired."""

    name: str
    id: UUID
    before: tuple[Upcoming, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntry(Answer):
    """The planned action for a channel or an alert policy of the source. Secrets are not shown."""

    name: str
    action: Annotated[str, Doc(type=Literal["create", "change", "none", "delete"])]
    fields: tuple[FieldChange, ...] = ()
    notes: tuple[str, ...] = ()
    generated_secret: Annotated[str | None, _GENERATED] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Answer):
    """The changes that `apply` makes or, in a dry run, would make."""

    dry_run: bool = False
    source: str
    state: Annotated[str, Doc("Send it as `expect` to carry out exactly this plan.")]
    jobs: tuple[PlannedJob, ...]
    deleted: tuple[DeletedJob, ...] = ()
    channels: tuple[PlannedEntry, ...] = ()
    alert_policies: tuple[PlannedEntry, ...] = ()

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
        """True if the plan changes nothing."""
        entries = (*self.channels, *self.alert_policies)
        is_same = all(entry.action == "none" for entry in entries)
        return len(self.unchanged) == len(self.jobs) and not self.deleted and is_same


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(Answer):
    """The scheduled times that got a run or, in a dry run, would get one, and the ids of these runs."""

    dry_run: bool = False
    instants: tuple[datetime, ...]
    runs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedSecret(Answer):
    """A new signing secret."""

    secret: Annotated[str, Doc("It is shown only in this response.")] = field(repr=False)
    old_valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Answer):
    """A range of scheduled times that got no run, and the reason."""

    first_at: datetime
    last_at: datetime
    count: int
    reason: Annotated[str, Doc(type=SkipReason)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Answer):
    """A definition that a job has had."""

    version: int
    changed_at: datetime
    changed_by: str
    definition: Mapping[str, Any]
    omitted: OmittedValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Answer):
    """Statistics of the runs of a job: totals over its lifetime, and figures since a given time."""

    job: str
    since: datetime
    is_sampled: bool = False
    totals: Annotated[Totals | None, Doc(type=Totals)] = None
    total: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate_percent: float | None = None
    average_duration_ms: int | None = None
    p95_duration_ms: int | None = None
    longest_duration_ms: int | None = None
    average_lateness_ms: int | None = None
    p95_lateness_ms: int | None = None
    longest_lateness_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDone(Answer):
    """A job that a bulk action changed and, for a trigger, the new run."""

    id: UUID
    name: str
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRefused(Answer):
    """A job that a bulk action could not change, and the reason."""

    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBulk(Answer):
    """The result of a bulk action on the jobs that matched; a dry run only counts them."""

    dry_run: bool
    matched: Annotated[int, Doc("Also jobs that needed no change; at most 10,000 are counted.")]
    done: tuple[JobDone, ...] = ()
    refused: tuple[JobRefused, ...] = ()
    has_more: Annotated[bool, Doc("More jobs match that the action would change; repeat the request for them.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionProblem(Answer):
    """A line that could not be converted."""

    line: int | None = None
    text: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted(Answer):
    """The jobs of a crontab or a jobs file, its channels and alert policies, as `/jobs/apply` takes them."""

    jobs: Annotated[Any, Doc(type=list[dict[str, Any]])]
    channels: Annotated[Mapping[str, Any], Doc(type=dict[str, dict[str, Any]])] = field(default_factory=dict)
    alert_policies: Annotated[Mapping[str, Any], Doc(type=dict[str, dict[str, Any]])] = field(default_factory=dict)
    problems: tuple[ConversionProblem, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineError(Answer):
    """A validation error with its location: a JSON pointer into the body, or `/query/…`, `/path/…`, `/header/…`."""

    pointer: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult(Answer):
    """The result of one imported line, in the order of the request. Pruned jobs have no line number."""

    line: int | None = None
    name: str | None = None
    result: Annotated[str, Doc(type=Literal["created", "changed", "unchanged", "refused", "pruned", "not_pruned"])]
    id: UUID | None = None
    version: int | None = None
    code: str | None = None
    message: str | None = None
    errors: tuple[LineError, ...] = ()
