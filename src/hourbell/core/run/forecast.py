"""How many fires are to come, bucket by bucket. Nothing is walked that arithmetic can count."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from hourbell.core.job.definition import Definition
from hourbell.core.schedule import Schedule, ScheduleError

_MICROSECOND = timedelta(microseconds=1)
_STEPS_PER_COUNT = 8  # a count costs about as much as that many steps from instant to instant


def forecast(
    groups: Iterable[tuple[Definition, int]], start: datetime, bucket: timedelta, buckets: int, *, now: datetime
) -> list[int]:
    """Fires in [start, start + bucket), and so on, of groups of so many jobs that name the same instants.

    Nothing before now is to come, and a schedule that cannot be read has none.
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
    """Add what the schedule names in [first, last)."""
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
    """How many instants there are in [first, last): a schedule counts after the one, and up to the other."""
    return schedule.count(first - _MICROSECOND, last - _MICROSECOND)
