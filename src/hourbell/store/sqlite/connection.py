"""One connection to a SQLite file: opening it, waiting for other processes' locks, and running a transaction.

Errors of an unreachable, full or corrupt database become `StoreUnavailable`; the connection is then either still usable
or replaced by the next operation.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import apsw

from hourbell.private_files import create_private
from hourbell.store.base import Wake
from hourbell.store.rows import Row
from hourbell.store.sqlite.file_trouble import is_file, unavailable
from hourbell.store.sqlite.invalid_utf8 import fetch_invalid_utf8
from hourbell.store.sqlite.values import bound, rows_of

T = TypeVar("T")
Operation = Callable[["Session"], T]

_QUICK_TRIES = 10
_OUT_OF_REACH = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.InterruptError,
    apsw.LockedError,
    apsw.NoLFSError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
)
_SETTINGS = (
    "synchronous = full",
    "foreign_keys = on",
    "temp_store = memory",
    "cache_size = -65536",
    "journal_size_limit = 67108864",
)


class Patience:
    """A busy handler that waits for another connection's lock, in short random steps up to a total limit.

    SQLite's own timeout sleeps longer the longer it has waited, and so starves connections that already wait.
    """

    def __init__(self, random: Random, limit: float = 10.0) -> None:
        self._random = random
        self._limit = limit  # seconds
        self._waited = 0.0

    def __call__(self, tries: int) -> bool:
        """Wait one step; return False once the limit is reached."""
        if tries == 0:
            self._waited = 0.0
        if self._waited >= self._limit:
            return False
        low, high = (0.0002, 0.001) if tries < _QUICK_TRIES else (0.001, 0.004)
        step = self._random.uniform(low, high)
        time.sleep(step)
        self._waited += step
        return True


class Session:
    """The transaction of an operation. Every cursor is exhausted, because an open cursor would keep the lock."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.wakes: set[Wake] = set()  # hints to announce after the commit

    @property
    def connection(self) -> apsw.Connection:
        """The driver's connection, for statements that are not Hourbell's."""
        return self._connection

    def fetch(self, sql: str, *values: Any) -> list[Row]:
        given = tuple(map(bound, values))
        try:
            return list(rows_of(*_found(self._connection, sql, given)))
        except UnicodeDecodeError:
            return list(rows_of(*fetch_invalid_utf8(self._connection, sql, given)))

    def fetch_one(self, sql: str, *values: Any) -> Row | None:
        return next(iter(self.fetch(sql, *values)), None)

    def execute(self, sql: str, *values: Any) -> int:
        """Run a statement; return the number of rows it changed."""
        self._connection.execute(sql, tuple(map(bound, values))).fetchall()
        return self._connection.changes()

    def script(self, sql: str) -> None:
        """Run statements that take no parameters."""
        self._connection.execute(sql).fetchall()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Roll back the block, and nothing else, if it raises."""
        self.script("savepoint part")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self.script("rollback to part; release part")
            raise
        self.script("release part")

    @contextmanager
    def watched(self, is_over: Callable[[], bool], steps: int) -> Iterator[None]:
        """Call `is_over` every `steps` steps of SQLite's virtual machine; interrupt the statement if it is True."""
        self._connection.set_progress_handler(is_over, steps)
        try:
            yield
        finally:
            self._connection.set_progress_handler(None)


def open_connection(
    path: str, patience: Patience, *, may_create: bool = True, vfs: str | None = None
) -> apsw.Connection:
    """Open a connection whose commits are durable when they return. Files use WAL mode; memory needs no log.

    Only the owner can access a new file. SQLite gives the files beside it the same mode.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    if may_create and is_file(path):
        create_private(path)  # SQLite would apply the umask
    elif may_create:
        flags |= apsw.SQLITE_OPEN_CREATE
    with reachable(path):
        connection = apsw.Connection(path, flags=flags, vfs=vfs)
        try:
            connection.set_busy_handler(patience)
            for setting in _SETTINGS:
                connection.pragma(*setting.split(" = "))
            _use_wal(connection, patience)
            connection.execute("pragma wal_autocheckpoint = 0").fetchall()
        except BaseException:
            connection.close()
            raise
    return connection


def transact(connection: apsw.Connection, operation: Operation[T], *, writes: bool) -> tuple[T, set[Wake]]:
    """Run an operation as one transaction; return its result and the hints to announce."""
    session = Session(connection)
    try:
        session.script("begin immediate" if writes else "begin")
        answer = operation(session)
        session.script("commit")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself if the disk is full
            session.script("rollback")
        raise
    return answer, session.wakes


@contextmanager
def reachable(path: str) -> Iterator[None]:
    """Convert errors of an unavailable database to StoreUnavailable, or to StoreUnwritable if the cause is known."""
    try:
        yield
    except _OUT_OF_REACH as error:
        raise unavailable(path, error) from error


def _found(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> tuple[list[str], list[Sequence[Any]]]:
    """Return the column names and the rows of a statement; no names if there are no rows."""
    cursor = connection.execute(sql, values)
    first = next(cursor, None)
    if first is None:
        return [], []
    return [column[0] for column in cursor.get_description()], [first, *cursor.fetchall()]


def _use_wal(connection: apsw.Connection, patience: Patience) -> None:
    """Switch to WAL. SQLite does not call the busy handler here, and many processes may open a new file at once."""
    tries = 0
    while True:
        try:
            connection.execute("pragma journal_mode = wal").fetchall()
            return
        except apsw.BusyError:
            if not patience(tries):
                raise
            tries += 1
