"""Incidents: one thing that is wrong, opened and resolved once; with the ids that make each message unique."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha1
from uuid import UUID, uuid5

from hourbell.core.alerts.kinds import MOVES, IncidentKind, IncidentState
from hourbell.core.values.ids import timed_id

MAX_ERROR_CHARACTERS = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WrongMove(ValueError):
    """A change of an incident that its state does not allow."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong now, as read from the tables.

    `key` is the identity of the incident: while one with this key is unresolved, no other one is opened. `count` is how
    often it happened since `since`, and `news_at` when it happened last, if that is later; `group_size` is how many
    jobs it concerns.
    """

    key: str
    kind: IncidentKind
    since: datetime
    error: str = ""
    fingerprint: str = ""
    count: int = 1
    group_size: int = 1
    job_id: UUID | None = None
    run_id: UUID | None = None
    lane: str | None = None
    news_at: datetime | None = None

    def is_news(self, closed_at: datetime | None) -> bool:
        """Return True if it happened after somebody resolved its incident by hand."""
        return closed_at is None or (self.news_at or self.since) > closed_at


@dataclass(frozen=True, slots=True)
class Incident:
    """A stored incident.

    `steps` is the number of messages planned so far, and `escalated` the number of escalation steps among them.
    `opened_before` is the number of incidents with the same key that were opened in the 24 hours before. `next_at` is
    when the incident is to be looked at again, without any news; None for never. `announced_at` is when its first
    message was planned, and `notified_at` its last one. `quiet_until` is the end of the quiet hours that its next
    message waits for.
    """

    id: UUID
    key: str
    kind: IncidentKind
    state: IncidentState
    policy: str
    opened_at: datetime
    last_at: datetime  # when the trouble was last seen
    version: int = 1
    job_id: UUID | None = None
    run_id: UUID | None = None
    lane: str | None = None
    error: str = ""
    fingerprint: str = ""
    count: int = 1
    group_size: int = 1
    steps: int = 0
    escalated: int = 0
    opened_before: int = 0
    announced_at: datetime | None = None
    notified_at: datetime | None = None
    quiet_until: datetime | None = None
    next_at: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    muted_until: datetime | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None  # None if the trouble ended

    @property
    def is_resolved(self) -> bool:
        return self.state is IncidentState.RESOLVED

    @property
    def is_flapping(self) -> bool:
        """True if the same trouble was notified and resolved less than a day before."""
        return self.opened_before > 0

    def is_muted(self, now: datetime) -> bool:
        return self.muted_until is not None and now < self.muted_until


def check_move(incident: Incident, to: IncidentState) -> None:
    """Raise WrongMove unless the incident may go to that state."""
    if to not in MOVES[incident.state]:
        raise WrongMove(f"the incident is {incident.state} already")


def incident_id(key: str, opened_at: datetime) -> UUID:
    """Compute the id of an incident from its key and the time it opened, so that nodes that race compute the same."""
    microseconds = _microseconds(opened_at)
    digest = sha1(f"{key}|{microseconds}".encode(), usedforsecurity=False).digest()
    return timed_id(microseconds // 1_000, digest, version=8)


def notification_id(channel_job: UUID, incident: UUID, step: int) -> UUID:
    """Compute the id of a notification, which is a run of the channel's job. A message planned twice is one run."""
    return uuid5(channel_job, f"{incident}:{step}")


def digest_id(channel_job: UUID, steps: Iterable[tuple[UUID, int]]) -> UUID:
    """Compute the id of a message about several incidents from these and their steps."""
    return uuid5(channel_job, "|".join(sorted(f"{incident}:{step}" for incident, step in steps)))


def job_key(job_id: UUID, kind: IncidentKind) -> str:
    return f"job:{job_id}:{kind}"


def lane_key(lane: str, kind: IncidentKind) -> str:
    """Return the key of an incident of all jobs that share a lane."""
    return f"lane:{kind}:{lane}"


def channel_key(name: str) -> str:
    return f"channel:{name}"


def _microseconds(instant: datetime) -> int:
    elapsed = instant - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
