"""A progress line on stderr, redrawn in place, and shown on a terminal only."""

import sys
from types import TracebackType
from typing import Self

import click

from hourbell import clock

_OFTEN = 0.1  # seconds between redraws
_BAR = 24
_ANEW = "\r\x1b[K"


class Progress:
    """A progress indicator that counts towards an optional total and erases its line on exit."""

    def __init__(self, what: str, total: int | None = None, unit: str = "") -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._done = 0
        self._drawn_at: float | None = None
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            click.echo(_ANEW, err=True, nl=False)

    def add(self, count: int) -> None:
        self._done += count
        if self._is_shown and (self._drawn_at is None or clock.elapsed() - self._drawn_at >= _OFTEN):
            self._draw()

    def _draw(self) -> None:
        if self._is_shown:
            self._drawn_at = clock.elapsed()
            click.echo(f"{_ANEW}{self._text()}", err=True, nl=False)

    def _text(self) -> str:
        if self._total:
            part = min(1.0, self._done / self._total)
            bar = "#" * int(part * _BAR)
            return f"{self._what}: [{bar:-<{_BAR}}] {part:.0%}"
        return f"{self._what}: {self._done:,} {self._unit}".rstrip() if self._done else f"{self._what}: …"
