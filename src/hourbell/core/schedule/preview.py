"""The preview of a schedule as plain data: description, next instants and warnings. It has no side effects."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from hourbell.core.schedule import Occurrence, Schedule
from hourbell.core.schedule.zones import local_time_at

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Upcoming:
    """An occurrence with the local clock time at its instant."""

    occurrence: Occurrence
    wall: datetime  # without a time zone
    offset: timedelta
    abbreviation: str

    def as_json(self) -> Json:
        return {
            "at": rfc3339(self.occurrence.at),
            "local": self.wall.isoformat() + format_offset(self.offset),
            "zone_abbreviation": self.abbreviation,
            "nominal_local": self.occurrence.local.isoformat(),
            "shifted": self.occurrence.shifted,
            "fold": self.occurrence.fold,
        }


def upcoming(schedule: Schedule, after: datetime, count: int) -> list[Upcoming]:
    """Return the next occurrences, at most `count`."""
    return [
        Upcoming(occurrence, *local_time_at(schedule.timezone, occurrence.at))
        for occurrence in islice(_occurrences(schedule, after), count)
    ]


def preview(schedule: Schedule, after: datetime, count: int) -> Json:
    """Return the description, next occurrences and warnings of a schedule as JSON."""
    return {
        "schedule": schedule.expression,
        "resolved": schedule.resolved,
        "timezone": schedule.timezone,
        "dst": schedule.dst,
        "description": schedule.describe(),
        "upcoming": [item.as_json() for item in upcoming(schedule, after, count)],
        "warnings": [
            {"code": warning.code, "message": warning.message, "at": [rfc3339(at) for at in warning.instants]}
            for warning in schedule.warnings(after)
        ],
    }


def rfc3339(instant: datetime) -> str:
    """Format a UTC instant as 2026-03-08T07:00:00Z."""
    return instant.isoformat().replace("+00:00", "Z")


def format_offset(offset: timedelta) -> str:
    """Format an offset as +05:30, with seconds only if a zone has them."""
    seconds = int(offset.total_seconds())
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3_600)
    minutes, seconds = divmod(rest, 60)
    return f"{sign}{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")


def _occurrences(schedule: Schedule, after: datetime) -> Iterator[Occurrence]:
    while (occurrence := schedule.next_occurrence(after)) is not None:
        yield occurrence
        after = occurrence.at
