"""Planning on SQLite: read, decide and write due jobs in one transaction."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import apsw

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import OWN_DATABASE, TargetError
from hourbell.core.run.plan import Plan
from hourbell.core.values.field_errors import FieldError
from hourbell.core.values.ids import uuid_of
from hourbell.store.base import Planned, Refreshed
from hourbell.store.engine.batch import Batch
from hourbell.store.engine.due import Broken, Due, change_errors, job_errors
from hourbell.store.engine.records import refreshed
from hourbell.store.rows import Progress, Row, progress_by_job, without_cursor
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.values import instant_of
from hourbell.store.sqlite.write_params import SQL, write_batch

_NONE = "[]"
_OWN_FUNCTIONS = f"sql:{OWN_DATABASE}"  # a lane
# Errors that are caused by the data of a statement, not by the state of the database.
REFUSED = (apsw.ConstraintError, apsw.MismatchError, apsw.RangeError, apsw.TooBigError, OverflowError, UnicodeError)


def refuse_functions(definition: Definition) -> Definition:
    """Return the definition; raise TargetError if it calls a function of this database."""
    if definition.lane == _OWN_FUNCTIONS:
        message = "SQLite has no functions to call"
        hint = "name a PostgreSQL database of HOURBELL_SQL_DATABASES as the target's database"
        raise TargetError([FieldError("/database", message, f"{hint}, or keep the jobs in PostgreSQL")])
    return definition


def _callable(job: Job) -> Job:
    if job.error is None:
        refuse_functions(job.definition)
    return job


def next_plan_at(session: Session) -> datetime | None:
    row = session.fetch_one(SQL["next_plan_at"])
    return None if row is None else row["plan_at"]


def progress_of(session: Session, rows: Sequence[Row]) -> dict[UUID, Progress]:
    """Return the progress of these jobs, from their runs and skips."""
    unfinished = session.fetch(SQL["unfinished_of_jobs"], [row["id"] for row in rows])
    unadopted = without_cursor(rows)
    return progress_by_job(unfinished, session.fetch(SQL["newest_of_jobs"], unadopted) if unadopted else [])


@dataclass(frozen=True, slots=True)
class DueCursor:
    """A position in the order of due jobs."""

    plan_at: int  # microseconds
    job_id: bytes

    @classmethod
    def of(cls, row: Sequence[Any]) -> "DueCursor":
        return cls(row[5], bytes.fromhex(row[0]))


FIRST = DueCursor(-(2**63), b"")


@dataclass(frozen=True, slots=True)
class DueRows:
    """Due jobs as the statements return them."""

    count: int
    jobs: str  # JSON
    whole: list[Row]
    changes: list[Row]
    unfinished: list[Row]
    newest: list[Row]

    def rows(self) -> list[list[Any]]:
        """Return the jobs, each as a list of the statement's columns."""
        rows: list[list[Any]] = json.loads(self.jobs)
        return rows

    def due(self, rows: list[list[Any]]) -> Due:
        return Due.of(
            map(_due_row, rows),
            {row["id"]: row for row in self.whole},
            {row["job_id"]: row for row in self.changes},
            progress_by_job(self.unfinished, self.newest),
        )


def find_due(session: Session, now: datetime, limit: int, after: DueCursor = FIRST) -> DueRows:
    """Return the due jobs after a position, with the rows that planning needs."""
    row = session.fetch_one(SQL["due_jobs"], now, limit, after.plan_at, after.job_id)
    assert row is not None
    if not row["count"]:
        return DueRows(0, _NONE, [], [], [], [])
    whole = session.fetch(SQL["whole_jobs"], row["whole"]) if row["whole"] != _NONE else []
    changed = [each["id"] for each in whole if each["has_changes"]]
    return DueRows(
        row["count"],
        row["jobs"],
        whole,
        session.fetch(SQL["oldest_changes"], changed) if changed else [],
        session.fetch(SQL["unfinished_of_jobs"], row["ids"]),
        session.fetch(SQL["newest_of_jobs"], row["unadopted"]) if row["unadopted"] != _NONE else [],
    )


def _due_row(values: Sequence[Any]) -> tuple[Any, ...]:
    job_id, name, version, cursor_at, next_at, plan_at, is_needed_whole, rules = values
    return (
        uuid_of(int(job_id, 16)),
        name,
        version,
        None if cursor_at is None else instant_of(cursor_at),
        None if next_at is None else instant_of(next_at),
        instant_of(plan_at),
        is_needed_whole,
        rules,
    )


def decided(due: Due, now: datetime, decide: Callable[[Job, datetime], Plan]) -> tuple[list[Plan], list[Broken]]:
    """Return the plans, and the jobs that cannot be planned."""
    return due.decided(now, lambda job, at: decide(_callable(job), at))


def plan_due(session: Session, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
    """Read, decide and write due jobs in the transaction of the session."""
    found = find_due(session, now, limit)
    due = found.due(found.rows())
    plans, broken = decided(due, now, decide)
    written, lanes, refused = _write_plans(session, plans, due.unsaved, now)
    broken += refused
    if broken:
        session.execute(SQL["set_job_errors"], job_errors(broken))
        for change_id, job_id, error in change_errors(broken):
            session.execute(SQL["set_change_error"], change_id, error)
            session.execute(SQL["save_superseded"], job_id, None, now)
    return planned(session, Batch(tuple(written)), lanes, broken, now, is_full=len(due) == limit)


def planned(
    session: Session, batch: Batch, lanes: Counter[str], broken: Sequence[Broken], now: datetime, *, is_full: bool
) -> Planned:
    """Return the result of a pass, with the time at which the next job is due."""
    return Planned(
        jobs=len(batch.plans) + len(broken),
        runs=lanes.total(),
        skipped=batch.skipped,
        errors=batch.errors + tuple((each.name, each.error) for each in broken if each.change_id is None),
        lanes=frozenset(lanes),
        next_plan_at=now if is_full else next_plan_at(session),
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
    unsaved = {row["id"]: row["updated_at"] for row in rows if row["saved_version"] != row["version"]}
    _write_plans(session, plans, unsaved, now)
    if len(rows) < limit:
        session.execute(SQL["set_planned_by_tzdata"], version)
    moved = tuple((plan.job.definition.name, plan.job.next_at, plan.next_at) for plan in plans)
    return Refreshed(moved, rows[-1]["id"] if len(rows) == limit else None)


def _write_plans(
    session: Session, plans: list[Plan], unsaved: Mapping[UUID, datetime], now: datetime
) -> tuple[list[Plan], Counter[str], list[Broken]]:
    """Write plans together; if a statement refuses the data, write halves, until the refused job is alone.

    Return the written plans, the number of new runs by lane, and the refused jobs.
    """
    if not plans:
        return [], Counter(), []
    try:
        with session.savepoint():
            return plans, write_batch(session, Batch(tuple(plans)), unsaved, now, by="engine"), []
    except REFUSED as error:
        if len(plans) == 1:
            return [], Counter(), [Broken.of(plans[0].job, error)]
    middle = len(plans) // 2
    first = _write_plans(session, plans[:middle], unsaved, now)
    second = _write_plans(session, plans[middle:], unsaved, now)
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]
