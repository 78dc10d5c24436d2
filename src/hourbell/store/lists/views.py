"""Conversions from rows to views for users, where both databases agree.

Values that cannot be read are replaced or left out: one invalid row must not break a whole list.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any
from uuid import UUID

from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.definition import Definition
from hourbell.core.job.version_json import definition_from_json
from hourbell.core.run.notes import LogLine
from hourbell.core.run.outages import Outage
from hourbell.core.run.run import scheduled_run_id
from hourbell.core.run.states import Kind, RunState, SkipReason
from hourbell.store.control.bundles import owner_text
from hourbell.store.lists.query import (
    AttemptView,
    AuditRow,
    ChangedRun,
    EndedRun,
    InstantFacts,
    JobTotals,
    JobView,
    NodeView,
    Progress,
    RunView,
    SkipView,
    VersionView,
)
from hourbell.store.rows import UNREADABLE, Row, shown_definition_of, shown_job_of

_MAX_CACHED_CHARACTERS = 4_096
_UNREADABLE = (*UNREADABLE, TypeError, KeyError)
_HAS = {name: f"has_{name}" for name in ("payload", "result", "before", "after")}
_READ_OF_AUDIT = ("before", "after", "omitted")
_last_run = itemgetter("last_run_id", "last_run_at", "last_state", "last_error", "last_success_at")
_PLAIN_OF_RUN = tuple(
    field.name
    for field in fields(RunView)
    if field.name not in ("definition", "kind", "state", "payload", "has_payload", "result", "is_cancel_requested")
    and field.name not in ("progress", "log", "blocked_by", "error", "omitted")
)


def job_view(row: Row) -> JobView:
    """Build the view of a job from its row and its statistics, which are null if it has none."""
    omitted = () if row["payload"] is not None else _left_out(row, "payload")
    if row["target"] is None:
        row, omitted = listed_job_row(row), (*omitted, "target")
    totals = (*_last_run(row), row["succeeded"] or 0, row["failed"] or 0, row["cancelled"] or 0)
    return JobView(
        job=shown_job_of(row),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
        paused_note=row["paused_note"],
        paused_by=row["paused_by"],
        totals=JobTotals(*totals),
        pruned_until=row["pruned_until"],
        is_done=bool(row["is_done"]),
        omitted=omitted,
    )


def listed_job_row(row: Row) -> Row:
    """Return the row of a job with the listed part of its target: the whole target, or its short fields."""
    return row if row["target"] is not None else {**row, "target": row["short_target"]}


def with_definition(row: Row, definitions: Mapping[tuple[UUID, int], Row]) -> Row:
    """Return the row of a run with the listed part of a long definition, if that is still stored."""
    found = definitions.get((row["job_id"], row["job_version"]))
    if found is None:
        return row
    return {**row, "definition": found["definition"], "lacks_payload": found["lacks_payload"]}


def _omitted_of_run(row: Row) -> tuple[str, ...]:
    """Return the names of omitted values: the payload, of the run or of its version, and the result."""
    if not row["has_payload"] and row.get("lacks_payload"):
        return ("payload", *_left_out(row, "result"))
    return _left_out(row, "payload", "result")


def _left_out(row: Row, *names: str) -> tuple[str, ...]:
    """Return the given columns that the row has in the database but that were too long to be read."""
    return tuple([name for name in names if row[name] is None and row.get(_HAS[name])])


def run_view(row: Row) -> RunView:
    """Build the view of a run from its row, its job's name, its version's definition and a cancellation request."""
    omitted: tuple[str, ...] = ()
    has_payload = row["payload"] is not None
    if (row["payload"] is None or row["result"] is None) and "has_payload" in row:
        has_payload, omitted = bool(row["has_payload"]), _omitted_of_run(row)
    return RunView(
        **{name: row[name] for name in _PLAIN_OF_RUN},
        definition=_definition(row["definition"]),
        kind=Kind(row["kind"]),
        state=RunState(row["state"]),
        payload=_value(row["payload"]),
        has_payload=has_payload,
        result=_value(row["result"]),
        is_cancel_requested=bool(row["is_cancel_requested"]),
        blocked_by=row.get("blocked_by"),
        error=row.get("error"),
        progress=_progress(row),
        log=_log(row.get("progress_log")),
        omitted=omitted,
    )


def attempt_view(row: Row) -> AttemptView:
    values = {field.name: row[field.name] for field in fields(AttemptView) if field.name not in ("phases", "log")}
    phases = _value(row["phases"])
    return AttemptView(**values, phases=phases if isinstance(phases, dict) else {}, log=_log(row["log"]))


def skip_view(row: Row) -> SkipView:
    return SkipView(row["id"], row["first_at"], row["last_at"], row["count"], SkipReason(row["reason"]))


def version_view(row: Row) -> VersionView:
    definition = _definition(row["definition"]) or _definition_as_far_as_it_goes(row["definition"])
    omitted = tuple(f"definition.{name}" for name in ("payload", "target") if row.get(f"lacks_{name}"))
    return VersionView(row["version"], definition, row["changed_at"], row["changed_by"], omitted)


def ended_run(row: Row) -> EndedRun:
    return EndedRun(RunState(row["state"]), row["due_at"], row["started_at"], row["finished_at"])


def changed_run(row: Row) -> ChangedRun:
    return ChangedRun(row["id"], row["job_id"], RunState(row["state"]), row.get("noted_at"))


def node_view(row: Row) -> NodeView:
    values = {field.name: row[field.name] for field in fields(NodeView) if field.name != "lanes"}
    return NodeView(**values, lanes=tuple(row["lanes"]))


def audit_row(row: Row) -> AuditRow:
    values = {field.name: row[field.name] for field in fields(AuditRow) if field.name not in _READ_OF_AUDIT}
    omitted = _left_out(row, "before", "after")
    return AuditRow(**values, before=_value(row["before"]), after=_value(row["after"]), omitted=omitted)


def unplanned_version(at: datetime, job: Row, changes: list[Row]) -> VersionView | None:
    """Return the version made by plain SQL that no node has stored yet, if it was valid at that time."""
    if changes:
        [change] = changes
        return VersionView(change["version"], shown_definition_of(change), change["updated_at"], "sql")
    if job["saved_version"] == job["version"] or job["updated_at"] >= at:
        return None
    return VersionView(job["version"], shown_definition_of(job), job["updated_at"], "sql")


def instant_facts(
    at: datetime,
    job: JobView,
    *,
    version: VersionView | None,
    runs: list[Row],
    replays: list[Row],
    skips: list[Row],
    outages: Sequence[Outage],
) -> InstantFacts:
    run = next(map(run_view, runs), None)
    repeated = run.id if run is not None else scheduled_run_id(job.job.id, at)
    return InstantFacts(
        job=job,
        version=version,
        run=run,
        replays=_repeating(repeated, replays),
        skips=[skip_view(row) for row in skips],
        outages=outages,
    )


def _repeating(run_id: UUID, replays: list[Row]) -> list[UUID]:
    """Return the replays of a run, and of its replays, from rows sorted by age."""
    known = [run_id]
    for row in replays:
        if row["replay_of"] in known:
            known.append(row["id"])
    return known[1:]


def _definition(text: str | None) -> Definition | None:
    """Return the definition of a version. Short ones are cached, because the runs of a page share few versions."""
    if text is None:
        return None
    return _read_definition(text) if len(text) <= _MAX_CACHED_CHARACTERS else _read_definition.__wrapped__(text)


@lru_cache(512)
def _read_definition(text: str) -> Definition | None:
    try:
        return definition_from_json(json.loads(text))
    except _UNREADABLE:
        return None


def _definition_as_far_as_it_goes(text: str) -> Definition:
    """Return the few fields that can always be shown."""
    body = _value(text)
    known = body if isinstance(body, dict) else {}
    target = known.get("target")
    return Definition(
        name=str(known.get("name", "")),
        schedule=str(known.get("schedule", "")),
        target=target if isinstance(target, dict) else {},
    )


def _progress(row: Row) -> Progress | None:
    """Return the progress of a running run; None if it only wrote log lines."""
    fraction, message = row.get("progress_fraction"), row.get("progress_message")
    return None if fraction is None and not message else Progress(fraction, message or "", row["progress_at"])


def _log(text: str | None) -> tuple[LogLine, ...]:
    try:
        lines = json.loads(text or "[]")
        return tuple(LogLine(datetime.fromisoformat(line["at"]), str(line["text"])) for line in lines)
    except _UNREADABLE:
        return ()


def _value(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except UNREADABLE:
        return None


def job_conflict(row: Row) -> JobConflict:
    return JobConflict(row["name"], owner_text(row["managed_by"], row["source"]), owner_text("code", row["program"]))
