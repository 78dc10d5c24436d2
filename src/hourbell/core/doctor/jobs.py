"""Checks of a job's position in time: its error, cursor, plan time and creation time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum, auto

from hourbell.core.doctor import catalog
from hourbell.core.doctor.facts import JobFacts
from hourbell.core.doctor.findings import Defect
from hourbell.core.doctor.repairs import Dialect
from hourbell.core.run.plan import first_instant
from hourbell.core.run.states import SkipReason
from hourbell.core.schedule import ScheduleError
from hourbell.core.schedule.zones import load_zone

OVERDUE = timedelta(minutes=5)
AHEAD = timedelta(minutes=1)


class Planners(Enum):
    """The nodes that could have planned an overdue job."""

    NONE = auto()  # no node is alive
    NEW = auto()  # some are alive, but not for long enough
    SETTLED = auto()


_OVERDUE = {Planners.NONE: catalog.JOB_UNATTENDED, Planners.SETTLED: catalog.JOB_OVERDUE}


def check_job(
    facts: JobFacts, now: datetime, dialect: Dialect, *, planners: Planners, knows_zones: bool
) -> Iterator[Defect]:
    """Check one job; `planners` decides which defect an overdue job is, if any."""
    job = facts.job
    definition, row = job.definition, f"job {job.definition.name}"
    if job.error is not None and definition.enabled:
        yield Defect(catalog.JOB_IN_ERROR, f"{row}: {job.error}")
    if job.error is None and job.plan_at is not None and job.plan_at < now - OVERDUE and planners in _OVERDUE:
        yield Defect(_OVERDUE[planners], f"{row}, since {job.plan_at.isoformat()}")
    if job.error is None and job.plan_at is None and definition.enabled and _goes_on(facts, knows_zones=knows_zones):
        yield Defect(catalog.JOB_NEVER_PLANNED, row, (dialect.plan_now(job.id),))
    if job.cursor_at is not None and job.cursor_at > now + AHEAD and not _was_moved_there(facts, job.cursor_at):
        yield Defect(catalog.CURSOR_AHEAD, f"{row}, {job.cursor_at.isoformat()}")
    if facts.created_at is not None and (replaced := _last_before(facts, facts.created_at - AHEAD)) is not None:
        between = f"{replaced.isoformat()} to {facts.created_at.isoformat()}"
        yield Defect(catalog.JOB_REPLACED, f"{row}: nothing is known of its times from {between}")


def _last_before(facts: JobFacts, created_at: datetime) -> datetime | None:
    """Return the last instant that was planned before the job's row was created."""
    return max((run.scheduled_at for run in facts.runs if run.planned_at < created_at), default=None)


def _goes_on(facts: JobFacts, *, knows_zones: bool) -> bool:
    """Check that the job has a future instant, or was not adopted yet."""
    job = facts.job
    if job.cursor_at is None:
        return True
    try:
        schedule = job.definition.parsed()
    except ScheduleError:
        return False
    judged = knows_zones or load_zone(job.definition.timezone).is_utc
    return judged and first_instant(job.definition, schedule, job.cursor_at) is not None


def _was_moved_there(facts: JobFacts, cursor_at: datetime) -> bool:
    """Check if newer time-zone data moved the cursor ahead: it skips an instant whose local time was already served."""
    return any(skip.reason == SkipReason.TZDATA and skip.last_at == cursor_at for skip in facts.skips)
