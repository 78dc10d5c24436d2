"""How values are kept in SQLite: instants and durations as microseconds, ids as 16 bytes, lists as JSON.

A batch of rows crosses as one JSON array, in which ids are hexadecimal: a statement over the whole batch is several
times as fast as one for each row.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from hourbell.core.values.ids import uuid_of
from hourbell.store.job_columns import DURATIONS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the nominal local time has no zone
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_IDS = {"id", "job_id", "run_id", "last_run_id", "blocked_by", "lease_owner", "replay_of", "node", "token_id"}
_LISTS = {"tags", "lanes"}


def microseconds(instant: datetime) -> int:
    return (instant - (EPOCH if instant.tzinfo else _NAIVE_EPOCH)) // _MICROSECOND


@lru_cache(10_000)
def instant_of(value: int) -> datetime:
    """The instant, or the nearest one that there is: a column has more than Python's calendar."""
    try:
        return EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return _LAST if value > 0 else _FIRST


@lru_cache(10_000)
def number_of(instant: datetime) -> int:
    """The microseconds of an instant that comes again and again."""
    return microseconds(instant)


@lru_cache(10_000)
def job_id_of(text: str) -> UUID:
    """The id that SQLite writes as hexadecimal; the same few jobs come again and again."""
    return UUID(text)


def bound(value: Any) -> Any:
    """A value as SQLite binds it."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, (list, tuple)):
        return array(value)
    form = _FORMS.get(type(value))
    return value if form is None else form(value)


def array(values: Iterable[Any]) -> str:
    """Values, or rows of them, as the JSON array that a statement reads with json_each."""
    return _encode(list(values))


def rows_of(names: Sequence[str], found: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows as mappings from column names, with the values the rest of Hourbell knows."""
    readers = [(place, read) for place, name in enumerate(names) if (read := _reader(name)) is not None]
    rows = []
    for values in found:
        row = list(values)
        for place, read in readers:
            value = row[place]
            if value is not None:
                row[place] = read(value)
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def _reader(name: str) -> Callable[[Any], Any] | None:
    """How to read a column, by its name; None if it is read as it is."""
    if name == "local_at":
        return _local_of
    if name == "at" or name.endswith(("_at", "_until")):
        return instant_of
    if name in _IDS:
        return _id_of
    if name in DURATIONS:
        return _duration_of
    return _list_of if name in _LISTS else None


def _plain(value: Any) -> Any:
    """What a value is in JSON."""
    return _FORMS[type(value)](value)


def _local_of(value: int) -> datetime:
    return _NAIVE_EPOCH + timedelta(microseconds=value)


def _duration_of(value: int) -> timedelta:
    return timedelta(microseconds=value)


def _list_of(text: str) -> Any:
    """The list, or one of nothing where it cannot be read, as with a number that has too many digits."""
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
