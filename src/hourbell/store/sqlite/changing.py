"""What every change of jobs on SQLite is made of, inside the transaction that somebody else opened.

That transaction holds the only write lock there is, so what is read here stays true until it ends.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from hourbell.core.job import Definition, Job
from hourbell.store.base import Conflict, Request, Wake
from hourbell.store.batch import Batch
from hourbell.store.changes import ChangedJob, NewJob, check_version, old_version, unsaved_versions
from hourbell.store.queries import load_queries
from hourbell.store.rows import Row, definition_text, error_in, job_of
from hourbell.store.sqlite.auditing import audit
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.plan_words import SQL as ENGINE_SQL
from hourbell.store.sqlite.plan_words import cancel_waiting, write_batch
from hourbell.store.sqlite.planning import progress_of
from hourbell.store.sqlite.secrets import leave_headers

SQL = load_queries("hourbell.store.sqlite", "control.sql")


def lock_job(session: Session, job_id: UUID, expect_version: int | None = None) -> tuple[Job, Row]:
    """A job to change, with its row."""
    row = session.fetch_one(SQL["job_by_id"], job_id)
    if row is None:
        raise Conflict("no_such_job", "there is no such job")
    check_version(row, expect_version)
    return job_of(row, progress_of(session, [row]).get(job_id)), row


def refuse_taken_name(session: Session, name: str, job_id: UUID) -> None:
    row = session.fetch_one(SQL["job_by_name"], name)
    if row is not None and row["id"] != job_id:
        raise Conflict("name_taken", "another job has this name")


def insert_jobs(session: Session, jobs: Sequence[NewJob], now: datetime, by: str) -> frozenset[UUID]:
    """Insert jobs with their first versions; those whose id is new."""
    found = session.fetch(SQL["insert_jobs"], [job.values() for job in jobs], now)
    made = frozenset(row["id"] for row in found)
    versions = [(*job.version_values(), now) for job in jobs if job.job_id in made]
    session.execute(ENGINE_SQL["insert_versions"], versions, by)
    if made:
        session.wakes.add(Wake.JOBS)
    return made


def write_changes(session: Session, changed: Sequence[ChangedJob], now: datetime, by: str) -> None:
    """Write what the old versions still get, then the new ones."""
    batch = Batch(tuple(old_version(each.job, each.change) for each in changed))
    write_batch(session, batch, unsaved_versions(changed), now, by=by)
    if queued := [each.job.id for each in changed if each.change.is_queued]:
        session.execute(SQL["queue_changes"], queued, now)
    for each in changed:
        session.execute(SQL["update_job"], *each.values(now))
    session.execute(ENGINE_SQL["insert_versions"], [(*each.version_values(), now) for each in changed], by)
    leave_headers(session, changed, now)
    session.wakes.add(Wake.JOBS)


def save_current(session: Session, job: Job, row: Row) -> None:
    """Make sure that the job can run, and that the version it is at is written down."""
    if not job.definition.lane:
        raise Conflict("job_in_error", f"the job is in error: {job.error or error_in(row)}")
    if row["saved_version"] != row["version"]:
        version = (job.id, job.version, definition_text(job.definition), row["updated_at"])
        session.execute(ENGINE_SQL["insert_versions"], [version], "sql")


def delete_jobs(session: Session, ids: Sequence[UUID], now: datetime) -> None:
    """Take jobs out of use, with their secrets and what waits."""
    session.execute(SQL["mark_deleted"], ids, now)
    session.execute(SQL["delete_secrets"], ids)
    cancel_waiting(session, list(ids), now, every_kind=True)


def audit_job(
    session: Session,
    now: datetime,
    by: str,
    action: str,
    job_id: UUID,
    before: Definition | None,
    after: Definition | None,
    request: Request | None,
) -> None:
    old, new = (None if each is None else definition_text(each) for each in (before, after))
    audit(session, now, by, action, str(job_id), old, new, request)
