"""Validation errors: each has a JSON pointer, a message that says what is wrong, and a hint that says what to write."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches

from hourbell.core.schedule.errors import echo

_MAX_UNKNOWN_NAMES, _MAX_SUGGESTIONS, _MAX_NAME_CHARACTERS = 20, 5, 100


@dataclass(frozen=True, slots=True)
class FieldError:
    """One validation error. `pointer` (RFC 6901) locates the value; it is empty for the whole body."""

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
    """An invalid request body. `errors` lists every validation error found in it."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = tuple(errors)


class RequestError(BodyError):
    """An invalid request body that does not define a job."""


def unknown_fields(
    pointer: str, value: Mapping[str, object], known: Collection[str], named: Sequence[str]
) -> Iterator[FieldError]:
    """Report unknown fields, up to a limit; the first few with a suggested name."""
    others = [name for name in value if name not in known]
    for position, name in enumerate(others[:_MAX_UNKNOWN_NAMES]):
        short = str(name)[:_MAX_NAME_CHARACTERS]
        close = get_close_matches(short, named, n=1) if position < _MAX_SUGGESTIONS else []
        hint = f"did you mean {close[0]}?" if close else f"write {', '.join(named)}"
        yield FieldError(inside(pointer, name), f"{echo(str(name))!r} is not a field here", hint)
    if len(others) > _MAX_UNKNOWN_NAMES:
        yield FieldError(pointer, f"{len(others) - _MAX_UNKNOWN_NAMES} more are not fields here")


def pointer_to(*steps: str | int) -> str:
    """Build a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def inside(pointer: str, name: object) -> str:
    """Return the pointer to a field, or to its parent if the name is too long to repeat in an answer."""
    text = str(name)
    return pointer + pointer_to(text) if len(text) <= _MAX_NAME_CHARACTERS else pointer


def shown(value: object) -> str:
    """Format a value for an error message."""
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
