"""Descriptions of schedules in English, built from the parsed form, so that they match what will happen."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import assert_never

from hourbell.core.schedule.calendar import DAY, values_of
from hourbell.core.schedule.cron import Cron
from hourbell.core.schedule.fields import (
    Field,
    LastDay,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Span,
    Term,
)
from hourbell.core.schedule.forms import Instant, Interval, Moment, Yearly
from hourbell.core.schedule.recurrence import DAILY, MONTHLY, WEEKLY, RecurrencePattern, Rule

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", None: "last"}
_MAX_LISTED_TIMES = 6
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  local readings have no zone


def describe(form: Cron | Interval | Instant | Yearly | RecurrencePattern) -> str:
    """Describe a form in one sentence, without a full stop."""
    match form:
        case Cron():
            return _capital(
                ", ".join(part for part in (_times(form), _days(form), _months(form), _years(form)) if part)
            )
        case Interval():
            return _interval(form)
        case Instant():
            return f"Once, at {_moment(form.moment)}"
        case Yearly():
            return _yearly(form)
        case RecurrencePattern():
            return _recurrence(form)
        case _:
            assert_never(form)


def clock(seconds: int) -> str:
    """Format a time of day: 09:00, or 09:00:30 if the seconds are not zero."""
    hour, rest = divmod(seconds % DAY, 3_600)
    minute, second = divmod(rest, 60)
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def describe_date(day: int) -> str:
    """Format a day number as 8 March 2026."""
    on = _LOCAL_EPOCH + timedelta(days=day)
    return f"{on.day} {MONTHS[on.month - 1]} {on.year}"


def joined(items: Sequence[str], word: str = "and") -> str:
    """Join items as `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {word} {items[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _times(cron: Cron) -> str:
    hours, minutes, seconds = (values_of(field.mask) for field in (cron.hour, cron.minute, cron.second))
    if len(hours) * len(minutes) * len(seconds) <= _MAX_LISTED_TIMES:
        times = [h * 3_600 + m * 60 + s for h in hours for m in minutes for s in seconds]
        return f"at {joined([clock(time) for time in times])}"
    if seconds == [0] and minutes == [0]:
        return _whole_hours(cron.hour)
    parts = []
    if seconds != [0]:
        parts.append(_counted(cron.second, "second", "past the minute"))
    if not (cron.minute.is_unrestricted and parts):
        parts.append(_counted(cron.minute, "minute", "past the hour"))
    if not cron.hour.is_unrestricted:
        parts.append(_hours(cron.hour))
    return ", ".join(parts)


def _whole_hours(hour: Field) -> str:
    """Describe a schedule that fires on the hour, several times a day."""
    span = hour.terms[0]
    if len(hour.terms) > 1 or not isinstance(span, Span):
        return f"at {joined([clock(value * 3_600) for value in values_of(hour.mask)])}"
    values = values_of(span.mask)
    every = "every hour" if span.step == 1 else f"every {span.step} hours"
    if len(values) == 24 or (span.is_star and 24 % span.step == 0):
        return every
    return f"{every} from {clock(values[0] * 3_600)} through {clock(values[-1] * 3_600)}"


def _counted(field: Field, unit: str, past: str) -> str:
    """Describe minutes of the hour, or seconds of the minute."""
    if field.mask.bit_count() == 60:
        return f"every {unit}"
    if len(field.terms) == 1 and isinstance(field.terms[0], Span) and field.mask.bit_count() > 1:
        span = field.terms[0]
        every = f"every {unit}" if span.step == 1 else f"every {span.step} {unit}s"
        if span.is_star and 60 % span.step == 0:
            return every
        values = values_of(span.mask)
        return f"{every} from {values[0]} through {values[-1]} {past}"
    values = values_of(field.mask)
    unit = unit if values == [1] else f"{unit}s"
    return f"at {joined([str(value) for value in values])} {unit} {past}"


def _hours(field: Field) -> str:
    """Describe the hours to which minutes or seconds are restricted."""
    if len(field.terms) == 1 and isinstance(field.terms[0], Span) and field.terms[0].step > 1:
        span = field.terms[0]
        values = values_of(span.mask)
        if span.is_star and 24 % span.step == 0:
            return f"in every {ordinal(span.step)} hour from 00:00"
        return f"during the hours {joined([clock(value * 3_600) for value in values])}"
    ranges = [f"{clock(first * 3_600)} through {last:02}:59" for first, last in _runs(values_of(field.mask))]
    return f"from {joined(ranges)}"


def _runs(values: list[int]) -> list[tuple[int, int]]:
    """Group consecutive values as (first, last)."""
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and runs[-1][1] == value - 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def _days(cron: Cron) -> str:
    by_date = "" if cron.day_of_month.is_unrestricted else _dates(cron.day_of_month)
    by_weekday = "" if cron.day_of_week.is_unrestricted else _weekdays(cron.day_of_week)
    if by_date and by_weekday:
        on = by_weekday if by_weekday.startswith("on ") else f"on {by_weekday}"
        return f"{by_date}, or {on}" if cron.either_day_matches else f"{by_date}, but only {on}"
    return by_date or by_weekday


def _dates(field: Field) -> str:
    return joined(_grouped(field.terms, _date_numbers, _date_term))


def _date_numbers(spans: list[Span]) -> str:
    if len(spans) == 1 and spans[0].step > 1 and spans[0].mask.bit_count() > 1:
        span = spans[0]
        values = values_of(span.mask)
        until = "" if span.is_star else f" through day {values[-1]}"
        return f"every {span.step} days from day {values[0]}{until} of the month"
    days = _union(spans)
    return f"on {'day' if len(days) == 1 else 'days'} {_ranges(days)} of the month"


def _date_term(term: Term) -> str:
    match term:
        case LastDay(back=0):
            return "on the last day of the month"
        case LastDay():
            return f"{term.back} day{'s' if term.back > 1 else ''} before the last day of the month"
        case LastWorkday():
            return "on the last Monday-to-Friday day of the month"
        case NearestWorkday():
            return f"on the Monday-to-Friday day nearest day {term.day} of the month"
        case _:
            raise AssertionError(term)


def _weekdays(field: Field) -> str:
    return joined(_grouped(field.terms, _weekday_numbers, _weekday_term))


def _weekday_numbers(spans: list[Span]) -> str:
    days = sorted({value % 7 for value in _union(spans)})
    if len(days) == 7:
        return "every day of the week"
    if len(spans) == 1 and spans[0].step == 1 and spans[0].last > spans[0].first:
        return f"{WEEKDAYS[spans[0].first]} through {WEEKDAYS[spans[0].last]}"
    return f"on {joined([WEEKDAYS[day] for day in days])}"


def _weekday_term(term: Term) -> str:
    if not isinstance(term, NthWeekday):
        raise AssertionError(term)
    return f"on the {_ORDINALS[term.nth]} {WEEKDAYS[term.weekday]} of the month"


def _grouped(terms: Sequence[Term], of_spans: Callable[[list[Span]], str], of_term: Callable[[Term], str]) -> list[str]:
    """Describe all numbers of a day field together, then its special terms one by one."""
    spans = [term for term in terms if isinstance(term, Span)]
    phrases = [of_spans(spans)] if spans else []
    return phrases + [of_term(term) for term in terms if not isinstance(term, Span)]


def _union(spans: Sequence[Span]) -> list[int]:
    mask = 0
    for span in spans:
        mask |= span.mask
    return values_of(mask)


def _ranges(values: list[int]) -> str:
    """Format numbers with runs of three and more combined: 1 through 5, 9 and 10."""
    items = []
    for first, last in _runs(values):
        items += [f"{first} through {last}"] if last - first > 1 else [str(each) for each in range(first, last + 1)]
    return joined(items)


def ordinal(number: int) -> str:
    """Format an ordinal: 1st, 2nd, 3rd, 4th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _through(first: str, last: str) -> str:
    return first if first == last else f"{first} through {last}"


def _months(cron: Cron) -> str:
    if cron.month.is_unrestricted or cron.month.mask.bit_count() == 12:
        return ""
    runs = _runs(values_of(cron.month.mask))
    return f"only in {joined([_through(MONTHS[first - 1], MONTHS[last - 1]) for first, last in runs])}"


def _years(cron: Cron) -> str:
    if cron.year.is_unrestricted:
        return ""
    runs = _runs(values_of(cron.year.mask))
    span = cron.year.terms[0]
    if len(cron.year.terms) == 1 and isinstance(span, Span) and span.step > 1 and len(runs) > 1:
        return f"only in every {ordinal(span.step)} year from {span.first} through {span.last}"
    if len(runs) > _MAX_LISTED_TIMES:
        return f"only in {len(values_of(cron.year.mask))} years from {runs[0][0]} through {runs[-1][1]}"
    return f"only in {joined([_through(str(first), str(last)) for first, last in runs])}"


def _interval(form: Interval) -> str:
    text = f"Every {_duration(form.seconds)}"
    if form.seconds >= DAY:
        text += " (a day is 24 hours here, whatever the clock does)"
    return text + (f", counted from {_moment(form.anchor)}" if form.anchor.second else "")


def _duration(seconds: int) -> str:
    parts = []
    for unit, size in (("day", DAY), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}{'s' if number > 1 else ''}")
    text = joined(parts)
    return text.removeprefix("1 ") if len(parts) == 1 else text


def _moment(moment: Moment) -> str:
    day, time = divmod(moment.second, DAY)
    return f"{clock(time)} on {describe_date(day)}{' UTC' if moment.is_instant else ''}"


def _yearly(form: Yearly) -> str:
    text = f"At {clock(form.time)}, on {form.day} {MONTHS[form.month - 1]} every year"
    if not form.is_leap_day:
        return text
    elsewhere = {
        "feb28": ", on 28 February in other years",
        "mar1": ", on 1 March in other years",
        "skip": ", in leap years only",
    }
    return text.removesuffix(" every year") + elsewhere[form.feb29]


def _recurrence(form: RecurrencePattern) -> str:
    rule = form.rule
    unit = {DAILY: "day", WEEKLY: "week", MONTHLY: "month"}.get(rule.frequency, "year")
    every = f"every {unit}" if rule.interval == 1 else f"every {rule.interval} {unit}s"
    times = [clock(time) for time in rule.times[:_MAX_LISTED_TIMES]]
    at = (
        joined(times)
        if len(rule.times) <= _MAX_LISTED_TIMES
        else f"{', '.join(times)} and {len(rule.times) - 6} times more"
    )
    parts = [every, *_rule_parts(rule), f"at {at}"]
    if rule.count is not None:
        parts.append(f"{rule.count} time{'s' if rule.count > 1 else ''}")
    if rule.start is not None:
        parts.append(f"from {describe_date(rule.start // DAY)}")
    if rule.until is not None:
        parts.append(f"until {describe_date(rule.until // DAY)}")
    removed, added = len(form.removed) + len(form.removed_days), len(form.added)
    if removed:
        parts.append(f"except on {removed} date{'s' if removed > 1 else ''}")
    if added:
        parts.append(f"and on {added} date{'s' if added > 1 else ''} more")
    return _capital(", ".join(parts))


def _rule_parts(rule: Rule) -> list[str]:
    parts = []
    if rule.weekdays:
        weekdays = sorted(rule.weekdays, key=lambda pair: (pair[1] < 0, pair[1], pair[0]))
        parts.append("on " + joined([_nth_weekday(day, nth) for day, nth in weekdays]))
    if rule.month_days:
        parts.append(f"on {_numbered('day', rule.month_days)} of the month")
    if rule.year_days:
        parts.append(f"on {_numbered('day', rule.year_days)} of the year")
    if rule.weeks:
        parts.append(f"in {_numbered('week', rule.weeks)} of the year")
    if rule.months:
        parts.append("in " + joined([MONTHS[month - 1] for month in sorted(rule.months)]))
    if rule.positions:
        parts.append("of these only " + joined([f"the {_ordinal(at)}" for at in _from_both_ends(rule.positions)]))
    return parts


def _nth_weekday(day: int, nth: int) -> str:
    return WEEKDAYS[day] if nth == 0 else f"the {_ordinal(nth)} {WEEKDAYS[day]}"


def _numbered(unit: str, numbers: Collection[int]) -> str:
    """Format numbered units: days 1 and 15, the last day, or the second to last day."""
    counted = [number for number in sorted(numbers) if number > 0]
    items = [f"{unit}{'s' if len(counted) > 1 else ''} {_ranges(counted)}"] if counted else []
    return joined(items + [f"the {_ordinal(number)} {unit}" for number in sorted(numbers, reverse=True) if number < 0])


def _from_both_ends(numbers: Collection[int]) -> list[int]:
    return sorted(numbers, key=lambda number: (number < 0, abs(number)))


def _ordinal(number: int) -> str:
    """Format a position: first, 21st, last, third to last."""
    if number == -1:
        return "last"
    name = _ORDINALS.get(abs(number), ordinal(abs(number)))
    return name if number > 0 else f"{name} to last"
