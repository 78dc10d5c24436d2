"""Parameters of statements that both databases use, in order, and the small decisions behind them."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Job
from hourbell.core.run.notes import Notes
from hourbell.core.run.plan import Plan, Skip
from hourbell.core.run.settle import Failed, Outcome, Settlement, Succeeded
from hourbell.core.run.states import WAITING, RunState
from hourbell.core.schedule.preview import rfc3339
from hourbell.store.base import LeaseKey, SettledAttempt, Tzdata
from hourbell.store.engine.batch import RunRow
from hourbell.store.rows import OUTCOMES, Row, job_of, result_of

_NO_ANSWER = (None, None, None)


def serves(served: Collection[str], lane: str) -> bool:
    """Return True if a list of names and prefixes covers a lane."""
    return any(lane == each or (each.endswith("*") and lane.startswith(each[:-1])) for each in served)


def held(settled: SettledAttempt) -> LeaseKey:
    return LeaseKey(settled.settlement.run.id, settled.settlement.attempt)


def run_values(row: RunRow) -> tuple[Any, ...]:
    """Return the columns of a run except the ids: runs planned together often share them."""
    run = row.run
    return (
        row.job_version,
        run.kind,
        run.scheduled_at,
        run.local_at,
        run.ready_at,
        run.expires_at,
        run.rank,
        row.lane,
        row.exclusive,
        row.at_most_once,
        row.payload,
    )


def note_values(notes: Notes, now: datetime) -> tuple[Any, ...]:
    lines = [{"at": rfc3339(line.at), "text": line.text} for line in notes.log]
    return notes.run_id, notes.attempt, notes.fraction, notes.message, json.dumps(lines, ensure_ascii=False), now


def skip_values(job_id: UUID, skip: Skip) -> tuple[Any, ...]:
    return job_id, skip.first_at, skip.last_at, skip.count, skip.reason, skip.follows


def cursor_values(plan: Plan) -> tuple[Any, ...]:
    """Return the columns of a cursor except the job's id: jobs planned together often share them."""
    return plan.cursor_at, plan.next_at, plan.plan_at, plan.error, plan.job.definition.lane


def shared(rows: Iterable[tuple[Any, ...]]) -> tuple[list[int], list[tuple[Any, ...]]]:
    """Return each row's position among the distinct rows, counted from one, and the distinct rows."""
    positions: dict[tuple[Any, ...], int] = {}
    return [positions.setdefault(row, len(positions) + 1) for row in rows], list(positions)


def alike(rows: Iterable[tuple[tuple[Any, ...], Any]]) -> Iterable[tuple[tuple[Any, ...], list[Any]]]:
    """Group keys by equal values: return each distinct value with its keys."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for values, key in rows:
        found.setdefault(values, []).append(key)
    return found.items()


def settlement_values(settled: SettledAttempt) -> tuple[Any, ...]:
    """Return the run's columns, then the attempt's, which are null if nothing was sent."""
    settlement, node, started_at, _ = settled
    has_attempt = node is not None
    return (
        settlement.run.id,
        settlement.attempt,
        settlement.state,
        settlement.reason,
        settlement.ready_at,
        settlement.failures,
        settlement.crashes,
        result_of(settlement.outcome),
        settlement.at,
        has_attempt,
        node,
        started_at,
        OUTCOMES[type(settlement.outcome)] if has_attempt else None,
        error_of(settled),
        *_answer_values(settlement.outcome),
    )


def error_of(settled: SettledAttempt) -> str | None:
    outcome = settled.settlement.outcome
    return outcome.error if isinstance(outcome, Failed) else settled.error


def _answer_values(outcome: Outcome) -> tuple[int | None, str | None, str | None]:
    """Return the status code, the excerpt and the phases."""
    answer = outcome.answer if isinstance(outcome, (Succeeded, Failed)) else None
    if answer is None:
        return _NO_ANSWER
    return answer.status_code, answer.excerpt, json.dumps(dict(answer.phases)) if answer.phases else None


# The columns written for a plain success (the fast path): the run's id, the attempt, its start and end, the result, and
# of the response the status code, the excerpt and the phases.
Success = tuple[UUID, int, datetime | None, datetime, str | None, int | None, str | None, str | None]


def success_of(settled: SettledAttempt) -> Success | None:
    """Return the columns of a plain success; None for any other outcome, and for a success with further facts."""
    settlement, node, started_at, error = settled
    run, outcome = settlement.run, settlement.outcome
    if not isinstance(outcome, Succeeded) or node is None or error is not None:
        return None
    if outcome.result is None and outcome.answer is None:  # as most functions do
        return run.id, run.attempt, started_at, settlement.at, None, None, None, None
    return run.id, run.attempt, started_at, settlement.at, result_of(outcome), *_answer_values(outcome)


def with_cancels(settled: Sequence[SettledAttempt], cancelled: Collection[UUID]) -> list[SettledAttempt]:
    """Return the settlements; a run with a requested cancellation is not retried."""
    return [
        each._replace(settlement=each.settlement._replace(state=RunState.CANCELLED, reason=None, ready_at=None))
        if each.settlement.state in WAITING and each.settlement.run.id in cancelled
        else each
        for each in settled
    ]


def going_to_wait(settled: Sequence[SettledAttempt]) -> list[UUID]:
    """Return the runs that will be retried."""
    return [each.settlement.run.id for each in settled if each.settlement.state in WAITING]


def settled_lost(settlement: Settlement, node: UUID) -> SettledAttempt:
    """Settle an attempt whose node died. A run stores the start of its first attempt only."""
    run = settlement.run
    return SettledAttempt(settlement, node, run.started_at if run.attempt == 1 else None, "the lease ran out")


def late_values(settled: SettledAttempt) -> tuple[Any, ...]:
    return (*_fence(settled), settled.node, OUTCOMES[type(settled.settlement.outcome)])


def _fence(settled: SettledAttempt) -> tuple[UUID, int]:
    return settled.settlement.run.id, settled.settlement.attempt


def standing(version: str, newest: str, planned_by: str | None) -> Tzdata:
    """Compare a node's time-zone data with the newest that the database has seen and with that of planned jobs."""
    if version != newest:
        return Tzdata.OUTDATED
    return Tzdata.CURRENT if planned_by == version else Tzdata.NEWER


def refreshed(
    rows: Iterable[Row],
    local_times: Mapping[UUID, datetime],
    decide: Callable[[Job, datetime | None], Plan | None],
) -> list[Plan]:
    """Return the changes to write for jobs that newer time-zone data moves."""
    plans = (decide(job, local_times.get(job.id)) for job in map(job_of, rows))
    return [plan for plan in plans if plan is not None]
