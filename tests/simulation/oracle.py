"""The times of a simulation's schedules, found by walking, without Hourbell's arithmetic."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from tests.core.schedule.wall_clock import Walk, read_cron

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE, _AFTER = timedelta(hours=4), timedelta(hours=4)  # of the moment a simulation begins


def microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Instants:
    """Every instant of a schedule around a moment, as microseconds, rising."""

    all: tuple[int, ...]

    def between(self, after: int, until: int) -> list[int]:
        """The start exclusive, the end inclusive."""
        return list(self.all[bisect_right(self.all, after) : bisect_right(self.all, until)])


@cache
def instants_of(schedule: str, timezone: str, moment: datetime) -> Instants:
    """`every Ns`, or cron with or without seconds, in a window around a moment."""
    hour = moment.replace(minute=0, second=0)  # so that a walk by minutes meets them
    start, end = hour - _BEFORE, hour + _AFTER
    if schedule.startswith("every "):
        step = int(schedule.removeprefix("every ").removesuffix("s")) * 1_000_000
        first = -(-microseconds(start) // step) * step
        return Instants(tuple(range(first, microseconds(end), step)))
    step = timedelta(seconds=1) if len(schedule.split()) == 6 else timedelta(minutes=1)
    walk = Walk.through(timezone, start, end, step)
    return Instants(tuple(microseconds(at) for at in walk.firings(read_cron(schedule), "once")))
