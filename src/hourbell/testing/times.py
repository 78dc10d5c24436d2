"""Parses the times and durations that tests write, and formats those that they read."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hourbell.core.values.readers import InvalidValue, parse_instant, read_duration, read_zone

Moment = datetime | date | str
Duration = timedelta | float | str

_MILLISECOND = timedelta(milliseconds=1)


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(read_zone(name))
    except InvalidValue as error:
        raise ValueError(f"{name!r} is not a time zone; {error.hint}") from None


def moment(given: Moment, zone: ZoneInfo) -> datetime:
    """Return a moment in UTC. A time without an offset is in `zone`, and a date is the start of its day."""
    read = _read(given)
    at = read if isinstance(read, datetime) else datetime.combine(read, time())
    return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)


def end_of(given: Moment, zone: ZoneInfo) -> datetime:
    """Return a moment in UTC; a date is the last microsecond of its day."""
    read = _read(given)
    if isinstance(read, datetime):
        return moment(read, zone)
    return moment(read + timedelta(days=1), zone) - timedelta(microseconds=1)


def duration(given: Duration) -> timedelta:
    try:
        return read_duration(given)
    except InvalidValue as error:
        raise ValueError(f"{given!r} is not a duration; {error.hint}") from None


def local_text(at: datetime, zone: ZoneInfo) -> str:
    """Format a time in a zone, with its offset: 2026-03-29T03:00+02:00."""
    local = at.astimezone(zone)
    return local.isoformat(timespec="auto" if local.second or local.microsecond else "minutes")


def cut(at: datetime) -> datetime:
    """Truncate a time to milliseconds, because each step of the engine takes a little virtual time."""
    return at - timedelta(microseconds=at.microsecond) + at.microsecond // 1_000 * _MILLISECOND


def _read(given: Moment) -> datetime | date:
    if not isinstance(given, str):
        return given
    if (instant := parse_instant(given)) is not None:
        return instant
    try:
        return date.fromisoformat(given)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(f"{given!r} is not a time; write it as in 2026-03-29T02:30 or 2026-03-29") from None
