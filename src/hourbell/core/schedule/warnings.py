"""Warnings about unexpected behaviour of a schedule, with the dates when it will happen."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice

from hourbell.core.schedule.calendar import DAY, KIND_MONTHS, KINDS, MINUTE, mask_of
from hourbell.core.schedule.cron import Cron, days_by_date
from hourbell.core.schedule.describe import clock, describe_date, joined
from hourbell.core.schedule.fields import Span
from hourbell.core.schedule.forms import Instant, Interval, Yearly
from hourbell.core.schedule.pattern import MaskPattern, Pattern
from hourbell.core.schedule.recurrence import RecurrencePattern
from hourbell.core.schedule.timeline import Timeline
from hourbell.core.schedule.zones import Zone, local_time_at

_YEAR = 366 * DAY
_MAX_GAPS = 4
_MAX_DATES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScheduleWarning:
    """A warning: `code` for programs, `message` for users, and the affected instants."""

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
    """Return all warnings about a schedule, as seen from this UTC second."""
    facts = _Facts(pattern, timeline, zone, after)
    found = [*_gaps(form, facts), *_leap_day(pattern, facts)]
    if isinstance(form, Cron):
        found += [*_steps(form), *_mixed_days(form, facts), *_dead_date(form, facts)]
    found += _often(form, facts)
    if isinstance(form, Interval) and form.seconds % DAY == 0 and len(set(zone.offsets)) > 1:
        message = f"every {form.duration} counts 24 hours to the day, so the local time moves when the clock does"
        found.append(ScheduleWarning("day_is_24_hours", message, facts.instants()))
    return found


@dataclass(frozen=True, slots=True)
class _Facts:
    """A schedule and the time from which warnings are computed."""

    pattern: Pattern
    timeline: Timeline
    zone: Zone
    after: int

    def instants(self, pattern: Pattern | None = None) -> tuple[datetime, ...]:
        """Return the next few instants of this pattern, or of another on the same time axis."""
        return tuple(islice(self._following(pattern or self.pattern), _MAX_DATES))

    def dates(self, instants: tuple[datetime, ...]) -> str:
        """Format the local dates of instants."""
        local = [local_time_at(self.zone.name, instant)[0] for instant in instants]
        return joined([f"{reading:%Y-%m-%d}" for reading in local]) if local else "never again"

    def _following(self, pattern: Pattern) -> Iterator[datetime]:
        after = self.after
        while (second := self.timeline.next(pattern, after + 1)) is not None:
            yield datetime.fromtimestamp(second, UTC)
            after = second


def _gaps(form: object, facts: _Facts) -> Iterator[ScheduleWarning]:
    """Warn about local times that the clock skips within a year."""
    zone, pattern = facts.timeline.zone, facts.pattern
    until = form.moment.second + 2 * DAY if isinstance(form, Instant) else facts.after + _YEAR
    for period in zone.gaps(facts.after, until)[:_MAX_GAPS]:
        resumes = zone.first_reading(period)
        reading = pattern.next(zone.highs[period])
        if reading is None or reading >= resumes or _keeps_its_beat(form, resumes - zone.highs[period]):
            continue
        lost = pattern.count(zone.highs[period], resumes)
        shown = clock(reading)
        if lost > 1:
            shown += f" to {clock(pattern.previous(resumes - 1) or reading)}"
        does = "does" if lost == 1 else "do"
        says = f"{shown} {does} not exist on {describe_date(reading // DAY)} in {zone.name}"
        at = (datetime.fromtimestamp(zone.starts[period], UTC),)
        if facts.timeline.skipped_reading(pattern, period) is not None:
            yield ScheduleWarning("gap", f"{says}; runs at {clock(resumes)}", at)
        elif isinstance(form, Cron) and form.is_periodic:
            yield ScheduleWarning("periodic_gap", f"{says}; {lost} run{'s' if lost > 1 else ''} left out", at)
        else:
            yield ScheduleWarning("gap", f"{says}; no run for it", at)


def _keeps_its_beat(form: object, gap: int) -> bool:
    """Check if a periodic schedule continues across a gap of this many seconds without a visible change."""
    if not (isinstance(form, Cron) and form.is_periodic and form.hour.is_unrestricted) or gap % MINUTE:
        return False
    shift = gap // MINUTE % 60
    minutes = form.minute.mask
    return (minutes >> shift | minutes << (60 - shift)) & mask_of(0, 59) == minutes


def _leap_day(pattern: Pattern, facts: _Facts) -> Iterator[ScheduleWarning]:
    if isinstance(pattern, MaskPattern):
        leap_februaries = sum(KIND_MONTHS[7:14])
        days = [mask for (length, _), mask in zip(KINDS, pattern.days, strict=True) if length == 29]
        is_leap_day = pattern.months & ~leap_februaries == 0 and all(mask in (0, 1 << 28) for mask in days)
    else:
        is_leap_day = (
            isinstance(pattern, RecurrencePattern) and pattern.rule.months == {2} and pattern.rule.month_days == {29}
        )
    instants = facts.instants() if is_leap_day else ()
    if instants:
        yield ScheduleWarning("leap_day", f"fires only on 29 February: {facts.dates(instants)}", instants)


def _steps(form: Cron) -> Iterator[ScheduleWarning]:
    for field in form.fields:
        for term in field.terms:
            if isinstance(term, Span) and term.step > max(1, term.last - term.first):
                span = f"{term.first}-{term.last}"
                message = f"{field.kind.name} step {term.step} is larger than {span}: only {term.first} matches"
                yield ScheduleWarning("large_step", message)


def _mixed_days(form: Cron, facts: _Facts) -> Iterator[ScheduleWarning]:
    """Warn about a starred step beside a restricted day field, which cron implementations read in two ways."""
    date, weekday = form.day_of_month, form.day_of_week
    if form.either_day_matches and (date.text.startswith("*") or weekday.text.startswith("*")):
        instants = facts.instants()
        both = facts.instants(replace(form, needs_both_days=True).pattern)
        message = (
            f"fires on day {date.text} or on weekday {weekday.text}: {facts.dates(instants)}; Debian's cron fires only "
            f"where both match: {facts.dates(both)}; for that write +{weekday.text}"
        )
        yield ScheduleWarning("either_day", message, instants)


def _dead_date(form: Cron, facts: _Facts) -> Iterator[ScheduleWarning]:
    """Warn about a day of the month that no allowed month has, if the weekday field still fires."""
    if not form.either_day_matches:
        return
    lives = any(
        days_by_date(form.day_of_month, length, weekday) and form.pattern.months & months
        for (length, weekday), months in zip(KINDS, KIND_MONTHS, strict=True)
    )
    if not lives:
        instants = facts.instants()
        never = f"day {form.day_of_month.text} never comes in month {form.month.text}"
        message = f"{never}; only the weekday fires: {facts.dates(instants)}"
        yield ScheduleWarning("dead_date", message, instants)


def _often(form: object, facts: _Facts) -> Iterator[ScheduleWarning]:
    is_often = isinstance(facts.pattern, MaskPattern) and facts.pattern.seconds.bit_count() > 1
    instants = facts.instants() if is_often or (isinstance(form, Interval) and form.seconds < MINUTE) else ()
    if instants:
        times = joined([f"{instant:%H:%M:%S}" for instant in instants])
        yield ScheduleWarning("often", f"fires more often than every minute: {times} UTC", instants)
