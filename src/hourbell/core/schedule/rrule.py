"""The parser of recurrences: an RRULE line, with optional DTSTART, EXDATE and RDATE lines."""

import re
from datetime import datetime, timedelta

from hourbell.core.schedule.calendar import DAY, FIRST_YEAR, LAST_YEAR, weekday_of
from hourbell.core.schedule.errors import ErrorDetail, ScheduleError, echo
from hourbell.core.schedule.recurrence import DAILY, MONTHLY, WEEKLY, YEARLY, RecurrencePattern, Rule
from hourbell.core.schedule.zones import Zone

_WEEKDAYS = {"SU": 0, "MO": 1, "TU": 2, "WE": 3, "TH": 4, "FR": 5, "SA": 6}
_FASTER = ("SECONDLY", "MINUTELY", "HOURLY")
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_BYDAY = re.compile(r"([+-]?\d{1,2})?(SU|MO|TU|WE|TH|FR|SA)", re.ASCII)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  local readings have no zone
_MAX_COUNTED_OCCURRENCES = 10_000
_MAX_DAILY_TIMES = 1_440
_RANGES = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTH": (1, 12, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYSETPOS": (1, 366, True),
    "INTERVAL": (1, 10_000, False),
    "COUNT": (1, _MAX_COUNTED_OCCURRENCES, False),
}
_PARTS = {*_RANGES, "FREQ", "UNTIL", "BYDAY", "WKST"}
# RFC 5545, section 3.3.10: parts that a frequency must not have.
_FORBIDDEN = {
    DAILY: ("BYWEEKNO", "BYYEARDAY"),
    WEEKLY: ("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"),
    MONTHLY: ("BYWEEKNO", "BYYEARDAY"),
    YEARLY: (),
}


def parse_recurrence(text: str, zone: Zone) -> RecurrencePattern:
    """Parse a recurrence with local times of this zone, or raise a ScheduleError with all its errors."""
    return _Reader(text, zone).read()


class _Reader:
    def __init__(self, text: str, zone: Zone) -> None:
        self._text = text
        self._zone = zone
        self._errors: list[ErrorDetail] = []
        self._start: int | None = None
        self._added: set[int] = set()
        self._removed: set[int] = set()
        self._removed_days: set[int] = set()
        self._parts: dict[str, tuple[str, int]] = {}  # value and column

    def read(self) -> RecurrencePattern:
        seen = set()
        for found in re.finditer(r"\S+", self._text):
            head, colon, value = found[0].partition(":")
            name, *parameters = head.split(";")
            column = found.start() + 1
            if not colon or name not in ("RRULE", "DTSTART", "EXDATE", "RDATE"):
                self._detail(
                    f"{echo(found[0])} is not understood",
                    column,
                    found[0],
                    "lines are RRULE, DTSTART, EXDATE, RDATE",
                )
                continue
            if name in seen and name in ("RRULE", "DTSTART"):
                self._detail(f"a second {name}", column, found[0], "write one")
                continue
            seen.add(name)
            is_date = self._parameters(name, parameters, column + len(name) + 1)
            column += len(head) + 1
            if name == "RRULE":
                self._split(value, column)
            else:
                self._dates(name, value, column, is_date)
        if "RRULE" not in seen:
            self._detail("an RRULE line is missing", 1, self._text, "write RRULE:FREQ=…")
        rule = self._rule() if "RRULE" in seen else None
        if self._errors or rule is None:
            raise ScheduleError(*sorted(self._errors, key=lambda detail: detail.column or 0))
        return RecurrencePattern(
            rule, tuple(sorted(self._added)), frozenset(self._removed), frozenset(self._removed_days)
        )

    def _detail(self, message: str, column: int | None, text: str = "", hint: str | None = None) -> None:
        self._errors.append(ErrorDetail(message, "recurrence", column, echo(text), hint=hint))

    def _parameters(self, name: str, parameters: list[str], column: int) -> bool:
        """Check a line's parameters; return True if it has dates without a time."""
        for parameter in parameters:
            start_column, column = column, column + len(parameter) + 1
            if parameter in (f"TZID={self._zone.name}", "VALUE=DATE-TIME", "VALUE=DATE"):
                continue
            if parameter.startswith("TZID="):
                message = f"{echo(parameter)} is not the schedule's zone, {self._zone.name}"
                self._detail(message, start_column, parameter, "put the zone into the timezone field")
            else:
                message = f"{name} parameter {echo(parameter)} is not understood"
                self._detail(message, start_column, parameter, "leave it out")
        return "VALUE=DATE" in parameters

    def _split(self, value: str, column: int) -> None:
        for part in value.split(";"):
            name, _, content = part.partition("=")
            if name not in _PARTS:
                self._detail(
                    f"{echo(name) or 'an empty part'} is not a part of a rule",
                    column,
                    part,
                    "parts are FREQ, INTERVAL, COUNT, UNTIL, WKST and BY…",
                )
            elif name in self._parts:
                self._detail(f"{name} is given twice", column, part, "write it once, with a list")
            elif not content:
                self._detail(f"{name} has no value", column, part)
            else:
                self._parts[name] = (content, column + len(name) + 1)
            column += len(part) + 1

    def _dates(self, name: str, value: str, column: int, is_date: bool) -> None:
        for stamp in value.split(","):
            second = self._stamp(stamp, column)
            if second is None:
                pass
            elif name == "DTSTART" and self._start is not None:
                self._detail("a second DTSTART", column, stamp, "write one")
            elif name == "DTSTART":
                self._start = second
            elif name == "RDATE":
                self._added.add(second)
            elif is_date or "T" not in stamp:
                self._removed_days.add(second // DAY)
            else:
                self._removed.add(second)
            column += len(stamp) + 1

    def _stamp(self, stamp: str, column: int) -> int | None:
        """Parse a local second; a stamp that ends in Z is an instant, converted to the schedule's zone."""
        found = _STAMP.fullmatch(stamp)
        try:
            if found is None:
                raise ValueError(stamp)
            elapsed = datetime(*(int(part or 0) for part in found.groups()[:6])) - _EPOCH  # type: ignore[arg-type]  # noqa: DTZ001
        except ValueError:
            self._detail(f"{echo(stamp)} is not a date", column, stamp, "write 20261224T180000")
            return None
        if not FIRST_YEAR <= int(found[1]) <= LAST_YEAR:
            self._detail(f"year {found[1]} is outside {FIRST_YEAR}-{LAST_YEAR}", column, stamp)
            return None
        second = elapsed.days * DAY + elapsed.seconds
        return second + self._zone.offsets[self._zone.period_at(second)] if found[7] else second

    def _rule(self) -> Rule | None:
        frequency, column = self._parts.get("FREQ", ("", 1))
        if frequency in _FASTER:
            hint = "for less than a day write cron or every"
            self._detail(f"FREQ={frequency} is not supported", column, frequency, hint)
            return None
        if frequency not in _FORBIDDEN:
            hint = "write FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"
            self._detail(f"FREQ={echo(frequency)} is not a frequency", column, frequency, hint)
            return None
        numbers = {name: self._numbers(name) for name in _RANGES}
        weekdays = self._weekdays(frequency)
        week_start, until = self._week_start(), self._until()
        self._check_together(frequency, numbers)
        if self._errors:
            return None
        start = self._start
        date = _EPOCH + timedelta(seconds=start or 0)
        if not (weekdays or numbers["BYMONTHDAY"] or numbers["BYYEARDAY"] or numbers["BYWEEKNO"]):
            if frequency == WEEKLY:
                weekdays = frozenset({(week_start if start is None else weekday_of(start // DAY), 0)})
            elif frequency != DAILY:
                numbers["BYMONTHDAY"] = (date.day,)
                if frequency == YEARLY:
                    numbers["BYMONTH"] = numbers["BYMONTH"] or (date.month,)
        times = self._times(numbers)
        if len(times) > _MAX_DAILY_TIMES:
            message = f"{len(times)} times a day are too many for a recurrence"
            self._detail(message, self._column("BYHOUR" if "BYHOUR" in self._parts else "FREQ"), "", "write cron")
            return None
        return Rule(
            frequency=frequency,
            times=times,
            start=start,
            interval=(numbers["INTERVAL"] or (1,))[0],
            count=(numbers["COUNT"] or (None,))[0],
            until=until,
            week_start=week_start,
            months=frozenset(numbers["BYMONTH"]),
            month_days=frozenset(numbers["BYMONTHDAY"]),
            year_days=frozenset(numbers["BYYEARDAY"]),
            weeks=frozenset(numbers["BYWEEKNO"]),
            weekdays=weekdays,
            positions=numbers["BYSETPOS"],
        )

    def _times(self, numbers: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        time = 0 if self._start is None else self._start % DAY
        hours = numbers["BYHOUR"] or (time // 3_600,)
        minutes = numbers["BYMINUTE"] or (time // 60 % 60,)
        seconds = numbers["BYSECOND"] or (time % 60,)
        return tuple(sorted({h * 3_600 + m * 60 + s for h in hours for m in minutes for s in seconds}))

    def _numbers(self, name: str) -> tuple[int, ...]:
        if name not in self._parts:
            return ()
        content, column = self._parts[name]
        low, high, may_be_negative = _RANGES[name]
        numbers = []
        for text in content.split(","):
            digits = text.lstrip("+-") if may_be_negative else text
            number = int(digits) if digits.isdigit() and len(digits) <= 6 else None
            if number is None or not low <= number <= high or len(text) - len(digits) > 1:
                allowed = f"{low}-{high}" + (f" or -{high}--{low}" if may_be_negative else "")
                self._detail(f"{name}: {echo(text)} is outside {allowed}", column, text)
            else:
                numbers.append(-number if text.startswith("-") else number)
            column += len(text) + 1
        if name in ("INTERVAL", "COUNT") and len(numbers) > 1:
            self._detail(f"{name} takes one number", self._parts[name][1], content)
        return tuple(numbers)

    def _weekdays(self, frequency: str) -> frozenset[tuple[int, int]]:
        if "BYDAY" not in self._parts:
            return frozenset()
        content, column = self._parts["BYDAY"]
        weekdays = set()
        for text in content.split(","):
            found = _BYDAY.fullmatch(text)
            nth = int(found[1] or 0) if found else 0
            if found is None or (found[1] and not 1 <= abs(nth) <= 53):
                self._detail(
                    f"BYDAY: {echo(text)} is not a weekday",
                    column,
                    text,
                    "write MO, or -1FR for the last Friday",
                )
            elif nth and (frequency not in (MONTHLY, YEARLY) or "BYWEEKNO" in self._parts):
                self._detail(
                    f"BYDAY: {text} needs FREQ=MONTHLY or YEARLY without BYWEEKNO",
                    column,
                    text,
                    f"write {found[2]}",
                )
            else:
                weekdays.add((_WEEKDAYS[found[2]], nth))
            column += len(text) + 1
        return frozenset(weekdays)

    def _week_start(self) -> int:
        day, column = self._parts.get("WKST", ("MO", 1))
        if day not in _WEEKDAYS:
            self._detail(f"WKST={echo(day)} is not a weekday", column, day, "write WKST=MO")
        return _WEEKDAYS.get(day, 1)

    def _until(self) -> int | None:
        if "UNTIL" not in self._parts:
            return None
        stamp, column = self._parts["UNTIL"]
        second = self._stamp(stamp, column)
        return second if second is None or "T" in stamp else second + DAY - 1

    def _column(self, name: str) -> int:
        """Return the column where the name of a part begins."""
        return self._parts[name][1] - len(name) - 1

    def _check_together(self, frequency: str, numbers: dict[str, tuple[int, ...]]) -> None:
        for name in _FORBIDDEN[frequency]:
            if name in self._parts:
                self._detail(f"{name} does not go with FREQ={frequency}", self._column(name), name)
        if "COUNT" in self._parts and "UNTIL" in self._parts:
            self._detail("COUNT and UNTIL exclude each other", self._column("UNTIL"), "UNTIL", "keep one")
        if "BYSETPOS" in self._parts and not any(name.startswith("BY") and name != "BYSETPOS" for name in self._parts):
            self._detail("BYSETPOS needs another BY part to choose from", self._column("BYSETPOS"), "BYSETPOS")
        if self._start is None:
            for name in ("INTERVAL", "COUNT", "BYSETPOS"):
                if name in self._parts and not (name == "INTERVAL" and numbers[name] in ((), (1,))):
                    self._detail(f"{name} needs DTSTART", self._column(name), name, "add DTSTART:20260101T090000")
