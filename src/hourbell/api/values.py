"""Types of values in requests: times, durations, limits, versions. `core.values` parses them."""

from datetime import date, datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import Path, Query
from pydantic import BeforeValidator, Field, WithJsonSchema

from hourbell.core.job.fields import MAX_SUBJECT_CHARACTERS
from hourbell.core.run.attention import Attention
from hourbell.core.values.readers import read_duration, read_instant

_DURATION_TEXT = {
    "type": "string",
    "minLength": 2,
    "maxLength": 40,
    "pattern": "^([0-9]{1,3}w)?([0-9]{1,4}d)?([0-9]{1,4}h)?([0-9]{1,4}m)?([0-9]{1,4}s)?$",
}

Instant = Annotated[datetime, BeforeValidator(read_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
Date = Annotated[date, Field(ge=date(1971, 1, 1), le=date(2198, 12, 31))]
_DURATION = WithJsonSchema({"anyOf": [_DURATION_TEXT, {"type": "number", "minimum": 0, "maximum": 3_153_600_000}]})
Duration = Annotated[timedelta, BeforeValidator(read_duration), _DURATION]
Bucket = Annotated[
    timedelta,
    BeforeValidator(partial(read_duration, minimum=timedelta(minutes=1), maximum=timedelta(days=31))),
    _DURATION,
]
Limit = Annotated[int, Query(ge=1, le=500, description="The number of items per page.")]
Cursor = Annotated[str | None, Query(max_length=2_000, description="The `next_cursor` of the previous page.")]
Subject = Annotated[
    str | None, Query(min_length=1, max_length=MAX_SUBJECT_CHARACTERS, description="The subject of the job.")
]
AttentionFilter = Annotated[
    Attention | None,
    Query(
        description="`failing`: the last run to end failed. `retrying`: an attempt failed, and another one follows. "
        "`losing`: times were skipped in the last 24 hours because of overlap, as missed, by the catch-up window or new"
        " time-zone data. `late`: a run waits past `late_after`. `due`: it fires within the hour."
    ),
]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="A version number.")]
AuditId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The id of an audit entry.")]
JobRef = Annotated[str, Path(min_length=1, max_length=100, description="A job's name or id.")]
