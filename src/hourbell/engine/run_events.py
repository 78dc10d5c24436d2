"""Events of runs for callbacks in the process that executes them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, get_args
from uuid import UUID

from hourbell.core.run.run import Run
from hourbell.core.run.settle import Settlement
from hourbell.core.run.states import Kind, Reason, RunState

EventName = Literal["run_started", "run_succeeded", "run_failed", "run_cancelled", "attempt_failed"]
EVENT_NAMES: tuple[EventName, ...] = get_args(EventName)
_BY_STATE: dict[RunState, EventName] = {
    RunState.SUCCEEDED: "run_succeeded",
    RunState.FAILED: "run_failed",
    RunState.CANCELLED: "run_cancelled",
}


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of a run. `error` is that of the attempt, `ready_at` the time of the next one after `attempt_failed`."""

    name: EventName
    at: datetime
    job: str
    job_id: UUID
    run_id: UUID
    attempt: int
    kind: Kind
    scheduled_at: datetime
    reason: Reason | None = None
    error: str | None = None
    ready_at: datetime | None = None


class RunListener(Protocol):
    """Receives events on the event loop of the engine; it returns at once and never raises."""

    @property
    def is_listening(self) -> bool: ...
    def wants(self, name: EventName) -> bool: ...
    def notify(self, event: RunEvent) -> None: ...


def name_of(settlement: Settlement) -> EventName | None:
    """Return the event of a settlement; None if the run only returned to the queue."""
    if settlement.state is RunState.RETRYING and getattr(settlement.outcome, "error", None) is not None:
        return "attempt_failed"
    return _BY_STATE.get(settlement.state)


def settled_event(name: EventName, settlement: Settlement, job: str) -> RunEvent:
    error = getattr(settlement.outcome, "error", None)
    ready_at = settlement.ready_at if name == "attempt_failed" else None
    return _event(name, settlement.run, job, settlement.at, settlement.reason, error, ready_at)


def started_event(run: Run, job: str, now: datetime) -> RunEvent:
    return _event("run_started", run, job, now)


def _event(
    name: EventName,
    run: Run,
    job: str,
    at: datetime,
    reason: Reason | None = None,
    error: str | None = None,
    ready_at: datetime | None = None,
) -> RunEvent:
    return RunEvent(name, at, job, run.job_id, run.id, run.attempt, run.kind, run.scheduled_at, reason, error, ready_at)
