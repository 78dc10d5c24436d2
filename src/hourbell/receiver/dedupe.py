"""Handle each run once: its id is stored in the receiver's own database, in the transaction that does the work.

The id and the work are committed together or not at all. Of two deliveries at the same time, the unique index makes the
second wait for the first to end.
"""

from datetime import timedelta
from typing import Any, Protocol

CREATE_TABLE = """\
create table if not exists hourbell_received (
    id text not null primary key,
    received_at timestamptz not null default current_timestamp
)"""

# For SQLite and PostgreSQL; only the placeholder differs between drivers.
_INSERT = "insert into hourbell_received (id) values ({}) on conflict (id) do nothing"
_POSTGRES_FORGET = "delete from hourbell_received where received_at < current_timestamp - make_interval(secs => {})"
_SQLITE_FORGET = "delete from hourbell_received where received_at < datetime('now', {})"
_IDLE = 0  # libpq's status of a session without a transaction
_ALONE = "begin a transaction first, so that the id and the work are committed together"


class Connection(Protocol):
    """A DB-API connection to SQLite or PostgreSQL, or Django's."""

    def cursor(self) -> Any: ...


def once(connection: Connection, webhook_id: str) -> bool:
    """Return True if this run is new; False if it was handled before.

    The id is written in the caller's transaction: commit it with the work. After a rollback the run is new again. If
    another delivery of the run is in progress, this waits for it. Call this first in the transaction.
    """
    if _commits_each_statement(connection):
        raise RuntimeError(_ALONE)
    return _changed(connection, _INSERT.format(_mark(connection)), webhook_id) == 1


def forget(connection: Connection, older_than: timedelta) -> int:
    """Remove ids older than this by the database's clock; return the number removed."""
    seconds = _seconds(older_than)
    if _is_sqlite(connection):
        return _changed(connection, _SQLITE_FORGET.format(_mark(connection)), f"-{seconds:.0f} seconds")
    return _changed(connection, _POSTGRES_FORGET.format(_mark(connection)), seconds)


async def once_async(connection: Any, webhook_id: str) -> bool:
    """The same as `once`, on a connection of asyncpg."""
    if not connection.is_in_transaction():
        raise RuntimeError(_ALONE)
    return await connection.fetchval(_INSERT.format("$1") + " returning true", webhook_id) is True


async def forget_async(connection: Any, older_than: timedelta) -> int:
    """The same as `forget`, on a connection of asyncpg."""
    status: str = await connection.execute(_POSTGRES_FORGET.format("$1"), _seconds(older_than))
    return int(status.removeprefix("DELETE "))


def _changed(connection: Connection, statement: str, value: object) -> int:
    cursor = connection.cursor()
    try:
        cursor.execute(statement, (value,))
        return int(cursor.rowcount)
    finally:
        cursor.close()


def _seconds(older_than: timedelta) -> float:
    if older_than <= timedelta(0):
        raise ValueError("forget ids older than some time, as in timedelta(days=30)")
    return older_than.total_seconds()


def _mark(connection: Connection) -> str:
    """Return the placeholder: `?` for the standard library's driver, `%s` for psycopg and Django."""
    return "?" if _is_driver_sqlite3(connection) else "%s"


def _is_sqlite(connection: Any) -> bool:
    return _is_driver_sqlite3(connection) or getattr(connection, "vendor", None) == "sqlite"


def _is_driver_sqlite3(connection: object) -> bool:
    return any(base.__module__ == "sqlite3" for base in type(connection).__mro__)


def _commits_each_statement(connection: Any) -> bool:
    if hasattr(connection, "in_atomic_block"):  # Django
        return not connection.in_atomic_block and bool(connection.get_autocommit())
    if _is_driver_sqlite3(connection):
        by_itself = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
        return by_itself and not connection.in_transaction
    status = getattr(getattr(connection, "info", None), "transaction_status", _IDLE)
    return bool(getattr(connection, "autocommit", False)) and status == _IDLE
