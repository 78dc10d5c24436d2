"""Errors of a schedule: each has a position, a message, the allowed values and a hint."""

from dataclasses import dataclass

ECHO_LIMIT = 40
_MAX_SHOWN_ERRORS = 20


def echo(text: str) -> str:
    """Make input safe to repeat in a message: printable, and at most 40 characters."""
    shown = "".join(character if character.isprintable() else "�" for character in text[: ECHO_LIMIT + 1])
    return shown if len(shown) <= ECHO_LIMIT else shown[: ECHO_LIMIT - 1] + "…"


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """One error in a schedule. `column` counts from 1; field and column are None if it is about the whole text."""

    message: str
    field: str | None = None
    column: int | None = None
    text: str = ""
    allowed: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        location = [f"{self.field} field"] if self.field else []
        if self.column is not None:
            location.append(f"column {self.column}")
        message = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"{', '.join(location)}: {message}" if location else message


class ScheduleError(ValueError):
    """An invalid schedule. `errors` lists all errors, in order of position."""

    def __init__(self, *errors: ErrorDetail) -> None:
        lines = [str(detail) for detail in errors[:_MAX_SHOWN_ERRORS]]
        if len(errors) > _MAX_SHOWN_ERRORS:
            lines.append(f"and {len(errors) - _MAX_SHOWN_ERRORS} more")
        super().__init__("\n".join(lines))
        self.errors = errors

    def __reduce__(self) -> tuple[type["ScheduleError"], tuple[ErrorDetail, ...]]:
        return ScheduleError, self.errors

    @property
    def field(self) -> str | None:
        return self.errors[0].field

    @property
    def column(self) -> int | None:
        return self.errors[0].column

    @property
    def text(self) -> str:
        return self.errors[0].text

    @property
    def allowed(self) -> str | None:
        return self.errors[0].allowed

    @property
    def hint(self) -> str | None:
        return self.errors[0].hint
