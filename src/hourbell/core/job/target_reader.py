"""Reads the fields of a target and collects their errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hourbell.core.values.field_errors import FieldError, inside
from hourbell.core.values.readers import MAX_DURATION, SECOND, InvalidValue, read_duration


@dataclass(slots=True)
class TargetReader:
    """Reads fields and collects their errors. A field that is absent or wrong gets its default."""

    values: Mapping[str, Any]
    errors: list[FieldError] = field(default_factory=list)

    def error(self, name: str, message: str, hint: str | None = None) -> None:
        self.errors.append(FieldError(inside("", name), message, hint))

    def only(self, *known: str) -> None:
        for name in self.values:
            if name not in known:
                self.error(name, f"{show_value(name)} is not a field of this target; write {', '.join(known)}")

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if isinstance(value, str) and value:
            return value
        self.error(name, f"the {self.values['type']} target needs {name}")
        return ""

    def object(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return dict(value)
        self.error(name, f"{name} is not an object")
        return {}

    def duration(self, name: str, default: timedelta, maximum: timedelta = MAX_DURATION) -> timedelta:
        given = self.values.get(name)
        if given is None:
            return default
        try:
            return read_duration(given, SECOND, maximum)
        except InvalidValue as error:
            self.errors.append(error.at(f"/{name}", name, given))
            return default


def show_value(value: object) -> str:
    """Return the repr of a value, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"
