"""Settling on SQLite: write outcomes whose attempt still owns its run, and update the jobs' statistics."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.run.states import ENDS, RunState
from hourbell.store.base import LeaseKey, SettledAttempt
from hourbell.store.engine.records import (
    Success,
    error_of,
    going_to_wait,
    held,
    late_values,
    settlement_values,
    success_of,
    with_cancels,
)
from hourbell.store.sql.queries import load_queries
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.values import array, microseconds

SQL = load_queries("hourbell.store.sqlite", "engine.sql")
_SILENT = [None] * 4


@dataclass(slots=True)
class _Tally:
    """The changes to a job's statistics: counts of runs that ended, and errors of runs that are retried."""

    run_id: UUID
    at: datetime
    state: RunState | None  # of the last run that ended; None if none ended
    error: str | None = None
    success_at: datetime | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    failures: list[tuple[datetime, UUID]] = field(default_factory=list)

    def values(self, job_id: UUID) -> tuple[Any, ...]:
        counts = (self.succeeded, self.failed, self.cancelled)
        return job_id, self.run_id, self.at, self.state, self.error, self.success_at, *counts, *self._streak()

    def _streak(self) -> tuple[Any, ...]:
        """Return how many runs failed after the last success, since when, and the last that failed; nothing if none."""
        if not self.failures:
            return ()
        since = [at for at, _ in self.failures if self.success_at is None or at > self.success_at]
        return len(since), min(since, default=None), max(self.failures)[1]


def write_settlements(session: Session, settled: Sequence[SettledAttempt]) -> set[LeaseKey]:
    """Write settlements with their attempts; return those that were not written."""
    if waiting := going_to_wait(settled):
        settled = with_cancels(settled, {row["run_id"] for row in session.fetch(SQL["cancels_of"], waiting)})
    rows = array(map(settlement_values, settled))
    saved = {LeaseKey(row["id"], row["attempt"]) for row in session.fetch(SQL["settle"], rows)}
    unwritten = {held(each) for each in settled} - saved
    ended = [each for each in settled if held(each) in saved]
    if ended:
        if len(ended) < len(settled):
            rows = array(map(settlement_values, ended))
        session.execute(SQL["insert_attempts"], rows)
        session.execute(SQL["count_ended"], array(_tallies(ended)))
    return unwritten


@dataclass(frozen=True, slots=True)
class Successes:
    """Serialized statement parameters for settlements that are all successes of one node (the common case)."""

    count: int
    node: UUID
    rows: str
    tallies: str


def successes_of(settled: Sequence[SettledAttempt]) -> Successes | None:
    """Serialize settlements; return None unless all are successes of one node."""
    successes = [success for each in settled if (success := success_of(each)) is not None]
    nodes = {id(each.node): each.node for each in settled}
    if len(successes) < len(settled) or len(nodes) != 1:
        return None
    [node] = nodes.values()
    assert node is not None  # true of every success
    rows = json.dumps(list(map(_plain, successes)), ensure_ascii=False)
    return Successes(len(successes), node, rows, array(_tallies(settled)))


class _Superseded(Exception):
    pass


def write_successes(session: Session, successes: Successes) -> bool:
    """Write successes if every attempt still owns its run; else write nothing and return False.

    The number of changed rows is known at once. To learn which rows changed, each would have to be fetched.
    """
    try:
        with session.savepoint():
            if session.execute(SQL["settle_succeeded"], successes.rows) < successes.count:
                raise _Superseded
    except _Superseded:
        return False
    session.execute(SQL["insert_successful_attempts"], successes.rows, successes.node)
    session.execute(SQL["count_ended"], successes.tallies)
    return True


def _plain(success: Success) -> list[Any]:
    """Convert a success to JSON values; its result and response come last, and are omitted if all are null."""
    run_id, attempt, begun_at, at, *rest = success
    row = [run_id.hex, attempt, None if begun_at is None else microseconds(begun_at), microseconds(at)]
    return row if rest == _SILENT else row + rest


def note_late(session: Session, left: Sequence[SettledAttempt]) -> set[LeaseKey]:
    """Store late outcomes; return those that were written before, by a commit whose response was lost."""
    rows = array(map(late_values, left))
    session.execute(SQL["note_late_outcomes"], rows)
    return {LeaseKey(row["run_id"], row["attempt"]) for row in session.fetch(SQL["late_outcomes"], rows)}


def count_cancelled(session: Session, jobs: Iterable[UUID]) -> None:
    """Count cancelled waiting runs: `jobs` names the job of each run."""
    counts = Counter(jobs)
    session.execute(SQL["count_ended"], [(job, *[None] * 5, 0, 0, counts[job]) for job in sorted(counts)])


def count_expired(session: Session, runs: Iterable[tuple[UUID, UUID]], now: datetime) -> None:
    """Count expired runs, given as pairs of run id and job id."""
    tallies: dict[UUID, _Tally] = {}
    for run_id, job_id in runs:
        tally = tallies.setdefault(job_id, _Tally(run_id, now, RunState.FAILED, "older than its max_age"))
        tally.failed += 1
        tally.failures.append((now, run_id))
    session.execute(SQL["count_ended"], [tallies[job].values(job) for job in sorted(tallies)])


def _tallies(settled: Iterable[SettledAttempt]) -> list[tuple[Any, ...]]:
    """Return the changes to the statistics of each job."""
    tallies: dict[UUID, _Tally] = {}
    for each in settled:
        settlement = each.settlement
        state, at, run = settlement.state, settlement.at, settlement.run
        if state not in ENDS:
            if state is RunState.RETRYING and (error := error_of(each)) is not None:
                retried = tallies.setdefault(run.job_id, _Tally(run.id, at, None))
                retried.error = error
                if at >= retried.at:
                    retried.run_id, retried.at = run.id, at
            continue
        tally = tallies.get(run.job_id)
        if tally is None:
            tally = tallies[run.job_id] = _Tally(run.id, at, state)
        elif at >= tally.at:
            tally.run_id, tally.at, tally.state = run.id, at, state
        elif tally.state is None:
            tally.state = state
        if state is RunState.SUCCEEDED:
            tally.succeeded += 1
            tally.success_at = at if tally.success_at is None else max(at, tally.success_at)
        elif state is RunState.FAILED:
            tally.failed += 1
            tally.error = error_of(each)
            tally.failures.append((at, run.id))
        else:
            tally.cancelled += 1
    return [tallies[job].values(job) for job in sorted(tallies)]
