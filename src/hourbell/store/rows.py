"""Conversions between rows and values that both databases share. A row is a mapping from column names."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.tags import tag_errors
from hourbell.core.job.target import lane_of
from hourbell.core.job.version_json import definition_to_json
from hourbell.core.run.outages import Outage, OutageOf
from hourbell.core.run.policies import RETRY_PRESETS, RetryPolicy
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Cancelled, Failed, Interrupted, Lost, Outcome, Succeeded, Unstarted
from hourbell.core.run.states import Kind, RunState
from hourbell.core.schedule import Schedule
from hourbell.core.values.field_errors import FieldError
from hourbell.core.values.readers import read_retry
from hourbell.sealing import Sealed
from hourbell.store.sql.job_columns import read_columns

Row = Mapping[str, Any]
UNREADABLE = (ValueError, RecursionError)  # raised by rows that are invalid or nested too deep

KINDS = {kind.value: kind for kind in Kind}
_RUNNING, _NOT_BEGUN = RunState.RUNNING, False
OUTCOMES: dict[type[Outcome], str] = {
    Succeeded: "succeeded",
    Failed: "failed",
    Lost: "lost",
    Interrupted: "interrupted",
    Unstarted: "unstarted",
    Cancelled: "cancelled",
}


def outage_of(row: Row) -> Outage:
    return Outage(OutageOf(row["of"]), row["started_at"], row["ended_at"], row["found_by"])


def definition_of(row: Row) -> Definition:
    """Read the definition in a row of `jobs`; raises one of UNREADABLE if the row is invalid."""
    target = json.loads(row["target"])
    if row["payload"] is not None:
        json.loads(row["payload"])
    _check_tags(row)
    return read_columns(row, target=target, lane=lane_of(target), retry=_read_retry(row["retry"]))


def error_in(row: Row) -> str:
    """Return all errors that prevent planning of a row of `jobs`, as one line of text."""
    readers: tuple[Callable[[], object], ...] = (
        lambda: Schedule.parse(row["schedule"], row["timezone"], row["dst"], row["name"]),
        lambda: lane_of(json.loads(row["target"])),
        lambda: None if row["payload"] is None else json.loads(row["payload"]),
        lambda: _read_retry(row["retry"]),
        lambda: _check_tags(row),
    )
    found = []
    for read in readers:
        try:
            read()
        except Exception as error:  # whatever it is, it must not affect other jobs
            found.append(str(error) or type(error).__name__)
    return "; ".join(found)


def _check_tags(row: Row) -> None:
    _refuse(list(tag_errors(row["tags"])))


def _read_retry(text: str) -> RetryPolicy:
    errors: list[FieldError] = []
    retry = read_retry(json.loads(text), errors)
    _refuse(errors)
    return retry


def _refuse(errors: Sequence[FieldError]) -> None:
    if errors:
        raise ValueError("; ".join(map(str, errors)))


def _readable(text: str, otherwise: Any) -> Any:
    try:
        return json.loads(text)
    except UNREADABLE:
        return otherwise


def _definition_as_far_as_it_goes(row: Row) -> Definition:
    """Read the definition, with defaults for fields that cannot be read, and without a lane."""
    try:
        return definition_of(row)
    except UNREADABLE:
        return read_columns(row, target=_readable(row["target"], {}), lane="", retry=_retry_of(row["retry"]))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job, derived from its runs and skips."""

    waiting: int = 0
    unfinished: int = 0
    newest_at: datetime | None = None


def progress_by_job(unfinished: Iterable[Row], newest: Iterable[Row]) -> dict[UUID, Progress]:
    """Return the progress of each job that has any, from its unfinished runs and its newest scheduled time."""
    newest_of = {row["id"]: row["newest_at"] for row in newest}
    found = {row["id"]: Progress(row["waiting"], row["unfinished"], newest_of.get(row["id"])) for row in unfinished}
    return {job_id: Progress(newest_at=at) for job_id, at in newest_of.items()} | found


def without_cursor(rows: Iterable[Row]) -> list[UUID]:
    """Return the jobs without a cursor: only for them their earlier progress must be read."""
    return [row["id"] for row in rows if row["cursor_at"] is None]


def job_of(row: Row, progress: Progress | None = None) -> Job:
    """Read the job in a row, even if it cannot be planned: users must be able to see, fix and delete it."""
    try:
        return job_with(row, definition_of(row), progress or Progress())
    except UNREADABLE:
        job = job_with(row, _definition_as_far_as_it_goes(row), progress or Progress())
        return replace(job, error=job.error or error_in(row))


def shown_job_of(row: Row) -> Job:
    """Read the job in a row for a list: the stored lane is used, and nothing is validated again."""
    definition = shown_definition_of(row)
    if row["deleted_name"] is not None:
        definition = replace(definition, name=row["deleted_name"])
    return job_with(row, definition, Progress())


def shown_definition_of(row: Row) -> Definition:
    """Read the definition in a row of `jobs`, or of `job_changes`, which has no lane."""
    target, lane = _readable(row["target"], {}), row.get("lane", "")
    return read_columns(row, target=target, lane=lane, retry=_retry_of(row["retry"]))


@lru_cache(256)
def _retry_of(text: str) -> RetryPolicy:
    try:
        return _read_retry(text)
    except UNREADABLE:
        return RETRY_PRESETS["default"]


def superseded_job_of(row: Row, change: Row, progress: Progress) -> Job:
    """Read the version of a job that plain SQL replaced, to be planned up to that change."""
    error = change["error"]
    try:
        definition = definition_of(change)
    except UNREADABLE:
        definition, error = _definition_as_far_as_it_goes(change), error or error_in(change)
    return Job(
        row["id"],
        change["version"],
        definition,
        row["cursor_at"],
        row["next_at"],
        row["plan_at"],
        error,
        change["paused_until"],
        progress.waiting,
        progress.unfinished,
        progress.newest_at,
        superseded_at=change["changed_at"],
        change_id=change["id"],
    )


def job_with(row: Row, definition: Definition, progress: Progress) -> Job:
    """Read the job in a row, with a definition that was read before."""
    return Job(
        row["id"],
        row["version"],
        definition,
        row["cursor_at"],
        row["next_at"],
        row["plan_at"],
        row["error"],
        row["paused_until"],
        progress.waiting,
        progress.unfinished,
        progress.newest_at,
        bool(row["has_changes"]),
    )


def run_of(row: Row) -> Run:
    return Run(
        id=row["id"],
        job_id=row["job_id"],
        job_version=row["job_version"],
        kind=Kind(row["kind"]),
        scheduled_at=row["scheduled_at"],
        ready_at=row["ready_at"],
        expires_at=row["expires_at"],
        state=RunState(row["state"]),
        lane=row["lane"],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        started_at=row["started_at"],
        at_most_once=bool(row["at_most_once"]),
        begun=row["begun_attempt"] == row["attempt"],
        payload=None if row["payload"] is None else _readable(row["payload"], None),
        has_payload=row["payload"] is not None,
    )


def claimed_runs_of(rows: Iterable[Sequence[Any]]) -> list[Run]:
    """Read runs that were just claimed, by column position: each is running, and its effect has not begun.

    A run in its first attempt has no start time. Calling the constructor would take half as long again.
    """
    make = tuple.__new__
    # fmt: off
    return [
        make(Run, (run_id, job_id, version, KINDS[kind], scheduled_at, ready_at, expires_at, _RUNNING, lane, attempt,
                   failures, crashes, started_at, at_most_once, _NOT_BEGUN,
                   None if payload is None else payload_of(payload), payload is not None))
        for run_id, job_id, version, kind, scheduled_at, ready_at, expires_at, lane, attempt, failures, crashes,
            started_at, at_most_once, payload in rows
    ]
    # fmt: on


def payload_of(text: str | None) -> object:
    """Read a run's own payload; None if it cannot be read."""
    return None if text is None else _readable(text, None)


def secrets_of(rows: Iterable[Row]) -> dict[UUID, tuple[Sealed, ...]]:
    """Group secrets by job, in the order of the rows."""
    found: dict[UUID, list[Sealed]] = {}
    for row in rows:
        found.setdefault(row["job_id"], []).append(sealed_of(row))
    return {job_id: tuple(secrets) for job_id, secrets in found.items()}


def sealed_of(row: Row) -> Sealed:
    return Sealed(
        row["id"],
        row["job_id"],
        row["field"],
        row["key_id"],
        bytes(row["sealed"]),
        row["origin"],
        row["valid_until"],
    )


def result_of(outcome: Outcome) -> str | None:
    """Return the part of an outcome that a run stores as its result, as JSON text."""
    result = outcome.result if isinstance(outcome, (Succeeded, Failed)) else None
    return None if result is None else json.dumps(result)


def definition_text(definition: Definition) -> str:
    return json.dumps(definition_to_json(definition))


def is_storable_text(text: str) -> bool:
    """Return True if both databases can store the text."""
    return "\0" not in text and text.encode(errors="ignore").decode() == text


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Transpose rows into one array per column, also if there are no rows."""
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(width)]
