"""Writes of planning on SQLite. Parameters are serialized first, because the writer thread is the bottleneck."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan
from hourbell.store.base import Wake
from hourbell.store.engine.batch import Batch, RunRow
from hourbell.store.engine.records import alike, cursor_values, run_values, skip_values
from hourbell.store.sql.queries import load_queries
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.settling import count_cancelled
from hourbell.store.sqlite.values import array, bound, number_of

SQL = load_queries("hourbell.store.sqlite", "engine.sql")


def write_batch(
    session: Session, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime, *, by: str
) -> Counter[str]:
    """Write versions, runs, skips and cursors; return the number of new runs by lane."""
    return StatementParams.of(batch, unsaved, now).write(session, by=by)


class Changed(Exception):
    """Jobs have changed since their plans were made."""


@dataclass(frozen=True, slots=True)
class StatementParams:
    """The statement parameters of a batch, serialized as far as possible."""

    batch: Batch
    now: datetime
    versions: list[tuple[UUID, int, str, datetime]]
    unasked: list[tuple[UUID, int, str, str, str]]
    runs: "list[_Inserted]"
    cursors: "list[_Advanced]"

    @classmethod
    def of(cls, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime) -> "StatementParams":
        versions = batch.versions(unsaved, now)
        unasked = batch.unasked(unsaved) if versions else []
        return cls(batch, now, versions, unasked, _inserted(batch.runs, now), _advanced(batch.current))

    def write(self, session: Session, *, by: str, if_unchanged: bool = False) -> Counter[str]:
        """Write it; return the new runs by lane. With `if_unchanged`, raise `Changed` if a job has changed since."""
        if self.versions:
            session.execute(SQL["insert_versions"], self.versions, by)
            session.execute(SQL["audit_unasked"], self.unasked, self.now)
        if superseding := [plan.job.id for plan in self.batch.superseding]:
            new = [run.id for plan in self.batch.plans for run in plan.runs]
            session.execute(SQL["ask_running_of_jobs_to_stop"], superseding, self.now)
            cancel_waiting(session, superseding, self.now, every_kind=False, but=new)
        lanes = _insert(session, self.runs)
        for job_id, skip in self.batch.skips:
            values = skip_values(job_id, skip)
            if not session.execute(SQL["extend_skip"], *values):
                session.execute(SQL["insert_skip"], *values[:5])
        for jobs, number, values in self.cursors:
            if session.execute(SQL["save_cursors"], jobs, *values, if_unchanged) < number and if_unchanged:
                raise Changed
        for change_id, job_id, cursor_at, plan_at, is_done in self.batch.superseded:
            if is_done:
                session.execute(SQL["delete_change"], change_id)
            session.execute(SQL["save_superseded"], job_id, cursor_at, plan_at)
        if resumed := [plan.job.id for plan in self.batch.plans if plan.resumes]:
            session.execute(SQL["end_pauses"], resumed)
        return lanes


class _Inserted(NamedTuple):
    """Runs that differ only in their ids and jobs."""

    ids: str  # JSON: for each, the run id and the job id in one text
    lane: str
    values: tuple[Any, ...]


class _Advanced(NamedTuple):
    """Jobs that get the same cursor and plan time."""

    jobs: str  # JSON: for each, its id, then the version, plan time and cursor that it was planned from
    number: int
    values: tuple[Any, ...]


def _inserted(rows: Iterable[RunRow], now: datetime) -> list[_Inserted]:
    groups = alike((run_values(row), row.run.id.hex + row.job_id.hex) for row in rows)
    return [_Inserted(array(ids), values[7], tuple(map(bound, (*values, now)))) for values, ids in groups]


def _advanced(plans: Iterable[Plan]) -> list[_Advanced]:
    groups = alike((cursor_values(plan), _as_read(plan.job)) for plan in plans)
    return [_Advanced(array(jobs), len(jobs), tuple(map(bound, values))) for values, jobs in groups]


def _as_read(job: Job) -> str:
    cursor_at = "" if job.cursor_at is None else number_of(job.cursor_at)
    plan_at = "" if job.plan_at is None else number_of(job.plan_at)
    return f"{job.id.hex}{job.version} {plan_at} {cursor_at}"


def insert_runs(session: Session, rows: Iterable[RunRow], now: datetime) -> Counter[str]:
    """Insert runs that do not exist yet; return their number by lane."""
    return _insert(session, _inserted(rows, now))


def _insert(session: Session, runs: Iterable[_Inserted]) -> Counter[str]:
    lanes: Counter[str] = Counter()
    for ids, lane, values in runs:
        made = session.execute(SQL["insert_runs"], ids, *values)
        if made:
            lanes[lane] += made
    if lanes:
        session.wakes.add(Wake.RUNS)
    return lanes


def cancel_waiting(
    session: Session, jobs: list[UUID], now: datetime, *, every_kind: bool, but: Sequence[UUID] = ()
) -> None:
    """Cancel the waiting runs of jobs, and add them to the statistics."""
    ended = session.fetch(SQL["cancel_waiting_of_jobs"], jobs, now, every_kind, but)
    count_cancelled(session, [row["job_id"] for row in ended])
