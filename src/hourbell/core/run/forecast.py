"""The forecast: the number of future fires in each time bucket, counted by arithmetic where that is faster."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from hourbell.core.job.definition import Definition
from hourbell.core.schedule import Schedule, ScheduleError

_MICROSECOND = timedelta(microseconds=1)
_STEPS_PER_COUNT = 8  # one count costs about as much as this many steps from instant to instant


def forecast(
    groups: Iterable[tuple[Definition, int]], start: datetime, bucket: timedelta, buckets: int, *, now: datetime
) -> list[int]:
    """Count the fires in each bucket [start, start + bucket), and so on.

    Each group is a definition and the number of jobs with the same instants. Instants before `now` do not count, and an
    invalid schedule has none.
    """
    fires = [0] * buckets
    end = start + bucket * buckets
    for definition, jobs in groups:
        try:
            schedule = definition.parsed()
        except ScheduleError:
            continue
        first = max(filter(None, (start, now, definition.starts_at)))
        last = end if definition.ends_at is None else min(end, definition.ends_at + _MICROSECOND)
        if first < last:
            _add(fires, schedule, jobs, start, bucket, first, last)
    return fires


def _add(
    fires: list[int],
    schedule: Schedule,
    jobs: int,
    start: datetime,
    bucket: timedelta,
    first: datetime,
    last: datetime,
) -> None:
    """Add the schedule's instants in [first, last) to the buckets."""
    earliest, latest = (first - start) // bucket, (last - start - _MICROSECOND) // bucket
    total = _count(schedule, first, last)
    if earliest == latest:
        fires[earliest] += total * jobs
    elif total <= _STEPS_PER_COUNT * (latest - earliest):
        for instant in schedule.between(first - _MICROSECOND, last - _MICROSECOND) if total else ():
            fires[(instant - start) // bucket] += jobs
    else:
        for index in range(earliest, latest + 1):
            begins = max(first, start + index * bucket)
            ends = min(last, start + (index + 1) * bucket)
            fires[index] += _count(schedule, begins, ends) * jobs


def _count(schedule: Schedule, first: datetime, last: datetime) -> int:
    """Count the instants in [first, last). The schedule itself counts in (after, until]."""
    return schedule.count(first - _MICROSECOND, last - _MICROSECOND)
