"""One reader for each kind of value that users write: durations, instants, time zones and retry policies.

Every interface uses these readers: bodies and queries of the API, the command line, the jobs file, the library,
targets, settings and plain SQL. So all of them accept the same values, and refuse a value with the same error.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hourbell.core.run.policies import RETRY_PRESETS, RetryPolicy
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.schedule.forms import parse_duration
from hourbell.core.values.field_errors import FieldError, shown, unknown_fields

MAX_DURATION = timedelta(days=36_500)
MAX_ATTEMPTS, MAX_WAITS = 100, 100
RETRY_FIELDS = ("attempts", "backoff", "spread")
ZERO, SECOND = timedelta(0), timedelta(seconds=1)
_MAX_SECONDS = MAX_DURATION.total_seconds()
_MAX_DURATION_CHARACTERS = 50
_DURATION_HINT = "write a text such as 90s, 15m, 2h30m or 1d, or a number of seconds"
_INSTANT_HINT = "write one with an offset, as in 2026-12-24T18:00:00Z"
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
# RFC 3339 only, not all of ISO 8601. In a query, + is decoded as a space.
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:([Zz])|([+ -])(\d\d:\d\d))", re.ASCII)
_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class InvalidValue(ValueError):
    """An invalid value: `message` says what it is ("not a date and time"), `hint` what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"

    def at(self, pointer: str, name: str, value: object) -> FieldError:
        """Build the field error for a field with this value."""
        what = f", which is {self.message}" if self.message else ""
        return FieldError(pointer, f"{name} is {shown(value)}{what}", self.hint)


class OutOfRange(InvalidValue):
    """A value of the right kind that is too small or too large."""


def read_duration(value: object, minimum: timedelta = ZERO, maximum: timedelta = MAX_DURATION) -> timedelta:
    """Read text such as 90s, 15m or 1d, a number of seconds or a timedelta; raise an InvalidValue if out of range."""
    duration: timedelta | None = None
    if isinstance(value, str):
        duration = _duration_of(value) if len(value) <= _MAX_DURATION_CHARACTERS else None
    elif isinstance(value, timedelta):
        duration = value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        duration = timedelta(seconds=value) if 0 <= value <= _MAX_SECONDS else timedelta.max
    if duration is not None and minimum <= duration <= maximum:
        return duration
    message = f"not a duration from {show_duration(minimum)} to {show_duration(maximum)}"
    raise (InvalidValue if duration is None else OutOfRange)(message, _DURATION_HINT)


@lru_cache(maxsize=1024)  # the same few texts recur
def _duration_of(text: str) -> timedelta | None:
    seconds = parse_duration(text)
    if seconds is None:
        return None
    return timedelta(seconds=seconds) if seconds <= _MAX_SECONDS else timedelta.max


def show_duration(duration: timedelta) -> str | float:
    """Format a duration as text such as `2h30m`, or as seconds if they are fractional or negative.

    `read_duration` reads the text back as the same duration.
    """
    if duration.microseconds or duration < ZERO:
        return duration.total_seconds()
    rest = duration.days * 86_400 + duration.seconds
    text = ""
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def describe_duration(duration: timedelta) -> str:
    """Format a duration for people, such as `420 ms`, `1.5 s`, `13m 12s` or `2d 4h`; a negative one as `0 ms`."""
    seconds = max(0.0, duration.total_seconds())
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < 59.95:
        return f"{round(seconds, 1):g} s"
    rest = round(seconds)
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts[:2])


def read_instant(value: object) -> datetime:
    """Read a date and time with an offset, as UTC; raise an InvalidValue outside the years 1970 to 2199."""
    instant = parse_instant(value)
    if instant is None:
        raise InvalidValue("not a date and time", _INSTANT_HINT)
    if not _FIRST <= instant < _END:
        raise OutOfRange("outside the years 1970 to 2199", "write a time between them")
    return instant


def parse_instant(value: object) -> datetime | None:
    """Parse a date and time with an offset, of any year, as UTC; return None if it is invalid."""
    try:
        if isinstance(value, datetime):
            return None if value.utcoffset() is None else value.astimezone(UTC)
        found = _INSTANT.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return None
        day, clock, _, sign, offset = found.groups()
        zone = "Z" if offset is None else f"{'-' if sign == '-' else '+'}{offset}"
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def schedule_errors(error: ScheduleError) -> Iterator[FieldError]:
    """Convert the errors of a schedule to field errors, at `/schedule` or `/timezone`."""
    for each in error.errors:
        if each.field == "timezone":
            yield FieldError("/timezone", each.message, each.hint)
        else:
            yield FieldError("/schedule", str(replace(each, hint=None)), each.hint)


def read_zone(value: object) -> str:
    """Read the IANA name of a time zone, or raise an InvalidValue that suggests a similar name."""
    if not isinstance(value, str):
        raise InvalidValue("not a text", "write an IANA name such as Europe/Paris")
    try:
        return Schedule.parse("@daily", value).timezone
    except ScheduleError as error:
        raise InvalidValue(error.errors[0].message, error.errors[0].hint or "") from None


def read_retry(value: object, errors: list[FieldError], pointer: str = "/retry") -> RetryPolicy:
    """Read the name of a retry preset or a policy; append its errors to `errors` and return the default then."""
    default = RETRY_PRESETS["default"]
    if isinstance(value, str) and value in RETRY_PRESETS:
        return RETRY_PRESETS[value]
    if not isinstance(value, Mapping):
        own = 'or your own, as in {"attempts": 3, "backoff": ["30s", "5m"]}'
        errors.append(
            FieldError(pointer, f"retry is {shown(value)}", f"write one of {', '.join(RETRY_PRESETS)}, {own}")
        )
        return default
    attempts, spread = value.get("attempts"), value.get("spread", 0)
    count = len(errors)
    if type(attempts) is not int or not 1 <= attempts <= MAX_ATTEMPTS:
        hint = f"write a whole number from 1 to {MAX_ATTEMPTS}"
        errors.append(FieldError(f"{pointer}/attempts", f"attempts is {shown(attempts)}", hint))
    if type(spread) not in (int, float) or not 0 <= spread <= 1:
        errors.append(FieldError(f"{pointer}/spread", f"spread is {shown(spread)}", "write a number from 0 to 1"))
    waits = _read_waits(value.get("backoff"), errors, f"{pointer}/backoff")
    errors += unknown_fields(pointer, value, RETRY_FIELDS, RETRY_FIELDS)
    return RetryPolicy(attempts, waits, float(spread)) if len(errors) == count else default  # type: ignore[arg-type]


def _read_waits(backoff: object, errors: list[FieldError], pointer: str) -> tuple[timedelta, ...]:
    if not isinstance(backoff, (list, tuple)) or not 1 <= len(backoff) <= MAX_WAITS:
        hint = 'as in ["30s", "5m"]; the last one repeats'
        errors.append(FieldError(pointer, f"backoff is not a list of 1 to {MAX_WAITS} waits", hint))
        return ()
    waits = []
    for position, wait in enumerate(backoff):
        try:
            waits.append(read_duration(wait))
        except InvalidValue as error:
            errors.append(FieldError(f"{pointer}/{position}", f"{shown(wait)} is {error.message}", error.hint))
    return tuple(waits)


def show_retry(retry: RetryPolicy) -> str | dict[str, object]:
    """Return the name of the matching preset, or the policy as users write it."""
    for name, preset in RETRY_PRESETS.items():
        if retry == preset:
            return name
    return {
        "attempts": retry.attempts,
        "backoff": [show_duration(wait) for wait in retry.backoff],
        "spread": retry.spread,
    }
