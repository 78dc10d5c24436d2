"""Planning on SQLite: due jobs are read, decided and written in one transaction."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from uuid import UUID

import apsw

from hourbell.core.job import Definition, Job
from hourbell.core.plan import Plan
from hourbell.core.target import OWN_DATABASE, TargetError
from hourbell.store.base import Planned, Refreshed, Wake
from hourbell.store.queries import load_queries
from hourbell.store.records import alike, cursor_values, refreshed, run_values, skip_values
from hourbell.store.rows import (
    Batch,
    Broken,
    Due,
    Progress,
    Row,
    RunRow,
    progress_by_job,
    without_cursor,
)
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.settling import count_cancelled

SQL = load_queries("hourbell.store.sqlite", "engine.sql")
_OWN_FUNCTIONS = f"sql:{OWN_DATABASE}"  # a lane
# What a statement says about the data it was given, as opposed to the state of the database.
_REFUSED = (apsw.ConstraintError, apsw.MismatchError, apsw.RangeError, apsw.TooBigError, OverflowError, UnicodeError)


def refuse_functions(definition: Definition) -> Definition:
    """The definition, or a TargetError if it wants a function of this database."""
    if definition.lane == _OWN_FUNCTIONS:
        raise TargetError(
            [
                "SQLite has no functions to call; name a PostgreSQL database of HOURBELL_SQL_DATABASES as the target's "
                "database, or keep the jobs in PostgreSQL"
            ]
        )
    return definition


def _callable(job: Job) -> Job:
    refuse_functions(job.definition)
    return job


def next_plan_at(session: Session) -> datetime | None:
    row = session.fetch_one(SQL["next_plan_at"])
    return None if row is None else row["plan_at"]


def progress_of(session: Session, rows: Sequence[Row]) -> dict[UUID, Progress]:
    """What the runs and skips of these jobs say about them."""
    unfinished = session.fetch(SQL["unfinished_of_jobs"], [row["id"] for row in rows])
    unadopted = without_cursor(rows)
    return progress_by_job(unfinished, session.fetch(SQL["newest_of_jobs"], unadopted) if unadopted else [])


def _whole_of(session: Session, rows: Sequence[Row]) -> dict[UUID, Row]:
    """The whole rows of the jobs that are needed whole."""
    ids = [row["id"] for row in rows if row["is_needed_whole"]]
    return {row["id"]: row for row in session.fetch(SQL["whole_jobs"], ids)} if ids else {}


def plan_due(session: Session, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
    rows = session.fetch(SQL["due_jobs"], now, limit)
    due = Due.of(rows, _whole_of(session, rows), progress_of(session, rows))
    plans, broken = due.decided(now, lambda job, at: decide(_callable(job), at))
    written, lanes, refused = _write_plans(session, plans, due.unsaved, now)
    broken += refused
    if broken:
        session.execute(SQL["set_job_errors"], [(each.id, each.error) for each in broken])
    batch = Batch(tuple(written))
    return Planned(
        jobs=len(rows),
        runs=lanes.total(),
        skipped=batch.skipped,
        errors=batch.errors + tuple((each.name, each.error) for each in broken),
        lanes=frozenset(lanes),
        next_plan_at=now if len(rows) == limit else next_plan_at(session),
    )


def refresh(
    session: Session,
    version: str,
    now: datetime,
    limit: int,
    decide: Callable[[Job, datetime | None], Plan | None],
    *,
    after: UUID,
) -> Refreshed:
    rows = session.fetch(SQL["jobs_to_refresh"], after, limit)
    newest = session.fetch(SQL["newest_local_times"], [row["id"] for row in rows])
    plans = refreshed(rows, {row["id"]: row["local_at"] for row in newest if row["local_at"]}, decide)
    unsaved = {row["id"] for row in rows if row["saved_version"] != row["version"]}
    _write_plans(session, plans, unsaved, now)
    if len(rows) < limit:
        session.execute(SQL["set_planned_by_tzdata"], version)
    moved = tuple((plan.job.definition.name, plan.job.next_at, plan.next_at) for plan in plans)
    return Refreshed(moved, rows[-1]["id"] if len(rows) == limit else None)


def _write_plans(
    session: Session, plans: list[Plan], unsaved: Collection[UUID], now: datetime
) -> tuple[list[Plan], Counter[str], list[Broken]]:
    """Write plans together; if a statement fails, in halves, until the job whose data it refuses stands alone.

    What was written, the new runs of each lane, and the jobs that were refused.
    """
    if not plans:
        return [], Counter(), []
    try:
        with session.savepoint():
            return plans, write_batch(session, Batch(tuple(plans)), unsaved, now, by="engine"), []
    except _REFUSED as error:
        if len(plans) == 1:
            return [], Counter(), [Broken.of(plans[0].job.id, plans[0].job.definition.name, error)]
    middle = len(plans) // 2
    first = _write_plans(session, plans[:middle], unsaved, now)
    second = _write_plans(session, plans[middle:], unsaved, now)
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def write_batch(session: Session, batch: Batch, unsaved: Collection[UUID], now: datetime, *, by: str) -> Counter[str]:
    """Write versions, runs, skips and cursors; how many runs are new in each lane."""
    versions, runs = batch.versions(unsaved), batch.runs
    if versions:
        session.execute(SQL["insert_versions"], versions, now, by)
    if superseding := [plan.job.id for plan in batch.superseding]:
        session.execute(SQL["ask_running_of_jobs_to_stop"], superseding, now)
        cancel_waiting(session, superseding, now, every_kind=False, but=[row.run.id for row in runs])
    lanes = insert_runs(session, runs, now)
    for job_id, skip in batch.skips:
        values = skip_values(job_id, skip)
        if not session.execute(SQL["extend_skip"], *values):
            session.execute(SQL["insert_skip"], *values[:5])
    for values, jobs in alike((cursor_values(plan), plan.job.id.hex) for plan in batch.plans):
        session.execute(SQL["save_cursors"], jobs, *values)
    if resumed := [plan.job.id for plan in batch.plans if plan.resumes]:
        session.execute(SQL["end_pauses"], resumed)
    return lanes


def insert_runs(session: Session, rows: Sequence[RunRow], now: datetime) -> Counter[str]:
    """Insert runs that do not exist yet; how many of each lane."""
    lanes: Counter[str] = Counter()
    for values, ids in alike((run_values(row), (row.run.id.hex, row.job_id.hex)) for row in rows):
        made = session.execute(SQL["insert_runs"], ids, *values, now)
        if made:
            lanes[values[7]] += made
    if lanes:
        session.wakes.add(Wake.RUNS)
    return lanes


def cancel_waiting(
    session: Session, jobs: list[UUID], now: datetime, *, every_kind: bool, but: Sequence[UUID] = ()
) -> None:
    """Cancel the waiting runs of jobs, and count them."""
    ended = session.fetch(SQL["cancel_waiting_of_jobs"], jobs, now, every_kind, but)
    count_cancelled(session, [row["job_id"] for row in ended])
