"""Command output: data to stdout, messages to stderr, as a table or in a machine-readable format.

Control characters in text from a server never reach a terminal, and colour is used on a terminal only.
"""

import functools
import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import click

FORMATS = ("table", "json", "ndjson", "name")
Function = Callable[..., None]

_NARROWEST = 20
_COLOURED = ("STATE", "LAST")
_COLOURS = {
    "active": "green",
    "live": "green",
    "stale": "red",
    "paused": "yellow",
    "error": "red",
    "running": "cyan",
    "retrying": "yellow",
    "succeeded": "green",
    "failed": "red",
}


class Item(Protocol):
    @property
    def raw(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class View:
    """The display of one type of item: table headers, cells, id and name."""

    heads: tuple[str, ...]
    cells: Callable[[Any], Sequence[object]]
    id: Callable[[Any], object]
    name: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Output:
    format: str = "table"
    is_quiet: bool = False

    @property
    def is_for_people(self) -> bool:
        return self.format == "table" and not self.is_quiet

    def items(self, items: Iterable[Item], view: View, body: object) -> None:
        """Print a list of items; `body` is what `--json` prints for the whole list."""
        if self.format == "json" and not self.is_quiet:
            click.echo(json_text(body))
        elif self.is_for_people:
            for line in table(view.heads, [view.cells(item) for item in items], _width()):
                click.echo(line)
        else:
            for item in items:
                self._short(item, view)

    def one(self, item: Item, view: View, lines: Iterable[str]) -> None:
        """Print one item; `lines` is the text for people."""
        if self.is_for_people:
            for line in lines:
                click.echo(line)
        elif self.format == "json" and not self.is_quiet:
            click.echo(json_text(item.raw))
        else:
            self._short(item, view)

    def _short(self, item: Item, view: View) -> None:
        if self.is_quiet:
            click.echo(plain(view.id(item)))
        elif self.format == "name":
            click.echo(plain(view.name(item)))
        else:
            click.echo(json_line(item.raw))


def output_options(function: Function) -> Function:
    """Add `--json`, `-o` and `-q`, passed to the function as one `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Print the API's response, the same as -o json.")
    @click.option("-o", "--output", "form", type=click.Choice(FORMATS), help="The output format.  [default: table]")
    @click.option("-q", "--quiet", is_flag=True, help="Print only ids.")
    @functools.wraps(function)
    def call(*args: Any, as_json: bool, form: str | None, quiet: bool, **given: Any) -> None:
        if as_json and form not in (None, "json"):
            raise click.UsageError(f"--json and -o {form} exclude each other; leave one out.")
        function(*args, output=Output("json" if as_json else form or "table", quiet), **given)

    return call


def plain(value: object) -> str:
    """Return the value as one line of text without control characters."""
    text = "" if value is None else " ".join(str(value).split())
    return "".join(character if character.isprintable() else "�" for character in text)


def plain_lines(text: str | None) -> list[str]:
    """Split the text into lines without control characters, each with its indentation preserved."""
    return [_indented(line) for line in (text or "").splitlines()]


def json_text(body: object) -> str:
    return _printable(json.dumps(body, indent=2, ensure_ascii=False))


def json_line(body: object) -> str:
    return _printable(json.dumps(body, ensure_ascii=False))


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], width: int | None) -> list[str]:
    """Align rows into lines and cut the last column at the terminal width, if given. Without rows, return no lines."""
    if not rows:
        return []
    lines = [list(heads), *([plain(cell) or "-" for cell in row] for row in rows)]
    widths = [max(_columns(line[index]) for line in lines) for index in range(len(heads))]
    if width is not None:
        widths[-1] = max(_NARROWEST, min(widths[-1], width - sum(widths[:-1]) - 2 * (len(widths) - 1)))
    return ["  ".join(_cells(heads, line, widths, is_head=line is lines[0])).rstrip() for line in lines]


def pairs(*rows: tuple[str, object]) -> list[str]:
    """Format names and values as aligned lines: one line per value, several for a list. Empty values are left out."""
    known = [(name, _lines(value)) for name, value in rows if value not in (None, "", [])]
    longest = max((len(name) for name, _ in known), default=0)
    made = []
    for name, (first, *others) in known:
        made.append(f"{name + ':':{longest + 1}}  {_coloured(first) if name == 'state' else first}".rstrip())
        made += [f"{'':{longest + 1}}  {line}".rstrip() for line in others]
    return made


def _lines(value: object) -> list[str]:
    return [_indented(str(each)) for each in value] if isinstance(value, list) else [plain(value)]


def _indented(line: str) -> str:
    return " " * (len(line) - len(line.lstrip(" "))) + plain(line)


def note(text: object) -> None:
    """Print a message to stderr, separate from the data."""
    click.echo(f"{click.style('note', fg='yellow')}: {plain(text)}", err=True)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def fitted(text: str, width: int) -> str:
    """Truncate a line to a terminal width."""
    if _columns(text) <= width:
        return text
    kept, used = "", 1
    for character in text:
        used += _columns(character)
        if used > width:
            break
        kept += character
    return f"{kept}…"


def _cells(heads: Sequence[str], line: Sequence[str], widths: Sequence[int], *, is_head: bool) -> list[str]:
    cells = []
    for head, text, width in zip(heads, line, widths, strict=True):
        cell = fitted(text, width)
        blanks = " " * (width - _columns(cell))
        if is_head:
            cell = click.style(cell, bold=True)
        elif head in _COLOURED:
            cell = _coloured(cell)
        cells.append(cell + blanks)
    return cells


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    return click.style(word, fg=colour) if colour else word


def _columns(text: str) -> int:
    """Count the terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _width() -> int | None:
    return shutil.get_terminal_size().columns if is_terminal() else None


def _printable(text: str) -> str:
    """Escape control characters in JSON text, so that a terminal does not interpret them."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else json.dumps(character)[1:-1]
        if ord(character) != 0x7F
        else "\\u007f"
        for character in text
    )
