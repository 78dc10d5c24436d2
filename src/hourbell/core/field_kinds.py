"""Kinds of values that fields of a job have: how each is read, shown, kept by databases and described by a schema."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from hourbell.core.field_errors import FieldError, shown
from hourbell.core.policies import RETRY_PRESETS, RetryPolicy
from hourbell.core.preview import rfc3339
from hourbell.core.strict_json import fault_of, text_fault
from hourbell.core.tags import MAX_TAG_LENGTH, MAX_TAGS, readable_tags, tag_errors
from hourbell.core.values import (
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

Column = Literal["text", "jsonb", "interval", "timestamptz", "boolean", "text[]"]
Schema = dict[str, Any]


class Kind:
    """A value that is written everywhere as it is.

    `read` takes what people write and adds what is wrong with it to the errors; `show` writes what `read` takes.
    `dump` and `load` do the same for the JSON of a version, which only we write; `load` raises a ValueError.
    `to_column` and `from_column` are for drivers that know durations and instants; `column` is PostgreSQL's type.
    """

    column: Column = "text"

    def read(self, name: str, value: object, errors: list[FieldError]) -> Any:
        raise NotImplementedError(f"{name} is read together with other fields")

    def show(self, value: Any) -> Any:
        return value

    def dump(self, value: Any) -> Any:
        return value

    def load(self, name: str, value: Any) -> Any:
        del name
        return value

    def to_column(self, value: Any) -> Any:
        return value

    def from_column(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        """The JSON Schema of what `read` takes, without null; `duration` and `targets` are references."""
        raise NotImplementedError


@dataclass(frozen=True)
class Text(Kind):
    max_length: int | None = None
    min_length: int = 0
    pattern: str | None = None

    def read(self, name: str, value: object, errors: list[FieldError]) -> str:
        if not isinstance(value, str) or (self.max_length is not None and len(value) > self.max_length):
            errors.append(FieldError(f"/{name}", f"{name} is not a text of at most {self.max_length} characters"))
            return ""
        if (wrong := text_fault(value)) is not None:
            errors.append(FieldError(f"/{name}", wrong))
        return value

    def schema(self) -> Schema:
        limits = {"minLength": self.min_length or None, "maxLength": self.max_length, "pattern": self.pattern}
        return {"type": "string"} | {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words, as a text or as a member of an enumeration."""

    words: tuple[str, ...]
    make: type[str] = str

    @classmethod
    def of(cls, enum: type[StrEnum]) -> "Choice":
        return cls(tuple(each.value for each in enum), enum)

    def read(self, name: str, value: object, errors: list[FieldError]) -> str:
        if isinstance(value, str) and value in self.words:
            return self.make(value)
        errors.append(FieldError(f"/{name}", f"{name} is {shown(value)}", f"write one of {', '.join(self.words)}"))
        return ""

    def show(self, value: str) -> str:
        return str(value)

    def load(self, name: str, value: Any) -> str:
        del name
        return self.make(value)

    def from_column(self, value: Any) -> str:
        return self.make(value)

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Duration(Kind):
    minimum: timedelta = SECOND
    column = "interval"

    def read(self, name: str, value: object, errors: list[FieldError]) -> timedelta | None:
        try:
            return read_duration(value, self.minimum)
        except InvalidValue as error:
            errors.append(error.at(f"/{name}", name, value))
            return None

    def show(self, value: timedelta) -> str | float:
        return show_duration(value)

    def dump(self, value: timedelta) -> float:
        return value.total_seconds()

    def load(self, name: str, value: Any) -> timedelta:
        try:
            return timedelta(seconds=value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} is a number of seconds, not {value!r}") from None

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/duration"}


class Instant(Kind):
    column = "timestamptz"

    def read(self, name: str, value: object, errors: list[FieldError]) -> datetime | None:
        try:
            return read_instant(value)
        except InvalidValue as error:
            errors.append(error.at(f"/{name}", name, value))
            return None

    def show(self, value: datetime) -> str:
        return rfc3339(value)

    def dump(self, value: datetime) -> str:
        return value.isoformat()

    def load(self, name: str, value: Any) -> datetime:
        instant = parse_instant(value)
        if instant is None:
            raise ValueError(f"{name} is a date and time with an offset, as in 2026-01-01T00:00:00Z, not {value!r}")
        return instant

    def schema(self) -> Schema:
        return {"type": "string"}


class Flag(Kind):
    column = "boolean"

    def read(self, name: str, value: object, errors: list[FieldError]) -> bool | None:
        if isinstance(value, bool):
            return value
        errors.append(FieldError(f"/{name}", f"{name} is {shown(value)}", "write true or false"))
        return None

    def from_column(self, value: Any) -> bool:
        return bool(value)

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Retry(Kind):
    column = "jsonb"

    def read(self, name: str, value: object, errors: list[FieldError]) -> RetryPolicy:
        return read_retry(value, errors, f"/{name}")

    def show(self, value: RetryPolicy) -> object:
        return show_retry(value)

    def dump(self, value: RetryPolicy) -> object:
        policy = show_retry(value)
        return (
            {**policy, "backoff": [wait.total_seconds() for wait in value.backoff]}
            if isinstance(policy, dict)
            else policy
        )

    def load(self, name: str, value: Any) -> RetryPolicy:
        try:
            if isinstance(value, str):
                return RETRY_PRESETS[value]
            waits = tuple(timedelta(seconds=wait) for wait in value["backoff"])
            return RetryPolicy(value["attempts"], waits, float(value["spread"]))
        except (TypeError, KeyError, ValueError, OverflowError):
            raise ValueError(f"{name} is a preset, or attempts, backoff and spread, not {value!r}") from None

    def to_column(self, value: RetryPolicy) -> str:
        return json.dumps(self.dump(value))

    def schema(self) -> Schema:
        waits = {"type": "array", "minItems": 1, "maxItems": MAX_WAITS, "items": {"$ref": "#/$defs/duration"}}
        own = {
            "type": "object",
            "required": ["attempts", "backoff"],
            "additionalProperties": False,
            "properties": {
                "attempts": {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS},
                "backoff": waits,
                "spread": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
            },
        }
        return {"anyOf": [{"enum": list(RETRY_PRESETS)}, own]}


class Tags(Kind):
    column = "text[]"

    def read(self, name: str, value: object, errors: list[FieldError]) -> tuple[str, ...]:
        del name
        found = list(tag_errors(value))
        errors += found
        return () if found else tuple(value)  # type: ignore[arg-type]

    def show(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def dump(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def load(self, name: str, value: Any) -> tuple[str, ...]:
        del name
        return readable_tags(value)

    def to_column(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def from_column(self, value: Any) -> tuple[str, ...]:
        return readable_tags(value)

    def schema(self) -> Schema:
        tag = {"type": "string", "minLength": 1, "maxLength": MAX_TAG_LENGTH, "pattern": "^[^,]*$"}
        return {"type": "array", "maxItems": MAX_TAGS, "uniqueItems": True, "items": tag}


class AnyJson(Kind):
    """Any value of JSON."""

    column = "jsonb"

    def read(self, name: str, value: object, errors: list[FieldError]) -> object:
        if (wrong := fault_of(value)) is not None:
            errors.append(FieldError(f"/{name}", wrong))
        return value

    def to_column(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value)

    def from_column(self, value: Any) -> Any:
        """The value, or None if it cannot be read: it has too many digits, or is nested too deep."""
        try:
            return None if value is None else json.loads(value)
        except (ValueError, RecursionError):
            return None

    def schema(self) -> Schema:
        return {}


class Target(AnyJson):
    """What a job calls; `core.target` reads it."""

    def show(self, value: Any) -> dict[str, Any]:
        return dict(value)

    def dump(self, value: Any) -> dict[str, Any]:
        return dict(value)

    def to_column(self, value: Any) -> str:
        return json.dumps(dict(value))

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/targets"}
