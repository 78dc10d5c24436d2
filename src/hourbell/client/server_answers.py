"""What the API answers about everything that is neither a job nor a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.client.job_answers import Upcoming, Warned
from hourbell.client.reading import Answer, Omitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Answer):
    """What a schedule does: words, the next instants and what may surprise."""

    schedule: str
    resolved: str
    timezone: str
    dst: str
    description: str
    upcoming: tuple[Upcoming, ...] = ()
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Answer):
    """What became of an instant, in one sentence and as data."""

    job: str
    at: datetime
    verdict: str
    sentence: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(Answer):
    at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Answer):
    """How many runs will be planned in each span of time."""

    bucket_seconds: float
    buckets: tuple[Bucket, ...]
    jobs_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConflict(Answer):
    """A job that a running program defines and somebody else owns; `command` hands it to the program."""

    job: str
    owner: str
    program: str
    hint: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(Answer):
    since: datetime
    jobs: int
    paused: int
    in_error: int
    waiting: int
    running: int
    dead_letters: int
    ended: Mapping[str, int] = field(default_factory=dict)
    conflicts: tuple[JobConflict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Answer):
    """An engine process; a stale one has sent no heartbeat for too long and counts as dead."""

    id: UUID
    host: str
    started_at: datetime
    beat_at: datetime
    lanes: tuple[str, ...] = ()
    tzdata: str = ""
    running: int = 0
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Answer):
    """A change: who made it, from where, and how it was before and after."""

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
    omitted: tuple[Omitted, ...] = ()  # what a list leaves out


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Answer):
    id: UUID
    name: str
    role: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    token: str | None = field(default=None, repr=False)  # told when it is made, once


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Answer):
    """Who calls, with which role and until when."""

    kind: str  # token, or open on a server without tokens
    name: str
    role: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Answer):
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(Answer):
    """Whether a node does its work, and what keeps it from that."""

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
        """What is wrong with the database, or None; without it the server answers nothing else."""
        if self.database.get("reachable") is False:
            return "out of reach"
        problem: str | None = self.database.get("problem")
        return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedJob(Answer):
    """A job at its version now; without one, it was deleted."""

    id: UUID
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRun(Answer):
    id: UUID
    job_id: UUID
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Answer):
    """Which jobs and runs changed within a second. If `is_reset`, something may have been missed: look again at all."""

    is_reset: bool = False
    jobs: tuple[ChangedJob, ...] = ()
    runs: tuple[ChangedRun, ...] = ()
