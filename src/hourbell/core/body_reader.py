"""Bodies from strangers, field by field: strict types, everything that is wrong at once, each with its place.

Nothing is converted silently: `true` is not a number, and "5" is not 5.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

from hourbell.core.durations import read_duration, show_duration
from hourbell.core.schedule.errors import echo

HOW_LONG = "write a text such as 90s, 15m, 2h30m or 1d, or a number of seconds"
SECOND = timedelta(seconds=1)
_MOST_UNKNOWN, _MAX_SUGGESTIONS, _LONGEST_NAME = 20, 5, 100
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)  # RFC 3339, and nothing else that ISO 8601 allows
_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong; `pointer` (RFC 6901) says where, and is empty for the whole."""

    pointer: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        message = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"{self.pointer}: {message}" if self.pointer else message


class BodyError(ValueError):
    """A body that cannot be taken; `faults` holds everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


class RequestError(BodyError):
    """The same of a body that defines no job."""


@dataclass(slots=True)
class BodyReader:
    """Reads fields and collects what is wrong with them; the value of a field with a fault means nothing."""

    body: Mapping[str, Any]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, pointer: str, message: str, hint: str | None = None) -> None:
        self.faults.append(Fault(pointer, message, hint))

    def choice(self, name: str, default: Choice) -> Choice:
        if name not in self.body:
            return default
        kind, value = type(default), self.body[name]
        try:
            return kind(value)
        except ValueError:
            self.fault(f"/{name}", f"{name} is {shown(value)}", f"write one of {', '.join(kind)}")
            return default

    def duration(self, name: str, default: timedelta, *, least: timedelta = SECOND) -> timedelta:
        if name not in self.body:
            return default
        duration = read_duration(self.body[name], least)
        if duration is None:
            span = f"a duration from {show_duration(least)} to 36500d"
            self.fault(f"/{name}", f"{name} is {shown(self.body[name])}, which is not {span}", HOW_LONG)
        return default if duration is None else duration

    def instant(self, name: str) -> datetime | None:
        value = self.body.get(name)
        if value is None:
            return None
        try:
            if not isinstance(value, str) or _INSTANT.fullmatch(value) is None:
                raise ValueError
            instant = datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            hint = "write one with an offset, as in 2026-12-24T18:00:00Z"
            self.fault(f"/{name}", f"{name} is {shown(value)}, which is not a date and time", hint)
            return None
        if not _FIRST <= instant < _END:
            self.fault(f"/{name}", f"{name} is {shown(value)}, which is outside the years 1970 to 2199")
        return instant

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.body.get(name, default)
        if not isinstance(value, bool):
            self.fault(f"/{name}", f"{name} is {shown(value)}", "write true or false")
            return default
        return value

    def refuse_others(
        self, pointer: str, value: Mapping[str, Any], known: Collection[str], named: Sequence[str]
    ) -> None:
        """Refuse fields that mean nothing, up to a number of them; the first few with the name that may be meant."""
        others = [name for name in value if name not in known]
        for place, name in enumerate(others[:_MOST_UNKNOWN]):
            short = str(name)[:_LONGEST_NAME]
            close = get_close_matches(short, named, n=1) if place < _MAX_SUGGESTIONS else []
            hint = f"did you mean {close[0]}?" if close else f"write {', '.join(named)}"
            self.fault(inside(pointer, name), f"{echo(str(name))!r} is not a field here", hint)
        if len(others) > _MOST_UNKNOWN:
            self.fault(pointer, f"{len(others) - _MOST_UNKNOWN} more are not fields here")


def pointer_to(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def inside(pointer: str, name: object) -> str:
    """The pointer to a field, or to what holds it if the name is longer than any answer should be."""
    text = str(name)
    return pointer + pointer_to(text) if len(text) <= _LONGEST_NAME else pointer


def shown(value: object) -> str:
    """A value as it may be repeated in a message."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return repr(echo(value))
        case int() | float():
            return echo(str(value))
        case Mapping():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"
