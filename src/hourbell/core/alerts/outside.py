"""Watching Hourbell from outside: when to tell whom that no node is ready, and that one is again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid5

from hourbell.core.alerts.incident import incident_id
from hourbell.core.alerts.kinds import Event, IncidentKind, IncidentState
from hourbell.core.alerts.message import IncidentSummary, Message
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.readers import parse_instant

OUTSIDE = "hourbell watch"  # stands for the policy of an incident that no node knows


@dataclass(frozen=True, slots=True)
class Silence:
    """No node is ready. `since` is when that was first seen, `why` what each node answered last."""

    since: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Notified:
    """The last notification of one receiver: of which silence, when, and how many there were."""

    silence: Silence
    at: datetime
    steps: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "since": rfc3339(self.silence.since),
            "why": self.silence.why,
            "at": rfc3339(self.at),
            "steps": self.steps,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Notified":
        """Read the output of `to_json`; raise a ValueError if it is something else."""
        since, at = parse_instant(value.get("since")), parse_instant(value.get("at"))
        if since is None or at is None:
            raise ValueError("no times")
        return cls(Silence(since, str(value.get("why", ""))), at, int(value.get("steps", 1)))


def due_event(
    silence: Silence | None, notified: Notified | None, now: datetime, *, after: timedelta, repeat: timedelta | None
) -> Event | None:
    """Decide what to tell a receiver now; None for nothing. What could not be delivered is due again next time."""
    if silence is None:
        return None if notified is None else Event.RESOLVED
    if notified is None:
        return Event.OPENED if now - silence.since >= after else None
    return Event.REPEATED if repeat is not None and now - notified.at >= repeat else None


def outside_message(
    event: Event, silence: Silence | None, notified: Notified | None, channel: str, now: datetime
) -> Message:
    """Build the message of a due event. Its id is the same each time it is tried."""
    known = silence or (notified.silence if notified else None)
    assert known is not None  # an event is about a silence
    opened_at = notified.silence.since if notified else known.since
    incident = incident_id(OUTSIDE, opened_at)
    is_over = event is Event.RESOLVED
    return Message(
        id=str(uuid5(incident, f"{channel}:{notified.steps if notified else 0}")),
        event=event,
        at=now,
        channel=channel,
        incident=IncidentSummary(
            id=str(incident),
            kind=IncidentKind.SCHEDULER_SILENT,
            state=str(IncidentState.RESOLVED if is_over else IncidentState.OPEN),
            opened_at=opened_at,
            last_at=now,
            error=known.why,
            policy=OUTSIDE,
            resolved_at=now if is_over else None,
        ),
    )
