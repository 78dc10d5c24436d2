"""Validation errors of parameters and bodies, with our own messages and hints.

pydantic finds each error and gives it a type: https://docs.pydantic.dev/latest/errors/validation_errors. Messages
never repeat the value that was sent: it may be a secret.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hourbell.core.job.fields import NAME_PATTERN
from hourbell.core.values.field_errors import FieldError, pointer_to, unknown_fields

Found = Mapping[str, Any]
_Describe = Callable[[str, Mapping[str, Any]], tuple[str, str | None]]
_PATTERNS = {NAME_PATTERN: "write letters, digits, _ and -"}
_LOCATIONS = ("query", "path", "header")


def field_errors(found: Sequence[Found], fields: Sequence[str] = ()) -> list[FieldError]:
    """Convert the errors of pydantic; `fields` are the field names that a body may have."""
    errors = [field_error(each) for each in found if each["type"] != "extra_forbidden"]
    others = [each["loc"][-1] for each in found if each["type"] == "extra_forbidden"]
    return [*errors, *unknown_fields("", dict.fromkeys(others), (), fields)]


def field_error(found: Found) -> FieldError:
    """Convert one error of pydantic; an error of an unknown type has the message of pydantic."""
    location = tuple(found["loc"])
    name = str(location[-1]) if location else "the body"
    describe = _MESSAGES.get(found["type"])
    message, hint = (str(found["msg"]), None) if describe is None else describe(name, found.get("ctx") or {})
    if found["type"] == "missing" and location[0] in _LOCATIONS:
        hint = f"write {name}=… in the {location[0]}"
    return FieldError(pointer_to(*location), message, hint)


def _is_not(what: str, hint: str) -> _Describe:
    return lambda name, _: (f"{name} is not {what}", hint)


def _refused(name: str, context: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the message and hint of an error that our own validators raised."""
    what, hint = context["error"].args
    return f"{name} is {what}", hint


def _one_of(name: str, context: Mapping[str, Any]) -> tuple[str, str | None]:
    return f"{name} is not one of the allowed values", f"write {context['expected'].replace(chr(39), '')}"


def _too_short(name: str, context: Mapping[str, Any]) -> tuple[str, str | None]:
    least = context["min_length"]
    return f"{name} is {'empty' if least == 1 else 'too short'}", f"write at least {_characters(least)}"


def _too_long(name: str, context: Mapping[str, Any]) -> tuple[str, str | None]:
    return f"{name} is too long", f"write at most {_characters(context['max_length'])}"


def _characters(number: int) -> str:
    return f"{number:,} character{'' if number == 1 else 's'}"


def _wrong_characters(name: str, context: Mapping[str, Any]) -> tuple[str, str | None]:
    pattern = context["pattern"]
    return f"{name} has characters that are not allowed", _PATTERNS.get(pattern, f"write what matches {pattern}")


_WHOLE_NUMBER = _is_not("a whole number", "write one such as 10")
_FLAG = _is_not("true or false", "write true or false")
_DATE = _is_not("a date", "write one such as 2026-11-18")
_MESSAGES: Mapping[str, _Describe] = {
    "missing": lambda name, _: (f"{name} is missing", f'write "{name}": … in the body'),
    "value_error": _refused,
    "model_type": lambda *_: ("the body is not an object", 'write one such as {"field": "value"}'),
    "int_type": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "int_parsing_size": _is_not("a number in the supported range", "write one such as 10"),
    "bool_type": _FLAG,
    "bool_parsing": _FLAG,
    "string_type": _is_not("a text", 'write it in quotes, as in "text"'),
    "list_type": _is_not("a list", "write it in brackets, as in [1, 2]"),
    "dict_type": _is_not("an object", 'write one such as {"name": {"field": "value"}}'),
    "uuid_parsing": _is_not("an id", "write all 36 characters, as in 0198c0de-7a11-8b0b-9d35-5f1e1d7a93a5"),
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "greater_than_equal": lambda name, context: (
        f"{name} is less than {context['ge']}",
        f"write {context['ge']} or more",
    ),
    "less_than_equal": lambda name, context: (f"{name} is more than {context['le']}", f"write {context['le']} or less"),
    "enum": _one_of,
    "literal_error": _one_of,
    "string_too_short": _too_short,
    "string_too_long": _too_long,
    "string_pattern_mismatch": _wrong_characters,
    "too_long": lambda name, context: (
        f"{name} has too many items",
        f"write at most {context['max_length']:,} in one request",
    ),
}
