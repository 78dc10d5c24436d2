"""What answers look like, for the OpenAPI document. They are rendered by hand (`render`) and only described here."""

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from hourbell.api.values import Instant
from hourbell.control.explain import Verdict
from hourbell.core.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.core.roles import Role
from hourbell.core.states import Kind, Reason, RunState, SkipReason

_NAME = r"^[A-Za-z0-9_-]+$"
_OMITTED = "Values of over 4 KiB that this list leaves out; absent if it shows everything."
_EXAMPLE_JOB: JsonDict = {
    "name": "daily-report",
    "schedule": "0 9 * * 1-5",
    "timezone": "Europe/Paris",
    "target": {"type": "http", "url": "https://example.com/hook"},
    "payload": {"days": 30},
}


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Omitted(Answer):
    """A value that is too long for a list: it is null there, or of a target only its short members are shown."""

    field: str = Field(examples=["payload", "definition.payload"])
    url: str = Field(description="Where the single object shows it.", examples=["/api/v1/jobs/report"])


class Totals(Answer):
    last_run_id: UUID | None = Field(description="The run that began last, also while it is under way.")
    last_run_at: Instant | None = Field(description="When it began; if it never did, when it ended.")
    last_state: RunState | None = Field(description="Its state now.")
    last_error: str | None = Field(description="Of the last attempt that failed, also while its run is retrying.")
    last_success_at: Instant | None
    succeeded: int
    failed: int
    cancelled: int
    success_rate_percent: float | None


class Paused(Answer):
    note: str | None
    by: str | None
    until: Instant | None


class Warned(Answer):
    code: str
    message: str
    at: list[Instant]


class SecretAnswer(Answer):
    field: str
    origin: str | None = Field(description="Where a secret header is sent; null for what signs, or is not bound.")
    created_at: Instant
    valid_until: Instant | None


class RetryAnswer(Answer):
    attempts: int
    backoff: list[str | float]
    spread: float


class JobAnswer(Answer):
    """A job as it stands: its definition, and what became of it."""

    id: UUID
    name: str
    schedule: str
    timezone: str
    dst: str
    target: dict[str, Any]
    payload: Any
    description: str
    catch_up: CatchUp
    catch_up_window: str | float | None
    overlap: Overlap
    retry: Literal["default", "fixed", "exponential", "none"] | RetryAnswer
    delivery: Delivery
    max_age: str | float
    late_after: str | float
    priority: Priority
    jitter: str | float
    starts_at: Instant | None
    ends_at: Instant | None
    enabled: bool
    tags: list[str]
    subject: str
    version: int
    state: Literal["active", "done", "paused", "error"]
    error: str | None
    paused: Paused | None
    managed_by: Literal["api", "code", "sql", "file"]
    source: str
    next_at: Instant | None
    words: str | None
    totals: Totals
    created_at: Instant
    updated_at: Instant


class JobDetail(JobAnswer):
    secrets: list[SecretAnswer]


class JobDefined(JobAnswer):
    warnings: list[Warned]
    generated_secret: str | None = Field(description="A secret that was made for this job. It is shown only here.")


class Occurrence(Answer):
    at: Instant
    local: str
    zone_abbreviation: str
    nominal_local: str
    shifted: bool
    fold: int


class Intention(Answer):
    """What a change would do. Nothing was stored."""

    dry_run: Literal[True]
    action: Literal["create", "change", "none"]
    job: dict[str, Any]
    before: list[Occurrence]
    after: list[Occurrence]
    fires_now: Literal[False]
    warnings: list[Warned]


class FieldChanged(Answer):
    field: str = Field(examples=["schedule", "target.url"])
    before: Any
    after: Any


class PlannedJob(Answer):
    """What becomes of a job of the source. Secrets and the values of headers are not shown."""

    name: str
    id: UUID | None = Field(description="None of a new job in a dry run.")
    version: int | None
    action: Literal["create", "change", "none"]
    fields: list[FieldChanged]
    before: list[Occurrence] = Field(description="The next instants; none for a job that stays as it is.")
    after: list[Occurrence]
    warnings: list[Warned]
    notes: list[str]
    generated_secret: str | None = Field(description="A secret that was made for this job. It is shown only here.")


class DeletedJob(Answer):
    name: str
    id: UUID
    before: list[Occurrence]


class Plan(Answer):
    """What applying does, or in a dry run would do."""

    dry_run: bool
    source: str
    state: str = Field(description="Send it as `expect` to do this and nothing else.")
    jobs: list[PlannedJob]
    deleted: list[DeletedJob]


class JobListed(JobAnswer):
    secrets: list[SecretAnswer] = Field(default=[], description="Which secrets it has; only if it was asked for.")
    omitted: list[Omitted] = Field(default=[], description=_OMITTED)


class JobList(Answer):
    items: list[JobListed]
    next_cursor: str | None


class LogLine(Answer):
    at: Instant
    text: str


class Progress(Answer):
    """How far a run says that it is."""

    fraction: float | None = Field(description="from 0 to 1; null if it does not know")
    message: str
    at: Instant


class AttemptAnswer(Answer):
    number: int
    node: UUID | None
    started_at: Instant | None
    finished_at: Instant
    outcome: str
    status_code: int | None
    error: str | None
    excerpt: str | None
    phases: dict[str, float]
    late_outcome: str | None = Field(description="of a lost attempt: what its node reported after all")
    duration_ms: float | None
    log: list[LogLine] = Field(description="what a task said: at most 1,000 lines and 64 KiB, the newest")


class RunAnswer(Answer):
    """A run as it stands."""

    id: UUID
    job_id: UUID
    job_name: str | None
    job_version: int
    kind: Kind
    trigger: str
    state: RunState
    reason: Reason | None
    waits_for: str | None = Field(description="Why it has not begun, in words; null if it does not wait.")
    scheduled_at: Instant
    local_at: str
    planned_at: Instant
    ready_at: Instant
    expires_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    cleared_at: Instant | None
    lane: str
    attempt: int
    failures: int
    crashes: int
    node: UUID | None
    lateness_ms: float | None
    duration_ms: float | None
    replay_of: UUID | None
    cancel_requested: bool
    progress: Progress | None = Field(description="of a running run that tells it")
    payload: Any
    result: Any


class RunDetail(RunAnswer):
    late_success: int | None = Field(
        description="of a failed run: the attempt that succeeded after all, its answer came after its lease was lost"
    )
    log: list[LogLine] = Field(description="of the attempt under way")
    attempts: list[AttemptAnswer]


class RunListed(RunAnswer):
    omitted: list[Omitted] = Field(default=[], description=_OMITTED)


class RunList(Answer):
    items: list[RunListed]
    next_cursor: str | None


class Triggered(Answer):
    run_id: UUID
    run: RunDetail


class Replayed(Answer):
    run_id: UUID
    replay_of: UUID


class Cancelled(Answer):
    run_id: UUID
    ended: bool = Field(description="false: the node that runs it was asked to stop it")


class Done(Answer):
    run_id: UUID
    new_run_id: UUID | None


class Refused(Answer):
    run_id: UUID
    message: str


class BulkAnswer(Answer):
    dry_run: bool
    matched: int
    has_more: bool
    done: list[Done]
    refused: list[Refused]


class BackfillAnswer(Answer):
    dry_run: bool
    instants: list[Instant]
    runs: list[UUID]


class Instants(Answer):
    items: list[Occurrence]


class SkipAnswer(Answer):
    first_at: Instant
    last_at: Instant
    count: int
    reason: SkipReason


class SkipList(Answer):
    items: list[SkipAnswer]
    next_cursor: str | None


class VersionAnswer(Answer):
    version: int
    changed_at: Instant
    changed_by: str
    definition: dict[str, Any]


class VersionListed(VersionAnswer):
    omitted: list[Omitted] = Field(default=[], description=_OMITTED)


class VersionList(Answer):
    items: list[VersionListed]
    next_cursor: str | None


class StatsAnswer(Answer):
    """How the runs of a job ended: ever, and since a time."""

    job: str
    since: Instant
    is_sampled: bool
    totals: Totals
    total: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate_percent: float | None
    average_duration_ms: int | None
    p95_duration_ms: int | None
    longest_duration_ms: int | None
    average_lateness_ms: int | None
    p95_lateness_ms: int | None
    longest_lateness_ms: int | None


class SecretMade(Answer):
    secret: str = Field(description="It is shown only here.")
    old_valid_until: Instant | None


class PreviewAnswer(Answer):
    model_config = ConfigDict(extra="allow")

    schedule: str
    resolved: str
    timezone: str
    dst: str
    description: str
    upcoming: list[Occurrence]
    warnings: list[Warned]


class ExplainAnswer(Answer):
    job: str
    at: Instant
    verdict: Verdict
    sentence: str
    data: dict[str, Any]


class Bucket(Answer):
    at: Instant
    count: int


class ForecastAnswer(Answer):
    bucket_seconds: float
    buckets: list[Bucket]
    jobs_left_out: int


class ConflictAnswer(Answer):
    job: str
    owner: str
    program: str
    hint: str
    command: str


class OverviewAnswer(Answer):
    since: Instant
    jobs: int
    paused: int
    in_error: int
    waiting: int
    running: int
    dead_letters: int
    ended: dict[RunState, int]
    conflicts: list[ConflictAnswer]


class NodeAnswer(Answer):
    id: UUID
    host: str
    stale: bool = Field(
        description="It has sent no heartbeat for a minute, or its lease if that is longer: it is dead."
    )
    started_at: Instant
    beat_at: Instant
    lanes: list[str]
    tzdata: str
    running: int


class NodeList(Answer):
    items: list[NodeAnswer]


class AuditAnswer(Answer):
    id: int
    at: Instant
    actor: str
    action: str
    subject: str
    before: Any
    after: Any
    token_id: UUID | None
    ip: str | None
    request_id: str | None
    chain_position: int | None
    chain_hash: str | None


class AuditListed(AuditAnswer):
    omitted: list[Omitted] = Field(default=[], description=_OMITTED)


class AuditList(Answer):
    items: list[AuditListed]
    next_cursor: str | None


class TokenAnswer(Answer):
    id: UUID
    name: str
    role: Role
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None


class TokenMade(TokenAnswer):
    token: str = Field(description="It is shown only here.")


class TokenList(Answer):
    items: list[TokenAnswer]


class ProblemError(Answer):
    """One thing that is wrong, and where: a JSON pointer into the body, or `/query/…`, `/path/…`, `/header/…`."""

    pointer: str
    message: str
    hint: str | None = None


class ImportLine(Answer):
    """A line of the answer to an import, in the order of the lines that came in."""

    line: int | None
    name: str | None
    result: Literal["created", "changed", "unchanged", "refused", "pruned", "not_pruned"]
    id: UUID | None = None
    version: int | None = None
    code: str | None = None
    message: str | None = None
    errors: list[ProblemError] = []


class ProblemAnswer(Answer):
    """An error by RFC 9457; `code` is for programs."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemError] = []
    request_id: str | None = None
