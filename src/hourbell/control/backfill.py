"""Backfill: runs for past scheduled times that have none.

A backfill never moves a job's cursor and never duplicates a run that is on record.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hourbell.control.calculations import calculate_much
from hourbell.control.jobs import Jobs
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from hourbell.core.job.definition import Definition
from hourbell.core.schedule import Occurrence, ScheduleError
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.field_errors import FieldError, RequestError
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import AlreadyAsked, Conflict
from hourbell.store.lists.query import JobView
from hourbell.store.lists.reader import ListStore

MAX_BACKFILL_RUNS = 10_000
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Backfill:
    """The scheduled times of a range that have no run, and the runs added for them (none in a dry run)."""

    instants: Sequence[datetime]
    runs: Sequence[UUID]


class Backfills:
    def __init__(self, store: ControlStore, lists: ListStore, jobs: Jobs, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._lists = lists
        self._jobs = jobs
        self._now = now

    async def fill(
        self,
        ref: str,
        user: User,
        start: datetime,
        end: datetime,
        *,
        per_minute: int,
        include_pruned: bool = False,
        dry_run: bool = False,
    ) -> Backfill:
        """Add runs for the scheduled times from `start` to `end`, both included, that have none, at a limited rate.

        Scheduled times whose run may have been pruned are refused, unless `include_pruned` is set.
        """
        user.must_be(Role.OPERATOR, "to backfill a job")
        view = await self._jobs.get(ref)
        job = view.job
        _check_range(start, end, self._now())
        if job.error is not None:
            raise Conflict("job_in_error", f"the job is in error: {job.error}")
        if job.cursor_at is None:
            raise Conflict("not_adopted", "no node has planned the job yet; try again in a second")
        occurrences = await calculate_much(_occurrences, job.definition, start, min(end, job.cursor_at))
        empty = set(await self._lists.without_run(job.id, [each.at for each in occurrences]))
        missing = [each for each in occurrences if each.at in empty]
        if not include_pruned:
            await self._refuse_pruned(view, [each.at for each in missing])
        if not dry_run and not missing and user.request.is_known:
            raise AlreadyAsked  # this very call filled them before, and which ones is no longer known
        if dry_run or not missing:
            return Backfill([each.at for each in missing], ())
        runs = await self._store.backfill_job(
            job.id,
            missing,
            user.actor(self._now()),
            spacing=timedelta(minutes=1) / per_minute,
            pruned_until=view.pruned_until,
            expect_version=job.version,
        )
        return Backfill([each.at for each in missing], runs)

    async def _refuse_pruned(self, view: JobView, instants: list[datetime]) -> None:
        """Raise RequestError if some of the instants may have had a run that was pruned.

        These are instants without a skip record, after the creation of the job and up to `pruned_until`.
        """
        if view.pruned_until is None:
            return
        since = [at for at in instants if view.created_at < at <= view.pruned_until]
        pruned = await self._lists.without_skip(view.job.id, since) if since else []
        if pruned:
            first, last = rfc3339(min(pruned)), rfc3339(max(pruned))
            message = f"no history is left of {len(pruned):,} of these times, {first} to {last}: they may have run"
            raise RequestError(
                [FieldError("/from", message, "use a later start, or set include_pruned to run them anyway")]
            )


def _check_range(start: datetime, end: datetime, now: datetime) -> None:
    """Raise RequestError if the range is reversed or entirely in the future."""
    if end < start:
        hint = "write the earlier time as from, and the later one as to"
        errors = [
            FieldError("/from", "the range ends before it starts"),
            FieldError("/to", "the range ends before it begins", hint),
        ]
        raise RequestError(errors)
    if start > now:
        hint = "end the range before now; the schedule runs future times"
        raise RequestError(
            [FieldError("/from", "the range is entirely in the future; backfill covers past times only", hint)]
        )


def _occurrences(definition: Definition, start: datetime, end: datetime) -> list[Occurrence]:
    """Return the occurrences from `start` to `end`; raise RequestError if there are too many for one call."""
    try:
        schedule = definition.parsed()
    except ScheduleError as error:
        raise Conflict("job_in_error", f"the job is in error: {error}") from None
    start = max(filter(None, (start, definition.starts_at)))
    end = min(filter(None, (end, definition.ends_at)))
    if start > end:
        return []
    count = schedule.count(start - _MICROSECOND, end)
    if count > MAX_BACKFILL_RUNS:
        hint = f"one call covers at most {MAX_BACKFILL_RUNS:,}; use shorter ranges"
        raise RequestError([FieldError("/to", f"the range has {count:,} scheduled times", hint)])
    found, after = [], start.astimezone(UTC) - _MICROSECOND
    while (occurrence := schedule.next_occurrence(after)) is not None and occurrence.at <= end:
        found.append(occurrence)
        after = occurrence.at
    return found
