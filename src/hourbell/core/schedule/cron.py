"""Cron expressions: parsing of five, six or seven fields, and compilation to bit masks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hourbell.core.schedule.calendar import (
    EVERY_DAY,
    FIRST_YEAR,
    KINDS,
    calendar_months,
    mask_of,
)
from hourbell.core.schedule.errors import ErrorDetail, ScheduleError, echo
from hourbell.core.schedule.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    FieldReader,
    LastDay,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Span,
)
from hourbell.core.schedule.pattern import MaskPattern

_KINDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, YEAR)
_NICKNAMES = ("hourly", "daily", "midnight", "weekly", "monthly", "annually")
_LOOKS_LIKE_INTERVAL = re.compile(r"(?:every)?(\d{1,9}[smhdw])", re.ASCII)
_SUNDAY, _SATURDAY = 0, 6
_EVERY_WEEK = mask_of(0, 28, 7)


@dataclass(frozen=True)
class Cron:
    """A parsed cron expression. Omitted fields are `0` for seconds and `*` for the year, at column 0."""

    second: Field
    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field
    year: Field
    needs_both_days: bool  # `+` before the day-of-week field

    @property
    def fields(self) -> tuple[Field, ...]:
        return (
            self.second,
            self.minute,
            self.hour,
            self.day_of_month,
            self.month,
            self.day_of_week,
            self.year,
        )

    @property
    def is_periodic(self) -> bool:
        """True if it fires whenever the local clock matches; otherwise it names fixed times."""
        return self.second.is_periodic or self.minute.is_periodic or self.hour.is_periodic

    @property
    def either_day_matches(self) -> bool:
        """True if a day matches by its date or by its weekday."""
        is_restricted = not (self.day_of_month.is_unrestricted or self.day_of_week.is_unrestricted)
        return is_restricted and not self.needs_both_days

    @property
    def resolved(self) -> str:
        """The expression with every `H` replaced by its resolved values."""
        sign = "+" if self.needs_both_days else ""
        return " ".join(
            (sign if field is self.day_of_week else "") + field.resolved for field in self.fields if field.column
        )

    @cached_property
    def pattern(self) -> MaskPattern:
        months = self.month.mask >> 1
        years = None if self.year.is_unrestricted else self.year.mask >> FIRST_YEAR
        is_every_day = self.day_of_month.is_unrestricted and self.day_of_week.is_unrestricted
        days = EVERY_DAY if is_every_day else tuple(self.days_of(length, first) for length, first in KINDS)
        return MaskPattern.build(
            self.second.mask, self.minute.mask, self.hour.mask, days, calendar_months(months, years)
        )

    def days_of(self, length: int, first_weekday: int) -> int:
        """Return the mask of matching days in a month of this length that begins on this weekday."""
        by_date = days_by_date(self.day_of_month, length, first_weekday)
        by_weekday = _days_by_weekday(self.day_of_week, length, first_weekday)
        return by_date | by_weekday if self.either_day_matches else by_date & by_weekday


def parse_cron(text: str, job_name: str | None) -> Cron:
    """Parse an expression, or raise a ScheduleError with all its errors."""
    words = list(_words(text))
    if len(words) not in (5, 6, 7):
        raise ScheduleError(_wrong_number_of_fields(text, len(words)))
    errors: list[ErrorDetail] = []
    omitted_second = 1 if len(words) == 5 else 0
    needs_both_days = False
    fields = []
    for kind, (word, column) in zip(_KINDS[omitted_second:], words, strict=False):
        if kind is DAY_OF_WEEK and word.startswith("+"):
            needs_both_days = True
            word, column = word[1:], column + 1
            if not word:
                hint = "write a weekday after '+', as +MON"
                errors.append(ErrorDetail("a value is missing", kind.name, column, "", kind.allowed, hint))
                word = "*"
        fields.append(FieldReader(kind, job_name, errors.append).read(word, column))
    if omitted_second:
        fields.insert(0, Field(SECOND, "0", 0, (Span(0, 0),), "0"))
    if len(words) < 7:
        fields.append(Field(YEAR, "*", 0, (Span(YEAR.low, YEAR.last, is_star=True),), "*"))
    if errors:
        raise ScheduleError(*(_six_fields_hint(detail, words) for detail in errors))
    second, minute, hour, day_of_month, month, day_of_week, year = fields
    return Cron(second, minute, hour, day_of_month, month, day_of_week, year, needs_both_days)


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Split the text into fields with their columns; only spaces and tabs separate."""
    column = 1
    for word in text.replace("\t", " ").split(" "):
        if word:
            yield word, column
        column += len(word) + 1


def _wrong_number_of_fields(text: str, count: int) -> ErrorDetail:
    word = text.strip(" \t")
    hint = None
    if found := _LOOKS_LIKE_INTERVAL.fullmatch(word):
        hint = f"for an interval write 'every {found[1]}'"
    elif word in _NICKNAMES:
        hint = f"write @{word}"
    elif word.startswith("FREQ="):
        hint = f"write RRULE:{echo(word)}"
    return ErrorDetail(f"expected 5, 6 or 7 fields, got {count}", text=echo(text), hint=hint)


def _six_fields_hint(detail: ErrorDetail, words: list[tuple[str, int]]) -> ErrorDetail:
    """Add a hint if the sixth field is over 59: it is probably a year in the position of the weekday."""
    if len(words) != 6 or detail.field != DAY_OF_WEEK.name or not detail.text.isdigit() or int(detail.text) <= 59:
        return detail
    hint = "of six fields the sixth is the weekday and seconds come first; for a year write seven"
    return ErrorDetail(detail.message, detail.field, detail.column, detail.text, detail.allowed, hint)


def days_by_date(field: Field, length: int, first_weekday: int) -> int:
    """Return the mask of days, bit 0 for the first, that match the day-of-month field."""
    mask = field.mask >> 1
    for term in field.terms:
        if isinstance(term, LastDay):
            if term.back < length:
                mask |= 1 << (length - 1 - term.back)
        elif isinstance(term, LastWorkday):
            mask |= 1 << _nearest_workday(length, length, first_weekday)
        elif isinstance(term, NearestWorkday) and term.day <= length:
            mask |= 1 << _nearest_workday(term.day, length, first_weekday)
    return mask & ((1 << length) - 1)


def _nearest_workday(day: int, length: int, first_weekday: int) -> int:
    """Return the index (from 0) of the Monday-to-Friday day nearest to a day, within the month."""
    index = day - 1
    weekday = (first_weekday + index) % 7
    if weekday == _SATURDAY:
        return index - 1 if index > 0 else index + 2
    if weekday == _SUNDAY:
        return index + 1 if index + 1 < length else index - 2
    return index


def _days_by_weekday(field: Field, length: int, first_weekday: int) -> int:
    """Return the mask of days, bit 0 for the first, that match the day-of-week field."""
    weekdays = field.mask
    week = (weekdays >> first_weekday | weekdays << (7 - first_weekday)) & 0x7F
    mask = week * _EVERY_WEEK
    for term in field.terms:
        if isinstance(term, NthWeekday):
            index = (term.weekday - first_weekday) % 7
            index += (length - 1 - index) // 7 * 7 if term.nth is None else 7 * (term.nth - 1)
            mask |= 1 << index
    return mask & ((1 << length) - 1)
