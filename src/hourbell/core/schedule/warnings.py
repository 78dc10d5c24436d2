"""What may surprise whoever wrote a schedule, told with dates before it happens."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from hourbell.core.schedule.calendar import DAY, KIND_MONTHS, KINDS
from hourbell.core.schedule.cron import Cron, days_by_date
from hourbell.core.schedule.fields import Span
from hourbell.core.schedule.forms import Instant, Interval, Yearly
from hourbell.core.schedule.pattern import MaskPattern, Pattern
from hourbell.core.schedule.recurrence import RecurrencePattern
from hourbell.core.schedule.timeline import Timeline
from hourbell.core.schedule.words import clock, date_words, joined
from hourbell.core.schedule.zones import Zone

_YEAR = 366 * DAY
_MOST_GAPS = 4
_MOST_DATES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScheduleWarning:
    """A surprise: `code` for programs, `message` for people, and the instants at which it shows."""

    code: str
    message: str
    instants: tuple[datetime, ...] = ()


def find_warnings(
    form: Cron | Interval | Instant | Yearly | RecurrencePattern,
    pattern: Pattern,
    timeline: Timeline,
    zone: Zone,
    after: int,
) -> list[ScheduleWarning]:
    """Everything worth a warning about a schedule, seen from this UTC second."""
    if timeline.next(pattern, -2 * DAY) is None:
        return [*_never(form), *_gaps(form, pattern, timeline, after)]
    found = [*_gaps(form, pattern, timeline, after), *_leap_day(pattern, timeline, after)]
    if isinstance(form, Cron):
        found += [
            *_steps(form),
            *_mixed_days(form, pattern, timeline, after),
            *_dead_date(form, pattern, timeline, after),
        ]
    found += _often(form, pattern, timeline, after)
    if isinstance(form, Interval) and form.seconds % DAY == 0 and len(zone.offsets) > 1:
        message = f"every {form.duration} counts 24 hours to the day, so the local time moves when the clock does"
        found.append(ScheduleWarning("day_is_24_hours", message, _instants(pattern, timeline, after)))
    return found


def _never(form: object) -> Iterator[ScheduleWarning]:
    if not (isinstance(form, Instant) and not form.moment.is_instant):
        yield ScheduleWarning("never_fires", "never fires: no date matches")


def _gaps(form: object, pattern: Pattern, timeline: Timeline, after: int) -> Iterator[ScheduleWarning]:
    """Local times that the clock skips within a year."""
    zone = timeline.zone
    follows_clock = isinstance(form, Cron) and form.is_periodic
    if follows_clock and isinstance(form, Cron) and form.hour.is_unrestricted:
        return  # it goes on across the gap without losing a beat
    horizon = after + _YEAR
    if isinstance(form, Instant):
        horizon = form.moment.second + 2 * DAY
    for period in zone.gaps(after, horizon)[:_MOST_GAPS]:
        resumes = zone.first_reading(period)
        reading = pattern.next(zone.highs[period])
        if reading is None or reading >= resumes:
            continue
        at = (_EPOCH + timedelta(seconds=zone.starts[period]),)
        day, time = divmod(reading, DAY)
        lost = pattern.count(zone.highs[period], resumes)
        shown = clock(time) if lost == 1 else f"{clock(time)} to {clock(pattern.previous(resumes - 1) or time)}"
        verb = "does" if lost == 1 else "do"
        says = f"{shown} {verb} not exist on {date_words(day)} in {zone.name}"
        if timeline.skipped_reading(pattern, period) is not None:
            yield ScheduleWarning("gap", f"{says}; runs at {clock(resumes)}", at)
        elif follows_clock:
            yield ScheduleWarning("periodic_gap", f"{says}; {lost} run{'s' if lost > 1 else ''} left out", at)
        else:
            yield ScheduleWarning("gap", f"{says}; no run for it", at)


def _leap_day(pattern: Pattern, timeline: Timeline, after: int) -> Iterator[ScheduleWarning]:
    if not isinstance(pattern, MaskPattern):
        return
    leap_februaries = sum(KIND_MONTHS[7:14])
    only_the_29th = all(
        mask in (0, 1 << 28) for (length, _), mask in zip(KINDS, pattern.days, strict=True) if length == 29
    )
    if pattern.months & ~leap_februaries == 0 and only_the_29th:
        instants = _instants(pattern, timeline, after)
        yield ScheduleWarning("leap_day", f"fires only on 29 February: {_dates(instants)}", instants)


def _steps(form: Cron) -> Iterator[ScheduleWarning]:
    for field in form.fields:
        for term in field.terms:
            if isinstance(term, Span) and term.step > max(1, term.last - term.first):
                span = f"{term.first}-{term.last}"
                message = f"{field.kind.name} step {term.step} is larger than {span}: only {term.first} matches"
                yield ScheduleWarning("large_step", message)


def _mixed_days(form: Cron, pattern: Pattern, timeline: Timeline, after: int) -> Iterator[ScheduleWarning]:
    """A starred step beside a restricted day field, which cron implementations read in two ways."""
    date, weekday = form.day_of_month, form.day_of_week
    if form.either_day_matches and (date.text.startswith("*") or weekday.text.startswith("*")):
        instants = _instants(pattern, timeline, after)
        both = _instants(replace(form, needs_both_days=True).pattern, timeline, after)
        message = (
            f"fires on day {date.text} or on weekday {weekday.text}: {_dates(instants)}; Debian's cron fires only "
            f"where both match: {_dates(both)}; for that write +{weekday.text}"
        )
        yield ScheduleWarning("either_day", message, instants)


def _dead_date(form: Cron, pattern: Pattern, timeline: Timeline, after: int) -> Iterator[ScheduleWarning]:
    """A day of the month that no allowed month has, beside a weekday that keeps the schedule alive."""
    if not form.either_day_matches or not isinstance(pattern, MaskPattern):
        return
    lives = any(
        days_by_date(form.day_of_month, length, weekday) and pattern.months & months
        for (length, weekday), months in zip(KINDS, KIND_MONTHS, strict=True)
    )
    if not lives:
        instants = _instants(pattern, timeline, after)
        never = f"day {form.day_of_month.text} never comes in month {form.month.text}"
        message = f"{never}; only the weekday fires: {_dates(instants)}"
        yield ScheduleWarning("dead_date", message, instants)


def _often(form: object, pattern: Pattern, timeline: Timeline, after: int) -> Iterator[ScheduleWarning]:
    is_often = isinstance(pattern, MaskPattern) and pattern.seconds.bit_count() > 1
    if is_often or (isinstance(form, Interval) and form.seconds < 60):
        instants = _instants(pattern, timeline, after)
        times = joined([f"{instant:%H:%M:%S}" for instant in instants]) if instants else "never again"
        yield ScheduleWarning("often", f"fires more often than every minute: {times} UTC", instants)


def _instants(pattern: Pattern, timeline: Timeline, after: int) -> tuple[datetime, ...]:
    return tuple(islice(_following(pattern, timeline, after), _MOST_DATES))


def _following(pattern: Pattern, timeline: Timeline, after: int) -> Iterator[datetime]:
    while (second := timeline.next(pattern, after + 1)) is not None:
        yield _EPOCH + timedelta(seconds=second)
        after = second


def _dates(instants: tuple[datetime, ...]) -> str:
    return joined([f"{instant:%Y-%m-%d}" for instant in instants]) if instants else "never again"
