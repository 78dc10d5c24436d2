"""What every change of jobs on PostgreSQL is made of, inside the transaction that somebody else opened.

Jobs are locked before their runs, always, and several jobs in the order of their names.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.job import Definition, Job
from hourbell.store.base import Conflict, Request
from hourbell.store.batch import Batch
from hourbell.store.changes import ChangedJob, NewJob, check_version, old_version, unsaved_versions
from hourbell.store.job_columns import TAGS, WIDTH
from hourbell.store.postgres.auditing import audit
from hourbell.store.postgres.planning import SQL as ENGINE_SQL
from hourbell.store.postgres.planning import progress_of, write_batch
from hourbell.store.postgres.secrets import leave_headers
from hourbell.store.queries import load_queries
from hourbell.store.rows import columns, definition_text, error_in, job_of

SQL = load_queries("hourbell.store.postgres", "control.sql")


async def lock_job(connection: Any, job_id: UUID, expect_version: int | None = None) -> tuple[Job, Any]:
    """A job to change, with its row."""
    row = await connection.fetchrow(SQL["lock_job"], job_id)
    if row is None:
        raise Conflict("no_such_job", "there is no such job")
    check_version(row, expect_version)
    return job_of(row, (await progress_of(connection, [row])).get(job_id)), row


async def insert_jobs(connection: Any, jobs: Sequence[NewJob], now: datetime, by: str) -> frozenset[UUID]:
    """Insert jobs with their first versions; those whose id is new."""
    values = columns((job.values() for job in jobs), WIDTH)
    values[TAGS] = [_array_text(tags) for tags in values[TAGS]]
    made = frozenset(row["id"] for row in await connection.fetch(SQL["insert_jobs"], *values, now))
    versions = columns(((*job.version_values(), now) for job in jobs if job.job_id in made), 4)
    await connection.execute(ENGINE_SQL["insert_versions"], *versions, by)
    return made


async def write_changes(connection: Any, changed: Sequence[ChangedJob], now: datetime, by: str) -> None:
    """Write what the old versions still get, then the new ones."""
    batch = Batch(tuple(old_version(each.job, each.change) for each in changed))
    await write_batch(connection, batch, unsaved_versions(changed), now, by=by)
    if queued := [each.job.id for each in changed if each.change.is_queued]:
        await connection.execute(SQL["queue_changes"], queued, now)
    for statement, is_renamed in (("update_job", True), ("update_job_under_its_name", False)):
        values = [each.values(now) for each in changed if each.is_renamed is is_renamed]
        if values:
            await connection.executemany(SQL[statement], values)
    versions = columns(((*each.version_values(), now) for each in changed), 4)
    await connection.execute(ENGINE_SQL["insert_versions"], *versions, by)
    await leave_headers(connection, changed, now)


async def save_current(connection: Any, job: Job, row: Any) -> None:
    """Make sure that the job can run, and that the version it is at is written down."""
    if not job.definition.lane:
        raise Conflict("job_in_error", f"the job is in error: {job.error or error_in(row)}")
    if row["saved_version"] != row["version"]:
        versions = [[job.id], [job.version], [definition_text(job.definition)], [row["updated_at"]]]
        await connection.execute(ENGINE_SQL["insert_versions"], *versions, "sql")


async def delete_jobs(connection: Any, ids: Sequence[UUID], now: datetime) -> None:
    """Take jobs out of use, with their secrets and what waits."""
    await connection.execute(SQL["mark_deleted"], ids, now)
    await connection.execute(SQL["delete_secrets"], ids)
    await connection.execute(ENGINE_SQL["cancel_waiting_of_jobs"], ids, now, True, [])


async def audit_job(
    connection: Any,
    now: datetime,
    by: str,
    action: str,
    job_id: UUID,
    before: Definition | None,
    after: Definition | None,
    request: Request | None,
) -> None:
    old, new = (None if each is None else definition_text(each) for each in (before, after))
    await audit(connection, now, by, action, str(job_id), old, new, request)


def _array_text(tags: Sequence[str]) -> str:
    """Tags as PostgreSQL writes an array: a batch of rows cannot carry one array for each."""
    quoted = (tag.replace("\\", "\\\\").replace('"', '\\"') for tag in tags)
    return "{" + ",".join(f'"{tag}"' for tag in quoted) + "}"
