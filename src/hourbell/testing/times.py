"""Moments and durations as tests write them, and instants as tests read them."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hourbell.core.schedule.forms import parse_duration

Moment = datetime | date | str
Duration = timedelta | str

_MILLISECOND = timedelta(milliseconds=1)


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; write a name such as Europe/Berlin") from None


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
    seconds = parse_duration(given) if isinstance(given, str) else None
    length = timedelta(seconds=seconds) if seconds is not None else given
    if not isinstance(length, timedelta) or length < timedelta(0):
        raise ValueError(f"{given!r} is not a duration; write a timedelta or text such as 90s, 15m, 2h30m or 1d")
    return length


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
    try:
        return date.fromisoformat(given)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(f"{given!r} is not a time; write it as in 2026-03-29T02:30 or 2026-03-29") from None
