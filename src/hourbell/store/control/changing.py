"""Steps that changes of jobs share, run inside the caller's transaction.

Jobs are always locked before their runs, and several jobs in the order of their names.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from hourbell.core.alerts.channel import SYSTEM
from hourbell.core.job.definition import Job
from hourbell.core.values.ids import parse_id
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import audit
from hourbell.store.control.changes import (
    ChangedJob,
    NewJob,
    check_version,
    manual_run,
    old_version,
    unsaved_versions,
)
from hourbell.store.control.commands import seal_changes, seal_new
from hourbell.store.control.secrets import leave_headers
from hourbell.store.control.session import Session
from hourbell.store.engine.batch import Batch, RunRow
from hourbell.store.errors import Conflict, NoSuchJob, SystemJob
from hourbell.store.lists.query import JobView
from hourbell.store.lists.views import job_view
from hourbell.store.rows import Row, definition_text, error_in, is_storable_text, job_of


async def lock_job(session: Session, ref: UUID | str, expect_version: int | None = None) -> tuple[Job, Row]:
    """Lock a job to change it, by id or name; return the job and its row.

    Raises `Conflict` if it does not exist or is at another version.
    """
    row = await _lock_row(session, ref)
    if row is None:
        raise NoSuchJob
    if row["managed_by"] == SYSTEM:
        raise SystemJob
    check_version(row, expect_version)
    return job_of(row, (await session.progress_of([row])).get(row["id"])), row


async def _lock_row(session: Session, ref: UUID | str) -> Row | None:
    """Lock the job with this id, or else the one with this name."""
    job_id = ref if isinstance(ref, UUID) else parse_id(ref)
    row = None if job_id is None else await session.fetch_one("lock_job", id=job_id)
    if row is None and isinstance(ref, str) and is_storable_text(ref):
        return await session.fetch_one("lock_jobs_by_name", names=[ref])
    return row


async def view_of(session: Session, job_id: UUID) -> JobView:
    """Read the view of a job that was changed in this transaction."""
    [row] = await session.fetch("job_view", ref=job_id)
    return job_view(row)


async def insert_jobs(session: Session, jobs: Sequence[NewJob], actor: Actor) -> frozenset[UUID]:
    """Insert jobs with their first versions; return the ids that are new."""
    made = await session.insert_jobs(jobs, actor.at)
    versions = [(*job.version_values(), actor.at) for job in jobs if job.job_id in made]
    await session.insert_versions(versions, actor.by)
    await seal_new(session, [job for job in jobs if job.job_id in made], actor.at)
    return made


async def write_changes(session: Session, changed: Sequence[ChangedJob], actor: Actor) -> None:
    """Write the last runs and skips of the old versions, then the new versions."""
    await seal_changes(session, changed, actor.at)
    batch = Batch(tuple(old_version(each.job, each.change) for each in changed))
    await session.write_batch(batch, unsaved_versions(changed), actor.at, actor.by)
    if queued := [each.job.id for each in changed if each.change.is_queued]:
        await session.execute("queue_changes", ids=queued, now=actor.at)
    await session.update_jobs(changed, actor.at)
    await session.insert_versions([(*each.version_values(), actor.at) for each in changed], actor.by)
    await leave_headers(session, changed, actor.at)


async def write_change(session: Session, changed: ChangedJob, actor: Actor, action: str) -> None:
    """Write the change of one job, with its audit row."""
    await write_changes(session, [changed], actor)
    await audit(session, actor, action, changed.job.id, changed.job.definition, changed.change.definition)


async def save_current(session: Session, job: Job, row: Row) -> None:
    """Store the job's current version if it is not stored yet; raise a Conflict if the job is in error."""
    if not job.definition.lane:
        raise Conflict("job_in_error", f"the job is in error: {job.error or error_in(row)}")
    if row["saved_version"] != row["version"]:
        version = (job.id, job.version, definition_text(job.definition), row["updated_at"])
        await session.insert_versions([version], "sql")


async def add_manual_run(session: Session, job: Job, run_id: UUID, actor: Actor, payload: object = None) -> None:
    """Add a manual run that is ready now, with its audit row, unless a run has this id."""
    new = RunRow.of(job, manual_run(job, run_id, actor.at), payload)
    if await session.insert_runs([new], actor.at):
        await audit(session, actor, "job.trigger", job.id, after={"run": str(run_id)})


async def delete_jobs(session: Session, ids: Sequence[UUID], now: datetime) -> None:
    """Mark jobs as deleted, delete their secrets and cancel their waiting runs."""
    await session.execute("mark_deleted", ids=ids, now=now)
    await session.execute("delete_secrets", job_ids=ids)
    await session.cancel_waiting(ids, now, every_kind=True)
