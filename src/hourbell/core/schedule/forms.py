"""The schedule forms `every`, `at` and `yearly`.

Each parser takes the whole text and returns a frozen value that has a pattern.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hourbell.core.schedule.calendar import (
    DAY,
    FIRST_YEAR,
    KIND_MONTHS,
    KINDS,
    LAST_YEAR,
    calendar_months,
)
from hourbell.core.schedule.errors import ErrorDetail, ScheduleError, echo
from hourbell.core.schedule.pattern import GridPattern, MaskPattern, OncePattern

_UNITS = {"w": 7 * DAY, "d": DAY, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?=\d)(?:\d{1,9}w)?(?:\d{1,9}d)?(?:\d{1,9}h)?(?:\d{1,9}m)?(?:\d{1,9}s)?", re.ASCII)
_PART = re.compile(r"(\d+)([wdhms])", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)
_YEARLY = re.compile(r"(\d\d)-(\d\d) +(\d\d):(\d\d)(?::(\d\d))?(?: +(\S+))?", re.ASCII)
_MAX_INTERVAL_SECONDS = 100 * 366 * DAY
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  local readings have no zone


@dataclass(frozen=True, slots=True)
class Moment:
    """A date and time as written: local, or an instant if it has an offset."""

    second: int
    is_instant: bool


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval: `every 15m`, or `every 90s from 2026-01-01T00:00:00Z`."""

    seconds: int
    duration: str
    anchor: Moment

    def pattern(self, anchor: int) -> GridPattern:
        """Return the grid that begins at this UTC second."""
        return GridPattern(self.seconds, anchor)


@dataclass(frozen=True, slots=True)
class Instant:
    """A single time: `at 2026-12-24T18:00:00`, local or with an offset."""

    moment: Moment

    @property
    def pattern(self) -> OncePattern:
        return OncePattern(self.moment.second)


@dataclass(frozen=True, slots=True)
class Yearly:
    """A yearly date: `yearly 02-29 09:00 feb29=mar1`."""

    month: int
    day: int
    time: int  # seconds of the day
    feb29: str  # replacement of 29 February in other years: feb28, mar1 or skip

    @property
    def is_leap_day(self) -> bool:
        return (self.month, self.day) == (2, 29)

    @property
    def pattern(self) -> MaskPattern:
        days = [1 << (self.day - 1)] * len(KINDS)
        months = calendar_months(1 << (self.month - 1), None)
        if self.is_leap_day:
            stand_in = 1 << 27 if self.feb29 == "feb28" else 0
            days = [1 << 28 if length == 29 else stand_in if length == 28 else 1 for length, _ in KINDS]
            if self.feb29 == "mar1":
                short_februaries = sum(KIND_MONTHS[:7])
                months = months & ~short_februaries | short_februaries << 1
        hour, rest = divmod(self.time, 3_600)
        minute, second = divmod(rest, 60)
        return MaskPattern.build(1 << second, 1 << minute, 1 << hour, tuple(days), months)


def parse_interval(text: str, start: int) -> Interval:
    """Parse the text after `every`, which begins at this index."""
    words = text[start:].split()
    if not words:
        raise ScheduleError(_detail("every needs a duration", text, start, "write every 15m"))
    duration = words[0]
    seconds = parse_duration(duration)
    if seconds is None:
        raise ScheduleError(_detail(f"{echo(duration)} is not a duration", text, start, _duration_hint(words)))
    if not 1 <= seconds <= _MAX_INTERVAL_SECONDS:
        allowed = "1s to 36600d"
        detail = ErrorDetail(f"{echo(duration)} is outside {allowed}", "interval", start + 1, echo(duration), allowed)
        raise ScheduleError(detail)
    anchor = Moment(0, is_instant=True)
    if len(words) > 1:
        at = text.index(words[1], start + len(duration))
        if words[1] != "from" or len(words) < 3:
            hint = "after the duration only 'from 2026-01-01T00:00:00Z' may follow"
            raise ScheduleError(_detail(f"{echo(text[at:])} is not understood", text, at, hint))
        begins = at + len("from")
        begins += len(text[begins:]) - len(text[begins:].lstrip())
        anchor = parse_moment(text, begins, "interval")
    return Interval(seconds, duration, anchor)


@lru_cache(maxsize=1_000)
def parse_duration(text: str) -> int | None:
    """Return the seconds of a duration such as 90s, 15m, 2h30m or 1d, or None if it is invalid."""
    if _DURATION.fullmatch(text) is None:
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def parse_instant(text: str, start: int) -> Instant:
    """Parse the text after `at`."""
    return Instant(parse_moment(text, start, "instant"))


def parse_moment(text: str, start: int, field: str) -> Moment:
    """Parse a date and time that extends to the end of the text."""
    given = text[start:].rstrip()
    hint = "write 2026-12-24T18:00:00 for local time, or with an offset as in 2026-12-24T18:00:00+01:00"
    found = _MOMENT.fullmatch(given)
    if found is None:
        raise ScheduleError(_detail(f"{echo(given) or 'nothing'} is not a date and time", text, start, hint, field))
    if (fraction := found[7] or "").strip(".0"):
        hint = f"leave out the fraction of a second: {given.replace(fraction, '')}"
        raise ScheduleError(_detail(f"{echo(given)} is not a whole second", text, start, hint, field))
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    zone = (found[8] or "").upper()
    try:
        local = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
        offset = _offset(zone) if zone else None
    except ValueError:
        hint = "check the day, the hour and the offset"
        raise ScheduleError(_detail(f"{echo(given)} does not exist", text, start, hint, field)) from None
    elapsed = local - _EPOCH if offset is None else local - _EPOCH - offset
    if not FIRST_YEAR <= year <= LAST_YEAR:
        allowed = f"{FIRST_YEAR}-{LAST_YEAR}"
        detail = ErrorDetail(f"year {year} is outside {allowed}", field, start + 1, echo(given), allowed)
        raise ScheduleError(detail)
    return Moment(elapsed.days * DAY + elapsed.seconds, is_instant=offset is not None)


def _offset(text: str) -> timedelta:
    if text == "Z":
        return timedelta(0)
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset


def parse_yearly(text: str, start: int) -> Yearly:
    """Parse the text after `yearly`."""
    given = text[start:].rstrip().replace("\t", " ")
    found = _YEARLY.fullmatch(given)
    hint = "write yearly 02-29 09:00, month before day"
    if found is None:
        raise ScheduleError(
            _detail(f"{echo(given) or 'nothing'} is not a yearly date and time", text, start, hint, "yearly")
        )
    month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:5])
    try:
        datetime(2000, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise ScheduleError(_detail(f"{echo(given)} does not exist in any year", text, start, hint, "yearly")) from None
    feb29 = "feb28"
    if found[6] is not None:
        at = start + found.start(6)
        feb29 = found[6].removeprefix("feb29=")
        if feb29 not in ("feb28", "mar1", "skip") or feb29 == found[6]:
            hint = "write feb29=feb28, feb29=mar1 or feb29=skip"
            raise ScheduleError(_detail(f"{echo(found[6])} is not understood", text, at, hint, "yearly"))
        if (month, day) != (2, 29):
            raise ScheduleError(_detail("feb29= is for 02-29 only", text, at, "leave it out", "yearly"))
    return Yearly(month, day, hour * 3_600 + minute * 60 + second, feb29)


def _duration_hint(words: list[str]) -> str:
    number, unit = words[0], words[1] if len(words) > 1 else ""
    if number.isdigit() and unit[:1] in _UNITS:
        return f"write every {echo(number)}{unit[:1]}"
    named = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w"}
    if number.rstrip("s") in named:
        return f"write every {named[number.rstrip('s')]}"
    return "write a number and s, m, h, d or w, as in 90s, 15m, 2h30m or 1d"


def _detail(message: str, text: str, index: int, hint: str | None, field: str = "interval") -> ErrorDetail:
    return ErrorDetail(message, field, index + 1, echo(text[index:]), hint=hint)
