"""The planner's decisions: a job's due instants become runs, skips and a new cursor.

`plan` takes one job at one moment and decides for every instant in (cursor_at, now]. Each becomes a run or part of
exactly one skip, the cursor never moves back, and planning again at the same moment changes nothing. A pass is bounded:
at most 100 instants become runs, and none if 1,000 runs are waiting. The rest stays after the cursor, and the job goes
to the end of the queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, assert_never

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.policies import CatchUp, Overlap, rank_of
from hourbell.core.run.run import NewRun, jitter_of, scheduled_run_id
from hourbell.core.run.states import SkipReason
from hourbell.core.schedule import Occurrence, Schedule, ScheduleError

MAX_PASS_OCCURRENCES = 100
MAX_WAITING_RUNS = 1_000
RESCAN_DELAY = timedelta(seconds=2)  # delay when a job has too many waiting runs
_MICROSECOND = timedelta(microseconds=1)
_CLOCK_STEP = timedelta(minutes=1)  # a change further in the future than this was made before the clock went back


@dataclass(frozen=True, slots=True)
class Skip:
    """A range of due instants that got no run."""

    first_at: datetime
    last_at: datetime
    count: int
    reason: SkipReason
    follows: datetime | None = None  # the instant before the first; a skip that ends there can be extended


@dataclass(slots=True)  # not frozen, for speed: there is one per due job
class Plan:
    """The changes to write for one job, all in one transaction."""

    job: Job
    cursor_at: datetime | None
    next_at: datetime | None
    plan_at: datetime | None
    runs: tuple[NewRun, ...] = ()
    skips: tuple[Skip, ...] = ()
    cancels_others: bool = False  # stop the job's other unfinished runs
    resumes: bool = False  # the pause has ended
    ends_version: bool = False  # a superseded version has no instants left to plan
    error: str | None = None


def plan(job: Job, now: datetime) -> Plan:
    """Decide for every due instant of a job: run or skip."""
    if job.superseded_at is not None:
        return _plan_superseded(job, job.superseded_at, now)
    definition = job.definition
    try:
        schedule = definition.parsed()
    except ScheduleError as error:
        return Plan(job, job.cursor_at, None, None, error=str(error))
    if not definition.enabled:
        return _plan_paused(job, schedule, now)
    if job.cursor_at is None:
        return _moved(job, schedule, job.from_now(now))  # first seen: no runs for the past
    if now <= job.cursor_at:
        return _moved(job, schedule, job.cursor_at)
    room = min(MAX_PASS_OCCURRENCES, MAX_WAITING_RUNS - job.waiting)
    if room <= 0:
        return replace(_moved(job, schedule, job.cursor_at), plan_at=now + RESCAN_DELAY)
    return _plan_due(job, schedule, now, now, job.cursor_at, room)


def first_instant(definition: Definition, schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first instant strictly after `after`, within starts_at and ends_at."""
    return _first_within(schedule, definition.starts_at, definition.ends_at, after)


def _first_within(
    schedule: Schedule, starts_at: datetime | None, ends_at: datetime | None, after: datetime
) -> datetime | None:
    if starts_at is not None and starts_at > after:
        after = starts_at - _MICROSECOND
    instant = schedule.next(after)
    if instant is None or (ends_at is not None and instant > ends_at):
        return None
    return instant


def _plan_paused(job: Job, schedule: Schedule, now: datetime) -> Plan:
    """Plan a paused job: wait for the end of its pause, then skip the instants during the pause.

    The pause ends at `paused_until`, however late this pass is: instants due after it are planned in the next pass.
    """
    if job.paused_until is None or now < job.paused_until:
        return Plan(job, job.cursor_at, job.next_at, job.paused_until)
    if job.cursor_at is None:
        return replace(_moved(job, schedule, job.from_now(now)), resumes=True)
    skips = skip_range(job.definition, job.cursor_at, job.paused_until, SkipReason.PAUSED)
    ended = _moved(job, schedule, max(job.cursor_at, job.paused_until))
    return replace(ended, skips=tuple(skips), resumes=True)


def _moved(job: Job, schedule: Schedule, cursor_at: datetime) -> Plan:
    """Move the cursor without planning; the planner returns at the next instant."""
    next_at = first_instant(job.definition, schedule, cursor_at)
    return Plan(job, cursor_at, next_at, plan_at=next_at)


def _plan_superseded(job: Job, superseded_at: datetime, now: datetime) -> Plan:
    """Plan a version that plain SQL replaced, up to the time of the change and by its own policies.

    If the change is in the future, wait for it, unless the clock must have gone back: then the version ends now.
    """
    if job.cursor_at is None:
        return Plan(job, job.from_now(min(superseded_at, now)), None, now, ends_version=True)
    until, is_over = min(superseded_at, now), superseded_at <= now or superseded_at - now > _CLOCK_STEP
    if until <= job.cursor_at:
        return _end_version(job, job.cursor_at, now) if is_over else Plan(job, job.cursor_at, None, superseded_at)
    paused_until = job.paused_until
    if not job.definition.enabled and (paused_until is None or job.cursor_at < paused_until):
        if paused_until is not None and paused_until < until:
            return Plan(job, paused_until, None, now, skips=_skips_if_readable(job, paused_until, SkipReason.PAUSED))
        if not is_over:
            return Plan(job, job.cursor_at, None, superseded_at)
        return _end_version(job, until, now, _skips_if_readable(job, until, SkipReason.PAUSED))
    if job.error is not None:
        return _end_version(job, until, now, _skips_if_readable(job, until, SkipReason.EDITED))
    try:
        schedule = job.definition.parsed()
    except ScheduleError:
        return _end_version(job, until, now)  # an invalid schedule has no instants
    room = min(MAX_PASS_OCCURRENCES, MAX_WAITING_RUNS - job.waiting)
    if room <= 0:
        return Plan(job, job.cursor_at, None, now + RESCAN_DELAY)
    planned = _plan_due(job, schedule, now, until, job.cursor_at, room)
    assert planned.cursor_at is not None
    if planned.cursor_at < until:
        return replace(planned, plan_at=now)
    if is_over:
        return replace(planned, plan_at=now, ends_version=True)
    return replace(planned, plan_at=min(planned.next_at or superseded_at, superseded_at))


def _end_version(job: Job, cursor_at: datetime, now: datetime, skips: tuple[Skip, ...] = ()) -> Plan:
    return Plan(job, cursor_at, None, now, skips=skips, ends_version=True)


def _skips_if_readable(job: Job, until: datetime, reason: SkipReason) -> tuple[Skip, ...]:
    """Return skips from the cursor up to a time; an invalid schedule has none."""
    assert job.cursor_at is not None
    try:
        return tuple(skip_range(job.definition, job.cursor_at, until, reason))
    except ScheduleError:
        return ()


def _plan_due(job: Job, schedule: Schedule, now: datetime, until: datetime, cursor_at: datetime, room: int) -> Plan:
    definition = job.definition
    due = _due(
        schedule,
        definition.starts_at,
        definition.ends_at,
        definition.catch_up,
        definition.catch_up_window,
        definition.late_after,
        cursor_at,
        until,
        now,
        room,
    )
    planned, overlapping = _without_overlap(definition.overlap, job.unfinished, due.chosen)
    return Plan(
        job,
        due.cursor_at,
        due.next_at,
        now if due.has_more else due.next_at,
        tuple([_new_run(job, schedule, occurrence, now) for occurrence in planned]),
        due.skips + _overlap_skip(schedule, overlapping) if overlapping else due.skips,
        definition.overlap is Overlap.CANCEL_RUNNING and bool(planned) and job.unfinished > 0,
    )


class _Due(NamedTuple):
    """The decision for due instants, before it takes the job's existing runs into account."""

    chosen: tuple[Occurrence, ...]  # to run
    skips: tuple[Skip, ...]
    has_more: bool  # some remain for the next pass
    cursor_at: datetime
    next_at: datetime | None


@lru_cache(maxsize=128)  # jobs that are due together often share a schedule
def _due(
    schedule: Schedule,
    starts_at: datetime | None,
    ends_at: datetime | None,
    catch_up: CatchUp,
    window: timedelta | None,
    late_after: timedelta,
    cursor_at: datetime,
    end: datetime,
    now: datetime,
    room: int,
) -> _Due:
    after = cursor_at if starts_at is None else max(cursor_at, starts_at - _MICROSECOND)
    until = end if ends_at is None else min(end, ends_at)
    skips: list[Skip] = []
    if window is not None and now - after > window:
        too_old = now - window - _MICROSECOND
        skips += _skip(schedule, after, min(too_old, until), SkipReason.WINDOW)
        after = too_old
    if catch_up is CatchUp.ALL:
        chosen = list(islice(_occurrences(schedule, after, until), room + 1))
        has_more = len(chosen) > room
        del chosen[room:]
    else:
        chosen, missed = _only_one(schedule, catch_up, late_after, after, until, now)
        skips += missed
        has_more = False
    cursor = chosen[-1].at if has_more else end
    next_at = _first_within(schedule, starts_at, ends_at, cursor)
    return _Due(tuple(chosen), tuple(skips), has_more, cursor, next_at)


def _only_one(
    schedule: Schedule, catch_up: CatchUp, late_after: timedelta, after: datetime, until: datetime, now: datetime
) -> tuple[list[Occurrence], list[Skip]]:
    """Return the one occurrence in (after, until] to run, if any, and skips for the others."""
    newest = schedule.previous(until + _MICROSECOND) if after < until else None
    if newest is None or newest <= after:
        return [], []
    chosen = schedule.next(after) if catch_up is CatchUp.EARLIEST else newest
    assert chosen is not None  # exists: `newest` is after `after`
    if catch_up is CatchUp.NONE and now - newest > late_after:
        return [], _skip(schedule, after, until, SkipReason.MISSED)
    before = _skip(schedule, after, chosen - _MICROSECOND, SkipReason.MISSED)
    behind = _skip(schedule, chosen, until, SkipReason.MISSED)
    occurrence = schedule.next_occurrence(chosen - _MICROSECOND)
    return [occurrence] if occurrence else [], before + behind


def _occurrences(schedule: Schedule, after: datetime, until: datetime) -> Iterator[Occurrence]:
    while (occurrence := schedule.next_occurrence(after)) is not None and occurrence.at <= until:
        yield occurrence
        after = occurrence.at


def _without_overlap(
    overlap: Overlap, unfinished: int, chosen: tuple[Occurrence, ...]
) -> tuple[tuple[Occurrence, ...], tuple[Occurrence, ...]]:
    """Split occurrences into those to run and those that would overlap with existing runs or with each other."""
    match overlap:
        case Overlap.ALLOW | Overlap.QUEUE_ALL:
            return chosen, ()
        case Overlap.CANCEL_RUNNING:
            return chosen[-1:], chosen[:-1]
        case Overlap.SKIP:
            free = max(0, 1 - unfinished)
        case Overlap.QUEUE_ONE:
            free = max(0, 2 - unfinished)
        case _:
            assert_never(overlap)
    return chosen[:free], chosen[free:]


def _overlap_skip(schedule: Schedule, overlapping: tuple[Occurrence, ...]) -> tuple[Skip, ...]:
    """Build one skip for the overlapping occurrences, which are contiguous at one end of the chosen ones."""
    first, last = overlapping[0].at, overlapping[-1].at
    return (Skip(first, last, len(overlapping), SkipReason.OVERLAP, schedule.previous(first)),)


def _skip(schedule: Schedule, after: datetime, until: datetime, reason: SkipReason) -> list[Skip]:
    """Build a skip for all instants in (after, until], if there are any."""
    first = schedule.next(after)
    if first is None or first > until:
        return []
    last = schedule.previous(until + _MICROSECOND)
    assert last is not None  # `first` is one
    return [Skip(first, last, schedule.count(after, until), reason, schedule.previous(first))]


def skip_range(definition: Definition, after: datetime, until: datetime, reason: SkipReason) -> list[Skip]:
    """Build a skip for all instants of a job in (after, until], within starts_at and ends_at."""
    if definition.starts_at is not None:
        after = max(after, definition.starts_at - _MICROSECOND)
    if definition.ends_at is not None:
        until = min(until, definition.ends_at)
    return _skip(definition.parsed(), after, until, reason) if after < until else []


def _new_run(job: Job, schedule: Schedule, occurrence: Occurrence, now: datetime) -> NewRun:
    definition = job.definition
    ready_at = occurrence.at
    if definition.jitter:
        following = schedule.next(occurrence.at)
        max_jitter = definition.jitter if following is None else min(definition.jitter, following - occurrence.at)
        ready_at += jitter_of(job.id, occurrence.at, max_jitter)
    return NewRun(
        scheduled_run_id(job.id, occurrence.at),
        occurrence.at,
        occurrence.local,
        ready_at,
        now + definition.max_age,
        rank_of(definition.priority, is_late=now - occurrence.at > definition.late_after),
    )
