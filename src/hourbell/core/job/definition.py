"""A job as users define it, and as the planner sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.schedule import Schedule
from hourbell.core.schedule.forms import Instant, Yearly

_MICROSECOND = timedelta(microseconds=1)

Json = Mapping[str, object]


@dataclass(slots=True)  # nobody sets a field again; but a frozen one costs three times as much to make, in every pass
class Definition:
    """Everything a user says about a job. One version of a job is one of these."""

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
    lane: str = ""
    managed_by: str = "api"
    source: str = ""

    def parsed(self) -> Schedule:
        """The schedule, or a ScheduleError."""
        return Schedule.parse(self.schedule, self.timezone, self.dst, self.name)  # type: ignore[arg-type]

    def previous_instant(self, before: datetime) -> datetime | None:
        """The newest instant strictly before that the schedule names, within starts_at and ends_at."""
        if self.ends_at is not None:
            before = min(before, self.ends_at + _MICROSECOND)
        instant = self.parsed().previous(before)
        is_too_early = instant is not None and self.starts_at is not None and instant < self.starts_at
        return None if is_too_early else instant


@dataclass(slots=True)  # likewise
class Job:
    """A stored job with its place in time.

    All instants up to `cursor_at` are accounted for; None means it is not adopted yet, or is to be adopted anew.
    `next_at` is the next instant, None if it never fires again. `plan_at` is when the planner looks next.
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
    newest_at: datetime | None = field(default=None, compare=False)  # its newest instant on record; without a cursor
    has_changes: bool = field(default=False, compare=False)  # earlier versions are still to be planned
    superseded_at: datetime | None = field(default=None, compare=False)  # this is an earlier version, valid until then
    change_id: int | None = field(default=None, compare=False)  # the row of that change

    def from_now(self, now: datetime) -> datetime:
        """Where planning begins anew: now, or where it stands if the clock is behind. Nothing is planned twice."""
        return max(filter(None, (now, self.cursor_at, self.newest_at)))


def default_catch_up(schedule: Schedule) -> CatchUp:
    """What is missed of a schedule that fires once, or once a year, is never dropped; of others the newest counts."""
    return CatchUp.ALL if isinstance(schedule.form, (Instant, Yearly)) else CatchUp.LATEST
