"""Faults of one kind, summed up for people: how many, the first few, and what to do."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

SHOWN = 5


class Severity(StrEnum):
    ERROR = "error"  # a promise is broken, or work stands still
    WARNING = "warning"  # somebody should know


@dataclass(frozen=True, slots=True)
class Check:
    """A kind of fault: `message` says what is wrong, `repair` what to do about it."""

    name: str
    severity: Severity
    message: str
    repair: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, or `count` of them that are shown as one; each of `sql` would repair it."""

    check: Check
    row: str
    sql: tuple[str, ...] = ()
    count: int = 1


@dataclass(slots=True)
class Finding:
    """Every fault of one kind."""

    check: Check
    count: int = 0
    rows: list[str] = field(default_factory=list)  # the first few
    sql: list[str] = field(default_factory=list)  # what repairs those

    @property
    def is_error(self) -> bool:
        return self.check.severity is Severity.ERROR


class Findings:
    """Collects faults in bounded memory. Iterates errors first, then in the order of discovery."""

    def __init__(self) -> None:
        self._found: dict[str, Finding] = {}

    def add(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            finding = self._found.setdefault(fault.check.name, Finding(fault.check))
            finding.count += fault.count
            if len(finding.rows) < SHOWN:
                finding.rows.append(fault.row)
                finding.sql += fault.sql

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._found.values(), key=lambda finding: not finding.is_error))
