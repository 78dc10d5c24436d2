"""Every change of the tables that matter, in its order, written down by triggers of the simulation's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw

_KEYS = {
    "jobs": ("id",),
    "runs": ("id",),
    "skips": ("id",),
    "attempts": ("run_id", "number"),
    "cancels": ("run_id",),
    "job_changes": ("id",),
}
TABLES = tuple(_KEYS)

Row = dict[str, Any]


@dataclass(frozen=True)
class Changed:
    """A row after a change, or as it was before it was deleted."""

    op: str  # insert, update, delete
    key: Any
    row: Row


class Changes:
    """Return the commits since the last call, by any writer: the connection is used for nothing else."""

    def __init__(self, path: str) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        self._connection = connection = apsw.Connection(path, flags=flags)
        self._version = -1
        self._seen = dict.fromkeys(TABLES, 0)
        self._columns = {
            table: [column[1] for column in connection.pragma("table_info", f"hourbell_{table}")] for table in TABLES
        }
        for table, columns in self._columns.items():
            connection.execute(f"create table seen_{table} (n integer primary key, op, {', '.join(columns)})")
            for op, row in (("insert", "new"), ("update", "new"), ("delete", "old")):
                values = ", ".join(f"{row}.{column}" for column in columns)
                connection.execute(
                    f"create trigger seen_{table}_{op} after {op} on hourbell_{table} begin "
                    f"insert into seen_{table} select null, '{op}', {values}; end"
                )

    def poll(self) -> dict[str, list[Changed]] | None:
        """Return the changes by table; None if nothing was committed."""
        version = self._connection.pragma("data_version")
        if version == self._version:
            return None
        self._version = version
        found = {table: list(self._of(table)) for table in TABLES}
        return found if any(found.values()) else None

    def close(self) -> None:
        self._connection.close()

    def _of(self, table: str) -> Iterator[Changed]:
        query = f"select * from seen_{table} where n > ? order by n"
        for number, op, *values in self._connection.execute(query, (self._seen[table],)):
            self._seen[table] = number
            row = dict(zip(self._columns[table], values, strict=True))
            key = tuple(row[name] for name in _KEYS[table])
            yield Changed(op, key if len(key) > 1 else key[0], row)
