"""How values are written in requests: instants, durations, limits, versions.

A value that is refused raises a ValueError with two texts: what the value is, and what to write.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import Path, Query
from pydantic import BeforeValidator, WithJsonSchema

from hourbell.core.durations import LONGEST, show_duration
from hourbell.core.schedule.forms import parse_duration

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_PLUS = re.compile(r" (\d\d:\d\d)\Z", re.ASCII)
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def instant(value: object) -> datetime:
    """A date and time with an offset, in UTC."""
    if isinstance(value, datetime):
        return value
    fault = ValueError("not a date and time", "write one with an offset, as in 2026-12-24T18:00:00Z")
    if isinstance(value, str):
        value = _PLUS.sub(r"+\1", value)  # in a query, + means a space
    if not isinstance(value, str) or _INSTANT.fullmatch(value) is None:
        raise fault
    try:
        found = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise fault from None
    if not _FIRST <= found < _LAST:
        raise ValueError("outside the years 1970 to 2199", "write a time between them")
    return found


def duration(value: object, *, least: timedelta = timedelta(0), most: timedelta = LONGEST) -> timedelta:
    """Text such as 90s, 15m or 1d, or a number of seconds."""
    seconds = parse_duration(value) if isinstance(value, str) and len(value) <= 40 else value
    span = f"from {show_duration(least)} to {show_duration(most)}"
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError("not a duration", f"write one {span}, such as 90s, 15m, 2h30m or 1d")
    if not least.total_seconds() <= seconds <= most.total_seconds():
        raise ValueError(f"not {span}", "write a duration in that range")
    return timedelta(seconds=seconds)


_DURATION_TEXT = {
    "type": "string",
    "minLength": 2,
    "maxLength": 40,
    "pattern": "^([0-9]{1,3}w)?([0-9]{1,4}d)?([0-9]{1,4}h)?([0-9]{1,4}m)?([0-9]{1,4}s)?$",
}

Instant = Annotated[datetime, BeforeValidator(instant), WithJsonSchema({"type": "string", "format": "date-time"})]
_DURATION = WithJsonSchema({"anyOf": [_DURATION_TEXT, {"type": "number", "minimum": 0, "maximum": 3_153_600_000}]})
Duration = Annotated[timedelta, BeforeValidator(duration), _DURATION]
Bucket = Annotated[
    timedelta,
    BeforeValidator(partial(duration, least=timedelta(minutes=1), most=timedelta(days=31))),
    _DURATION,
]
DurationText = Annotated[str, WithJsonSchema(_DURATION_TEXT)]
Limit = Annotated[int, Query(ge=1, le=500, description="How many items a page holds.")]
Cursor = Annotated[str | None, Query(max_length=2_000, description="`next_cursor` of the page before.")]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of a job's version.")]
AuditId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The id of an entry of the audit.")]
JobRef = Annotated[str, Path(min_length=1, max_length=100, description="The name or the id of a job.")]
