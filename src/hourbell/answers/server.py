"""Answers about the server: previews, forecasts, nodes, the audit, tokens, health and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from hourbell.answers.base import Answer, Doc
from hourbell.answers.jobs import LineError, OmittedValues, Upcoming, Warned
from hourbell.core.access.roles import Role
from hourbell.core.run.states import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Answer):
    """A preview of a schedule: its description, the next times and warnings."""

    schedule: str
    resolved: str
    timezone: str
    dst: str
    description: str
    upcoming: tuple[Upcoming, ...] = ()
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Answer):
    """The explanation of a scheduled time, in one sentence and as data: it ran, was skipped, waits and so on."""

    job: str
    at: datetime
    verdict: str
    sentence: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(Answer):
    """The number of runs that will be planned in one time bucket."""

    at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Answer):
    """The number of runs that will be planned in each time bucket."""

    bucket_seconds: float
    buckets: tuple[Bucket, ...]
    jobs_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedDay(Answer):
    """The number of runs that ended on one day."""

    day: Annotated[str, Doc("In UTC.", type=date, examples=("2026-11-18",))]
    succeeded: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedDays(Answer):
    """The number of runs that ended on each day, as counted in Redis. The counts can be too low."""

    job: Annotated[str | None, Doc("Null for all jobs.")] = None
    days: tuple[CountedDay, ...]
    note: Annotated[str, Doc("Why the counts can be too low.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConflict(Answer):
    """A job that a running program defines but another owner holds; `command` transfers it to the program."""

    job: str
    owner: str
    program: str
    hint: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(Answer):
    """Counts of jobs and runs by state, and of runs that ended since a given time."""

    since: datetime
    jobs: int
    paused: int
    in_error: int
    waiting: int
    running: int
    dead_letters: int
    ended: Annotated[Mapping[str, int], Doc(type=Mapping[RunState, int])] = field(default_factory=dict)
    conflicts: tuple[JobConflict, ...] = ()
    now: Annotated[datetime | None, Doc(type=datetime)] = None
    failing: Annotated[int, Doc("Jobs whose last run to end failed.")] = 0
    retrying: Annotated[int, Doc("Jobs of which an attempt failed, and another one follows.")] = 0
    losing: Annotated[int, Doc("Jobs of which times were skipped in the last 24 hours, and nobody asked for that.")] = 0
    late: Annotated[int, Doc("Jobs of which a run waits past `late_after`.")] = 0
    due_within_hour: int = 0
    at_least: Annotated[
        tuple[str, ...], Doc("Those of the five counts above that are lower bounds: there are more than 10,000 jobs.")
    ] = ()
    lag_ms: Annotated[
        float, Doc("How far the oldest due job, or ready run that could begin, is behind `now`; 0 if there is none.")
    ] = 0
    nodes: Annotated[int, Doc("Live nodes.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag(Answer):
    """A tag that at least one job has."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Answer):
    """A running engine process."""

    id: UUID
    host: str
    stale: Annotated[
        bool, Doc("The node is dead: it has sent no heartbeat for a minute, or for its lease if that is longer.")
    ] = False
    started_at: datetime
    beat_at: datetime
    lanes: tuple[str, ...] = ()
    tzdata: str = ""
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Answer):
    """An audit entry: the change, who made it, from which address, and the values before and after."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    before: Any = None
    after: Any = None
    token_id: UUID | None = None
    ip: str | None = None
    request_id: str | None = None
    chain_position: int | None = None
    chain_hash: str | None = None
    omitted: OmittedValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Answer):
    """An API token: its name, its role and its expiry."""

    id: UUID
    name: str
    role: Annotated[str, Doc(type=Role)]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    token: Annotated[str | None, Doc("It is shown only in this response.", type=str, is_extra=True)] = field(
        default=None, repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Answer):
    """The identity of the caller. A session has a CSRF token; the page sends it as X-CSRF-Token with each change."""

    kind: Annotated[str, Doc(type=Literal["session", "token", "open"])]
    name: str
    role: Annotated[str, Doc(type=Role)]
    expires_at: datetime | None = None
    csrf_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Answer):
    """An error in the format of RFC 9457 (problem details). Programs should test `code`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: tuple[LineError, ...] = ()
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Answer):
    """The liveness of the process."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(Answer):
    """The readiness of a node, with the reasons if it is not ready."""

    status: str
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    database: Mapping[str, Any] = field(default_factory=dict)
    loops: Mapping[str, Any] = field(default_factory=dict)
    backlog: Mapping[str, Any] = field(default_factory=dict)
    unserved_lanes: tuple[str, ...] = ()
    pools: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"

    @property
    def database_problem(self) -> str | None:
        """The problem of the database, or None. Without its database the server cannot answer other requests."""
        if self.database.get("reachable") is False:
            return "unreachable"
        problem: str | None = self.database.get("problem")
        return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedJob(Answer):
    """A job that changed, with its current version; null if the job was deleted."""

    id: UUID
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRun(Answer):
    """A run that started or ended."""

    id: UUID
    job_id: UUID
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedIncident(Answer):
    """An incident that was opened, acknowledged or resolved."""

    id: UUID
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Answer):
    """Jobs, runs and incidents that changed within a second.

    If `is_reset`, changes may have been missed: list them all again.
    """

    is_reset: bool = False
    jobs: tuple[ChangedJob, ...] = ()
    runs: tuple[ChangedRun, ...] = ()
    incidents: tuple[ChangedIncident, ...] = ()
