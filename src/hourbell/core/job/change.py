"""Decisions about changes of a job: a change never fires a past instant, and loses no instant.

A change of an enabled job first plans the old version up to now. All instants due by now belong to the old version, all
later ones to the new version.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.fields import PLANNING_FIELDS
from hourbell.core.run.plan import Plan, Skip, first_instant, plan, skip_range
from hourbell.core.run.run import NewRun
from hourbell.core.run.states import SkipReason
from hourbell.core.schedule import ScheduleError


class StillCatchingUp(Exception):
    """A refusal to change a job while instants of its old version remain to be planned."""


@dataclass(frozen=True, slots=True)
class Change:
    """The job after a change, and the runs and skips that the old version still gets."""

    definition: Definition
    cursor_at: datetime | None
    next_at: datetime | None
    plan_at: datetime | None
    runs: tuple[NewRun, ...] = ()
    skips: tuple[Skip, ...] = ()
    cancels_others: bool = False
    paused_until: datetime | None = None
    is_queued: bool = False  # earlier changes are pending; the planner plans the old version up to now


def created(definition: Definition, now: datetime) -> Change:
    """Create a job that fires from now on."""
    return _from_now(definition, now)


def edited(job: Job, definition: Definition, now: datetime, *, drop_backlog: bool = False) -> Change:
    """Replace the definition after planning the old one; restart at now if it plans instants differently."""
    if job.has_changes:
        definition.parsed()  # raises if the schedule is invalid
        return _queued(job, definition, now, job.paused_until)
    if job.error is None and _plan_alike(job.definition, definition):
        return _edited_in_place(job, definition, now)
    old = _account(job, now, drop_backlog=drop_backlog)
    change = _from_now(definition, job.from_now(now), paused_until=job.paused_until)
    return replace(change, runs=old.runs, skips=old.skips, cancels_others=old.cancels_others)


def _edited_in_place(job: Job, definition: Definition, now: datetime) -> Change:
    """Edit without moving instants. If one pass cannot plan the whole backlog, the new definition gets the rest."""
    if not definition.enabled or job.cursor_at is None:
        return Change(definition, job.cursor_at, job.next_at, job.plan_at, paused_until=job.paused_until)
    old = plan(job, now)
    if old.error is not None:  # the planner will find and report it, too
        return Change(definition, job.cursor_at, job.next_at, job.plan_at)
    return Change(definition, old.cursor_at, old.next_at, old.plan_at, old.runs, old.skips, old.cancels_others)


def paused(job: Job, now: datetime, until: datetime | None) -> Change:
    """Stop planning now. If the job is still catching up, its unplanned instants count as paused."""
    definition = replace(job.definition, enabled=False)
    if job.has_changes and job.definition.enabled:
        return _queued(job, definition, now, until)
    if not job.definition.enabled:
        plan_at = now if job.has_changes else until
        return Change(definition, job.cursor_at, job.next_at, plan_at, paused_until=until)
    old = plan(job, now) if job.error is None else _account(job, now, drop_backlog=True)
    return Change(
        definition,
        old.cursor_at,
        next_at=None,
        plan_at=until,
        runs=old.runs,
        skips=old.skips,
        cancels_others=old.cancels_others,
        paused_until=until,
    )


def retired(job: Job, now: datetime) -> Change:
    """Stop planning now; due instants become skips with reason paused, since no node is left to run them."""
    if not job.definition.enabled or job.cursor_at is None or job.has_changes:
        return paused(job, now, job.paused_until)
    skips = _dropped(job, job.cursor_at, now, SkipReason.PAUSED).skips
    return Change(replace(job.definition, enabled=False), job.from_now(now), None, None, skips=skips)


def resumed(job: Job, now: datetime, *, catch_up: bool) -> Change:
    """Continue planning. Instants during the pause become one skip, or with `catch_up` are planned as missed."""
    definition = replace(job.definition, enabled=True)
    if job.definition.enabled:
        return Change(definition, job.cursor_at, job.next_at, job.plan_at)
    if job.has_changes and not catch_up:
        return _queued(job, definition, now)
    if catch_up and job.cursor_at is not None:
        return Change(definition, job.cursor_at, first_instant(definition, definition.parsed(), job.cursor_at), now)
    skips = skip_range(job.definition, job.cursor_at or now, now, SkipReason.PAUSED)
    return replace(_from_now(definition, job.from_now(now)), skips=tuple(skips))


def _queued(job: Job, definition: Definition, now: datetime, paused_until: datetime | None = None) -> Change:
    """Queue the change behind earlier changes by plain SQL, which are not planned yet."""
    until = None if definition.enabled else paused_until
    return Change(definition, job.cursor_at, None, now, paused_until=until, is_queued=True)


def _plan_alike(old: Definition, new: Definition) -> bool:
    """Check that both definitions plan the same instants alike. A name matters only if the schedule hashes it."""
    same = all(getattr(old, name) == getattr(new, name) for name in PLANNING_FIELDS)
    return same and (old.name == new.name or new.parsed().name is None)


def _from_now(definition: Definition, now: datetime, paused_until: datetime | None = None) -> Change:
    next_at = first_instant(definition, definition.parsed(), now)
    if definition.enabled:
        return Change(definition, now, next_at, next_at)
    return Change(definition, now, next_at=None, plan_at=paused_until, paused_until=paused_until)


def _account(job: Job, now: datetime, *, drop_backlog: bool) -> Plan:
    """Plan the old version up to now; raise StillCatchingUp if that takes more than one pass."""
    if job.cursor_at is None:
        return Plan(job, now, None, None)
    if not job.definition.enabled:
        return _dropped(job, job.cursor_at, now, SkipReason.PAUSED)
    if job.error is not None:
        return _dropped(job, job.cursor_at, now, SkipReason.EDITED)
    old = plan(job, now)
    if old.error is not None or old.cursor_at is None or old.next_at is None or old.next_at > now:
        return old
    if not drop_backlog:
        raise StillCatchingUp
    skips = skip_range(job.definition, old.cursor_at, now, SkipReason.EDITED)
    return replace(old, skips=(*old.skips, *skips))


def _dropped(job: Job, after: datetime, now: datetime, reason: SkipReason) -> Plan:
    """Skip all instants that are due. An invalid schedule has no instants, so that the job can still be repaired."""
    try:
        skips = skip_range(job.definition, after, now, reason)
    except ScheduleError:
        skips = []
    return Plan(job, now, None, None, skips=tuple(skips))
