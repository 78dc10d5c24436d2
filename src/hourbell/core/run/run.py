"""A run as it is planned and as a node holds it, and the deterministic id that makes it run once."""

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
    """Compute the id of the run for an instant: a pure function, so that a restored backup plans the same ids."""
    milliseconds, digits = _written(scheduled_at)
    return timed_id(milliseconds, sha1(job_id.bytes + digits, usedforsecurity=False).digest(), version=8)


def is_scheduled_run_id(run_id: UUID, job_id: UUID, scheduled_at: datetime) -> bool:
    """Check that this is the id of the run for an instant, in the current form or the former version 5."""
    _, digits = _written(scheduled_at)
    return run_id in (scheduled_run_id(job_id, scheduled_at), uuid5(job_id, digits.decode()))


def manual_run_id(job_id: UUID, key: str) -> UUID:
    """Compute the id of a run that a caller triggers under its own key."""
    return uuid5(job_id, f"manual:{key}")


def first_run_id(job_id: UUID) -> UUID:
    """Compute the id of the run that a job gets when it is created. No key of a caller leads to it."""
    return uuid5(job_id, "first")


def jitter_of(job_id: UUID, scheduled_at: datetime, max_jitter: timedelta) -> timedelta:
    """Return how long after its scheduled time a run becomes ready: deterministic, and uniform in [0, max_jitter)."""
    digest = blake2b(f"{job_id}:{_microseconds(scheduled_at)}".encode(), digest_size=8).digest()
    return max_jitter // _MICROSECOND * int.from_bytes(digest, "big") // 2**64 * _MICROSECOND


@lru_cache(maxsize=128)  # many jobs are due at one instant
def _written(instant: datetime) -> tuple[int, bytes]:
    """Return the milliseconds that begin a run's id, and the digits of the microseconds that make it unique."""
    microseconds = _microseconds(instant)
    return microseconds // 1_000, str(microseconds).encode()


def _microseconds(instant: datetime) -> int:
    """Return the microseconds since the epoch, which do not depend on the time zone of the datetime."""
    return (instant - _EPOCH) // _MICROSECOND


class NewRun(NamedTuple):
    """A run to insert. Values that all runs take from the job's version are not repeated here."""

    id: UUID
    scheduled_at: datetime
    local_at: datetime  # the nominal local time, without a zone
    ready_at: datetime
    expires_at: datetime
    rank: Rank
    kind: Kind = Kind.SCHEDULED


class Run(NamedTuple):
    """A run that a node holds, or reads in order to settle it."""

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
    started_at: datetime | None = None  # of the first attempt; None if a claimed run is in its first attempt
    at_most_once: bool = False
    begun: bool = False  # this attempt's effect may have begun; recorded only for at_most_once
    payload: object = None
    has_payload: bool = False  # it has its own payload, possibly null, instead of its job's


class Timed(Protocol):
    """The fields of a run that decide its trigger text."""

    @property
    def kind(self) -> Kind: ...

    @property
    def scheduled_at(self) -> datetime: ...

    @property
    def expires_at(self) -> datetime: ...


def takeable_since(run: Run, definition: Definition) -> datetime:
    """Return the time since which a node could have claimed the run: it is ready, and planned.

    A run expires `max_age` after it was planned, so the time of planning follows from `expires_at`.
    """
    planned_at = run.expires_at - definition.max_age
    return run.ready_at if run.ready_at > planned_at else planned_at


def trigger_of(run: Timed, definition: Definition) -> str:
    """Return what started a run: `schedule:0 3 * * *`, `catch_up:0 3 * * *` if it was planned late, or its kind."""
    if run.kind is not Kind.SCHEDULED:
        return run.kind.value
    return f"{'catch_up' if was_planned_late(run, definition) else 'schedule'}:{definition.schedule}"


def was_planned_late(run: Timed, definition: Definition) -> bool:
    """Check if the run was planned over `late_after` past its scheduled time. It expires `max_age` after planning."""
    return run.expires_at - definition.max_age - run.scheduled_at > definition.late_after
