"""The fate of a scheduled time: how its run went, or that it was skipped; and how late runs began."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from hourbell.core.run.states import Kind, RunState


class Fate(StrEnum):
    SUCCEEDED = "succeeded"  # and began in time
    LATE = "late"  # succeeded, but began later than the job's `late_after` allows
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # it got no run
    RUNNING = "running"
    WAITING = "waiting"  # pending or retrying


_ON_TIME = frozenset({Kind.SCHEDULED, Kind.MANUAL})  # backfills and replays repeat the past on purpose
_FATES: Mapping[RunState, Fate] = {
    RunState.PENDING: Fate.WAITING,
    RunState.RETRYING: Fate.WAITING,
    RunState.RUNNING: Fate.RUNNING,
    RunState.SUCCEEDED: Fate.SUCCEEDED,
    RunState.FAILED: Fate.FAILED,
    RunState.CANCELLED: Fate.CANCELLED,
}


def is_late(kind: Kind, scheduled_at: datetime, started_at: datetime | None, late_after: timedelta | None) -> bool:
    """Check if a run began more than `late_after` after its scheduled time. Backfills and replays are never late."""
    if started_at is None or late_after is None or kind not in _ON_TIME:
        return False
    return started_at - scheduled_at > late_after


def fate_of(state: RunState, *, is_late: bool) -> Fate:
    """Return the fate of the scheduled time of a run. Only a success can be late; a failure takes precedence."""
    fate = _FATES[state]
    return Fate.LATE if is_late and fate is Fate.SUCCEEDED else fate


def lateness(kind: Kind, scheduled_at: datetime, ready_at: datetime, started_at: datetime | None) -> timedelta | None:
    """Return how long after its due time a run began. Backfills and replays are due at their ready time."""
    if started_at is None:
        return None
    return max(timedelta(0), started_at - (scheduled_at if kind in _ON_TIME else ready_at))
