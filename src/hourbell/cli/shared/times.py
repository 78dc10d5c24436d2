"""Parser for times as people write them: RFC 3339, `now`, `-2h`, `2 days ago`, `18:00`, `tomorrow 9am`, in a zone.

The option decides whether an ambiguous time is past or future: the last 18:00, or the next.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.calendar import FIRST_YEAR, LAST_YEAR
from hourbell.core.schedule.preview import format_offset, rfc3339
from hourbell.core.schedule.zones import local_time_at, zone_names
from hourbell.core.values.readers import SECOND, InvalidValue, OutOfRange, parse_instant, read_duration, read_instant

Direction = Literal["ago", "ahead"]

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HOURS = {"noon": "12:00", "midnight": "00:00"}
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d)(?::(\d\d))?)? ?(am|pm)?", re.ASCII)
_UNIT = r"(s|m|h|d|w)|(sec|min|hr|week|day|hour|minute|second)s?"
_LENGTH = re.compile(rf"(\d+) ?(?:{_UNIT})(?![a-z])[, ]*", re.ASCII)
_LETTERS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d", "week": "w"}
_FRACTION = re.compile(r"(?<=\d:\d\d:\d\d)\.\d{1,9}(?!\d)", re.ASCII)  # fraction of a second, as in answers of the API
_FAR_FROM_UTC = "Asia/Tokyo"
_LONG_AGO = datetime(1969, 12, 30, tzinfo=UTC)
_OFFERED = {
    None: "2026-12-24T18:00:00Z, now, -2h or 'tomorrow 09:00'",
    "ago": "2h, '2 days ago', 18:00, 'yesterday 09:00', 'friday 09:00', 2026-12-24 or 2026-12-24T18:00:00Z",
    "ahead": "2h, '2 days', 18:00, 'tomorrow 09:00', 'friday 09:00', 2026-12-24 or 2026-12-24T18:00:00Z",
}


def parse_time(text: str, now: datetime, timezone: str, bare: Direction | None = None) -> datetime:
    """Parse a time. A ValueError names the accepted forms. `bare` gives a duration or time of day its direction."""
    try:
        instant = _read(" ".join(text.split()), now, timezone, bare)
    except (ScheduleError, OverflowError, OutOfRange) as error:
        if not isinstance(error, ScheduleError) or error.errors[0].allowed == f"{FIRST_YEAR}-{LAST_YEAR}":
            years = f"the years {FIRST_YEAR} to {LAST_YEAR}"
            raise ValueError(f"{text[:40]!r} is out of range; write a time of {years}") from None
        instant = None
    if instant is None:
        raise ValueError(f"{text[:40]!r} is not a time; write {_OFFERED[bare]}")
    return instant


def is_local(text: str, now: datetime) -> bool:
    """Return whether the time depends on the zone, as 09:00 does, unlike `now` or a time with an offset."""
    return parse_time(text, now, "UTC") != parse_time(text, now, _FAR_FROM_UTC)


def parse_length(text: str) -> timedelta:
    """Parse a duration such as 2h30m or 2 hours. Raises a ValueError with the accepted forms."""
    try:
        return read_duration(_short(text.strip().lower()), SECOND)
    except InvalidValue:
        raise ValueError(f"{text[:40]!r} is not a duration; write 90s, 15m, 2h30m or 1d") from None


def shown(instant: datetime | None, timezone: str) -> str:
    """Format the local time in the zone; the caller shows the zone's name. An unknown zone counts as UTC."""
    if instant is None:
        return ""
    if timezone == "UTC":
        return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    reading, offset, _ = local_time_at(timezone if timezone in zone_names() else "UTC", instant)
    return f"{reading:%Y-%m-%d %H:%M:%S} {format_offset(offset)}"


def describe_time(instant: datetime, timezone: str) -> str:
    """Format a time unambiguously: in UTC and, if the zone differs, also in the zone."""
    exact = rfc3339(instant.astimezone(UTC).replace(microsecond=0))
    return exact if timezone == "UTC" else f"{exact} ({shown(instant, timezone)} in {timezone})"


def _read(text: str, now: datetime, timezone: str, bare: Direction | None) -> datetime | None:
    lowered = text.lower()
    if lowered == "now":
        return now
    if (distance := _distance(lowered, bare)) is not None:
        return now + distance
    today = local_time_at(timezone, now)[0].date()
    day, _, rest = lowered.partition(" ")
    if (clock := _clock(lowered)) is not None:
        days = [0] if bare is None else [-1, 0, 1]
    elif day in _DAYS:
        clock, days = _clock(rest or "midnight"), [_DAYS[day]]
    elif bare is not None and (weekday := _weekday(day)) is not None:
        clock, days = _clock(rest or "midnight"), [d for d in range(-7, 8) if (today.weekday() + d) % 7 == weekday]
    elif len(text) == len("2026-12-24"):
        return _local(f"{text}T00:00", timezone)
    else:
        return _local(text, timezone)
    if clock is None:
        return None
    return _nearest((_local(f"{today + timedelta(days=each)}T{clock}", timezone) for each in days), now, bare)


def _local(text: str, timezone: str) -> datetime | None:
    if parse_instant(text) is not None:
        return read_instant(text)
    return Schedule.parse(f"at {_FRACTION.sub('', text)}", timezone=timezone).next(_LONG_AGO)


def _nearest(found: Iterable[datetime | None], now: datetime, bare: Direction | None) -> datetime | None:
    """Return the only time, or the one nearest to now in the given direction."""
    instants = [each for each in found if each is not None]
    if len(instants) < 2:
        return instants[0] if instants else None
    return min(each for each in instants if each > now) if bare == "ahead" else max(e for e in instants if e <= now)


def _distance(lowered: str, bare: Direction | None) -> timedelta | None:
    """Parse an offset from now, such as -2h, in 2 hours or 2 days ago. Returns None for anything else."""
    if lowered[:1] in ("-", "+"):
        is_ago, length = lowered[0] == "-", lowered[1:]
    elif lowered.startswith("in "):
        is_ago, length = False, lowered[3:]
    elif lowered.endswith(" ago"):
        is_ago, length = True, lowered[:-4]
    elif bare is not None:
        is_ago, length = bare == "ago", lowered
    else:
        return None
    try:
        distance = read_duration(_short(length))
    except OutOfRange:
        raise
    except InvalidValue:
        return None
    return -distance if is_ago else distance


def _short(lowered: str) -> str:
    """Convert a duration such as 2 hours to 2h, or return the text unchanged if it is not a duration."""
    short, at = "", 0
    while found := _LENGTH.match(lowered, at):
        short += found[1] + (found[2] or _LETTERS[found[3]])
        at = found.end()
    return short if at == len(lowered) else lowered


def _clock(lowered: str) -> str | None:
    """Convert a time of day, such as 18:00, 9am or noon, to HH:MM:SS. Returns None for anything else."""
    found = _CLOCK.fullmatch(_HOURS.get(lowered, lowered))
    if found is None or (found[2] is None and found[4] is None):
        return None
    hour = int(found[1])
    if found[4] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    return f"{hour:02}:{found[2] or '00'}:{found[3] or '00'}"


def _weekday(word: str) -> int | None:
    """Return the number of a weekday, given by its name or the first three or more letters of it, or None."""
    matching = [number for number, name in enumerate(_WEEKDAYS) if len(word) >= 3 and name.startswith(word)]
    return matching[0] if matching else None
