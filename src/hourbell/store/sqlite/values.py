"""Conversion of values for SQLite: instants and durations are microseconds, ids are 16 bytes, lists are JSON.

A batch of rows is passed as one JSON array with hexadecimal ids: one statement for the whole batch is several times as
fast as one for each row.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from hourbell.core.values.ids import uuid_of
from hourbell.store.sql.job_columns import DURATIONS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the nominal local time has no zone
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_IDS = {
    "id",
    "job_id",
    "run_id",
    "last_run_id",
    "blocked_by",
    "lease_owner",
    "replay_of",
    "node",
    "token_id",
    "incident_id",
    "failed_run_id",
    "of_job_id",
    "found_by",
}
_LISTS = {"tags", "lanes"}


def microseconds(instant: datetime) -> int:
    return (instant - (EPOCH if instant.tzinfo else _NAIVE_EPOCH)) // _MICROSECOND


@lru_cache(10_000)
def instant_of(value: int) -> datetime:
    """Return the instant, or the nearest that Python supports: a column has a wider range."""
    try:
        return EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return _LAST if value > 0 else _FIRST


@lru_cache(10_000)
def number_of(instant: datetime) -> int:
    """Return the microseconds of an instant, cached for instants that recur."""
    return microseconds(instant)


@lru_cache(10_000)
def job_id_of(text: str) -> UUID:
    """Parse an id that SQLite writes as hexadecimal; cached, because the same few jobs recur."""
    return UUID(text)


def bound(value: Any) -> Any:
    """Convert a value to the form that SQLite binds."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, (list, tuple)):
        return array(value)
    form = _FORMS.get(type(value))
    return value if form is None else form(value)


def array(values: Iterable[Any]) -> str:
    """Serialize values, or rows of them, to the JSON array that a statement reads with json_each."""
    return _encode(list(values))


def rows_of(names: Sequence[str], found: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return rows as mappings from column names, with the types that the rest of Hourbell uses."""
    readers = [(position, read) for position, name in enumerate(names) if (read := _reader(name)) is not None]
    rows = []
    for values in found:
        row = list(values)
        for position, read in readers:
            value = row[position]
            if value is not None:
                row[position] = read(value)
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def _reader(name: str) -> Callable[[Any], Any] | None:
    """Return the function that converts a column, by its name; None if no conversion is needed."""
    if name == "local_at":
        return _local_of
    if name == "at" or name.endswith(("_at", "_until")):
        return instant_of
    if name in _IDS:
        return _id_of
    if name in DURATIONS:
        return _duration_of
    if name == "durations":
        return _durations_of
    return _list_of if name in _LISTS else None


def _plain(value: Any) -> Any:
    """Convert a value to its JSON form."""
    return _FORMS[type(value)](value)


def _local_of(value: int) -> datetime:
    return _NAIVE_EPOCH + timedelta(microseconds=value)


def _duration_of(value: int) -> timedelta:
    return timedelta(microseconds=value)


def _durations_of(text: str) -> list[timedelta]:
    return [timedelta(microseconds=each) for each in json.loads(text)]


def _list_of(text: str) -> Any:
    """Parse a list; return `[None]` if it cannot be read, for example a number with too many digits."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return [None]


def _id_of(value: bytes | int) -> UUID | int:
    return uuid_of(int.from_bytes(value, "big")) if isinstance(value, bytes) else value


_FORMS: dict[type, Callable[[Any], Any]] = {
    datetime: microseconds,
    timedelta: lambda duration: duration // _MICROSECOND,
    UUID: lambda given: given.hex,
}
_encode = json.JSONEncoder(default=_plain, ensure_ascii=False, check_circular=False).encode
