"""Kinds of job fields: each says how its values are read, shown, stored and described by JSON Schema."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from hourbell.core.job.tags import MAX_TAG_CHARACTERS, MAX_TAGS, readable_tags, tag_errors
from hourbell.core.run.policies import RETRY_PRESETS, RetryPolicy
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.field_errors import FieldError
from hourbell.core.values.readers import (
    MAX_ATTEMPTS,
    MAX_WAITS,
    SECOND,
    InvalidValue,
    parse_instant,
    read_duration,
    read_instant,
    read_retry,
    show_duration,
    show_retry,
)
from hourbell.core.values.strict_json import json_problem, text_problem

Name = Literal["text", "choice", "duration", "instant", "flag", "retry", "tags", "json", "target"]
Column = Literal["text", "jsonb", "interval", "timestamptz", "boolean", "text[]"]
Schema = dict[str, Any]
Convert = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Conversions of a kind of value; the default of each is to leave the value unchanged.

    `parse` reads user input, or raises an InvalidValue, and `show` writes what `parse` reads. `restore` and `dump` do
    the same for the stored JSON of a version. `to_column` and `from_column` convert for database drivers, which support
    durations and instants themselves. `schema` is JSON Schema without null; `choices` are the values of a choice.
    """

    name: Name
    column: Column = "text"  # PostgreSQL's type
    schema: Schema
    parse: Convert = _same
    show: Convert = _same
    dump: Convert = _same
    restore: Convert = _same
    to_column: Convert = _same
    from_column: Convert = _same
    choices: tuple[str, ...] = ()
    stored_as: str = ""
    collect: Callable[[str, object, list[FieldError]], Any] | None = None  # replaces `parse`, for several errors

    def read(self, name: str, value: object, errors: list[FieldError]) -> Any:
        """Read user input; append its errors to `errors`."""
        if self.collect is not None:
            return self.collect(name, value, errors)
        try:
            return self.parse(value)
        except InvalidValue as error:
            errors.append(error.at(f"/{name}", name, value))
            return None

    def load(self, name: str, value: Any) -> Any:
        """Read the output of `dump`, or raise a ValueError."""
        try:
            return self.restore(value)
        except (TypeError, KeyError, ValueError, OverflowError):
            raise ValueError(f"{name} is {self.stored_as}, not {value!r}") from None


def text(max_length: int | None = None, min_length: int | None = None, pattern: str | None = None) -> Kind:
    def collect(name: str, value: object, errors: list[FieldError]) -> object:
        if not isinstance(value, str) or (max_length is not None and len(value) > max_length):
            errors.append(FieldError(f"/{name}", f"{name} is not a text of at most {max_length} characters"))
        elif (wrong := text_problem(value)) is not None:
            errors.append(FieldError(f"/{name}", wrong))
        return value

    limits = {"minLength": min_length, "maxLength": max_length, "pattern": pattern}
    schema = {"type": "string"} | {name: limit for name, limit in limits.items() if limit is not None}
    return Kind(name="text", schema=schema, collect=collect)


def choice(choices: type[str] | tuple[str, ...]) -> Kind:
    """Build the kind of a field that has one of a few values: texts, or the members of an enumeration."""
    known = choices if isinstance(choices, tuple) else tuple(each.value for each in choices)  # type: ignore[attr-defined]
    make: Convert = str if isinstance(choices, tuple) else choices

    def parse(value: object) -> Any:
        if isinstance(value, str) and value in known:
            return make(value)
        raise InvalidValue("", f"write one of {', '.join(known)}")

    return Kind(
        name="choice",
        schema={"enum": list(known)},
        parse=parse,
        show=str,
        restore=make,
        from_column=make,
        choices=known,
        stored_as=f"one of {', '.join(known)}",
    )


def duration(minimum: timedelta = SECOND) -> Kind:
    return Kind(
        name="duration",
        column="interval",
        schema={"$ref": "#/$defs/duration"},
        parse=partial(read_duration, minimum=minimum),
        show=show_duration,
        dump=timedelta.total_seconds,
        restore=lambda seconds: timedelta(seconds=seconds),
        stored_as="a number of seconds",
    )


def _restore_instant(text: object) -> datetime:
    instant = parse_instant(text)
    if instant is None:
        raise ValueError
    return instant


def _parse_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidValue("", "write true or false")


def _dump_retry(retry: RetryPolicy) -> Any:
    shown = show_retry(retry)
    return shown if isinstance(shown, str) else shown | {"backoff": [wait.total_seconds() for wait in retry.backoff]}


def _restore_retry(value: Any) -> RetryPolicy:
    if isinstance(value, str):
        return RETRY_PRESETS[value]
    waits = tuple(timedelta(seconds=wait) for wait in value["backoff"])
    return RetryPolicy(value["attempts"], waits, float(value["spread"]))


def _collect_tags(name: str, value: object, errors: list[FieldError]) -> object:
    del name
    found = list(tag_errors(value))
    errors += found
    return () if found else tuple(value)  # type: ignore[arg-type]


def _collect_json(name: str, value: object, errors: list[FieldError]) -> object:
    if (wrong := json_problem(value)) is not None:
        errors.append(FieldError(f"/{name}", wrong))
    return value


def _from_json_column(text: str | None) -> Any:
    """Parse a JSON column; return None if Python cannot: too many digits, or nested too deep."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


INSTANT = Kind(
    name="instant",
    column="timestamptz",
    schema={"type": "string"},
    parse=read_instant,
    show=rfc3339,
    dump=datetime.isoformat,
    restore=_restore_instant,
    stored_as="a date and time with an offset, as in 2026-01-01T00:00:00Z",
)
FLAG = Kind(name="flag", column="boolean", schema={"type": "boolean"}, parse=_parse_flag, from_column=bool)
RETRY = Kind(
    name="retry",
    column="jsonb",
    schema={
        "anyOf": [
            {"enum": list(RETRY_PRESETS)},
            {
                "type": "object",
                "required": ["attempts", "backoff"],
                "additionalProperties": False,
                "properties": {
                    "attempts": {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS},
                    "backoff": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_WAITS,
                        "items": {"$ref": "#/$defs/duration"},
                    },
                    "spread": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
                },
            },
        ]
    },
    collect=lambda name, value, errors: read_retry(value, errors, f"/{name}"),
    show=show_retry,
    dump=_dump_retry,
    restore=_restore_retry,
    to_column=lambda retry: json.dumps(_dump_retry(retry)),
    stored_as="a preset, or attempts, backoff and spread",
)
TAGS = Kind(
    name="tags",
    column="text[]",
    schema={
        "type": "array",
        "maxItems": MAX_TAGS,
        "uniqueItems": True,
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_TAG_CHARACTERS, "pattern": "^[^,]*$"},
    },
    collect=_collect_tags,
    show=list,
    dump=list,
    restore=readable_tags,
    to_column=list,
    from_column=readable_tags,
)
ANY_JSON = Kind(
    name="json",
    column="jsonb",
    schema={},
    collect=_collect_json,
    to_column=lambda value: None if value is None else json.dumps(value),
    from_column=_from_json_column,
)
TARGET = Kind(
    name="target",
    column="jsonb",
    schema={"$ref": "#/$defs/targets"},
    show=dict,
    dump=dict,
    to_column=lambda target: json.dumps(dict(target)),
)
