"""Durations as people write them: `90s`, `2h30m`, `1d`, or a number of seconds."""

from datetime import timedelta
from functools import lru_cache

from hourbell.core.schedule.forms import parse_duration

LONGEST = timedelta(days=36_500)
_LONGEST_TEXT = 50
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def read_duration(value: object, least: timedelta = timedelta(0)) -> timedelta | None:
    """The duration, or None if it is not one from `least` to 36,500 days."""
    seconds: float | None = None
    if isinstance(value, str):
        seconds = _seconds(value) if len(value) <= _LONGEST_TEXT else None
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value
    if seconds is None or not 0 <= seconds <= LONGEST.total_seconds():
        return None
    duration = timedelta(seconds=seconds)
    return duration if duration >= least else None


@lru_cache(maxsize=1024)
def _seconds(text: str) -> int | None:
    """The same few texts come again and again."""
    return parse_duration(text)


def show_duration(duration: timedelta) -> str | float:
    """Short text such as `2h30m`, which reads the same again; seconds where they are not whole, or below 0."""
    if duration.microseconds or duration < timedelta(0):
        return duration.total_seconds()
    rest = duration.days * 86_400 + duration.seconds
    text = ""
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
