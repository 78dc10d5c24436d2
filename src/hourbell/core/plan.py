"""What a job's due instants become: runs, skips and a new place for the cursor.

`plan` looks at one job at one moment and decides for every instant in (cursor_at, now]. Each ends as a run or inside
exactly one skip, the cursor never moves back, and planning twice at the same moment changes nothing the second time.
A pass is bounded: at most 100 instants become runs, and with 1,000 runs waiting none do; what is left stays behind the
cursor and the job goes to the end of the line.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import assert_never

from hourbell.core.job import Definition, Job
from hourbell.core.policies import CatchUp, Overlap, rank_of
from hourbell.core.run import NewRun, jitter_of, scheduled_run_id
from hourbell.core.schedule import Occurrence, Schedule, ScheduleError
from hourbell.core.states import SkipReason

MOST_PER_PASS = 100
MOST_WAITING = 1_000
LOOK_AGAIN = timedelta(seconds=2)  # when a job has too many runs waiting
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Skip:
    """Due instants that got no run."""

    first_at: datetime
    last_at: datetime
    count: int
    reason: SkipReason
    follows: datetime | None = None  # the instant before the first; a skip that ends there can be extended


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write for one job, all in one transaction."""

    job: Job
    cursor_at: datetime | None
    next_at: datetime | None
    plan_at: datetime | None
    runs: tuple[NewRun, ...] = ()
    skips: tuple[Skip, ...] = ()
    cancels_others: bool = False  # stop the job's other unfinished runs
    resumes: bool = False  # the pause is over
    error: str | None = None


def plan(job: Job, now: datetime) -> Plan:
    """Decide what becomes of every instant of a job that is due."""
    definition = job.definition
    try:
        schedule = definition.parsed()
    except ScheduleError as error:
        return Plan(job, job.cursor_at, None, None, error=str(error))
    if not definition.enabled:
        return _plan_paused(job, schedule, now)
    if job.cursor_at is None:
        return _moved(job, schedule, job.from_now(now))  # seen for the first time: nothing for the past
    if now <= job.cursor_at:
        return _moved(job, schedule, job.cursor_at)
    room = min(MOST_PER_PASS, MOST_WAITING - job.waiting)
    if room <= 0:
        return replace(_moved(job, schedule, job.cursor_at), plan_at=now + LOOK_AGAIN)
    return _plan_due(job, schedule, now, job.cursor_at, room)


def first_instant(definition: Definition, schedule: Schedule, after: datetime) -> datetime | None:
    """The first instant strictly after, within starts_at and ends_at."""
    if definition.starts_at is not None and definition.starts_at > after:
        after = definition.starts_at - _MICROSECOND
    instant = schedule.next(after)
    if instant is None or (definition.ends_at is not None and instant > definition.ends_at):
        return None
    return instant


def _plan_paused(job: Job, schedule: Schedule, now: datetime) -> Plan:
    """A paused job waits for the end of its pause; what the pause swallowed is one skip.

    The end is when it was said to be, however late we are: what fell due since then is planned in the next pass.
    """
    if job.paused_until is None or now < job.paused_until:
        return Plan(job, job.cursor_at, job.next_at, job.paused_until)
    if job.cursor_at is None:
        return replace(_moved(job, schedule, job.from_now(now)), resumes=True)
    skips = skip_range(job.definition, job.cursor_at, job.paused_until, SkipReason.PAUSED)
    ended = _moved(job, schedule, max(job.cursor_at, job.paused_until))
    return replace(ended, skips=tuple(skips), resumes=True)


def _moved(job: Job, schedule: Schedule, cursor_at: datetime) -> Plan:
    """Nothing is due: the cursor stands here and the planner looks again at the next instant."""
    next_at = first_instant(job.definition, schedule, cursor_at)
    return Plan(job, cursor_at, next_at, plan_at=next_at)


def _plan_due(job: Job, schedule: Schedule, now: datetime, cursor_at: datetime, room: int) -> Plan:
    definition = job.definition
    after = cursor_at
    if definition.starts_at is not None:
        after = max(after, definition.starts_at - _MICROSECOND)
    until = now if definition.ends_at is None else min(now, definition.ends_at)
    skips = []
    if definition.catch_up_window is not None and now - after > definition.catch_up_window:
        too_old = now - definition.catch_up_window - _MICROSECOND
        skips += _skip(schedule, after, min(too_old, until), SkipReason.WINDOW)
        after = too_old
    chosen, missed, has_more = _catch_up(definition, schedule, after, until, now, room)
    skips += missed
    planned, overlapping = _without_overlap(definition.overlap, job.unfinished, chosen)
    skips += _overlap_skip(schedule, overlapping)
    cursor = chosen[-1].at if has_more else now
    next_at = first_instant(definition, schedule, cursor)
    return Plan(
        job,
        cursor,
        next_at,
        plan_at=now if has_more else next_at,
        runs=tuple(_new_run(job, schedule, occurrence, now) for occurrence in planned),
        skips=tuple(skips),
        cancels_others=definition.overlap is Overlap.CANCEL_RUNNING and bool(planned) and job.unfinished > 0,
    )


def _catch_up(
    definition: Definition, schedule: Schedule, after: datetime, until: datetime, now: datetime, room: int
) -> tuple[list[Occurrence], list[Skip], bool]:
    """The occurrences in (after, until] that are to run, the skips for the others, and whether some are left."""
    if definition.catch_up is CatchUp.ALL:
        occurrences = list(islice(_occurrences(schedule, after, until), room + 1))
        return occurrences[:room], [], len(occurrences) > room
    newest = schedule.previous(until + _MICROSECOND) if after < until else None
    if newest is None or newest <= after:
        return [], [], False
    chosen = schedule.next(after) if definition.catch_up is CatchUp.EARLIEST else newest
    assert chosen is not None  # there is one not before `newest`
    if definition.catch_up is CatchUp.NONE and now - newest > definition.late_after:
        return [], _skip(schedule, after, until, SkipReason.MISSED), False
    before = _skip(schedule, after, chosen - _MICROSECOND, SkipReason.MISSED)
    behind = _skip(schedule, chosen, until, SkipReason.MISSED)
    occurrence = schedule.next_occurrence(chosen - _MICROSECOND)
    return [occurrence] if occurrence else [], before + behind, False


def _occurrences(schedule: Schedule, after: datetime, until: datetime) -> Iterator[Occurrence]:
    while (occurrence := schedule.next_occurrence(after)) is not None and occurrence.at <= until:
        yield occurrence
        after = occurrence.at


def _without_overlap(
    overlap: Overlap, unfinished: int, chosen: list[Occurrence]
) -> tuple[list[Occurrence], list[Occurrence]]:
    """Which occurrences run and which must not, given the runs already there and those of this pass."""
    match overlap:
        case Overlap.ALLOW | Overlap.QUEUE_ALL:
            return chosen, []
        case Overlap.CANCEL_RUNNING:
            return chosen[-1:], chosen[:-1]
        case Overlap.SKIP:
            free = max(0, 1 - unfinished)
        case Overlap.QUEUE_ONE:
            free = max(0, 2 - unfinished)
        case _:
            assert_never(overlap)
    return chosen[:free], chosen[free:]


def _overlap_skip(schedule: Schedule, overlapping: list[Occurrence]) -> list[Skip]:
    """One skip for the overlapping occurrences, which stand together at one end of those chosen."""
    if not overlapping:
        return []
    first, last = overlapping[0].at, overlapping[-1].at
    return [Skip(first, last, len(overlapping), SkipReason.OVERLAP, schedule.previous(first))]


def _skip(schedule: Schedule, after: datetime, until: datetime, reason: SkipReason) -> list[Skip]:
    """A skip for every instant in (after, until], if there are any."""
    first = schedule.next(after)
    if first is None or first > until:
        return []
    last = schedule.previous(until + _MICROSECOND)
    assert last is not None  # `first` is one
    return [Skip(first, last, schedule.count(after, until), reason, schedule.previous(first))]


def skip_range(definition: Definition, after: datetime, until: datetime, reason: SkipReason) -> list[Skip]:
    """A skip for every instant of a job in (after, until], within starts_at and ends_at."""
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
        most = definition.jitter if following is None else min(definition.jitter, following - occurrence.at)
        ready_at += jitter_of(job.id, occurrence.at, most)
    return NewRun(
        id=scheduled_run_id(job.id, occurrence.at),
        scheduled_at=occurrence.at,
        local_at=occurrence.local,
        ready_at=ready_at,
        expires_at=now + definition.max_age,
        rank=rank_of(definition.priority, is_late=now - occurrence.at > definition.late_after),
    )
