"""Errors of a schedule: each has a position, a message, the allowed values and a hint."""

from dataclasses import dataclass

ECHO_LIMIT = 40
_MAX_SHOWN_ERRORS = 20


def echo(text: str) -> str:
    """Make input safe to repeat in a message: printable, and at most 40 characters."""
    shown = "".join(character if character.isprintable() else "�" for character in text[: ECHO_LIMIT + 1])
    return shown if len(shown) <= ECHO_LIMIT else shown[: ECHO_LIMIT - 1] + "…"


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in a schedule. `column` counts from 1; field and column are None if it is about the whole text."""

    message: str
    field: str | None = None
    column: int | None = None
    text: str = ""
    allowed: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = [f"{self.field} field"] if self.field else []
        if self.column is not None:
            place.append(f"column {self.column}")
        message = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"{', '.join(place)}: {message}" if place else message


class ScheduleError(ValueError):
    """An invalid schedule. `faults` lists all errors, in order of position."""

    def __init__(self, *faults: Fault) -> None:
        lines = [str(fault) for fault in faults[:_MAX_SHOWN_ERRORS]]
        if len(faults) > _MAX_SHOWN_ERRORS:
            lines.append(f"and {len(faults) - _MAX_SHOWN_ERRORS} more")
        super().__init__("\n".join(lines))
        self.faults = faults

    def __reduce__(self) -> tuple[type["ScheduleError"], tuple[Fault, ...]]:
        return ScheduleError, self.faults

    @property
    def field(self) -> str | None:
        return self.faults[0].field

    @property
    def column(self) -> int | None:
        return self.faults[0].column

    @property
    def text(self) -> str:
        return self.faults[0].text

    @property
    def allowed(self) -> str | None:
        return self.faults[0].allowed

    @property
    def hint(self) -> str | None:
        return self.faults[0].hint
