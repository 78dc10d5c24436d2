"""The states of an incident with all transitions between them, and the kinds of incidents."""

from collections.abc import Mapping
from enum import StrEnum


class IncidentKind(StrEnum):
    """Kinds of incidents. The first eight can be selected in a policy; the others concern Hourbell itself."""

    FAILED = "failed"  # runs of a job ended failed
    MISSED = "missed"  # scheduled times got no run, because nobody planned them in time
    LATE = "late"  # a run has not begun `late_after` after its scheduled time
    NO_SUCCESS = "no_success"  # a job had no success for a span
    LOSING_RUNS = "losing_runs"  # more than a share of a job's scheduled times was skipped because of overlap
    SLOW = "slow"  # a run takes longer than a limit
    UNSERVED = "unserved"  # runs wait in a lane that no node serves
    PAUSED_TOO_LONG = "paused_too_long"
    CHANNEL_FAILED = "channel_failed"  # a channel cannot deliver
    SCHEDULER_SILENT = "scheduler_silent"  # a node, or all planning, has gone silent
    RECOVERY = "recovery"  # many runs are late together, for example after an outage


class IncidentState(StrEnum):
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # somebody takes care of it: no repeats, no escalation
    RESOLVED = "resolved"


class Event(StrEnum):
    """The reason for a notification."""

    OPENED = "incident.opened"
    FLAPPING = "incident.flapping"  # it came back within a day; further changes wait for a digest
    REPEATED = "incident.repeated"
    ESCALATED = "incident.escalated"
    DIGEST = "incident.digest"  # once a day while it flaps
    RESOLVED = "incident.resolved"
    QUIET_DIGEST = "incidents.digest"  # at the end of quiet hours: everything that waited for it
    TEST = "channel.test"


MOVES: Mapping[IncidentState, frozenset[IncidentState]] = {
    IncidentState.OPEN: frozenset({IncidentState.ACKNOWLEDGED, IncidentState.RESOLVED}),
    IncidentState.ACKNOWLEDGED: frozenset({IncidentState.RESOLVED}),
    IncidentState.RESOLVED: frozenset(),
}

# Sent in quiet hours, too: while a node is silent or nobody plans, nothing else may be noticed.
URGENT_KINDS = frozenset({IncidentKind.SCHEDULER_SILENT})

JOB_KINDS = frozenset(
    {
        IncidentKind.FAILED,
        IncidentKind.MISSED,
        IncidentKind.LATE,
        IncidentKind.NO_SUCCESS,
        IncidentKind.LOSING_RUNS,
        IncidentKind.SLOW,
        IncidentKind.UNSERVED,
        IncidentKind.PAUSED_TOO_LONG,
    }
)
