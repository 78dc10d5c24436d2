"""Bringing in a bundle of jobs on SQLite, inside the transaction that somebody else opened."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from hourbell.core.job import Definition
from hourbell.core.secret_headers import OriginChange
from hourbell.store.applying import Decision, compare, decide, of_other_programs
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import Applied, Bundle, NewSecret
from hourbell.store.importing import rows_to_change
from hourbell.store.sqlite.auditing import audit
from hourbell.store.sqlite.changing import SQL, delete_jobs, insert_jobs, write_changes
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.planning import progress_of, refuse_functions
from hourbell.store.sqlite.secrets import current_headers, secret_ids, write_secrets


def apply_jobs(
    session: Session,
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
    rows = session.fetch(SQL["jobs_by_name"], bundle.names)
    if bundle.prune:
        named = {row["id"] for row in rows}
        owned = session.fetch(SQL["owned_jobs"], bundle.managed_by, bundle.source)
        rows += [row for row in owned if row["id"] not in named]
    ids = secret_ids(session, [row["id"] for row in rows], now)
    abandoned: set[UUID] = set()
    if others := of_other_programs(bundle, rows):
        abandoned = {row["id"] for row in session.fetch(SQL["abandoned_jobs"], others, bundle.heard_since)}
    comparison = compare(bundle, rows, ids, expect, refuse_functions, may_change, abandoned)
    to_change = rows_to_change(comparison.entries)
    progress = progress_of(session, to_change)
    headers = current_headers(session, [row["id"] for row in to_change])
    decision = decide(comparison, progress, headers, moving, now)
    if not dry_run and not decision.applied.refused and (secrets or not decision.is_empty):
        _write(session, decision, bundle, now, by, secrets)
        for row in decision.audit_rows(secrets):
            audit(session, now, by, *row.texts(), request)
    return decision.applied


def _write(
    session: Session, decision: Decision, bundle: Bundle, now: datetime, by: str, secrets: Sequence[NewSecret]
) -> None:
    if decision.changed:
        write_changes(session, decision.changed, now, by)
    if decision.deleted:
        delete_jobs(session, decision.deleted, now)
    if decision.new and len(insert_jobs(session, decision.new, now, by)) < len(decision.new):
        raise Conflict("id_taken", "another job has, or had, an id that one of these was to get")
    if decision.paused_new:
        session.execute(SQL["note_pauses"], decision.paused_new, bundle.owner)
    write_secrets(session, secrets, now)
