"""Invalid UTF-8 in text columns, for example from a program that writes Latin-1: SQLite accepts any bytes as text."""

from collections.abc import Sequence
from typing import Any

import apsw


def fetch_invalid_utf8(
    connection: apsw.Connection, query: str, values: tuple[Any, ...]
) -> tuple[list[str], list[Sequence[Any]]]:
    """Return the column names and rows of a query, with U+FFFD in place of invalid bytes."""
    from apsw.ext import query_info  # takes 0.1 s to import, and is rarely needed

    names = [name for name, _ in query_info(connection, query).description]
    columns = ", ".join(
        f'iif(typeof("{name}") = \'text\', cast("{name}" as blob), "{name}"), typeof("{name}") = \'text\''
        for name in names
    )
    found = connection.execute(f"select {columns} from ({query}\n)", values)
    return names, [tuple(map(_as_far_as_it_goes, row[::2], row[1::2])) for row in found]


def _as_far_as_it_goes(value: Any, is_text: int) -> Any:
    return value.decode(errors="replace") if is_text else value
