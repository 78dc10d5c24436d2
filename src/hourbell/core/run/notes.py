"""Log lines and progress that a task reports while it runs, within fixed limits."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from hourbell.core.values.sanitize import sanitize_text

MAX_LOG_LINES = 1_000
MAX_LOG_BYTES = 65_536  # of all lines' text
MAX_TEXT_CHARACTERS = 2_000  # characters
_MAX_COMPARED_LINES = 20
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class LogLine:
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Notes:
    """All log lines and the progress that one attempt has reported so far."""

    run_id: UUID
    attempt: int
    fraction: float | None = None
    message: str = ""
    log: tuple[LogLine, ...] = ()


class TimedLine(Protocol):
    """A line of a log, as it is stored or as a client reads it."""

    @property
    def at(self) -> datetime: ...
    @property
    def text(self) -> str: ...


L = TypeVar("L", bound=TimedLine)


class Notebook:
    """Collects the log lines and progress of an attempt. Beyond the limits the oldest lines are dropped."""

    __slots__ = ("_bytes", "_fraction", "_lines", "_message")

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque()
        self._bytes = 0
        self._fraction: float | None = None
        self._message = ""

    def add_line(self, at: datetime, text: object) -> None:
        line = LogLine(at, sanitize_text(str(text)[:MAX_TEXT_CHARACTERS]))
        self._lines.append(line)
        self._bytes += len(line.text.encode())
        while len(self._lines) > MAX_LOG_LINES or self._bytes > MAX_LOG_BYTES:
            self._bytes -= len(self._lines.popleft().text.encode())

    def set_progress(self, fraction: float | None, message: object = "") -> None:
        """Set the progress, from 0 to 1, or None if it is unknown; raise a ValueError for any other value."""
        self._fraction = None if fraction is None else fraction_of(fraction)
        self._message = sanitize_text(str(message)[:MAX_TEXT_CHARACTERS])

    def notes(self, run_id: UUID, attempt: int) -> Notes:
        return Notes(run_id, attempt, self._fraction, self._message, tuple(self._lines))


def lines_after(seen: Sequence[L], log: Sequence[L]) -> Sequence[L]:
    """Return the lines of a log that come after those seen in an earlier state of it.

    Lines may have been dropped from its beginning or its middle meanwhile; the last one seen may have grown.
    """
    for back in range(1, min(len(seen), _MAX_COMPARED_LINES) + 1):
        last = seen[-back]
        for index in range(len(log) - 1, -1, -1):
            if log[index].at == last.at and log[index].text == last.text:
                return log[index + 1 :]
    return log


def fraction_of(progress: float) -> float:
    """Clamp a progress to 0 to 1, tolerating rounding errors of sums; raise a ValueError beyond that."""
    if not -_ROUNDING <= float(progress) <= 1 + _ROUNDING:
        raise ValueError(f"the progress is {progress}; give a fraction from 0 to 1")
    return min(1.0, max(0.0, float(progress)))
