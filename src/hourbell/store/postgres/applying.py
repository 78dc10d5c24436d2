"""Bringing in a bundle of jobs on PostgreSQL, inside the transaction that somebody else opened."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.job import Definition
from hourbell.core.secret_headers import OriginChange
from hourbell.store.applying import Decision, compare, decide, of_other_programs
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import Applied, Bundle, NewSecret
from hourbell.store.importing import rows_to_change
from hourbell.store.postgres.auditing import audit
from hourbell.store.postgres.changing import SQL, delete_jobs, insert_jobs, write_changes
from hourbell.store.postgres.planning import progress_of
from hourbell.store.postgres.secrets import current_headers, secret_ids, write_secrets


async def apply_jobs(
    connection: Any,
    bundle: Bundle,
    now: datetime,
    by: str,
    *,
    secrets: Sequence[NewSecret],
    expect: str | None,
    may_change: Callable[[Definition], bool],
    moving: OriginChange,
    dry_run: bool,
    request: Request | None,
) -> Applied:
    if not bundle.prune:
        rows = await connection.fetch(SQL["lock_jobs_by_name"], bundle.names)
    else:
        rows = await connection.fetch(SQL["lock_jobs_of_bundle"], bundle.names, bundle.managed_by, bundle.source)
    ids = await secret_ids(connection, [row["id"] for row in rows], now)
    abandoned: set[UUID] = set()
    if others := of_other_programs(bundle, rows):
        found = await connection.fetch(SQL["abandoned_jobs"], others, bundle.heard_since)
        abandoned = {row["id"] for row in found}
    comparison = compare(bundle, rows, ids, expect, lambda definition: definition, may_change, abandoned)
    to_change = rows_to_change(comparison.entries)
    progress = await progress_of(connection, to_change)
    headers = await current_headers(connection, [row["id"] for row in to_change])
    decision = decide(comparison, progress, headers, moving, now)
    if not dry_run and not decision.applied.refused and (secrets or not decision.is_empty):
        await _write(connection, decision, bundle, now, by, secrets)
        for row in decision.audit_rows(secrets):
            await audit(connection, now, by, *row.texts(), request)
    return decision.applied


async def _write(
    connection: Any, decision: Decision, bundle: Bundle, now: datetime, by: str, secrets: Sequence[NewSecret]
) -> None:
    if decision.changed:
        await write_changes(connection, decision.changed, now, by)
    if decision.deleted:
        await delete_jobs(connection, decision.deleted, now)
    if decision.new and len(await insert_jobs(connection, decision.new, now, by)) < len(decision.new):
        raise Conflict("id_taken", "another job has, or had, an id that one of these was to get")
    if decision.paused_new:
        await connection.execute(SQL["note_pauses"], decision.paused_new, bundle.owner)
    await write_secrets(connection, secrets, now)
