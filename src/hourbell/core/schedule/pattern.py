"""Patterns: sets of seconds on one time axis, independent of time zones.

The axis is local time, counted as if every day had 86,400 seconds, for cron, `at`, `yearly` and `RRULE`; it is UTC for
`every` and for an `at` with an offset. Seconds count from 1970-01-01T00:00:00 on that axis.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Protocol

from hourbell.core.schedule.calendar import (
    ALL_MONTHS,
    DAY,
    END_OF_CALENDAR,
    EVERY_DAY,
    KIND_MONTHS,
    MINUTE,
    MONTH_KINDS,
    MONTH_STARTS,
    MONTHS,
    lowest,
    values_of,
)


class Pattern(Protocol):
    def next(self, earliest: int) -> int | None:
        """Return the first second of the pattern at or after `earliest`."""

    def previous(self, latest: int) -> int | None:
        """Return the last second of the pattern at or before `latest`."""

    def count(self, first: int, end: int) -> int:
        """Count the seconds of the pattern in [first, end)."""


@dataclass(frozen=True, slots=True)
class MaskPattern:
    """Matching days, with the same times on each of them, all as bit masks."""

    seconds: int  # of the minute
    minutes: int  # of the day: 1,440 bits
    days: tuple[int, ...]  # of the month, bit 0 is the first; one mask for each of the 28 kinds of month
    months: int  # of the calendar, bit 0 is January 1970; only those with a matching day
    _first_time: int = field(init=False)
    _last_time: int = field(init=False)
    _first_second: int = field(init=False)
    _last_second: int = field(init=False)
    _is_daily: bool = field(init=False)

    def __post_init__(self) -> None:
        first_second, last_second = lowest(self.seconds), self.seconds.bit_length() - 1
        derived = {
            "_first_time": lowest(self.minutes) * MINUTE + first_second,
            "_last_time": (self.minutes.bit_length() - 1) * MINUTE + last_second,
            "_first_second": first_second,
            "_last_second": last_second,
            "_is_daily": self.months == ALL_MONTHS and self.days == EVERY_DAY,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def build(cls, seconds: int, minutes: int, hours: int, days: tuple[int, ...], months: int) -> "MaskPattern":
        """Build a pattern from masks of the second, minute and hour fields, days by kind of month, and the months."""
        minutes_of_day = 0
        for hour in values_of(hours):
            minutes_of_day |= minutes << (60 * hour)
        for kind_days, kind_months in zip(days, KIND_MONTHS, strict=True):
            if not kind_days:
                months &= ~kind_months
        return cls(seconds, minutes_of_day, days, months)

    def next(self, earliest: int) -> int | None:
        time = earliest % DAY
        if self._is_daily and time <= self._last_time and 0 <= earliest < END_OF_CALENDAR:
            return earliest - time + self._time_from(time)
        return self._search(max(earliest, 0))

    def _search(self, earliest: int) -> int | None:
        day, time = divmod(earliest, DAY)
        month = bisect_right(MONTH_STARTS, day) - 1
        if month >= MONTHS:
            return None
        if self.months >> month & 1:
            days = self.days[MONTH_KINDS[month]] >> (day - MONTH_STARTS[month])
            if days & 1:
                if time <= self._last_time:
                    return earliest - time + self._time_from(time)
                days -= 1
            if days:
                return (day + (days & -days).bit_length() - 1) * DAY + self._first_time
        months = self.months >> (month + 1)
        if not months:
            return None
        month += (months & -months).bit_length()
        return (MONTH_STARTS[month] + lowest(self.days[MONTH_KINDS[month]])) * DAY + self._first_time

    def _time_from(self, time: int) -> int:
        """Return the first time of day at or after `time`, which must not be after the last one."""
        second = time % MINUTE
        if second > self._last_second:
            time += MINUTE - second  # to the start of the next minute
            second = 0
        minute = time // MINUTE
        minutes = self.minutes >> minute
        if minutes & 1:
            seconds = self.seconds >> second
            return time if seconds & 1 else time + (seconds & -seconds).bit_length() - 1
        return (minute + (minutes & -minutes).bit_length() - 1) * MINUTE + self._first_second

    def previous(self, latest: int) -> int | None:
        if latest >= END_OF_CALENDAR:
            latest = END_OF_CALENDAR - 1
        if latest < 0:
            return None
        day, time = divmod(latest, DAY)
        month = bisect_right(MONTH_STARTS, day) - 1
        if self.months >> month & 1:
            day_of_month = day - MONTH_STARTS[month]
            days = self.days[MONTH_KINDS[month]] & ((2 << day_of_month) - 1)
            if days >> day_of_month:
                minute, second = divmod(time, MINUTE)
                minutes = self.minutes & ((2 << minute) - 1)
                if minutes >> minute:
                    seconds = self.seconds & ((2 << second) - 1)
                    if seconds:
                        return latest - second + seconds.bit_length() - 1
                    minutes ^= 1 << minute
                if minutes:
                    return day * DAY + (minutes.bit_length() - 1) * MINUTE + self._last_second
                days ^= 1 << day_of_month
            if days:
                return (MONTH_STARTS[month] + days.bit_length() - 1) * DAY + self._last_time
        months = self.months & ((1 << month) - 1)
        if not months:
            return None
        month = months.bit_length() - 1
        return (MONTH_STARTS[month] + self.days[MONTH_KINDS[month]].bit_length() - 1) * DAY + self._last_time

    def count(self, first: int, end: int) -> int:
        first, end = max(first, 0), min(end, END_OF_CALENDAR)
        if first >= end:
            return 0
        first_day, first_time = divmod(first, DAY)
        end_day, end_time = divmod(end, DAY)
        times = self.minutes.bit_count() * self.seconds.bit_count()
        total = times * self._days_between(first_day, end_day)
        if first_time:
            total -= self._times_before(first_time) * self._days_between(first_day, first_day + 1)
        if end_time:
            total += self._times_before(end_time) * self._days_between(end_day, end_day + 1)
        return total

    def _times_before(self, time: int) -> int:
        minute, second = divmod(time, MINUTE)
        whole_minutes = (self.minutes & ((1 << minute) - 1)).bit_count() * self.seconds.bit_count()
        if not self.minutes >> minute & 1:
            return whole_minutes
        return whole_minutes + (self.seconds & ((1 << second) - 1)).bit_count()

    def _days_between(self, first: int, end: int) -> int:
        """Count matching days in [first, end): whole months by their masks, minus the days outside at both ends."""
        first_month = bisect_right(MONTH_STARTS, first) - 1
        end_month = bisect_right(MONTH_STARTS, end) - 1
        days = sum(self._days_of(month).bit_count() for month in range(first_month, end_month))
        days -= (self._days_of(first_month) & ((1 << (first - MONTH_STARTS[first_month])) - 1)).bit_count()
        if end > MONTH_STARTS[end_month]:
            days += (self._days_of(end_month) & ((1 << (end - MONTH_STARTS[end_month])) - 1)).bit_count()
        return days

    def _days_of(self, month: int) -> int:
        return self.days[MONTH_KINDS[month]] if self.months >> month & 1 else 0


@dataclass(frozen=True, slots=True)
class OncePattern:
    """A single second."""

    second: int

    def next(self, earliest: int) -> int | None:
        return self.second if earliest <= self.second else None

    def previous(self, latest: int) -> int | None:
        return self.second if self.second <= latest else None

    def count(self, first: int, end: int) -> int:
        return int(first <= self.second < end)


@dataclass(frozen=True, slots=True)
class GridPattern:
    """Every `interval` seconds from `anchor` on, within the calendar."""

    interval: int
    anchor: int

    def next(self, earliest: int) -> int | None:
        steps = max(0, -(-(earliest - self.anchor) // self.interval))
        found = self.anchor + steps * self.interval
        return found if found < END_OF_CALENDAR else None

    def previous(self, latest: int) -> int | None:
        latest = min(latest, END_OF_CALENDAR - 1)
        if latest < self.anchor:
            return None
        return latest - (latest - self.anchor) % self.interval

    def count(self, first: int, end: int) -> int:
        return max(0, self._before(min(end, END_OF_CALENDAR)) - self._before(first))

    def _before(self, second: int) -> int:
        """Count the grid points before this second."""
        return max(0, -(-(second - self.anchor) // self.interval))
