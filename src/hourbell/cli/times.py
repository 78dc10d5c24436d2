"""Times as people write them: RFC 3339, `now`, `-2h`, `tomorrow 09:00`, or a local time in the zone at hand."""

from datetime import UTC, datetime, timedelta

from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.forms import parse_duration
from hourbell.core.schedule.zones import local_time_at

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_LONG_AGO = datetime(1969, 12, 30, tzinfo=UTC)


def parse_time(text: str, now: datetime, timezone: str) -> datetime:
    """An instant; a ValueError says how to write one."""
    try:
        instant = _read(text.strip(), now, timezone)
    except (ScheduleError, OverflowError):
        instant = None
    if instant is None:
        raise ValueError(f"{text[:40]!r} is not a time; write 2026-12-24T18:00:00Z, now, -2h or 'tomorrow 09:00'")
    return instant


def _read(text: str, now: datetime, timezone: str) -> datetime | None:
    if text == "now":
        return now
    if text[:1] in ("-", "+") and (seconds := parse_duration(text[1:])) is not None:
        distance = timedelta(seconds=seconds)
        return now - distance if text[0] == "-" else now + distance
    word, _, clock = text.partition(" ")
    if word in _DAYS:
        day = local_time_at(timezone, now)[0].date() + timedelta(days=_DAYS[word])
        text = f"{day}T{clock.strip() or '00:00'}"
    elif len(text) == len("2026-12-24"):
        text = f"{text}T00:00"
    return Schedule.parse(f"at {text}", timezone=timezone).next(_LONG_AGO)
