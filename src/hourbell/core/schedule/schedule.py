"""`Schedule`: the times at which a job fires, as an immutable value.

Example: a daily job at 02:30 in New York in spring 2026, when the clock goes from 02:00 to 03:00:

>>> from datetime import UTC, datetime
>>> daily = Schedule.parse("30 2 * * *", timezone="America/New_York")
>>> at = daily.next(datetime(2026, 3, 6, 12, tzinfo=UTC))
>>> at.isoformat()                                    # 7 March, 02:30 EST
'2026-03-07T07:30:00+00:00'
>>> at = daily.next(at)
>>> at.isoformat()                                    # 8 March, 03:00 EDT: 02:30 does not exist
'2026-03-08T07:00:00+00:00'
>>> moved = daily.next_occurrence(datetime(2026, 3, 7, 12, tzinfo=UTC))
>>> moved.local.isoformat(), moved.shifted            # the local time it stands for
('2026-03-08T02:30:00', True)
>>> daily.next(at).isoformat()                        # 9 March, 02:30 EDT
'2026-03-09T06:30:00+00:00'
>>> print(daily.warnings(datetime(2026, 1, 1, tzinfo=UTC))[0].message)
02:30 does not exist on 8 March 2026 in America/New_York; runs at 03:00
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final, Literal, cast, get_args

from hourbell.core.schedule.calendar import DAY, END_OF_CALENDAR
from hourbell.core.schedule.cron import Cron
from hourbell.core.schedule.describe import describe
from hourbell.core.schedule.errors import ErrorDetail, ScheduleError, echo
from hourbell.core.schedule.forms import Instant, Interval, Yearly
from hourbell.core.schedule.parse import Form, parse_form
from hourbell.core.schedule.pattern import OncePattern, Pattern
from hourbell.core.schedule.recurrence import REACH, RecurrencePattern
from hourbell.core.schedule.timeline import EveryReading, FirstPass, Timeline
from hourbell.core.schedule.warnings import ScheduleWarning, find_warnings
from hourbell.core.schedule.zones import Zone, load_zone, zone_names

Dst = Literal["once", "wall", "skip"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  local readings have no zone
_ABBREVIATION = re.compile(r"[A-Z]{3,4}")
_HASHED = re.compile(r"(?:^|[ \t,])\+?H")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant of a schedule.

    `local` is the nominal local time, without a zone. If that time does not exist, `shifted` is true and `at` is the
    end of the gap. `fold` is 1 on the second pass of a repeated hour.
    """

    at: datetime
    local: datetime
    shifted: bool
    fold: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """An expression in a time zone. Create it with `Schedule.parse`; equal texts give equal schedules.

    Instants are aware datetimes; results are in UTC. Naive datetimes are refused.
    """

    expression: str
    timezone: str
    dst: Dst
    name: str | None  # only if the expression hashes it
    form: Form = field(repr=False, compare=False)
    _pattern: Pattern = field(repr=False, compare=False)
    _timeline: Timeline = field(repr=False, compare=False)
    _next_second: Callable[[int], int | None] = field(repr=False, compare=False)

    @staticmethod
    def parse(expression: str, timezone: str = "UTC", dst: Dst = "once", name: str | None = None) -> "Schedule":
        """Parse a schedule, or raise a `ScheduleError` with all its errors.

        `name` is the job's name; only `H` fields need it.
        """
        if not (type(expression) is type(timezone) is str and type(name or "") is str):
            _require_text("schedule", expression)
            _require_text("timezone", timezone)
            _require_text("name", name or "")
        is_hashed = "H" in expression and _HASHED.search(expression[:513])
        return _parse(expression, timezone, str(dst), name if is_hashed else None)

    def __reduce__(self) -> tuple[object, ...]:
        return Schedule.parse, (self.expression, self.timezone, self.dst, self.name)

    @property
    def resolved(self) -> str:
        """The expression with every `H` replaced by its resolved values."""
        return self.form.resolved if isinstance(self.form, Cron) and self.name is not None else self.expression

    @property
    def never_fires(self) -> bool:
        """True if no instant ever matches, as in `0 0 30 2 *`."""
        starts = range(-2 * DAY, END_OF_CALENDAR, REACH)  # one search of a recurrence covers this range
        return all(self._next_second(start) is None for start in starts)

    def next(self, after: datetime) -> datetime | None:
        """Return the first instant strictly after `after`, or None if there is none."""
        try:
            elapsed = after - _EPOCH
        except TypeError:
            raise _naive(after) from None
        now = elapsed.days * DAY + elapsed.seconds
        second = self._next_second(now + 1)
        if second is None:
            return None
        if after.tzinfo is UTC and not elapsed.microseconds:
            return after + _distance(second - now)  # fastest: distances recur, so the timedelta is cached
        return datetime.fromtimestamp(second, UTC)

    def previous(self, before: datetime) -> datetime | None:
        """Return the newest instant strictly before `before`, or None if there is none."""
        second = self._timeline.previous(self._pattern, _last_second(before))
        return None if second is None else datetime.fromtimestamp(second, UTC)

    def next_occurrence(self, after: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `after`, with its nominal local time."""
        second = self._next_second(_seconds(after) + 1)
        return None if second is None else self._occurrence(second)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return every instant in (start, end]."""
        return self._walk(_seconds(start) + 1, _seconds(end))

    def count(self, start: datetime, end: datetime) -> int:
        """Count the instants in (start, end] by arithmetic."""
        earliest, latest = _seconds(start) + 1, _seconds(end)
        return self._timeline.count(self._pattern, earliest, latest) if earliest <= latest else 0

    def matches(self, instant: datetime) -> bool:
        """Check if the schedule fires at exactly this instant."""
        second = _seconds(instant)
        return not instant.microsecond and self._next_second(second) == second

    def describe(self) -> str:
        """Describe the schedule in English: `At 09:00, Monday through Friday`."""
        return describe(self.form)

    def warnings(self, after: datetime | None = None) -> list[ScheduleWarning]:
        """Return warnings about unexpected behaviour, with dates in the year after `after`; by default, now."""
        if after is None:
            after = datetime.now(UTC)  # for interactive use; the engine always passes `after`
        zone = load_zone(self.timezone)
        found = find_warnings(self.form, self._pattern, self._timeline, zone, _seconds(after))
        if self.never_fires:
            found.insert(0, ScheduleWarning("never_fires", "never fires: no date matches"))
        return found

    def _walk(self, earliest: int, latest: int) -> Iterator[datetime]:
        while (second := self._next_second(earliest)) is not None and second <= latest:
            yield datetime.fromtimestamp(second, UTC)
            earliest = second + 1

    def _occurrence(self, second: int) -> Occurrence:
        zone = load_zone(self.timezone)
        period = zone.period_at(second)
        local = second + zone.offsets[period]
        skipped = None
        if second == zone.starts[period]:
            skipped = self._timeline.skipped_reading(self._pattern, period)
        reading = _LOCAL_EPOCH + timedelta(seconds=local if skipped is None else skipped)
        return Occurrence(
            at=datetime.fromtimestamp(second, UTC),
            local=reading,
            shifted=skipped is not None,
            fold=int(local < zone.highs[period]),
        )


@lru_cache(maxsize=4096)
def _distance(seconds: int) -> timedelta:
    return timedelta(seconds=seconds)


def _require_text(what: str, given: object) -> None:
    if not isinstance(given, str):
        raise ScheduleError(ErrorDetail(f"the {what} is text, not {type(given).__name__}", hint="write it in quotes"))


@lru_cache(maxsize=4096)
def _parse(expression: str, timezone: str, dst: str, name: str | None) -> Schedule:
    errors = []
    if timezone not in zone_names():
        errors.append(_unknown_zone(timezone))
    if dst not in get_args(Dst):
        message, allowed = f"dst {echo(dst)} is not known", "once, wall, skip"
        errors.append(ErrorDetail(message, "dst", None, echo(dst), allowed, "write once, wall or skip"))
    zone = load_zone("UTC" if errors else timezone)
    try:
        form = parse_form(expression, zone, name)
        pattern, timeline = _compile(form, zone, dst)
    except ScheduleError as error:
        raise ScheduleError(*error.errors, *errors) from None
    if errors:
        raise ScheduleError(*errors)
    # In UTC, local time is the axis of instants, so the timeline is not needed.
    next_second = pattern.next if timeline.zone.is_utc else partial(timeline.next, pattern)
    return Schedule(expression.strip(), timezone, cast(Dst, dst), name, form, pattern, timeline, next_second)


def _compile(form: Form, zone: Zone, dst: str) -> tuple[Pattern, Timeline]:
    """Compile a form to its pattern, and choose the timeline that converts it."""
    on_utc = EveryReading(load_zone("UTC"))
    by_date = EveryReading(zone) if dst == "wall" else FirstPass(zone, skips_gaps=dst == "skip")
    match form:
        case Cron():
            return form.pattern, EveryReading(zone) if form.is_periodic else by_date
        case Yearly():
            return form.pattern, by_date
        case Instant():
            # An instant fires once, even with dst=wall.
            return form.pattern, on_utc if form.moment.is_instant else FirstPass(zone, skips_gaps=dst != "once")
        case Interval():
            return form.pattern(_anchor(form, zone)), on_utc
        case RecurrencePattern():
            return form, EveryReading(zone) if dst == "wall" else FirstPass(zone, skips_gaps=True)


def _anchor(form: Interval, zone: Zone) -> int:
    if form.anchor.is_instant:
        return form.anchor.second
    instant = FirstPass(zone).next(OncePattern(form.anchor.second), -2 * DAY)
    if instant is None:
        raise ScheduleError(ErrorDetail(f"the date after 'from' does not exist in {zone.name}", "interval"))
    return instant


def _unknown_zone(timezone: object) -> ErrorDetail:
    shown = echo(str(timezone))
    close = _closest_zone(shown)
    hint = "write an IANA name such as Europe/Paris" if close is None else f"did you mean {close}?"
    return ErrorDetail(f"unknown time zone {shown!r}", "timezone", text=shown, allowed="an IANA name", hint=hint)


def _closest_zone(text: str) -> str | None:
    if any(character in "+0123456789" for character in text):
        return None  # an offset, not a misspelt city, and Etc/GMT+1 means the opposite of what most people think
    from difflib import get_close_matches

    folded = text.lower().replace(" ", "_")
    by_folded_name = {name.lower(): name for name in sorted(zone_names())}
    if folded in by_folded_name:
        return by_folded_name[folded]
    cities = [name for name in by_folded_name if name.endswith("/" + folded)]
    if not cities and _ABBREVIATION.fullmatch(text):
        return None  # CEST is not a misspelt EST
    close = cities or get_close_matches(folded, by_folded_name, n=1, cutoff=0.75)
    return by_folded_name[close[0]] if close else None


def _seconds(instant: datetime) -> int:
    """Return whole seconds since the epoch, rounded down."""
    try:
        elapsed = instant - _EPOCH
    except TypeError:
        raise _naive(instant) from None
    return elapsed.days * DAY + elapsed.seconds


def _last_second(before: datetime) -> int:
    """Return the last whole second strictly before `before`."""
    second = _seconds(before)
    return second if before.microsecond else second - 1


def _naive(instant: object) -> Exception:
    if isinstance(instant, datetime):
        return ValueError(f"{instant.isoformat()} has no time zone; give an aware datetime, as in datetime.now(UTC)")
    return TypeError(f"expected an aware datetime, got {type(instant).__name__}")
