"""Validation errors: each names its place by a JSON pointer, says what is wrong, and what to write instead."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches

from hourbell.core.schedule.errors import echo

_MAX_UNKNOWN, _MAX_SUGGESTIONS, _MAX_NAME_LENGTH = 20, 5, 100


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong; `pointer` (RFC 6901) says where, and is empty for the whole."""

    pointer: str
    message: str
    hint: str | None = None

    @property
    def text(self) -> str:
        """The message with its hint."""
        return self.message if self.hint is None else f"{self.message}; {self.hint}"

    def __str__(self) -> str:
        return f"{self.pointer}: {self.text}" if self.pointer else self.text


class BodyError(ValueError):
    """A body that cannot be taken; `errors` holds everything that is wrong with it."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = tuple(errors)


class RequestError(BodyError):
    """The same of a body that defines no job."""


def unknown_fields(
    pointer: str, value: Mapping[str, object], known: Collection[str], named: Sequence[str]
) -> Iterator[FieldError]:
    """Refuse fields that mean nothing, up to a number of them; the first few with the name that may be meant."""
    others = [name for name in value if name not in known]
    for position, name in enumerate(others[:_MAX_UNKNOWN]):
        short = str(name)[:_MAX_NAME_LENGTH]
        close = get_close_matches(short, named, n=1) if position < _MAX_SUGGESTIONS else []
        hint = f"did you mean {close[0]}?" if close else f"write {', '.join(named)}"
        yield FieldError(inside(pointer, name), f"{echo(str(name))!r} is not a field here", hint)
    if len(others) > _MAX_UNKNOWN:
        yield FieldError(pointer, f"{len(others) - _MAX_UNKNOWN} more are not fields here")


def pointer_to(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def inside(pointer: str, name: object) -> str:
    """The pointer to a field, or to what holds it if the name is longer than any answer should be."""
    text = str(name)
    return pointer + pointer_to(text) if len(text) <= _MAX_NAME_LENGTH else pointer


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
        case date() | time():
            return repr(value.isoformat())
        case Mapping():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"
