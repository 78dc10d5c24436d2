"""Moments and durations as tests write them, and instants as tests read them."""

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
    """The instant, in UTC. What says no offset is read in the zone, and a day is its beginning."""
    read = _read(given)
    at = read if isinstance(read, datetime) else datetime.combine(read, time())
    return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)


def end_of(given: Moment, zone: ZoneInfo) -> datetime:
    """The same, but a day is its end."""
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
    """An instant as a clock on the wall shows it, with the offset: 2026-03-29T03:00+02:00."""
    local = at.astimezone(zone)
    return local.isoformat(timespec="auto" if local.second or local.microsecond else "minutes")


def cut(at: datetime) -> datetime:
    """Without what is less than a millisecond: steps of the engine, which take virtual time, too."""
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
