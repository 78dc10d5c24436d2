"""A part of the terminal that is redrawn in place."""

import shutil
import sys

import click

from hourbell.cli.shared.output import fitted

_UP_AND_CLEAR = "\x1b[{}F\x1b[J"


class Screen:
    def __init__(self) -> None:
        self._drawn = 0

    def draw(self, lines: list[str]) -> None:
        """Replace the previously drawn lines with these, cut to the terminal size."""
        size = shutil.get_terminal_size()
        shown = [fitted(click.unstyle(line), size.columns - 1) for line in lines[: max(1, size.lines - 1)]]
        before = _UP_AND_CLEAR.format(self._drawn) if self._drawn else ""
        sys.stdout.write(before + "".join(f"{line}\n" for line in shown))
        sys.stdout.flush()
        self._drawn = len(shown)
