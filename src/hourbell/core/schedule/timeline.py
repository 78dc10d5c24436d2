"""Conversion of a pattern in local time to instants, under the daylight-saving rule.

There are two conversions. `FirstPass` fires each local time once: on its first reading if the clock repeats it, and at
the end of the gap if the clock skips it. `EveryReading` fires whenever the local clock reads a time of the pattern, so
never in a gap and twice in a fold. All seconds here are integers from the epoch; `earliest` and `latest` are UTC.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from hourbell.core.schedule.calendar import DAY
from hourbell.core.schedule.pattern import Pattern
from hourbell.core.schedule.zones import Zone


class Timeline(Protocol):
    @property
    def zone(self) -> Zone: ...

    def next(self, pattern: Pattern, earliest: int) -> int | None:
        """Return the first instant at or after `earliest`."""

    def previous(self, pattern: Pattern, latest: int) -> int | None:
        """Return the last instant at or before `latest`."""

    def count(self, pattern: Pattern, earliest: int, latest: int) -> int:
        """Count the instants from `earliest` to `latest`, both included."""

    def skipped_reading(self, pattern: Pattern, period: int) -> int | None:
        """Return the local time that fires at the start of this period because the clock skipped it."""


@dataclass(frozen=True, slots=True)
class FirstPass:
    """A timeline that fires each local time once. Times in a gap fire together at its end, or never if `skips_gaps`."""

    zone: Zone
    skips_gaps: bool = False

    def next(self, pattern: Pattern, earliest: int) -> int | None:
        zone = self.zone
        period = bisect_right(zone.starts, earliest) - 1
        offset = zone.offsets[period]
        local = earliest + offset
        # Readings below the high fired on their first pass. At the exact start of a period, the readings of the gap
        # before it have not fired yet.
        if local < zone.highs[period] or earliest == zone.starts[period]:
            local = zone.highs[period]
        while (reading := pattern.next(local)) is not None:
            if reading >= zone.highs[period + 1]:
                period = bisect_right(zone.highs, reading) - 1
                offset = zone.offsets[period]
            first = zone.starts[period] + offset
            if reading >= first:
                return reading - offset
            if self.skips_gaps:
                local = first
            elif _is_lost_day(zone, period, reading):
                local = reading - reading % DAY + DAY
            else:
                return zone.starts[period]
        return None

    def previous(self, pattern: Pattern, latest: int) -> int | None:
        zone = self.zone
        period = zone.period_at(latest)
        local = max(latest + zone.offsets[period], zone.highs[period] - 1)
        while (reading := pattern.previous(local)) is not None:
            period = bisect_right(zone.highs, reading) - 1
            if reading >= zone.first_reading(period):
                return reading - zone.offsets[period]
            if self.skips_gaps:
                local = zone.highs[period] - 1
            elif _is_lost_day(zone, period, reading):
                local = reading - reading % DAY - 1
            else:
                return zone.starts[period]
        return None

    def count(self, pattern: Pattern, earliest: int, latest: int) -> int:
        zone = self.zone
        first, last = zone.period_at(earliest), zone.period_at(latest)
        local = max(earliest + zone.offsets[first], zone.highs[first])
        if earliest == zone.starts[first]:
            local = zone.highs[first]
        end = max(latest + zone.offsets[last] + 1, zone.highs[last])
        total = pattern.count(local, end)
        for period in zone.gaps(earliest, latest + 1):
            resumes = zone.first_reading(period)
            total -= pattern.count(zone.highs[period], resumes)
            is_regular = pattern.next(resumes) == resumes
            if not is_regular and self.skipped_reading(pattern, period) is not None:
                total += 1
        return total

    def skipped_reading(self, pattern: Pattern, period: int) -> int | None:
        if self.skips_gaps:
            return None
        local, resumes = self.zone.highs[period], self.zone.first_reading(period)
        while (reading := pattern.next(local)) is not None and reading < resumes:
            if not _is_lost_day(self.zone, period, reading):
                return reading
            local = reading - reading % DAY + DAY
        return None


@dataclass(frozen=True, slots=True)
class EveryReading:
    """A timeline that fires whenever the local clock reads a time of the pattern."""

    zone: Zone

    def next(self, pattern: Pattern, earliest: int) -> int | None:
        zone = self.zone
        period = bisect_right(zone.starts, earliest) - 1
        offset = zone.offsets[period]
        local = earliest + offset
        reading = pattern.next(local)
        # `reading` is valid for any start in [local, reading]: search again only if a period begins outside that.
        while reading is None or reading - offset >= zone.starts[period + 1]:
            period += 1
            if period == len(zone.offsets):
                return None
            offset = zone.offsets[period]
            first = zone.starts[period] + offset
            if first < local or (reading is not None and first > reading):
                local, reading = first, pattern.next(first)
        return reading - offset

    def previous(self, pattern: Pattern, latest: int) -> int | None:
        zone = self.zone
        period = zone.period_at(latest)
        local = latest + zone.offsets[period]
        reading = pattern.previous(local)
        while reading is None or reading < zone.first_reading(period):
            if period == 0:
                return None
            last = zone.starts[period] - 1 + zone.offsets[period - 1]
            period -= 1
            if last > local or (reading is not None and last < reading):
                local, reading = last, pattern.previous(last)
        return reading - zone.offsets[period]

    def count(self, pattern: Pattern, earliest: int, latest: int) -> int:
        zone = self.zone
        total = 0
        for period in range(zone.period_at(earliest), zone.period_at(latest) + 1):
            first = max(earliest, zone.starts[period])
            end = min(latest + 1, zone.starts[period + 1])
            total += pattern.count(first + zone.offsets[period], end + zone.offsets[period])
        return total

    def skipped_reading(self, pattern: Pattern, period: int) -> int | None:  # noqa: ARG002
        return None


def _is_lost_day(zone: Zone, period: int, reading: int) -> bool:
    """Check if the gap before this period contains the whole date of the reading, as in Apia on 2011-12-30."""
    midnight = reading - reading % DAY
    return zone.highs[period] <= midnight and midnight + DAY <= zone.first_reading(period)
