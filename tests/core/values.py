"""Small values for tests of planning: a job that was planned up to T0, and what became of its instants."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.change import Change
from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.plan import Plan

MICROSECOND, SECOND, MINUTE, HOUR, DAY = (
    timedelta(**{unit: 1}) for unit in ("microseconds", "seconds", "minutes", "hours", "days")
)
T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)  # a Monday
JOB = UUID(int=7)
HOURLY, MINUTELY = "0 * * * *", "* * * * *"
BROKEN = "61 * * * *"
Skipped = tuple[str, int, int, int]  # reason, first and last instant in steps after T0, how many

_OF_JOB = ("cursor_at", "next_at", "plan_at", "error", "paused_until", "waiting", "unfinished", "newest_at")


def a_definition(schedule: str = HOURLY, **more: Any) -> Definition:
    target = {"type": "task", "name": "a"}
    return Definition(**{"name": "job", "schedule": schedule, "target": target, "lane": "task:a", **more})


def a_job(schedule: str = HOURLY, **more: Any) -> Job:
    """A job whose instants are accounted for up to T0. Takes the fields of a job and of its definition."""
    of_job = {"cursor_at": T0} | {name: more.pop(name) for name in _OF_JOB if name in more}
    return Job(JOB, 1, a_definition(schedule, **more), **of_job)


def fired(made: Plan | Change, step: timedelta = HOUR) -> list[int]:
    """The instants that became runs, in steps after T0."""
    return [(run.scheduled_at - T0) // step for run in made.runs]


def skipped(made: Plan | Change, step: timedelta = HOUR) -> list[Skipped]:
    """The instants that became skips, in steps after T0."""
    return [
        (skip.reason.value, (skip.first_at - T0) // step, (skip.last_at - T0) // step, skip.count)
        for skip in made.skips
    ]


def position(made: Plan | Change) -> Sequence[datetime | None]:
    """Return the job's state afterwards."""
    return made.cursor_at, made.next_at, made.plan_at
