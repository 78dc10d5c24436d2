"""Local days: which times belong to a date of a zone, and how the times of one long skip fall on dates."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from hourbell.core.schedule import Schedule
from hourbell.core.schedule.zones import load_zone

DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.date()
_FARTHEST = timedelta(days=2)  # no local time is farther from UTC


@dataclass(frozen=True, slots=True)
class Span:
    """A range of times, from `start` to before `end`, in which local time is UTC + `offset`."""

    start: datetime
    end: datetime
    offset: timedelta


def spans_of(timezone: str, first: date, last: date) -> list[Span]:
    """Return the times of the local dates from first to last, both included, newest first."""
    zone = load_zone(timezone)
    first_reading, end_reading = _midnight(first), _midnight(last) + DAY
    earliest, latest = _seconds(first_reading - _FARTHEST), _seconds(end_reading + _FARTHEST)
    found = []
    for period in range(zone.period_at(earliest), zone.period_at(latest) + 1):
        offset = timedelta(seconds=zone.offsets[period])
        start = _EPOCH + timedelta(seconds=max(zone.starts[period], earliest))
        end = _EPOCH + timedelta(seconds=min(zone.starts[period + 1], latest))
        span = Span(max(start, first_reading - offset), min(end, end_reading - offset), offset)
        if span.start < span.end:
            found.append(span)
    return found[::-1]


def date_of_day(day: int) -> date:
    """Return the date of a day number, counted from 1970-01-01."""
    return _EPOCH_DAY + timedelta(days=day)


def spread_skip(
    first_at: datetime, last_at: datetime, count: int, spans: Iterable[Span], schedule: Schedule | None
) -> dict[date, int]:
    """Return how many of a skip's times fall on each local date of the spans.

    The schedule decides if it names as many times as were skipped. If not, because it has changed since, the times are
    spread evenly.
    """
    pieces = [piece for span in spans for piece in _pieces(span, first_at, last_at + _SECOND)]
    exact = schedule is not None and schedule.count(first_at - _SECOND, last_at) == count
    found: dict[date, int] = {}
    for start, end, day in pieces:
        if exact and schedule is not None:
            times = schedule.count(start - _SECOND, end - _SECOND)
        else:
            whole = last_at + _SECOND - first_at
            times = round(count * ((end - first_at) / whole)) - round(count * ((start - first_at) / whole))
        if times:
            found[day] = found.get(day, 0) + times
    return found


def _pieces(span: Span, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, date]]:
    """Split what a span shares with a range into its local dates."""
    begin, end = max(span.start, start), min(span.end, end)
    while begin < end:
        day = (begin + span.offset).date()
        next_midnight = _midnight(day) + DAY - span.offset
        yield begin, min(end, next_midnight), day
        begin = next_midnight


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _seconds(at: datetime) -> int:
    return int((at - _EPOCH).total_seconds())
