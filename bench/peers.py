"""The schedules that are compared, and the fastest call of each library.

A walk makes `steps` calls, each from the answer before, and returns the answers, so that what is timed is also what
is checked. Peers get `datetime.UTC` for UTC, which is their fast path, and elsewhere a `ZoneInfo` made beforehand.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from itertools import islice, repeat
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from hourbell.core.schedule import Schedule
from hourbell.core.schedule.schedule import _parse

# Away from full minutes, where libraries disagree on whether the start itself counts.
START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)

Walk = Callable[[], list[datetime]]


@dataclass(frozen=True)
class Case:
    """A pattern in a zone.

    `apscheduler` holds the five fields in APScheduler's own dialect, where weekdays count from Monday, or None
    where it has no way to say the same.
    """

    title: str
    expression: str
    apscheduler: tuple[str, str, str, str, str] | None
    steps: int = 100
    timezone: str = "UTC"

    @cached_property
    def tzinfo(self) -> tzinfo:
        return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)

    @cached_property
    def start(self) -> datetime:
        return START.astimezone(self.tzinfo)


PATTERNS = (
    Case("every minute", "* * * * *", ("*", "*", "*", "*", "*")),
    Case("every 15 minutes", "*/15 * * * *", ("*/15", "*", "*", "*", "*")),
    Case("weekday mornings", "0 9 * * 1-5", ("0", "9", "*", "*", "mon-fri")),
    Case("daily at 02:30", "30 2 * * *", ("30", "2", "*", "*", "*")),
    Case("first of the month", "0 0 1 * *", ("0", "0", "1", "*", "*")),
    Case("29 February", "0 0 29 2 *", ("0", "0", "29", "2", "*"), steps=12),
    Case("last of the month", "0 0 L * *", ("0", "0", "last", "*", "*")),
    Case("lists", "0,10,25,40 6,9,12,18 * * *", ("0,10,25,40", "6,9,12,18", "*", "*", "*")),
    Case("13th or Friday", "0 12 13 * 5", None),
    Case("second Tuesday", "0 9 * * 2#2", ("0", "9", "2nd tue", "*", "*")),
)


def hourbell_next(case: Case) -> Walk:
    next_after: Callable[[Any], Any] = Schedule.parse(case.expression, case.timezone).next

    def walk() -> list[datetime]:
        at = START
        return [at := next_after(at) for _ in repeat(None, case.steps)]

    return walk


def hourbell_previous(case: Case) -> Walk:
    previous_to: Callable[[Any], Any] = Schedule.parse(case.expression, case.timezone).previous

    def walk() -> list[datetime]:
        at = START
        return [at := previous_to(at) for _ in repeat(None, case.steps)]

    return walk


def cronsim_next(case: Case) -> Walk:
    iterator = CronSim(case.expression, case.start)
    return lambda: list(islice(iterator, case.steps))


def cronsim_previous(case: Case) -> Walk:
    iterator = CronSim(case.expression, case.start, reverse=True)
    return lambda: list(islice(iterator, case.steps))


def croniter_next(case: Case) -> Walk:
    get_next = croniter(case.expression, case.start).get_next
    return lambda: [get_next(datetime) for _ in repeat(None, case.steps)]


def croniter_previous(case: Case) -> Walk:
    get_prev = croniter(case.expression, case.start).get_prev
    return lambda: [get_prev(datetime) for _ in repeat(None, case.steps)]


def apscheduler_next(case: Case) -> Walk:
    get_next_fire_time = _trigger(case).get_next_fire_time

    def walk() -> list[datetime]:
        at = case.start
        return [at := get_next_fire_time(at, at) for _ in repeat(None, case.steps)]

    return walk


def hourbell_parse_cold(case: Case) -> Schedule:
    _parse.cache_clear()
    return Schedule.parse(case.expression, case.timezone)


def hourbell_parse_cached(case: Case) -> Schedule:
    return Schedule.parse(case.expression, case.timezone)


def cronsim_parse(case: Case) -> CronSim:
    return CronSim(case.expression, case.start)


def croniter_parse(case: Case) -> croniter:
    return croniter(case.expression, case.start)


def apscheduler_parse(case: Case) -> CronTrigger:
    return _trigger(case)


def _trigger(case: Case) -> CronTrigger:
    assert case.apscheduler is not None
    minute, hour, day, month, day_of_week = case.apscheduler
    return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=day_of_week, timezone=case.tzinfo)


NEXT: Mapping[str, Callable[[Case], Walk]] = {
    "hourbell": hourbell_next,
    "cronsim": cronsim_next,
    "croniter": croniter_next,
    "apscheduler": apscheduler_next,
}
PREVIOUS: Mapping[str, Callable[[Case], Walk]] = {
    "hourbell": hourbell_previous,
    "cronsim": cronsim_previous,
    "croniter": croniter_previous,
}
PARSE: Mapping[str, Callable[[Case], object]] = {
    "hourbell": hourbell_parse_cold,
    "cached": hourbell_parse_cached,
    "cronsim": cronsim_parse,
    "croniter": croniter_parse,
    "apscheduler": apscheduler_parse,
}


def able(library: str, case: Case) -> bool:
    """Return True if a library supports this pattern."""
    return library != "apscheduler" or case.apscheduler is not None
