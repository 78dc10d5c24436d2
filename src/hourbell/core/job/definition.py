"""A job as users define it, and as the planner reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.schedule import Schedule
from hourbell.core.schedule.forms import Instant, Yearly

_MICROSECOND = timedelta(microseconds=1)

Json = Mapping[str, object]


@dataclass(slots=True)  # treated as immutable; frozen=True would make construction, in every pass, three times as slow
class Definition:
    """The definition of a job: everything a user sets. Each version of a job is one of these."""

    name: str
    schedule: str
    target: Json
    timezone: str = "UTC"
    dst: str = "once"
    payload: object = None
    description: str = ""
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_window: timedelta | None = None
    overlap: Overlap = Overlap.ALLOW
    retry: RetryPolicy = RETRY_PRESETS["default"]
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    max_age: timedelta = timedelta(hours=24)
    late_after: timedelta = timedelta(minutes=5)
    priority: Priority = Priority.NORMAL
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    enabled: bool = True
    tags: tuple[str, ...] = ()
    subject: str = ""
    alert_policy: str = ""  # a name; empty for the default
    lane: str = ""
    managed_by: str = "api"
    source: str = ""

    def parsed(self) -> Schedule:
        """Parse the schedule, or raise a ScheduleError."""
        return Schedule.parse(self.schedule, self.timezone, self.dst, self.name)  # type: ignore[arg-type]

    def previous_instant(self, before: datetime) -> datetime | None:
        """Return the newest instant of the schedule strictly before `before`, within starts_at and ends_at."""
        if self.ends_at is not None:
            before = min(before, self.ends_at + _MICROSECOND)
        instant = self.parsed().previous(before)
        is_too_early = instant is not None and self.starts_at is not None and instant < self.starts_at
        return None if is_too_early else instant


@dataclass(slots=True)  # mutable for the same reason
class Job:
    """A stored job with its planning state.

    All instants up to `cursor_at` are accounted for; None means that the job is not adopted yet, or is to be adopted
    again. `next_at` is the next instant, or None if there is none. `plan_at` is when the planner next plans the job.
    """

    id: UUID
    version: int
    definition: Definition
    cursor_at: datetime | None = None
    next_at: datetime | None = None
    plan_at: datetime | None = None
    error: str | None = None
    paused_until: datetime | None = None
    waiting: int = field(default=0, compare=False)  # runs that are pending or retrying
    unfinished: int = field(default=0, compare=False)  # scheduled runs that have not ended
    newest_at: datetime | None = field(default=None, compare=False)  # its newest stored instant, if there is no cursor
    has_changes: bool = field(default=False, compare=False)  # earlier versions are still to be planned
    superseded_at: datetime | None = field(default=None, compare=False)  # if an earlier version: its end of validity
    change_id: int | None = field(default=None, compare=False)  # the row of that change

    def from_now(self, now: datetime) -> datetime:
        """Return the time where planning restarts: now, or the last planned instant if the clock is behind it.

        So no instant is planned twice.
        """
        return max(filter(None, (now, self.cursor_at, self.newest_at)))


def default_catch_up(schedule: Schedule) -> CatchUp:
    """Return the default catch-up: all for a schedule that fires once or once a year, else the latest."""
    return CatchUp.ALL if isinstance(schedule.form, (Instant, Yearly)) else CatchUp.LATEST
