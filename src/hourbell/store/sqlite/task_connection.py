"""The connection of a task in its transaction: the methods of the PostgreSQL driver, on SQLite.

Values are bound to `?` or `$1`; ids and times become text. Statements that begin or end a transaction are refused.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any
from uuid import UUID

import apsw
import apsw.ext

from hourbell.store.sqlite.connection import Session

Ask = Callable[[Callable[[Session], Any]], Awaitable[Any]]


class TaskRow(tuple[Any, ...]):
    """The values of a row, by index or by column name."""

    _names: tuple[str, ...]

    def __new__(cls, names: tuple[str, ...], values: Iterable[Any]) -> "TaskRow":
        row = super().__new__(cls, values)
        row._names = names
        return row

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self._names:
            raise KeyError(key)
        return super().__getitem__(self._names.index(key))

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self._names else default

    def keys(self) -> tuple[str, ...]:
        return self._names

    def values(self) -> Iterator[Any]:
        return iter(self)

    def items(self) -> Iterator[tuple[str, Any]]:
        return zip(self._names, self, strict=True)

    def __repr__(self) -> str:
        return f"<TaskRow {dict(self.items())!r}>"


class TaskConnection:
    """A connection inside a transaction, unusable after the block."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def execute(self, sql: str, *values: Any) -> str:
        """Run a statement; return its verb and the number of changed rows, as in `UPDATE 3`."""

        def run(session: Session) -> str:
            before = session.connection.total_changes()
            _rows(session, sql, values)
            changed = session.connection.total_changes() - before
            verb = sql.split(maxsplit=1)[0].upper() if sql.strip() else ""
            return f"INSERT 0 {changed}" if verb == "INSERT" else f"{verb} {changed}"

        return str(await self._ask(run))

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of values."""
        many = list(rows)

        def run(session: Session) -> None:
            for values in many:
                _rows(session, sql, values)

        await self._ask(run)

    async def fetch(self, sql: str, *values: Any) -> list[TaskRow]:
        """Return every row of a query."""
        rows: list[TaskRow] = await self._ask(lambda session: _rows(session, sql, values))
        return rows

    async def fetchrow(self, sql: str, *values: Any) -> TaskRow | None:
        """Return the first row of a query, or None."""
        return next(iter(await self.fetch(sql, *values)), None)

    async def fetchval(self, sql: str, *values: Any, column: int = 0) -> Any:
        """Return a value of the first row of a query, or None."""
        row = await self.fetchrow(sql, *values)
        return None if row is None else row[column]


def _rows(session: Session, sql: str, values: Sequence[Any]) -> list[TaskRow]:
    connection = session.connection
    with _without_transactions(connection):
        names = apsw.ext.query_info(connection, sql).bindings_names if values else ()
        plain = [_plain(value) for value in values]
        is_numbered = any(name is not None for name in names)
        given = {str(number): value for number, value in enumerate(plain, 1)} if is_numbered else tuple(plain)
        cursor = connection.execute(sql, given)
        first = next(cursor, None)
        if first is None:
            return []
        columns = tuple(column[0] for column in cursor.get_description())
        return [TaskRow(columns, found) for found in (first, *cursor.fetchall())]


@contextmanager
def _without_transactions(connection: apsw.Connection) -> Iterator[None]:
    """Refuse statements that begin or end a transaction: only the end of the block does."""
    refused = False

    def allows(operation: int, *_: str | None) -> int:
        nonlocal refused
        refused = refused or operation == apsw.SQLITE_TRANSACTION
        return apsw.SQLITE_DENY if operation == apsw.SQLITE_TRANSACTION else apsw.SQLITE_OK

    connection.authorizer = allows
    try:
        yield
    except apsw.AuthError as error:
        if refused:
            raise ValueError("the block ends its transaction; leave out begin, commit and rollback") from error
        raise
    finally:
        connection.authorizer = None


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat() if isinstance(value, (date, datetime)) else value
