"""Records of runs, attempts and skips for assertions: comparable values; times of runs are UTC, cut to milliseconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.states import Kind
from hourbell.store.lists.query import AttemptView, RunView, SkipView
from hourbell.testing.notes import ProgressRecord, Said
from hourbell.testing.times import cut, local_text, zone_of


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    number: int
    started_at: datetime | None
    finished_at: datetime
    outcome: str
    error: str | None
    status_code: int | None
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RunRecord:
    """A run. `local` is its scheduled time in the job's time zone; `lateness` is that of its first attempt.

    `log` and `progress` are those of its last attempt, also while it is running.
    """

    job: str
    local: str
    state: str
    reason: str | None
    kind: str
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness: timedelta | None
    attempts: tuple[AttemptRecord, ...]
    payload: object
    result: object
    error: str | None
    id: UUID
    log: tuple[str, ...] = ()
    progress: ProgressRecord | None = None

    def __repr__(self) -> str:
        """Return a short text, so that a failed assertion about a list is readable."""
        attempts = "1 attempt" if len(self.attempts) == 1 else f"{len(self.attempts)} attempts"
        parts = [f"{self.job} {self.local} {self.state}", attempts, f"late {self.lateness}"]
        parts += [self.error.strip().splitlines()[-1]] if self.error else []
        return f"<run {', '.join(parts)}>"


@dataclass(frozen=True, slots=True)
class SkipRecord:
    """A range of scheduled times that got no run: the first and the last, their number, and the reason."""

    first_at: datetime
    last_at: datetime
    count: int
    reason: str


def run_record(run: RunView, attempts: Sequence[AttemptView], said: Mapping[int, Said]) -> RunRecord:
    tried = tuple(_attempt_record(attempt, said.get(attempt.number, Said())) for attempt in attempts)
    definition, last_said = run.definition, said.get(run.attempt, Said())
    scheduled_at = cut(run.scheduled_at)
    started_at = tried[0].started_at if tried else _cut(run.started_at)
    return RunRecord(
        job=run.job_name or "",
        local=local_text(
            # A manual run is scheduled for the moment of the trigger.
            scheduled_at.replace(microsecond=0) if run.kind is Kind.MANUAL else scheduled_at,
            zone_of("UTC" if definition is None else definition.timezone),
        ),
        state=run.state.value,
        reason=run.reason,
        kind=run.kind.value,
        scheduled_at=scheduled_at,
        started_at=started_at,
        finished_at=_cut(run.finished_at),
        lateness=None if started_at is None else started_at - scheduled_at,
        attempts=tried,
        payload=run.payload if run.has_payload or definition is None else definition.payload,
        result=run.result,
        error=tried[-1].error if tried else None,
        id=run.id,
        log=last_said.log,
        progress=last_said.progress,
    )


def skip_record(skip: SkipView) -> SkipRecord:
    return SkipRecord(skip.first_at, skip.last_at, skip.count, skip.reason.value)


def _attempt_record(attempt: AttemptView, said: Said) -> AttemptRecord:
    return AttemptRecord(
        number=attempt.number,
        started_at=_cut(attempt.started_at),
        finished_at=cut(attempt.finished_at),
        outcome=attempt.outcome,
        error=attempt.error,
        status_code=attempt.status_code,
        log=said.log,
    )


def _cut(at: datetime | None) -> datetime | None:
    return None if at is None else cut(at)
