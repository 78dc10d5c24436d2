"""Answers as JSON: views become plain values here and nowhere else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from hourbell.api.pages import mark_omitted
from hourbell.control.history import late_success
from hourbell.control.jobs import Intended
from hourbell.control.stats import Summary
from hourbell.control.values import (
    AttemptView,
    AuditRow,
    JobTotals,
    JobView,
    NodeView,
    Progress,
    RunView,
    SecretRow,
    SkipView,
    Token,
    VersionView,
)
from hourbell.core.conflicts import JobConflict
from hourbell.core.job import Definition
from hourbell.core.job_body import job_to_body
from hourbell.core.notes import LogLine
from hourbell.core.preview import Upcoming, rfc3339
from hourbell.core.run import trigger_of
from hourbell.core.same import same_definition
from hourbell.core.schedule import ScheduleError, ScheduleWarning
from hourbell.core.states import Kind

Json = dict[str, Any]
API = "/api/v1"


def time(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)


def job(view: JobView) -> Json:
    stored, definition = view.job, view.job.definition
    return {
        "id": str(stored.id),
        **job_to_body(definition),
        "version": stored.version,
        "state": view.state.value,
        "error": stored.error,
        "paused": _paused(view),
        "managed_by": definition.managed_by,
        "source": definition.source,
        "next_at": time(stored.next_at),
        "words": _words(definition),
        "totals": totals(view.totals),
        "created_at": time(view.created_at),
        "updated_at": time(view.updated_at),
    }


def listed_job(view: JobView, rows: Iterable[SecretRow] | None = None) -> Json:
    """A job in a list; with its secrets, if they were asked for."""
    item = job(view) if rows is None else job_with_secrets(view, rows)
    return mark_omitted(item, view.omitted, f"{API}/jobs/{view.job.id}") if view.omitted else item


def _paused(view: JobView) -> Json | None:
    if view.job.definition.enabled:
        return None
    return {"note": view.paused_note, "by": view.paused_by, "until": time(view.job.paused_until)}


def _words(definition: Definition) -> str | None:
    try:
        return definition.parsed().describe()
    except ScheduleError:
        return None


def totals(found: JobTotals) -> Json:
    ended = found.succeeded + found.failed
    return {
        "last_run_id": None if found.last_run_id is None else str(found.last_run_id),
        "last_run_at": time(found.last_run_at),
        "last_state": found.last_state,
        "last_error": found.last_error,
        "last_success_at": time(found.last_success_at),
        "succeeded": found.succeeded,
        "failed": found.failed,
        "cancelled": found.cancelled,
        "success_rate_percent": round(100 * found.succeeded / ended, 1) if ended else None,
    }


def job_with_secrets(view: JobView, rows: Iterable[SecretRow]) -> Json:
    """A job, and which secrets it has."""
    kept = [
        {
            "field": row.field,
            "origin": row.origin,
            "created_at": time(row.created_at),
            "valid_until": time(row.valid_until),
        }
        for row in rows
    ]
    return {**job(view), "secrets": kept}


def intention(intended: Intended, before: Sequence[Upcoming], after: Sequence[Upcoming], warned: list[Json]) -> Json:
    action = (
        "create"
        if intended.before is None
        else "none"
        if same_definition(intended.before, intended.after)
        else "change"
    )
    return {
        "dry_run": True,
        "action": action,
        "job": job_to_body(intended.after),
        "before": [each.as_json() for each in before],
        "after": [each.as_json() for each in after],
        "fires_now": False,
        "warnings": warned,
    }


def warnings(found: Iterable[ScheduleWarning]) -> list[Json]:
    return [{"code": each.code, "message": each.message, "at": [rfc3339(at) for at in each.instants]} for each in found]


def run(view: RunView, waits_for: str | None = None) -> Json:
    definition = view.definition
    payload = view.payload if view.has_payload or definition is None else definition.payload
    return {
        "id": str(view.id),
        "job_id": str(view.job_id),
        "job_name": view.job_name,
        "job_version": view.job_version,
        "kind": view.kind.value,
        "trigger": view.kind.value if definition is None else trigger_of(view, definition),
        "state": view.state.value,
        "reason": view.reason,
        "waits_for": waits_for,
        "scheduled_at": time(view.scheduled_at),
        "local_at": view.local_at.isoformat(),
        "planned_at": time(view.planned_at),
        "ready_at": time(view.ready_at),
        "expires_at": time(view.expires_at),
        "started_at": time(view.started_at),
        "finished_at": time(view.finished_at),
        "cleared_at": time(view.cleared_at),
        "lane": view.lane,
        "attempt": view.attempt,
        "failures": view.failures,
        "crashes": view.crashes,
        "node": None if view.lease_owner is None else str(view.lease_owner),
        "lateness_ms": _lateness(view),
        "duration_ms": _milliseconds(view.started_at, view.finished_at),
        "replay_of": None if view.replay_of is None else str(view.replay_of),
        "cancel_requested": view.is_cancel_requested,
        "progress": _progress(view.progress),
        "payload": payload,
        "result": view.result,
    }


def run_with_attempts(view: RunView, attempts: Iterable[AttemptView], waits_for: str | None) -> Json:
    made = list(attempts)
    said = {"late_success": late_success(view, made), "log": _log(view.log)}
    return {**run(view, waits_for), **said, "attempts": [_attempt(each) for each in made]}


def listed_run(view: RunView, waits_for: str | None = None) -> Json:
    item = run(view, waits_for)
    return mark_omitted(item, view.omitted, f"{API}/runs/{view.id}") if view.omitted else item


def _progress(found: Progress | None) -> Json | None:
    return None if found is None else {"fraction": found.fraction, "message": found.message, "at": time(found.at)}


def _log(lines: Iterable[LogLine]) -> list[Json]:
    return [{"at": time(line.at), "text": line.text} for line in lines]


def _attempt(view: AttemptView) -> Json:
    return {
        "number": view.number,
        "node": None if view.node is None else str(view.node),
        "started_at": time(view.started_at),
        "finished_at": time(view.finished_at),
        "outcome": view.outcome,
        "status_code": view.status_code,
        "error": view.error,
        "excerpt": view.excerpt,
        "phases": dict(view.phases),
        "late_outcome": view.late_outcome,
        "duration_ms": _milliseconds(view.started_at, view.finished_at),
        "log": _log(view.log),
    }


def _lateness(view: RunView) -> float | None:
    """How long after it should have a run began. Backfills and replays should begin when they are made."""
    due = view.scheduled_at if view.kind in (Kind.SCHEDULED, Kind.MANUAL) else view.ready_at
    late = _milliseconds(due, view.started_at)
    return None if late is None else max(0.0, late)


def _milliseconds(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return (end - start) / timedelta(milliseconds=1)


def skip(view: SkipView) -> Json:
    return {
        "first_at": time(view.first_at),
        "last_at": time(view.last_at),
        "count": view.count,
        "reason": view.reason.value,
    }


def version(view: VersionView) -> Json:
    return {
        "version": view.version,
        "changed_at": time(view.changed_at),
        "changed_by": view.changed_by,
        "definition": job_to_body(view.definition),
    }


def listed_version(view: VersionView, job_ref: str) -> Json:
    item = version(view)
    return mark_omitted(item, view.omitted, f"{API}/jobs/{job_ref}/versions/{view.version}") if view.omitted else item


def stats(view: JobView, summary: Summary, since: datetime, *, is_sampled: bool) -> Json:
    return {
        "job": view.job.definition.name,
        "since": time(since),
        "is_sampled": is_sampled,
        "totals": totals(view.totals),
        **asdict(summary),
    }


def conflict(found: JobConflict) -> Json:
    return {
        "job": found.job,
        "owner": found.owner,
        "program": found.program,
        "hint": found.hint,
        "command": found.command,
    }


def node(view: NodeView, *, is_stale: bool) -> Json:
    return {
        "id": str(view.id),
        "host": view.host,
        "stale": is_stale,
        "started_at": time(view.started_at),
        "beat_at": time(view.beat_at),
        "lanes": list(view.lanes),
        "tzdata": view.tzdata,
        "running": view.running,
    }


def audit(row: AuditRow) -> Json:
    return {
        "id": row.id,
        "at": time(row.at),
        "actor": row.actor,
        "action": row.action,
        "subject": row.subject,
        "before": row.before,
        "after": row.after,
        "token_id": None if row.token_id is None else str(row.token_id),
        "ip": row.ip,
        "request_id": row.request_id,
        "chain_position": row.chain_position,
        "chain_hash": row.chain_hash,
    }


def listed_audit(row: AuditRow) -> Json:
    item = audit(row)
    return mark_omitted(item, row.omitted, f"{API}/audit/{row.id}") if row.omitted else item


def token(found: Token) -> Json:
    return {
        "id": str(found.id),
        "name": found.name,
        "role": found.role.value,
        "created_at": time(found.created_at),
        "expires_at": time(found.expires_at),
        "last_used_at": time(found.last_used_at),
        "revoked_at": time(found.revoked_at),
    }


def counts(found: Mapping[Any, int]) -> Json:
    return {str(key): value for key, value in found.items()}
