"""The results of a benchmark: tables of raw figures, notes and verdicts, for people and as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Cell = str | float | None  # None where a candidate cannot take part


class Kind(Enum):
    """Format of a column's figures. Times are stored in seconds."""

    TEXT = "text"
    MICROSECONDS = "µs"
    MILLISECONDS = "ms"
    RATIO = "×"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind = Kind.TEXT

    @property
    def heading(self) -> str:
        return self.name if self.kind in (Kind.TEXT, Kind.RATIO) else f"{self.name} {self.kind.value}"

    def show(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        if isinstance(cell, str):
            return cell
        match self.kind:
            case Kind.MICROSECONDS:
                return f"{cell * 1e6:.2f}"
            case Kind.MILLISECONDS:
                return f"{cell * 1e3:.1f}"
            case Kind.RATIO:
                return f"{cell:.1f} ×" if cell >= 10 else f"{cell:.2f} ×"
            case Kind.TEXT:
                return str(cell)


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]

    def render(self) -> str:
        """The table in Markdown, padded so that it also reads well in a terminal."""
        shown = [[column.show(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]
        headings = [column.heading for column in self.columns]
        widths = [max(map(len, texts)) for texts in zip(headings, *shown, strict=True)]
        rule = ["-" * width if self._is_text(i) else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
        lines = [self._line(row, widths) for row in (headings, rule, *shown)]
        return "\n".join([self.title, "", *lines])

    def figures(self) -> dict[str, Any]:
        names = [column.name for column in self.columns]
        rows = [dict(zip(names, row, strict=True)) for row in self.rows]
        return {"title": self.title, "kinds": {c.name: c.kind.value for c in self.columns}, "rows": rows}

    def _is_text(self, index: int) -> bool:
        return self.columns[index].kind is Kind.TEXT

    def _line(self, texts: list[str], widths: list[int]) -> str:
        padded = [
            text.ljust(width) if self._is_text(i) else text.rjust(width)
            for i, (text, width) in enumerate(zip(texts, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"


@dataclass(frozen=True, slots=True)
class Report:
    tables: list[Table]
    notes: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    def render(self) -> str:
        parts = [table.render() for table in self.tables]
        parts += ["\n".join(f"- {line}" for line in lines) for lines in (self.notes, self.verdicts) if lines]
        return "\n\n".join(parts)

    def figures(self) -> Mapping[str, Any]:
        return {"tables": [table.figures() for table in self.tables], "notes": self.notes, "verdicts": self.verdicts}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark; `packages` are those whose versions are reported, `sizes` the sizes that may be set."""

    about: str
    packages: tuple[str, ...]
    run: Callable[[], Report]
    sizes: tuple[str, ...] = ()
