"""RFC 5545 recurrence rules with a frequency of daily or slower, as a pattern on local time.

A search walks the rule period by period (days, weeks, months or years, by INTERVAL) from near the requested second, for
at most eight years. So the search cost of a rule that never matches is bounded.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, lru_cache
from itertools import islice

from hourbell.core.schedule.calendar import DAY, END_OF_CALENDAR, day_number, weekday_of

DAILY, WEEKLY, MONTHLY, YEARLY = "DAILY", "WEEKLY", "MONTHLY", "YEARLY"
REACH = 8 * 366 * DAY
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_DAY = END_OF_CALENDAR // DAY - 1


@dataclass(frozen=True)
class Rule:
    """An RRULE with all values that it inherits from DTSTART filled in. Weekdays count from Sunday as 0."""

    frequency: str
    times: tuple[int, ...]  # seconds of the day, ascending
    start: int | None = None  # DTSTART, a local second
    interval: int = 1
    count: int | None = None
    until: int | None = None  # the last local second allowed
    week_start: int = 1
    months: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    year_days: frozenset[int] = frozenset()
    weeks: frozenset[int] = frozenset()
    weekdays: frozenset[tuple[int, int]] = frozenset()  # (weekday, nth), with nth 0 for all of them
    positions: tuple[int, ...] = ()

    @property
    def _anchor(self) -> int:
        """The day from which periods are counted."""
        return 0 if self.start is None else self.start // DAY

    def period_of(self, day: int) -> int:
        """Return the number of the period that contains a day, or of the last period before it."""
        if self.frequency == DAILY:
            return (day - self._anchor) // self.interval
        if self.frequency == WEEKLY:
            return (day - self._week_begin(self._anchor)) // (7 * self.interval)
        return (self._month_or_year(day) - self._month_or_year(self._anchor)) // self.interval

    def days_of(self, period: int) -> range:
        """Return the days of a period."""
        if self.frequency == DAILY:
            first = self._anchor + period * self.interval
            return range(first, first + 1)
        if self.frequency == WEEKLY:
            first = self._week_begin(self._anchor) + 7 * period * self.interval
            return range(first, first + 7)
        index = self._month_or_year(self._anchor) + period * self.interval
        if self.frequency == YEARLY:
            return range(day_number(index, 1, 1), day_number(index + 1, 1, 1))
        year, month = divmod(index, 12)
        following, next_month = divmod(index + 1, 12)
        return range(day_number(year, month + 1, 1), day_number(following, next_month + 1, 1))

    def matching_days(self, period: int) -> "array[int]":
        """Return the days of a period that match the rule."""
        return array("i", (day for day in self.days_of(period) if self._matches(day)))

    def instances(
        self,
        days: Sequence[int],
        earliest: int = 0,
        latest: int = END_OF_CALENDAR,
        *,
        removed_days: Collection[int] = (),
        is_falling: bool = False,
    ) -> Iterator[int]:
        """Return the rule's local seconds on a period's days, in order, within `earliest`, `latest`, DTSTART and UNTIL.

        Days and times outside are skipped by bisection: a year may have half a million of them.
        """
        earliest = earliest if self.start is None else max(earliest, self.start)
        latest = latest if self.until is None else min(latest, self.until)
        if self.positions:
            chosen = (second for second in self._chosen(days) if earliest <= second <= latest)
            seconds = [second for second in chosen if second // DAY not in removed_days]
            yield from reversed(seconds) if is_falling else seconds
            return
        within = days[bisect_left(days, earliest // DAY) : bisect_right(days, latest // DAY)]
        for day in reversed(within) if is_falling else within:
            if day not in removed_days:
                first, end = bisect_left(self.times, earliest - day * DAY), bisect_right(self.times, latest - day * DAY)
                times = self.times[first:end]
                for time in reversed(times) if is_falling else times:
                    yield day * DAY + time

    def _chosen(self, days: Sequence[int]) -> list[int]:
        """Return the seconds of a period that BYSETPOS selects, in ascending order."""
        size, width = len(days) * len(self.times), len(self.times)
        indexes = {at - 1 if at > 0 else size + at for at in self.positions}
        return [days[at // width] * DAY + self.times[at % width] for at in sorted(indexes) if 0 <= at < size]

    def count_in(self, days: Sequence[int], first: int, end: int) -> int:
        """Count the seconds of the rule on a period's days in [first, end)."""
        if self.positions:
            return sum(1 for _ in self.instances(days, first, end - 1))
        first = first if self.start is None else max(first, self.start)
        end = end if self.until is None else min(end, self.until + 1)
        total = 0
        for day in days[bisect_left(days, first // DAY) : bisect_right(days, end // DAY)]:
            since, until = first - day * DAY, end - day * DAY
            total += max(0, bisect_left(self.times, until) - bisect_left(self.times, since))
        return total

    def _week_begin(self, day: int) -> int:
        return day - (weekday_of(day) - self.week_start) % 7

    def _month_or_year(self, day: int) -> int:
        on = date.fromordinal(day + _EPOCH_ORDINAL)
        return on.year if self.frequency == YEARLY else on.year * 12 + on.month - 1

    def _matches(self, day: int) -> bool:
        on = date.fromordinal(day + _EPOCH_ORDINAL)
        if self.months and on.month not in self.months:
            return False
        if self.weekdays and not self._matches_weekday(day, on):
            return False
        if self.month_days:
            length = _length_of_month(on)
            if on.day not in self.month_days and on.day - length - 1 not in self.month_days:
                return False
        if self.year_days:
            number, length = _day_of_year(on)
            if number not in self.year_days and number - length - 1 not in self.year_days:
                return False
        return not self.weeks or self._matches_week(day)

    def _matches_weekday(self, day: int, on: date) -> bool:
        weekday = weekday_of(day)
        if (weekday, 0) in self.weekdays:
            return True
        if self.frequency == YEARLY and not self.months:
            number, length = _day_of_year(on)
        else:
            number, length = on.day, _length_of_month(on)
        from_start, from_end = (number - 1) // 7 + 1, -((length - number) // 7 + 1)
        return (weekday, from_start) in self.weekdays or (weekday, from_end) in self.weekdays

    def _matches_week(self, day: int) -> bool:
        """Match by week number: a week belongs to the year of its fourth day."""
        begins = self._week_begin(day)
        year = date.fromordinal(begins + 3 + _EPOCH_ORDINAL).year
        first = self._week_begin(day_number(year, 1, 4))
        number = (begins - first) // 7 + 1
        weeks = (self._week_begin(day_number(year + 1, 1, 4)) - first) // 7
        return number in self.weeks or number - weeks - 1 in self.weeks


@dataclass(frozen=True)
class RecurrencePattern:
    """A rule with added dates (RDATE) and removed dates (EXDATE, whole days or single seconds)."""

    rule: Rule
    added: tuple[int, ...] = ()  # ascending
    removed: frozenset[int] = frozenset()
    removed_days: frozenset[int] = frozenset()

    def next(self, earliest: int) -> int | None:
        earliest = max(earliest, 0)
        begins = max(earliest, self.rule.start or 0)
        reach = min(begins + REACH, END_OF_CALENDAR)
        by_rule = next((second for second in self._rising(earliest, reach) if self._is_kept(second)), None)
        added = next((second for second in self._added_from(earliest) if self._is_kept(second)), None)
        return min((second for second in (by_rule, added) if second is not None), default=None)

    def previous(self, latest: int) -> int | None:
        latest = min(latest, END_OF_CALENDAR - 1)
        by_rule = next((second for second in self._falling(latest) if self._is_kept(second)), None)
        earlier = (second for second in reversed(self.added) if second <= latest and self._is_kept(second))
        return max((second for second in (by_rule, next(earlier, None)) if second is not None), default=None)

    def count(self, first: int, end: int) -> int:
        first, end = max(first, 0), min(end, END_OF_CALENDAR)
        removed = {second for second in self.removed if second // DAY not in self.removed_days}
        total = self._count_by_rule(first, end)
        total -= sum(first <= second < end and self._is_of_rule(second) for second in removed)
        for day in self.removed_days:
            total -= self._count_by_rule(max(first, day * DAY), min(end, day * DAY + DAY))
        added = (second for second in self._added_from(first) if second < end)
        return total + sum(self._is_kept(second) and not self._is_of_rule(second) for second in added)

    def _count_by_rule(self, first: int, end: int) -> int:
        if first >= end:
            return 0
        rule = self._ending
        total = 0
        reach = max(first, rule.start or 0) + REACH  # beyond it, `next` finds none either
        for period in self._periods_from(first // DAY):
            begins = rule.days_of(period)[0] * DAY
            if begins >= (end if self._has_count else min(end, reach)):
                break
            found = rule.count_in(self._days_of(period), first, end)
            total += found
            if found:
                reach = begins + REACH
        return total

    def _is_of_rule(self, second: int) -> bool:
        return self._count_by_rule(second, second + 1) == 1

    def _is_kept(self, second: int) -> bool:
        return second not in self.removed and second // DAY not in self.removed_days

    def _added_from(self, earliest: int) -> Iterator[int]:
        return islice(self.added, bisect_left(self.added, earliest), None)

    def _rising(self, earliest: int, end: int) -> Iterator[int]:
        """Return the rule's seconds in [earliest, end), without removed days."""
        for period in self._periods_from(earliest // DAY):
            if self._ending.days_of(period)[0] * DAY >= end:
                return
            if days := self._days_of(period):
                yield from self._ending.instances(days, earliest, end - 1, removed_days=self.removed_days)

    def _falling(self, latest: int) -> Iterator[int]:
        """Return the rule's seconds up to `latest`, newest first, within the search limit and without removed days."""
        rule = self._ending
        if rule.until is not None:
            latest = min(latest, rule.until)
        reach = rule.start or 0 if self._has_count else latest - REACH
        oldest = max(reach, rule.start or 0, 0) // DAY
        for period in range(rule.period_of(latest // DAY), rule.period_of(oldest) - 1, -1):
            days = self._days_of(period)
            yield from rule.instances(days, latest=latest, removed_days=self.removed_days, is_falling=True)

    def _periods_from(self, day: int) -> range:
        return _periods_from(self._ending, day)

    @cached_property
    def _days_of(self) -> "Callable[[int], array[int]]":
        """The function that returns the matching days of a period, cached for the last two periods."""
        return lru_cache(maxsize=2)(self._ending.matching_days)

    @property
    def _has_count(self) -> bool:
        return self.rule.count is not None

    @cached_property
    def _ending(self) -> Rule:
        """The rule with COUNT, which counts from DTSTART, replaced by UNTIL at the last counted second."""
        rule = self.rule
        if rule.count is None:
            return rule
        periods = _periods_from(rule, 0)
        every = (second for period in periods for second in rule.instances(rule.matching_days(period)))
        last = deque(islice(every, rule.count), maxlen=1)
        return replace(rule, count=None, until=last[0] if last else -1)


def _periods_from(rule: Rule, day: int) -> range:
    """Return the periods of a rule from the one that contains this day to the last."""
    first = rule.period_of(max(day, (rule.start or 0) // DAY))
    last = _LAST_DAY if rule.until is None else min(_LAST_DAY, rule.until // DAY)
    return range(first, rule.period_of(last) + 1)


def _length_of_month(on: date) -> int:
    following = date(on.year + on.month // 12, on.month % 12 + 1, 1)
    return (following - on.replace(day=1)).days


def _day_of_year(on: date) -> tuple[int, int]:
    """Return the day's number in its year, and the year's length."""
    new_year = date(on.year, 1, 1).toordinal()
    return on.toordinal() - new_year + 1, date(on.year + 1, 1, 1).toordinal() - new_year
