"""Adoption of newer time-zone data by a job: its next instant may move, but a local time never runs twice."""

from datetime import datetime

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan, Skip, first_instant
from hourbell.core.run.states import SkipReason
from hourbell.core.schedule import ScheduleError


def refresh(job: Job, served: datetime | None) -> Plan | None:
    """Compute the job's planning state under the new data; return None if it does not change.

    `served` is the local time of its newest scheduled run. If the new data moves that local time after the cursor, it
    must not fire again, and the instant becomes a skip.
    """
    definition = job.definition
    if job.cursor_at is None or job.error is not None or not definition.enabled:
        return None
    try:
        schedule = definition.parsed()
    except ScheduleError as error:
        return Plan(job, job.cursor_at, None, None, error=str(error))
    cursor_at = job.cursor_at
    skips: tuple[Skip, ...] = ()
    next_at = first_instant(definition, schedule, cursor_at)
    occurrence = schedule.next_occurrence(cursor_at)
    if occurrence is not None and occurrence.at == next_at and occurrence.local == served:
        skip = Skip(occurrence.at, occurrence.at, 1, SkipReason.TZDATA, schedule.previous(occurrence.at))
        cursor_at, skips = occurrence.at, (skip,)
        next_at = first_instant(definition, schedule, cursor_at)
    if next_at == job.next_at and not skips:
        return None
    return Plan(job, cursor_at, next_at, plan_at=next_at, skips=skips)
