"""A message: everything that a person needs to know, as data. Channels turn it into text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hourbell.core.alerts.incident import Incident
from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.readers import parse_instant

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The part of a message about a job: how to find it, and when it is next due."""

    id: str
    name: str
    schedule: str
    words: str = ""  # the schedule as text: "At 09:00, Monday through Friday"
    timezone: str = "UTC"
    description: str = ""
    tags: tuple[str, ...] = ()
    subject: str = ""
    next_at: datetime | None = None
    last_success_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    id: str
    state: str
    reason: str | None = None
    scheduled_at: datetime | None = None
    attempt: int = 0
    finished_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class IncidentSummary:
    """`count` is how often it happened; `jobs` names some of the `group_size` jobs that are concerned."""

    id: str
    kind: IncidentKind
    state: str
    opened_at: datetime
    last_at: datetime
    error: str = ""
    count: int = 1
    group_size: int = 1
    jobs: tuple[str, ...] = ()
    lane: str | None = None
    policy: str = "default"
    acknowledged_by: str | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None

    @classmethod
    def of(cls, incident: Incident, jobs: tuple[str, ...] = ()) -> "IncidentSummary":
        return cls(
            id=str(incident.id),
            kind=incident.kind,
            state=str(incident.state),
            opened_at=incident.opened_at,
            last_at=incident.last_at,
            error=incident.error,
            count=incident.count,
            group_size=incident.group_size,
            jobs=jobs,
            lane=incident.lane,
            policy=incident.policy,
            acknowledged_by=incident.acknowledged_by,
            resolved_at=incident.resolved_at,
            resolved_by=incident.resolved_by,
        )


@dataclass(frozen=True, slots=True)
class DigestItem:
    """One incident in a digest."""

    event: Event
    incident: IncidentSummary


@dataclass(frozen=True, slots=True)
class Message:
    """One notification. `id` is the same on every attempt; `links` has `incident`, `job` and `run`, as far as known.

    A digest of quiet hours is about `total` incidents and has the first of them as `items`, instead of `incident`.
    Every text in it may come from users and receivers: a channel escapes it for its own format.
    """

    id: str
    event: Event
    at: datetime  # when it was planned
    channel: str
    incident: IncidentSummary | None = None  # None for a digest, and for a test of the channel
    job: JobSummary | None = None
    run: RunSummary | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    items: tuple[DigestItem, ...] = ()
    total: int = 0

    def to_json(self) -> Json:
        """Return the body that the webhook channel sends, and that is stored as the payload of the run."""
        digest: Json = {}
        if self.event is Event.QUIET_DIGEST:
            incidents = [{"type": str(each.event)} | _incident_json(each.incident) for each in self.items]
            digest = {"incidents": incidents, "total": self.total}
        return {
            "type": str(self.event),
            "id": self.id,
            "at": rfc3339(self.at),
            "channel": self.channel,
            "incident": None if self.incident is None else _incident_json(self.incident),
            "job": None if self.job is None else _job_json(self.job),
            "run": None if self.run is None else _run_json(self.run),
            "links": dict(self.links),
            **digest,
        }

    @classmethod
    def from_json(cls, value: object) -> "Message":
        """Read the output of `to_json`; raise a ValueError if it is something else."""
        try:
            assert isinstance(value, Mapping)
            incident, job, run = value["incident"], value["job"], value["run"]
            return cls(
                id=str(value["id"]),
                event=Event(value["type"]),
                at=_instant(value["at"]),
                channel=str(value["channel"]),
                incident=None if incident is None else _incident_of(incident),
                job=None if job is None else _job_of(job),
                run=None if run is None else _run_of(run),
                links={str(name): str(link) for name, link in value["links"].items()},
                items=tuple(map(_item_of, value.get("incidents", ()))),
                total=int(value.get("total", 0)),
            )
        except (AssertionError, KeyError, TypeError, AttributeError, ValueError):
            raise ValueError("the payload of this run is no message") from None


def _incident_json(incident: IncidentSummary) -> Json:
    return {
        "id": incident.id,
        "kind": str(incident.kind),
        "state": incident.state,
        "opened_at": rfc3339(incident.opened_at),
        "last_at": rfc3339(incident.last_at),
        "error": incident.error,
        "count": incident.count,
        "group_size": incident.group_size,
        "jobs": list(incident.jobs),
        "lane": incident.lane,
        "policy": incident.policy,
        "acknowledged_by": incident.acknowledged_by,
        "resolved_at": _shown(incident.resolved_at),
        "resolved_by": incident.resolved_by,
    }


def _item_of(value: Mapping[str, Any]) -> DigestItem:
    incident = {name: each for name, each in value.items() if name != "type"}
    return DigestItem(Event(value["type"]), _incident_of(incident))


def _incident_of(value: Mapping[str, Any]) -> IncidentSummary:
    return IncidentSummary(
        **{**value, "kind": IncidentKind(value["kind"]), "jobs": tuple(value["jobs"])}
        | {"opened_at": _instant(value["opened_at"]), "last_at": _instant(value["last_at"])}
        | {"resolved_at": parse_instant(value["resolved_at"])}
    )


def _job_json(job: JobSummary) -> Json:
    return {
        "id": job.id,
        "name": job.name,
        "schedule": job.schedule,
        "words": job.words,
        "timezone": job.timezone,
        "description": job.description,
        "tags": list(job.tags),
        "subject": job.subject,
        "next_at": _shown(job.next_at),
        "last_success_at": _shown(job.last_success_at),
    }


def _job_of(value: Mapping[str, Any]) -> JobSummary:
    instants = {name: parse_instant(value[name]) for name in ("next_at", "last_success_at")}
    return JobSummary(**{**value, "tags": tuple(value["tags"])} | instants)


def _run_json(run: RunSummary) -> Json:
    return {
        "id": run.id,
        "state": run.state,
        "reason": run.reason,
        "scheduled_at": _shown(run.scheduled_at),
        "attempt": run.attempt,
        "finished_at": _shown(run.finished_at),
        "error": run.error,
    }


def _run_of(value: Mapping[str, Any]) -> RunSummary:
    return RunSummary(**dict(value) | {name: parse_instant(value[name]) for name in ("scheduled_at", "finished_at")})


def _instant(value: object) -> datetime:
    instant = parse_instant(value)
    if instant is None:
        raise ValueError("not a date and time")
    return instant


def _shown(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)
