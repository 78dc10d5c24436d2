"""Times as people write them: RFC 3339, `now`, `-2h`, `tomorrow 09:00`, or a local time in the zone at hand."""

from datetime import UTC, datetime, timedelta
from typing import Literal

from hourbell.core.preview import format_offset, rfc3339
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.forms import parse_duration
from hourbell.core.schedule.zones import local_time_at

Direction = Literal["ago", "ahead"]

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_LONG_AGO = datetime(1969, 12, 30, tzinfo=UTC)


def parse_time(text: str, now: datetime, timezone: str, bare: Direction | None = None) -> datetime:
    """An instant; a ValueError says how to write one. `bare` is what a duration without a sign means, if anything."""
    try:
        instant = _read(text.strip(), now, timezone, bare)
    except (ScheduleError, OverflowError):
        instant = None
    if instant is None:
        shorter = "2h, " if bare else ""
        raise ValueError(
            f"{text[:40]!r} is not a time; write 2026-12-24T18:00:00Z, now, {shorter}-2h or 'tomorrow 09:00'"
        )
    return instant


def parse_length(text: str) -> timedelta:
    """How long, as in 2h30m; a ValueError says how to write it."""
    seconds = parse_duration(text.strip())
    try:
        length = timedelta(seconds=seconds or 0)
    except OverflowError:
        length = timedelta()
    if not length:
        raise ValueError(f"{text[:40]!r} is not a duration; write 90s, 15m, 2h30m or 1d")
    return length


def shown(instant: datetime | None, timezone: str) -> str:
    """What the clock on the wall of the zone reads; the zone is named beside it."""
    if instant is None:
        return ""
    if timezone == "UTC":
        return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    reading, offset, _ = local_time_at(timezone, instant)
    return f"{reading:%Y-%m-%d %H:%M:%S} {format_offset(offset)}"


def told(instant: datetime, timezone: str) -> str:
    """An instant beyond doubt: in UTC and, where that differs, in the zone."""
    exact = rfc3339(instant.astimezone(UTC).replace(microsecond=0))
    return exact if timezone == "UTC" else f"{exact} ({shown(instant, timezone)} in {timezone})"


def _read(text: str, now: datetime, timezone: str, bare: Direction | None) -> datetime | None:
    if text == "now":
        return now
    sign, length = (text[0], text[1:]) if text[:1] in ("-", "+") else ({"ago": "-", "ahead": "+"}.get(bare or ""), text)
    if sign and (seconds := parse_duration(length)) is not None:
        distance = timedelta(seconds=seconds)
        return now - distance if sign == "-" else now + distance
    word, _, clock = text.partition(" ")
    if word in _DAYS:
        day = local_time_at(timezone, now)[0].date() + timedelta(days=_DAYS[word])
        text = f"{day}T{clock.strip() or '00:00'}"
    elif len(text) == len("2026-12-24"):
        text = f"{text}T00:00"
    return Schedule.parse(f"at {text}", timezone=timezone).next(_LONG_AGO)
