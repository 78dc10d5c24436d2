"""Faults grouped by kind for display: the count, the first few rows and the repair."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

SHOWN = 5


class Severity(StrEnum):
    ERROR = "error"  # a guarantee is broken, or work has stopped
    WARNING = "warning"  # an operator should know


@dataclass(frozen=True, slots=True)
class Check:
    """A kind of defect: `message` says what is wrong, `repair` how to fix it."""

    name: str
    severity: Severity
    message: str
    repair: str


@dataclass(frozen=True, slots=True)
class Defect:
    """One problem, or `count` of them shown as one row; each statement in `sql` alone would repair it."""

    check: Check
    row: str
    sql: tuple[str, ...] = ()
    count: int = 1


@dataclass(slots=True)
class Finding:
    """All defects of one kind."""

    check: Check
    count: int = 0
    rows: list[str] = field(default_factory=list)  # the first few
    sql: list[str] = field(default_factory=list)  # statements that repair those rows

    @property
    def is_error(self) -> bool:
        return self.check.severity is Severity.ERROR


class Findings:
    """Collects defects in bounded memory. Iterates errors first, then in the order of discovery."""

    def __init__(self) -> None:
        self._found: dict[str, Finding] = {}

    def add(self, defects: Iterable[Defect]) -> None:
        for defect in defects:
            finding = self._found.setdefault(defect.check.name, Finding(defect.check))
            finding.count += defect.count
            if len(finding.rows) < SHOWN:
                finding.rows.append(defect.row)
                finding.sql += defect.sql

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._found.values(), key=lambda finding: not finding.is_error))
