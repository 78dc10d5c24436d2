"""Figures about runs: percentiles, the trend of durations and the current streak of failures."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median

from hourbell.core.run.states import ENDS, RunState

MILLISECOND = timedelta(milliseconds=1)
MIN_TREND_POINTS = 12
MIN_TREND_SPAN = timedelta(days=1)
_WEEK = timedelta(weeks=1)


def percentile_ms(rising: Sequence[timedelta], percent: int) -> int | None:
    """Return the nearest-rank percentile in milliseconds: the smallest value that `percent` of all do not exceed."""
    if not rising:
        return None
    rank = -(-len(rising) * percent // 100)
    return round(rising[rank - 1] / MILLISECOND)


def slope_ms_per_week(points: Sequence[tuple[datetime, timedelta]]) -> int | None:
    """Return by how many milliseconds durations grow in a week, or None if there are too few, or of less than a day.

    It is the slope between the medians of the first and the last third (Tukey's resistant line), so that a few
    outliers do not change it.
    """
    ordered = sorted(points)
    if len(ordered) < MIN_TREND_POINTS or ordered[-1][0] - ordered[0][0] < MIN_TREND_SPAN:
        return None
    third = len(ordered) // 3
    first, last = _center(ordered[:third]), _center(ordered[-third:])
    weeks = (last[0] - first[0]) / _WEEK
    return round((last[1] - first[1]) / weeks) if weeks > 0 else None


def _center(points: Sequence[tuple[datetime, timedelta]]) -> tuple[datetime, float]:
    """Return the middle time of sorted points, and the median of their durations in milliseconds."""
    return points[len(points) // 2][0], median(duration / MILLISECOND for _, duration in points)


def failure_streak(runs: Iterable[tuple[RunState, datetime | None]]) -> int:
    """Count the failed runs in a row up to now, of states and times of the end in any order."""
    ended = sorted(((at, state) for state, at in runs if state in ENDS and at is not None), reverse=True)
    streak = 0
    for _, state in ended:
        if state is not RunState.FAILED:
            break
        streak += 1
    return streak
