"""Run the statements of lists by their names, on whichever database."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from hourbell.store.rows import Row, is_storable_text

Wanted = tuple[str, Mapping[str, Any]]  # a statement with named parameters, and their values


class ListStatements(ABC):
    """Reads rows by statements with named parameters."""

    def __init__(self, statements: Mapping[str, str]) -> None:
        self._sql = statements

    @abstractmethod
    async def _read(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        """The rows of each statement, all as of one moment."""

    async def _answers(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        """The same of values that callers choose: no row has text that a database cannot keep."""
        if not all(_is_storable_text(value) for _, values in wanted for value in values.values()):
            return [[] for _ in wanted]
        return await self._read(wanted)

    async def _rows(self, name: str, **values: Any) -> list[Row]:
        [rows] = await self._answers([(self._sql[name], values)])
        return rows


def _is_storable_text(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_storable_text, value))
    return not isinstance(value, str) or is_storable_text(value)
