"""Rows of the alert tables to values and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from hourbell.core.alerts.channel import StoredChannel
from hourbell.core.alerts.incident import Incident
from hourbell.core.alerts.kinds import IncidentKind, IncidentState
from hourbell.core.alerts.message import JobSummary, RunSummary
from hourbell.core.alerts.policy import AlertPolicy, parse_policy
from hourbell.core.schedule import Schedule
from hourbell.core.values.field_errors import BodyError
from hourbell.store.rows import UNREADABLE, Row

_INCIDENT = tuple(field.name for field in fields(Incident))
Policies = Mapping[str, AlertPolicy]


def incident_of(row: Row) -> Incident:
    values = {name: row[name] for name in _INCIDENT}
    values |= {"kind": IncidentKind(row["kind"]), "state": IncidentState(row["state"])}
    return Incident(**values)


def incident_values(incident: Incident) -> dict[str, Any]:
    return asdict(incident) | {"kind": incident.kind.value, "state": incident.state.value}


def update_values(incident: Incident) -> dict[str, Any]:
    """Return what an update of an incident writes, and the version that it expects."""
    fixed = ("key", "kind", "opened_at", "job_id", "lane", "opened_before")
    return {name: value for name, value in incident_values(incident).items() if name not in fixed}


def policy_of(row: Row) -> AlertPolicy | None:
    """Return the policy of a row; None if somebody wrote one that makes no sense, so that the default applies."""
    try:
        return parse_policy(json.loads(row["definition"]))
    except (BodyError, *UNREADABLE):
        return None


def policies_of(rows: list[Row]) -> dict[str, AlertPolicy]:
    found = {row["name"]: policy_of(row) for row in rows}
    return {name: policy for name, policy in found.items() if policy is not None}


def channel_of(row: Row) -> StoredChannel:
    try:
        config = json.loads(row["config"])
    except UNREADABLE:
        config = {}
    return StoredChannel(row["name"], row["type"], config, row["origin"], row["job_id"])


def job_summary(row: Row) -> JobSummary:
    """Return what messages say of a job, from a row of its facts."""
    return JobSummary(
        id=str(row["id"]),
        name=row["name"],
        schedule=row["schedule"],
        words=_words(row),
        timezone=row["timezone"],
        description=row["description"],
        tags=tuple(tag for tag in row["tags"] if isinstance(tag, str)),
        subject=row["subject"],
        next_at=row["next_at"],
        last_success_at=row["last_success_at"],
    )


def run_summary(row: Row) -> RunSummary:
    values = {name: row[name] for name in ("state", "reason", "scheduled_at", "attempt", "finished_at", "error")}
    return RunSummary(id=str(row["id"]), **values)


def _words(row: Row) -> str:
    try:
        return Schedule.parse(row["schedule"], row["timezone"], row["dst"], row["name"]).describe()
    except ValueError:
        return ""
