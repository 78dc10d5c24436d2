"""Parses answers from JSON, according to the types of their fields.

Fields that a newer server adds are ignored and stay in `raw`; fields that an older one omits get their defaults.
"""

from collections.abc import Callable
from dataclasses import MISSING
from datetime import UTC, datetime
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin
from uuid import UUID

from hourbell.answers.base import Answer, answer_fields
from hourbell.client.errors import UnexpectedAnswer

A = TypeVar("A", bound=Answer)
Reader = Callable[[Any], Any]


def read(kind: type[A], raw: Any) -> A:
    """Parse an answer of this type; raise UnexpectedAnswer if the value is not one."""
    cacheable: Any = kind
    try:
        values = {
            name: read_value(raw[key])
            for name, key, read_value, is_needed in _readers(cacheable)
            if is_needed or raw.get(key) is not None
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnexpectedAnswer(f"The server answers with no {kind.__name__} that is known here ({error}).") from error
    return kind(raw=raw, **values)


@cache
def _readers(kind: Any) -> tuple[tuple[str, str, Reader, bool], ...]:
    """Return (name, name in JSON, parser, is required) for each field."""
    return tuple(
        (each.name, each.key, _reader(each.type), each.default is MISSING and each.default_factory is MISSING)
        for each in answer_fields(kind)
    )


def _reader(hint: Any) -> Reader:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = [part for part in parts if part is not NoneType]
        return _reader(inner[0]) if len(inner) == 1 else _as_it_is
    if origin is tuple:
        read_item = _reader(parts[0])
        return lambda values: tuple(read_item(value) for value in values)
    if hint is datetime:
        return _instant
    if hint is UUID:
        return UUID
    if isinstance(hint, type) and issubclass(hint, Answer):
        return partial(read, hint)
    if hint in (str, int):
        return partial(_of_type, hint)
    return _as_it_is


def _instant(text: str) -> datetime:
    """Parse a time and convert it to UTC; raise ValueError if it has no offset."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no offset")
    return found.astimezone(UTC)


def _of_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} is where a {kind.__name__} belongs")
    return value


def _as_it_is(value: Any) -> Any:
    return value
