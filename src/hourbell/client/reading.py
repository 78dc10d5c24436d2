"""Answers as frozen values, read from JSON by the types of their fields.

What a newer server adds is ignored and stays in `raw`, which is the body as it came; what an older one leaves out is
the field's default. Values that may grow, such as states, stay text for the same reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from hourbell.client.errors import UnexpectedAnswer

Json = Mapping[str, Any]
Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Read it; UnexpectedAnswer if it is something else."""
        kind: Any = cls
        try:
            values = {
                name: read(raw[name])
                for name, read, is_needed in _readers(kind)
                if is_needed or raw.get(name) is not None
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UnexpectedAnswer(
                f"The server answers with no {cls.__name__} that is known here ({error})."
            ) from error
        return cls(raw=raw, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted(Answer):
    """A value that a list leaves out because it is long; the object at `url` has it."""

    field: str
    url: str


@cache
def _readers(kind: Any) -> tuple[tuple[str, Reader, bool], ...]:
    """Of each field its name, how it is read, and whether it must be there."""
    hints = get_type_hints(kind)
    return tuple(
        (each.name, _reader(hints[each.name]), each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
        if each.name != "raw"
    )


def _reader(hint: Any) -> Reader:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = [part for part in parts if part is not NoneType]
        return _reader(inner[0]) if len(inner) == 1 else _as_it_is
    if origin is tuple:
        read = _reader(parts[0])
        return lambda values: tuple(read(value) for value in values)
    if hint is datetime:
        return instant
    if hint is UUID:
        return UUID
    if isinstance(hint, type) and issubclass(hint, Answer):
        return hint.of
    return _as_it_is


def instant(text: str) -> datetime:
    """An instant as the API writes it, in UTC."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no offset")
    return found.astimezone(UTC)


def _as_it_is(value: Any) -> Any:
    return value
