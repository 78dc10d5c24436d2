"""The states of a run and all transitions between them. A database trigger enforces the same table."""

from collections.abc import Mapping
from enum import StrEnum


class RunState(StrEnum):
    PENDING = "pending"  # waits for its time, a slot or a capable node
    RUNNING = "running"  # a node holds a lease on it
    RETRYING = "retrying"  # waits for its next attempt
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """The reason a run failed."""

    PERMANENT = "permanent"  # the target reported a permanent error
    EXHAUSTED = "exhausted"  # no attempts left
    EXPIRED = "expired"  # older than its job's max_age
    POISON = "poison"  # its nodes died while running it
    LOST = "lost"  # at_most_once, and its effect is unknown


class Kind(StrEnum):
    """The reason a run exists."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"
    REPLAY = "replay"


class SkipReason(StrEnum):
    """The reason due instants got no run."""

    MISSED = "missed"
    OVERLAP = "overlap"
    PAUSED = "paused"
    EDITED = "edited"
    WINDOW = "window"
    TZDATA = "tzdata"


MOVES: Mapping[RunState, frozenset[RunState]] = {
    RunState.PENDING: frozenset({RunState.RUNNING, RunState.FAILED, RunState.CANCELLED}),
    RunState.RUNNING: frozenset(
        {RunState.PENDING, RunState.RETRYING, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}
    ),
    RunState.RETRYING: frozenset({RunState.RUNNING, RunState.FAILED, RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}

WAITING = frozenset({RunState.PENDING, RunState.RETRYING})
UNFINISHED = WAITING | {RunState.RUNNING}
ENDS = frozenset(state for state, following in MOVES.items() if not following)
