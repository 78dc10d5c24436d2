"""Planning on PostgreSQL: plans are written as arrays, in one transaction."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from hourbell.core.plan import Plan
from hourbell.store.queries import load_queries
from hourbell.store.records import cursor_values, run_values, skip_values
from hourbell.store.rows import Batch, Broken, Progress, Row, RunRow, columns, progress_by_job, without_cursor

SQL = load_queries("hourbell.store.postgres", "engine.sql")
# What a statement says about the data it was given, as opposed to the state of the database.
_REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.exceptions.PLPGSQLError,
    asyncpg.exceptions.ProgramLimitExceededError,
)


async def progress_of(connection: Any, rows: Sequence[Row]) -> dict[UUID, Progress]:
    """What the runs and skips of these jobs say about them."""
    if not rows:
        return {}
    unfinished = await connection.fetch(SQL["unfinished_of_jobs"], [row["id"] for row in rows])
    unadopted = without_cursor(rows)
    return progress_by_job(unfinished, await connection.fetch(SQL["newest_of_jobs"], unadopted) if unadopted else [])


async def write_plans(
    connection: Any, plans: list[Plan], unsaved: Collection[UUID], now: datetime
) -> tuple[list[Plan], list[str], list[Broken]]:
    """Write plans together; if a statement fails, in halves, until the job whose data it refuses stands alone.

    What was written, the lanes of new runs, and the jobs that were refused.
    """
    if not plans:
        return [], [], []
    try:
        async with connection.transaction():
            return plans, await write_batch(connection, Batch(tuple(plans)), unsaved, now, by="engine"), []
    except _REFUSED as error:
        if len(plans) == 1:
            return [], [], [Broken.of(plans[0].job.id, plans[0].job.definition.name, error)]
    middle = len(plans) // 2
    first = await write_plans(connection, plans[:middle], unsaved, now)
    second = await write_plans(connection, plans[middle:], unsaved, now)
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


async def write_batch(connection: Any, batch: Batch, unsaved: Collection[UUID], now: datetime, *, by: str) -> list[str]:
    """Write versions, runs, skips and cursors; the lanes of the runs that are new."""
    versions, runs, skips = batch.versions(unsaved), batch.runs, batch.skips
    if versions:
        await connection.execute(SQL["insert_versions"], *columns(versions, 3), now, by)
    if superseding := [plan.job.id for plan in batch.superseding]:
        new = [row.run.id for row in runs]
        await connection.execute(SQL["ask_running_of_jobs_to_stop"], superseding, now)
        await connection.execute(SQL["cancel_waiting_of_jobs"], superseding, now, False, new)
    lanes = await insert_runs(connection, runs, now) if runs else []
    if skips:
        rows = [skip_values(job_id, skip) for job_id, skip in skips]
        await connection.execute(SQL["insert_skips"], *columns(rows, 6))
    await connection.execute(SQL["save_cursors"], *columns(map(cursor_values, batch.plans), 6))
    if resumed := [plan.job.id for plan in batch.plans if plan.resumes]:
        await connection.execute(SQL["end_pauses"], resumed)
    return lanes


async def insert_runs(connection: Any, rows: Sequence[RunRow], now: datetime) -> list[str]:
    """Insert runs that do not exist yet; the lane of each."""
    *run, payload = columns(map(run_values, rows), 13)
    return [row["lane"] for row in await connection.fetch(SQL["insert_runs"], *run, now, payload)]
