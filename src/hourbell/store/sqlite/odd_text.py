"""Text that is not UTF-8, as a program that speaks Latin-1 leaves it in a file: SQLite takes any bytes for text."""

from collections.abc import Sequence
from typing import Any

import apsw


def found_with_odd_text(
    connection: apsw.Connection, query: str, values: tuple[Any, ...]
) -> tuple[list[str], list[Sequence[Any]]]:
    """The columns of a query and what it finds, with U+FFFD in the place of what cannot be read."""
    from apsw.ext import query_info  # takes a tenth of a second to load, and is hardly ever needed

    names = [name for name, _ in query_info(connection, query).description]
    columns = ", ".join(
        f'iif(typeof("{name}") = \'text\', cast("{name}" as blob), "{name}"), typeof("{name}") = \'text\''
        for name in names
    )
    found = connection.execute(f"select {columns} from ({query}\n)", values)
    return names, [tuple(map(_as_far_as_it_goes, row[::2], row[1::2])) for row in found]


def _as_far_as_it_goes(value: Any, is_text: int) -> Any:
    return value.decode(errors="replace") if is_text else value
