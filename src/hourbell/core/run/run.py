"""A run, as it is planned and as it is held, and the identity that makes it happen once."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b, sha1
from typing import NamedTuple, Protocol
from uuid import UUID, uuid5

from hourbell.core.job.definition import Definition
from hourbell.core.run.policies import Rank
from hourbell.core.run.states import Kind, RunState
from hourbell.core.values.ids import timed_id

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def scheduled_run_id(job_id: UUID, scheduled_at: datetime) -> UUID:
    """The id of the run for an instant: a pure function, so that a restored backup plans the same ids."""
    milliseconds, digits = _written(scheduled_at)
    return timed_id(milliseconds, sha1(job_id.bytes + digits, usedforsecurity=False).digest(), version=8)


def is_scheduled_run_id(run_id: UUID, job_id: UUID, scheduled_at: datetime) -> bool:
    """Whether this is the id of the run for an instant, also if it was planned when ids were of version 5."""
    _, digits = _written(scheduled_at)
    return run_id in (scheduled_run_id(job_id, scheduled_at), uuid5(job_id, digits.decode()))


def manual_run_id(job_id: UUID, key: str) -> UUID:
    """The id of the run a caller triggers under a key of its own."""
    return uuid5(job_id, f"manual:{key}")


def jitter_of(job_id: UUID, scheduled_at: datetime, most: timedelta) -> timedelta:
    """How long after its instant a run becomes ready: stable, and spread evenly over [0, most)."""
    digest = blake2b(f"{job_id}:{_microseconds(scheduled_at)}".encode(), digest_size=8).digest()
    return most // _MICROSECOND * int.from_bytes(digest, "big") // 2**64 * _MICROSECOND


@lru_cache(maxsize=128)  # many jobs are due at one instant
def _written(instant: datetime) -> tuple[int, bytes]:
    """Milliseconds, with which a run's id begins, and the digits of its microseconds, which tell it from others."""
    microseconds = _microseconds(instant)
    return microseconds // 1_000, str(microseconds).encode()


def _microseconds(instant: datetime) -> int:
    """Since the epoch: the same number in whatever zone the instant is written."""
    return (instant - _EPOCH) // _MICROSECOND


class NewRun(NamedTuple):
    """A run to insert. What every run has from its job's version is not repeated here."""

    id: UUID
    scheduled_at: datetime
    local_at: datetime  # the nominal local time, without a zone
    ready_at: datetime
    expires_at: datetime
    rank: Rank
    kind: Kind = Kind.SCHEDULED


class Run(NamedTuple):
    """A run that a node holds, or looks at to settle."""

    id: UUID
    job_id: UUID
    job_version: int
    kind: Kind
    scheduled_at: datetime
    ready_at: datetime
    expires_at: datetime
    state: RunState
    lane: str
    attempt: int
    failures: int
    crashes: int
    started_at: datetime | None = None  # of its first attempt; None of a claimed run if this is the first
    at_most_once: bool = False
    begun: bool = False  # the effect of this attempt may have begun; noted only of at_most_once
    payload: object = None
    has_payload: bool = False  # a payload of its own, which may be null, goes before its job's


class Timed(Protocol):
    """What tells why a run exists."""

    @property
    def kind(self) -> Kind: ...

    @property
    def scheduled_at(self) -> datetime: ...

    @property
    def expires_at(self) -> datetime: ...


def takeable_since(run: Run, definition: Definition) -> datetime:
    """Since when a node could have taken the run: ready, and planned. A run expires `max_age` after it was planned."""
    planned_at = run.expires_at - definition.max_age
    return run.ready_at if run.ready_at > planned_at else planned_at


def trigger_of(run: Timed, definition: Definition) -> str:
    """Why a run exists, for people: `schedule:0 3 * * *`, `catch_up:0 3 * * *` if it was planned late, or its kind."""
    if run.kind is not Kind.SCHEDULED:
        return run.kind.value
    return f"{'catch_up' if was_planned_late(run, definition) else 'schedule'}:{definition.schedule}"


def was_planned_late(run: Timed, definition: Definition) -> bool:
    """Whether nobody was there to plan the run when it was due. A run expires `max_age` after it was planned."""
    return run.expires_at - definition.max_age - run.scheduled_at > definition.late_after
