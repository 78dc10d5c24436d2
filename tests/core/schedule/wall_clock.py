"""A slow second implementation: walk real time, read the local clock, and test each moment against the schedule.

Nothing here comes from hourbell. Zones are `zoneinfo` on the `tzdata` package, fields and days are read again with
`datetime` and `calendar`, and the daylight-saving rule is applied to the readings one by one.
"""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, cached_property
from importlib.resources import files
from itertools import product
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
_MONTHS = ["", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


@cache
def zone_file(name: str) -> bytes:
    """The compiled zone, out of the package and not the host."""
    return files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


@cache
def wall_zone(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def all_zone_names() -> tuple[str, ...]:
    return tuple(sorted(files("tzdata").joinpath("zones").read_text("ascii").split()))


@dataclass(frozen=True, order=True)
class Transition:
    """The instant from which the clock runs by another offset."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def low(self) -> datetime:
        """The first local time that is skipped or repeated."""
        return self.at.replace(tzinfo=None) + min(self.before, self.after)

    @property
    def high(self) -> datetime:
        """The first local time that is skipped or repeated no more."""
        return self.at.replace(tzinfo=None) + max(self.before, self.after)


def find_transitions(name: str, first_year: int, end_year: int, stride: timedelta) -> list[Transition]:
    """Every change of offset, found by looking every `stride` and halving where two looks differ."""
    zone = wall_zone(name)

    def offset(at: datetime) -> timedelta:
        return at.astimezone(zone).utcoffset() or timedelta(0)

    found = []
    at, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(end_year, 1, 1, tzinfo=UTC)
    before = offset(at)
    while at < end:
        following = at + stride
        after = offset(following)
        while before != after:
            low, high = at, following
            while high - low > SECOND:
                middle = low + (high - low) // 2
                middle = middle.replace(microsecond=0)
                if offset(middle) == before:
                    low = middle
                else:
                    high = middle
            found.append(Transition(high, before, offset(high)))
            before = offset(high)
            at = high
        at = following
    return [transition for transition in found if transition.at < end]


@dataclass(frozen=True)
class WallCron:
    """A cron expression as plain sets and texts."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    date_text: str
    months: frozenset[int]
    weekday_text: str
    years: frozenset[int] | None
    is_periodic: bool
    needs_both: bool

    def matches(self, local: datetime) -> bool:
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.second in self.seconds
            and self.matches_date(local.date())
        )

    def matches_date(self, on: date) -> bool:
        known = self._dates.get(on)
        if known is None:
            known = self._dates[on] = self._check_day(on)
        return known

    @cached_property
    def times(self) -> list[time]:
        """The times of day, rising."""
        return [time(*parts) for parts in product(sorted(self.hours), sorted(self.minutes), sorted(self.seconds))]

    @cached_property
    def _dates(self) -> dict[date, bool]:
        return {}

    def _check_day(self, on: date) -> bool:
        if on.month not in self.months or (self.years is not None and on.year not in self.years):
            return False
        by_date = any(_date_matches(item, on) for item in self.date_text.split(","))
        by_weekday = any(_weekday_matches(item, on) for item in self.weekday_text.split(","))
        if self.needs_both or self.date_text in "*?" or self.weekday_text in "*?":
            return by_date and by_weekday
        return by_date or by_weekday


@cache
def read_cron(text: str) -> WallCron:
    """Read an expression that is known to be valid."""
    words = text.split()
    if len(words) == 5:
        words.insert(0, "0")
    if len(words) == 6:
        words.append("*")
    second, minute, hour, day, month, weekday, year = words
    return WallCron(
        seconds=_numbers(second, 0, 59),
        minutes=_numbers(minute, 0, 59),
        hours=_numbers(hour, 0, 23),
        date_text=day,
        months=_numbers(month, 1, 12, _MONTHS),
        weekday_text=weekday.removeprefix("+"),
        years=None if year == "*" else _numbers(year, 1970, 2199),
        is_periodic=any(field.startswith("*") for field in (second, minute, hour)),
        needs_both=weekday.startswith("+"),
    )


def _numbers(text: str, low: int, high: int, names: list[str] | None = None) -> frozenset[int]:
    numbers: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            first_text, _, last_text = span.partition("-")
            first = _number(first_text, names)
            last = _number(last_text, names) if last_text else first
            if names is _WEEKDAYS and last_text.upper() == "SUN" and first > 0:
                last = 7
        numbers.update(range(first, last + 1, int(step or 1)))
    return frozenset(numbers)


def _number(text: str, names: list[str] | None) -> int:
    return names.index(text.upper()) if names and text.upper() in names else int(text)


def _date_matches(item: str, on: date) -> bool:
    length = calendar.monthrange(on.year, on.month)[1]
    if item == "L":
        return on.day == length
    if item == "LW":
        return on.day == max(day for day in range(1, length + 1) if _is_workday(on.replace(day=day)))
    if item.startswith("L-"):
        return on.day == length - int(item[2:])
    if item.endswith("W"):
        wanted = int(item[:-1])
        if wanted > length:
            return False
        workdays = [day for day in range(1, length + 1) if _is_workday(on.replace(day=day))]
        return on.day == min(workdays, key=lambda day: abs(day - wanted))
    return on.day in _numbers(item, 1, 31)


def _is_workday(on: date) -> bool:
    return on.isoweekday() <= 5


def _weekday_matches(item: str, on: date) -> bool:
    weekday = on.isoweekday() % 7
    length = calendar.monthrange(on.year, on.month)[1]
    day_text, hash_sign, nth = item.partition("#")
    if not hash_sign and item.endswith("L"):
        day_text, nth = item[:-1], "L"
    if not nth:
        return weekday in {number % 7 for number in _numbers(item, 0, 6, _WEEKDAYS)}
    if weekday != _number(day_text, _WEEKDAYS) % 7:
        return False
    same = [day for day in range(1, length + 1) if (day - on.day) % 7 == 0]
    return on.day == (same[-1] if nth == "L" else next(iter(same[int(nth) - 1 :]), None))


@dataclass(frozen=True)
class Walk:
    """Return the local times, step by step, in a window of real time."""

    instants: tuple[datetime, ...]
    readings: tuple[datetime, ...]
    step: timedelta

    @classmethod
    def through(cls, zone_name: str, start: datetime, end: datetime, step: timedelta) -> "Walk":
        """From start to end, both included. Start and end are UTC, and on the step."""
        zone = wall_zone(zone_name)
        instants = tuple(start + step * number for number in range((end - start) // step + 1))
        return cls(instants, tuple(at.astimezone(zone).replace(tzinfo=None) for at in instants), step)

    def firings(self, cron: WallCron, dst: str) -> list[datetime]:
        """Return when the schedule fires. In the first hours of the window, repeated local times are unknown."""
        readings = [pair for time in cron.times for pair in self._by_time.get(time, ()) if cron.matches(pair[1])]
        if cron.is_periodic or dst == "wall":
            return sorted(at for at, _ in readings)
        found = {at for at, local in readings if self._first_pass[local] == at}
        if dst == "once":
            found |= {at for at, skipped in self._skipped if any(cron.matches(local) for local in skipped)}
        return sorted(found)

    @cached_property
    def _by_time(self) -> dict[time, list[tuple[datetime, datetime]]]:
        """Instants and readings by time of day, so that a schedule need not look at every reading."""
        found: dict[time, list[tuple[datetime, datetime]]] = {}
        for at, local in zip(self.instants, self.readings, strict=True):
            found.setdefault(local.time(), []).append((at, local))
        return found

    @cached_property
    def _first_pass(self) -> dict[datetime, datetime]:
        """The first instant of every local time that exists."""
        first: dict[datetime, datetime] = {}
        for at, local in zip(self.instants, self.readings, strict=True):
            first.setdefault(local, at)
        return first

    @cached_property
    def _skipped(self) -> list[tuple[datetime, list[datetime]]]:
        """The instants that end a gap, with the local times in it that never come, on dates that do."""
        dates = {local.date() for local in self.readings}
        found = []
        for at, local, before in zip(self.instants[1:], self.readings[1:], self.readings, strict=False):
            missing = [before + self.step * number for number in range(1, (local - before) // self.step)]
            missing = [lost for lost in missing if lost not in self._first_pass and lost.date() in dates]
            if missing:
                found.append((at, missing))
        return found


def walk_utc(cron: WallCron, after: datetime) -> Iterator[datetime]:
    """Every instant strictly after, in UTC, day by day to the end of 2199."""
    on = after.date()
    while on.year <= 2199:
        if on.month in cron.months and (cron.years is None or on.year in cron.years):
            if cron.matches_date(on):
                on_day = (datetime.combine(on, at, UTC) for at in cron.times)
                yield from (at for at in on_day if at > after)
            on += timedelta(days=1)
        else:
            on = (on.replace(day=1) + timedelta(days=32)).replace(day=1)
