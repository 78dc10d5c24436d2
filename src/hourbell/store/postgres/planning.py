"""Planning on PostgreSQL: plans are written as arrays, in one transaction."""

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan
from hourbell.store.engine.batch import Batch, RunRow
from hourbell.store.engine.due import Broken, Due
from hourbell.store.engine.records import cursor_values, run_values, shared, skip_values
from hourbell.store.rows import Progress, Row, columns, progress_by_job, without_cursor
from hourbell.store.sql.queries import load_queries

SQL = load_queries("hourbell.store.postgres", "engine.sql")
# Errors about the data of a statement, as opposed to the state of the database.
REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.exceptions.PLPGSQLError,
    asyncpg.exceptions.ProgramLimitExceededError,
)


@dataclass(slots=True)
class Written:
    """The result of a write: the new runs of each lane, and the jobs that were refused."""

    plans: list[Plan] = field(default_factory=list)
    lanes: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    next_plan_at: datetime | None = None  # of any job, if requested and nothing was refused

    def add(self, other: "Written") -> None:
        self.plans += other.plans
        self.lanes += other.lanes
        self.broken += other.broken


Write = Callable[[Any, list[Plan], Mapping[UUID, datetime], datetime, bool], Coroutine[Any, Any, Written]]


async def progress_of(connection: Any, rows: Sequence[Row]) -> dict[UUID, Progress]:
    """Read the progress of these jobs from their runs and skips."""
    if not rows:
        return {}
    unfinished = await connection.fetch(SQL["unfinished_of_jobs"], [row["id"] for row in rows])
    unadopted = without_cursor(rows)
    return progress_by_job(unfinished, await connection.fetch(SQL["newest_of_jobs"], unadopted) if unadopted else [])


async def _progress_of_due(connection: Any, rows: Sequence[Row]) -> dict[UUID, Progress]:
    """Read the progress of due jobs, whose rows include their unfinished runs."""
    unadopted = without_cursor(rows)
    newest = await connection.fetch(SQL["newest_of_jobs"], unadopted) if unadopted else []
    return progress_by_job([row for row in rows if row["waiting"] or row["unfinished"]], newest)


async def plan_jobs(
    connection: Any,
    rows: Sequence[Any],
    now: datetime,
    decide: Callable[[Job, datetime], Plan],
    write: Write,
    *,
    asks_next: bool,
) -> Written:
    """Plan due jobs and write their plans; if requested, look up when the next job is due."""
    whole = await _whole_of(connection, rows)
    changes = await _changes_of(connection, whole)
    due = Due.of(rows, whole, changes, await _progress_of_due(connection, rows))
    plans, broken = due.decided(now, decide)
    written = await write(connection, plans, due.unsaved, now, asks_next)
    written.broken += broken
    return written


async def _whole_of(connection: Any, rows: Sequence[Row]) -> dict[UUID, Row]:
    """Read the whole rows of jobs that need them."""
    ids = [row["id"] for row in rows if row["is_needed_whole"]]
    return {row["id"]: row for row in await connection.fetch(SQL["whole_jobs"], ids)} if ids else {}


async def _changes_of(connection: Any, whole: Mapping[UUID, Row]) -> dict[UUID, Row]:
    """Read the oldest change of each job that plain SQL changed since it was planned."""
    ids = [job_id for job_id, row in whole.items() if row["has_changes"]]
    return {row["job_id"]: row for row in await connection.fetch(SQL["oldest_changes"], ids)} if ids else {}


async def write_together(
    connection: Any, plans: list[Plan], unsaved: Mapping[UUID, datetime], now: datetime, asks_next: bool
) -> Written:
    """Write plans without a savepoint; a refused statement aborts the whole transaction.

    A row that is locked outside a savepoint and changed inside is marked as held by both (a multixact). PostgreSQL does
    not mark the index entries of such a row as dead, so the probe for due jobs would visit them all until a vacuum.
    """
    if not plans:
        return Written()
    batch = Batch(tuple(plans))
    lanes, of_others = await write_batch(connection, batch, unsaved, now, by="engine", asks_next=asks_next)
    due = [at for at in (of_others, *(plan.plan_at for plan in plans)) if at is not None]
    return Written(plans, lanes, next_plan_at=min(due, default=None))


async def write_plans(
    connection: Any, plans: list[Plan], unsaved: Mapping[UUID, datetime], now: datetime, asks_next: bool = False
) -> Written:
    """Write plans together; if a statement fails, in halves, down to the single job whose data is refused."""
    if not plans:
        return Written()
    try:
        async with connection.transaction():
            return await write_together(connection, plans, unsaved, now, asks_next)
    except REFUSED as error:
        if len(plans) == 1:
            return Written(broken=[Broken.of(plans[0].job, error)])
    middle = len(plans) // 2
    written = await write_plans(connection, plans[:middle], unsaved, now)
    written.add(await write_plans(connection, plans[middle:], unsaved, now))
    return written


async def write_batch(
    connection: Any, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime, *, by: str, asks_next: bool = False
) -> tuple[Counter[str], datetime | None]:
    """Write versions, runs, skips and cursors, and send the hint that there are runs.

    Return the number of new runs per lane and, if requested, when the next of the other jobs is due.
    """
    versions, runs, skips = batch.versions(unsaved, now), batch.runs, batch.skips
    if versions:
        await connection.execute(SQL["insert_versions"], *columns(versions, 4), by)
        await connection.execute(SQL["audit_unasked"], *columns(batch.unasked(unsaved), 5), now)
    if superseding := [plan.job.id for plan in batch.superseding]:
        new = [row.run.id for row in runs]
        await connection.execute(SQL["ask_running_of_jobs_to_stop"], superseding, now)
        await connection.execute(SQL["cancel_waiting_of_jobs"], superseding, now, False, new)
    if skips:
        rows = [skip_values(job_id, skip) for job_id, skip in skips]
        await connection.execute(SQL["insert_skips"], *columns(rows, 6))
    if superseded := batch.superseded:
        await connection.execute(SQL["save_superseded"], *columns(superseded, 5))
    lanes, next_plan_at = await _save(connection, runs, batch.current, now, asks_next=asks_next)
    if resumed := [plan.job.id for plan in batch.plans if plan.resumes]:
        await connection.execute(SQL["end_pauses"], resumed)
    return lanes, next_plan_at


async def insert_runs(connection: Any, rows: Sequence[RunRow], now: datetime) -> Counter[str]:
    """Insert runs that do not exist yet, and send the hint that there are some; return the number per lane."""
    lanes, _ = await _save(connection, rows, (), now)
    return lanes


async def _save(
    connection: Any, rows: Sequence[RunRow], plans: Sequence[Plan], now: datetime, *, asks_next: bool = False
) -> tuple[Counter[str], datetime | None]:
    """Write runs and cursors: each id with the index of its shared values."""
    positions, alike = shared(map(run_values, rows))
    runs = [row.run.id for row in rows], [row.job_id for row in rows], positions, *columns(alike, 11)
    positions, alike = shared(map(cursor_values, plans))
    cursors = [plan.job.id for plan in plans], positions, *columns(alike, 5)
    [saved] = await connection.fetch(SQL["save_plans"], *runs, now, *cursors, asks_next)
    return Counter(json.loads(saved["lanes"] or "{}")), saved["next_plan_at"]
