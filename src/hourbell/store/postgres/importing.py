"""Importing many jobs at once on PostgreSQL, and pruning those that an import has not seen."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job import Definition
from hourbell.core.secret_headers import OriginChange
from hourbell.store.base import Request
from hourbell.store.bundles import ImportResult, JobEntry
from hourbell.store.changes import ChangedJob, NewJob
from hourbell.store.importing import compared, counts_text, decided, refuse_to_prune, result_of, rows_to_change
from hourbell.store.postgres.auditing import audit
from hourbell.store.postgres.changing import SQL, delete_jobs, insert_jobs, write_changes
from hourbell.store.postgres.planning import progress_of
from hourbell.store.postgres.secrets import current_headers

_FORGET_AFTER = timedelta(days=1)


async def import_jobs(
    connection: Any,
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
    rows = await connection.fetch(SQL["lock_jobs_by_name"], [entry.definition.name for entry in entries])
    found = compared(entries, rows, lambda definition: definition, may_change, take_over=take_over)
    to_change = rows_to_change(found)
    progress = await progress_of(connection, to_change)
    headers = await current_headers(connection, [row["id"] for row in to_change])
    steps = decided(found, progress, headers, moving, now)
    new = sorted((each for each in steps if isinstance(each, NewJob)), key=lambda job: job.change.definition.name)
    changed = [each for each in steps if isinstance(each, ChangedJob)]
    made = frozenset(job.job_id for job in new)
    if not dry_run and new:
        made = await insert_jobs(connection, new, now, by)
    if not dry_run and changed:
        await write_changes(connection, changed, now, by)
    results = [result_of(each, made) for each in steps]
    if import_id is not None:  # also what it could not change, which is not to be pruned
        seen = [row["id"] for row in rows] + ([] if dry_run else list(made))
        await connection.execute(SQL["note_imported"], import_id, seen, now)
    if entries and not dry_run:
        subject = "jobs" if import_id is None else str(import_id)
        await audit(connection, now, by, "job.import", subject, None, counts_text(results), request)
    return results


async def prune_jobs(
    connection: Any,
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
    unseen = "lock_unseen_jobs" if managed_by == "api" else "lock_unseen_owned_jobs"
    rows = await connection.fetch(SQL[unseen], managed_by, source, import_id, limit)
    names = [row["name"] for row in rows]
    refuse_to_prune(rows, may_change)
    if dry_run:
        return names
    if rows:
        await delete_jobs(connection, [row["id"] for row in rows], now)
        await audit(connection, now, by, "job.prune", str(import_id), json.dumps({"jobs": names}), None, request)
    if len(rows) < limit:
        await connection.execute(SQL["forget_imports"], import_id, now - _FORGET_AFTER)
    return names
