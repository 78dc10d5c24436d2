"""The calendar as integers: days and seconds from 1970-01-01, months from January 1970, and sets as bit masks.

Schedules cover the local years 1970 to 2199. There are only 28 kinds of month (four lengths, seven first weekdays), so
the matching days of a month are one of 28 masks, and the matching months are one mask of 2,760 bits. So finding the
next day is one bit scan, and "never fires" is a comparison with zero.
"""

from datetime import date
from typing import Final

FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 2199
MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
MONTHS: Final = (LAST_YEAR - FIRST_YEAR + 1) * 12

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


def day_number(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to this date."""
    return date(year, month, day).toordinal() - _EPOCH_ORDINAL


def weekday_of(day: int) -> int:
    """Return the weekday of a day number, Sunday as 0."""
    return (day + 4) % 7


def kind_of(length: int, first_weekday: int) -> int:
    """Return the kind, of 28, of a month with this many days that begins on this weekday."""
    return (length - 28) * 7 + first_weekday


def lowest(mask: int) -> int:
    """Return the index of the lowest bit set in a mask that is not zero."""
    return (mask & -mask).bit_length() - 1


def mask_of(first: int, last: int, step: int = 1) -> int:
    """Build the mask of the values from first to last, both included."""
    if step == 1:
        return ((1 << (last - first + 1)) - 1) << first
    mask = 0
    for value in range(first, last + 1, step):
        mask |= 1 << value
    return mask


def values_of(mask: int) -> list[int]:
    """Return the values in a mask, in ascending order."""
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


# Day number of the first of each month, plus one entry for the end of the calendar.
MONTH_STARTS: Final = tuple(day_number(FIRST_YEAR + month // 12, month % 12 + 1, 1) for month in range(MONTHS + 1))
MONTH_KINDS: Final = bytes(
    kind_of(MONTH_STARTS[month + 1] - MONTH_STARTS[month], weekday_of(MONTH_STARTS[month])) for month in range(MONTHS)
)
KINDS: Final = tuple((length, first_weekday) for length in range(28, 32) for first_weekday in range(7))
END_OF_CALENDAR: Final = MONTH_STARTS[MONTHS] * DAY


def _months_by_kind() -> tuple[int, ...]:
    masks = [0] * len(KINDS)
    for month, kind in enumerate(MONTH_KINDS):
        masks[kind] |= 1 << month
    return tuple(masks)


KIND_MONTHS: Final = _months_by_kind()
ALL_MONTHS: Final = mask_of(0, MONTHS - 1)
EVERY_DAY: Final = tuple(mask_of(0, length - 1) for length, _ in KINDS)
_EACH_JANUARY: Final = mask_of(0, MONTHS - 1, 12)


def calendar_months(months_of_year: int, years: int | None) -> int:
    """Build the mask of calendar months from a mask of months (bit 0 is January) and one of years (bit 0 is 1970)."""
    if years is None:
        return _EACH_JANUARY * months_of_year
    return sum(months_of_year << (12 * year) for year in values_of(years))
