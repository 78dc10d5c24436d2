"""Answers about alerts: channels, alert policies, incidents and their notifications."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from hourbell.answers.base import Answer, Doc
from hourbell.core.alerts.kinds import Event, IncidentKind, IncidentState

_MANAGED_BY = Doc("`api`, or `file` for what a jobs file manages.")
_SOURCE = Doc("The source of that file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Answer):
    """A channel: where messages go. Its secrets are never shown, only their origin."""

    name: str
    type: str
    config: Annotated[Mapping[str, Any], Doc("The configuration, without what is secret.")] = field(
        default_factory=dict
    )
    origin: Annotated[str | None, Doc("Scheme, host and port that its secrets are sent to.")] = None
    managed_by: Annotated[str, _MANAGED_BY] = "api"
    source: Annotated[str, _SOURCE] = ""
    created_at: datetime
    updated_at: datetime
    updated_by: str = ""
    generated_secret: Annotated[
        str | None, Doc("The signing secret, shown only once, if one was generated.", is_extra=True)
    ] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTest(Answer):
    """A test message that is on its way; its run says whether it was delivered."""

    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationStep(Answer):
    after: str | float
    notify: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours(Answer):
    start: Annotated[str, Doc(key="from", examples=("22:00",))]
    until: Annotated[str, Doc(examples=("07:00",))]
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy(Answer):
    """An alert policy: when to alert, and whom."""

    name: str
    on: Annotated[tuple[str, ...], Doc("The kinds of trouble that open incidents.")] = ()
    after: Annotated[int | None, Doc("Consecutive failures that open an incident; null: 2, or 1 if it is rare.")] = None
    rate: Annotated[str | None, Doc(examples=("3 of 10",))] = None
    notify: Annotated[tuple[str, ...] | None, Doc("Channels; null: every channel.")] = None
    repeat: str | float | None = None
    escalate: tuple[EscalationStep, ...] = ()
    resolve: Annotated[bool, Doc("Whether to notify when an incident is resolved.")] = True
    quiet_hours: QuietHours | None = None
    group: Annotated[str, Doc(type=Literal["host", "none"])] = "host"
    slow_after: str | float | None = None
    no_success_for: str | float | None = None
    paused_for: str | float | None = None
    losing_share: float | None = None
    managed_by: Annotated[str, _MANAGED_BY] = "api"
    source: Annotated[str, _SOURCE] = ""
    updated_at: datetime
    updated_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification(Answer):
    """A message of an incident. `state` is that of its run; null if that was pruned."""

    run_id: UUID
    channel: str
    event: Annotated[str, Doc(type=Event)]
    step: int
    planned_at: datetime
    state: str | None = None
    attempt: int | None = None
    finished_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident(Answer):
    """One thing that is wrong, opened and resolved once."""

    id: UUID
    kind: Annotated[str, Doc(type=IncidentKind)]
    state: Annotated[str, Doc(type=IncidentState)]
    policy: str
    job_id: UUID | None = None
    job_name: str | None = None
    run_id: Annotated[UUID | None, Doc("The run in which it was seen last.")] = None
    lane: Annotated[str | None, Doc("The host or lane that it is about.")] = None
    error: str = ""
    fingerprint: str = ""
    count: Annotated[int, Doc("How often it happened.")] = 1
    group_size: Annotated[int, Doc("How many jobs it is about.")] = 1
    is_flapping: bool = False
    opened_at: datetime
    last_at: datetime
    notified_at: Annotated[datetime | None, Doc("When the last message was planned.")] = None
    next_at: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    muted_until: datetime | None = None
    resolved_at: datetime | None = None
    resolved_by: Annotated[str | None, Doc("Null if the trouble ended by itself.")] = None
    jobs: Annotated[tuple[str, ...], Doc("The names of its jobs, at most 100.", is_extra=True)] = ()
    notifications: Annotated[tuple[Notification, ...], Doc(is_extra=True)] = ()
