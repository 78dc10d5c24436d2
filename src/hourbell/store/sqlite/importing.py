"""Importing many jobs at once on SQLite, and pruning those that an import has not seen."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.job import Definition
from hourbell.core.secret_headers import OriginChange
from hourbell.store.base import Request
from hourbell.store.bundles import ImportResult, JobEntry
from hourbell.store.changes import ChangedJob, NewJob
from hourbell.store.importing import compared, counts_text, decided, refuse_to_prune, result_of, rows_to_change
from hourbell.store.sqlite.auditing import audit
from hourbell.store.sqlite.changing import SQL, delete_jobs, insert_jobs, write_changes
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.planning import progress_of, refuse_functions
from hourbell.store.sqlite.secrets import current_headers

_FORGET_AFTER = timedelta(days=1)


def import_jobs(
    session: Session,
    entries: Sequence[JobEntry],
    now: datetime,
    by: str,
    *,
    may_change: Callable[[Definition], bool],
    moving: OriginChange,
    take_over: bool,
    import_id: UUID | None,
    dry_run: bool,
    request: Request | None,
) -> list[ImportResult]:
    rows = session.fetch(SQL["jobs_by_name"], [entry.definition.name for entry in entries])
    found = compared(entries, rows, refuse_functions, may_change, take_over=take_over)
    to_change = rows_to_change(found)
    progress = progress_of(session, to_change)
    headers = current_headers(session, [row["id"] for row in to_change])
    steps = decided(found, progress, headers, moving, now)
    new = [each for each in steps if isinstance(each, NewJob)]
    changed = [each for each in steps if isinstance(each, ChangedJob)]
    made = frozenset(job.job_id for job in new)
    if not dry_run and new:
        made = insert_jobs(session, new, now, by)
    if not dry_run and changed:
        write_changes(session, changed, now, by)
    results = [result_of(each, made) for each in steps]
    if import_id is not None:  # also what it could not change, which is not to be pruned
        seen = [row["id"] for row in rows] + ([] if dry_run else list(made))
        session.execute(SQL["note_imported"], import_id, seen, now)
    if entries and not dry_run:
        subject = "jobs" if import_id is None else str(import_id)
        audit(session, now, by, "job.import", subject, None, counts_text(results), request)
    return results


def prune_jobs(
    session: Session,
    import_id: UUID,
    managed_by: str,
    source: str,
    now: datetime,
    by: str,
    *,
    limit: int,
    may_change: Callable[[Definition], bool],
    dry_run: bool,
    request: Request | None,
) -> list[str]:
    unseen = "unseen_jobs" if managed_by == "api" else "unseen_owned_jobs"
    rows = session.fetch(SQL[unseen], managed_by, source, import_id, limit)
    names = [row["name"] for row in rows]
    refuse_to_prune(rows, may_change)
    if dry_run:
        return names
    if rows:
        delete_jobs(session, [row["id"] for row in rows], now)
        audit(session, now, by, "job.prune", str(import_id), json.dumps({"jobs": names}), None, request)
    if len(rows) < limit:
        session.execute(SQL["forget_imports"], import_id, now - _FORGET_AFTER)
    return names
