"""Changes by users, for both databases: refusals, the runs that a change makes, and its values in the order of the
statements' parameters."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.change import Change, StillCatchingUp, edited
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange, SecretField, headers_left_behind, origin_of, show_origin
from hourbell.core.job.target import lane_of
from hourbell.core.run.plan import Plan
from hourbell.core.run.policies import Delivery, Overlap, rank_of
from hourbell.core.run.run import NewRun, scheduled_run_id
from hourbell.core.run.states import ENDS, Kind, RunState
from hourbell.core.schedule import Occurrence
from hourbell.core.schedule.zones import local_time_at
from hourbell.store.errors import Conflict
from hourbell.store.rows import Row, definition_text
from hourbell.store.sql.job_columns import column_values

_ENDED = {RunState.SUCCEEDED: "succeeded", RunState.FAILED: "failed", RunState.CANCELLED: "was cancelled"}


def with_lane(definition: Definition) -> Definition:
    lane = lane_of(definition.target)
    return definition if definition.lane == lane else replace(definition, lane=lane)


def refuse_purge(row: Row | None, job_id: UUID, running: int) -> Row:
    """Return the row of a job that may be purged; otherwise raise a Conflict."""
    if row is None:
        raise Conflict("no_such_job", f"there is no job {str(job_id)!r}")
    if row["deleted_at"] is None:
        raise Conflict("job_not_deleted", "only a deleted job is purged; delete it first")
    if running:
        raise runs_still_running(running)
    return row


def runs_still_running(count: int) -> Conflict:
    runs = "1 run of this job is" if count == 1 else f"{count} runs of this job are"
    return Conflict("runs_running", f"{runs} running; cancel it or wait for its end, then purge again")


def manual_run(job: Job, run_id: UUID, now: datetime) -> NewRun:
    """Return a manual run that is ready now."""
    return NewRun(
        id=run_id,
        scheduled_at=now,
        local_at=_local(job.definition.timezone, now),
        ready_at=now,
        expires_at=now + job.definition.max_age,
        rank=rank_of(job.definition.priority, is_late=False),
        kind=Kind.MANUAL,
    )


def _local(timezone: str, now: datetime) -> datetime:
    """Return the local time in a zone, or UTC if the zone is unknown."""
    try:
        return local_time_at(timezone, now)[0]
    except ValueError:
        return now.astimezone(UTC).replace(tzinfo=None)


def before_cursor(job: Job, occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """Return the occurrences up to the cursor; raise a Conflict if the job has no cursor yet."""
    cursor_at = job.cursor_at
    if cursor_at is None:
        raise Conflict("not_adopted", "no node has planned the job yet; try again in a second")
    return [each for each in occurrences if each.at <= cursor_at]


def check_pruned(stats: Row | None, pruned_until: datetime | None) -> None:
    """Raise a Conflict if runs of the job were pruned since `pruned_until` was read."""
    if stats is not None and stats["pruned_until"] != pruned_until:
        raise Conflict("pruned_meanwhile", "runs of this job were pruned meanwhile; try again")


def backfill_runs(
    job: Job, occurrences: Iterable[Occurrence], planned: Container[datetime], now: datetime, spacing: timedelta
) -> list[NewRun]:
    """Return a run for each occurrence that has none, ready `spacing` apart. They rank as late: behind runs on time."""
    missing = {each.at: each for each in occurrences if each.at not in planned}
    return [
        NewRun(
            id=scheduled_run_id(job.id, each.at),
            scheduled_at=each.at,
            local_at=each.local,
            ready_at=now + number * spacing,
            expires_at=now + number * spacing + job.definition.max_age,
            rank=rank_of(job.definition.priority, is_late=True),
            kind=Kind.BACKFILL,
        )
        for number, each in enumerate(missing.values())
    ]


def backfill_audited(runs: Sequence[NewRun]) -> dict[str, object]:
    """Return the values of a backfill for the audit."""
    instants = [run.scheduled_at for run in runs]
    return {"runs": len(runs), "first": min(instants).isoformat(), "last": max(instants).isoformat()}


def refuse_cancel(run: Row | None) -> None:
    """Raise a Conflict if the run does not exist or has ended."""
    if run is None:
        raise Conflict("no_such_run", "there is no such run")
    if run["state"] in ENDS:
        raise Conflict("run_ended", f"the run has already ended: it {_ENDED[run['state']]}")


def refuse_discard(run: Row | None) -> None:
    """Raise a Conflict if the run is not a dead letter."""
    if run is None:
        raise Conflict("no_such_run", "there is no such run")
    if run["state"] != RunState.FAILED:
        raise Conflict("not_a_dead_letter", f"the run is {run['state']}; only one that failed is a dead letter")
    if run["cleared_at"] is not None:
        raise Conflict("not_a_dead_letter", "the run was already replayed or discarded")


def refuse_replay(run: Row | None) -> Row:
    """Return the run to replay; raise a Conflict if it does not exist or is running."""
    if run is None:
        raise Conflict("no_such_run", "there is no such run")
    if run["state"] == RunState.RUNNING:
        raise Conflict("run_is_running", "the run is running; wait for its end, or cancel it first")
    return run


def replay_values(
    job: Job, run: Row, run_id: UUID, new_id: UUID, now: datetime, ready_at: datetime | None
) -> dict[str, Any]:
    """Return the columns of a replay: scheduled time and payload of the run, the rest from the job as it is now."""
    definition, ready_at = job.definition, ready_at or now
    return {
        "id": new_id,
        "job_id": job.id,
        "job_version": job.version,
        "scheduled_at": run["scheduled_at"],
        "local_at": run["local_at"],
        "ready_at": ready_at,
        "expires_at": ready_at + definition.max_age,
        "rank": rank_of(definition.priority, is_late=False),
        "lane": definition.lane,
        "exclusive": definition.overlap is not Overlap.ALLOW,
        "at_most_once": definition.delivery is Delivery.AT_MOST_ONCE,
        "planned_at": now,
        "payload": run["payload"],
        "replay_of": run_id,
    }


def old_version(job: Job, change: Change) -> Plan:
    """Return the plan that the version before the change still gets."""
    return Plan(
        job,
        change.cursor_at,
        change.next_at,
        change.plan_at,
        runs=change.runs,
        skips=change.skips,
        cancels_others=change.cancels_others,
    )


def new_version(job: Job, change: Change) -> Job:
    """Return the job after a change."""
    return Job(
        job.id,
        job.version + 1,
        change.definition,
        change.cursor_at,
        change.next_at,
        change.plan_at,
        paused_until=change.paused_until,
    )


@dataclass(frozen=True, slots=True)
class NewJob:
    job_id: UUID
    change: Change

    @property
    def after(self) -> Job:
        change = self.change
        return Job(self.job_id, 1, change.definition, change.cursor_at, change.next_at, change.plan_at)

    def values(self) -> tuple[Any, ...]:
        """Return the columns of a new job, in the order of `insert_jobs`."""
        return (self.job_id, *_time_order(self.change), *column_values(self.change.definition))

    def version_values(self) -> tuple[UUID, int, str]:
        return self.job_id, 1, definition_text(self.change.definition)


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A change of a job, with the row that was locked for it; if the job is paused, with the note and who paused it."""

    row: Row
    job: Job
    change: Change
    note: str | None = None
    paused_by: str | None = None
    dropped_headers: frozenset[str] = frozenset()  # secret headers given up with the old origin
    is_approved: bool = False  # an admin approves the command, whoever wrote it

    @property
    def after(self) -> Job:
        return new_version(self.job, self.change)

    @property
    def is_renamed(self) -> bool:
        return bool(self.row["name"] != self.change.definition.name)

    def values(self, now: datetime) -> tuple[Any, ...]:
        """Return the columns that a change writes, in the order of `update_job`."""
        pause = (self.note, self.paused_by, self.change.paused_until)
        row = (self.job.id, *_time_order(self.change), now, self.job.version + 1, *pause)
        return (*row, *column_values(self.change.definition))

    def version_values(self) -> tuple[UUID, int, str]:
        return self.job.id, self.job.version + 1, definition_text(self.change.definition)


def unsaved_versions(changed: Iterable[ChangedJob]) -> dict[UUID, datetime]:
    """Return the jobs whose version before the change is not stored yet, with the start of its validity."""
    rows = (each.row for each in changed)
    return {row["id"]: row["updated_at"] for row in rows if row["saved_version"] != row["version"]}


def edited_job(
    row: Row,
    job: Job,
    definition: Definition,
    now: datetime,
    headers: Iterable[SecretField],
    moving: OriginChange,
    *,
    drop_backlog: bool = False,
    is_approved: bool = False,
) -> ChangedJob:
    """Give a new definition to a job with these secret headers. A job that stays paused keeps its note.

    Every edit of a definition goes through here. Raises `Conflict` if the job is still catching up, or would change
    its origin without permission to leave its secret headers behind.
    """
    dropped = refuse_origin(job.definition, definition, headers, moving)
    try:
        change = edited(job, definition, now, drop_backlog=drop_backlog)
    except StillCatchingUp:
        raise Conflict("job_catching_up", "the job is still catching up; wait, or drop the backlog") from None
    if change.definition.enabled:
        return ChangedJob(row, job, change, dropped_headers=dropped, is_approved=is_approved)
    return ChangedJob(row, job, change, row["paused_note"], row["paused_by"], dropped, is_approved)


def refuse_origin(
    before: Definition, after: Definition, headers: Iterable[SecretField], moving: OriginChange
) -> frozenset[str]:
    """Return the secret headers that a change of origin gives up; raise a Conflict if that is not allowed."""
    headers = list(headers)
    left = headers_left_behind(before, after, headers)
    if left and not moving.is_admin:
        raise Conflict("not_allowed", "to change the origin of a job with secret headers needs the role admin")
    lost = left - moving.given
    if lost and not moving.drop:
        names, were = ", ".join(sorted(lost)), sorted({show_origin(each.origin) for each in headers})
        raise Conflict(
            "secrets_bound",
            f"the secret headers of this job were set for {', '.join(were)} and are not sent to "
            f"{show_origin(origin_of(after))}: give new values in secret_headers ({names}), or give them up with "
            "drop_secrets",
        )
    return lost


def _time_order(change: Change) -> tuple[datetime | None, ...]:
    return change.cursor_at, change.next_at, change.plan_at


def check_version(job: Row, expected: int | None) -> None:
    if expected is not None and job["version"] != expected:
        raise Conflict("version_mismatch", f"the job is at version {job['version']}, not {expected}")
