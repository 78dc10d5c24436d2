"""The database file of a process: detects that it was deleted or replaced, and records whether it takes writes.

SQLite continues to write to a file that was deleted or replaced; those commits are lost when the process ends.

1. The first connection may create the file, and records its identity (device and inode). Later ones must open the same
   file and never create one: while no connection is open, a missing file is an outage until it is back.
2. Before a write is acknowledged, and on reads every 0.2 s, a connection compares the files at its paths with those it
   has open: the database, the log and the log's index, none of which changes identity while a connection is open.
3. A file that is no longer there is lost for good. Nothing is read or written again, and `on_lost` is called once.

The log of a file that was replaced is renamed, because SQLite would apply it to the new file.
"""

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

import apsw

from hourbell import clock
from hourbell.store.errors import StoreLost, StoreUnavailable, StoreUnwritable
from hourbell.store.sqlite.connection import Patience, open_connection, reachable
from hourbell.store.sqlite.file_trouble import INDEX, LOG, is_file

CHECK_SECONDS = 0.2  # between two checks without a write
_PASSING = (apsw.BusyError, apsw.InterruptError, apsw.LockedError)  # errors that say nothing about the file
_Identity = tuple[int, int]


class DatabaseFile:
    """A database at a path. A database in memory is never lost."""

    def __init__(
        self, path: str, *, vfs: str | None = None, on_lost: Callable[[StoreLost], None] = lambda _: None
    ) -> None:
        self.path = path
        self._vfs = vfs
        self._on_lost = on_lost
        self._identity: _Identity | None = None
        self._lock = Lock()
        self.lost: StoreLost | None = None
        self.write_error: StoreUnavailable | None = None  # of the last write, if its cause is lasting
        self._written_at: float | None = None

    def open(self, patience: Patience) -> tuple[apsw.Connection, "OpenFiles | None"]:
        """Open a connection; return it with its open files, or with None for a database in memory."""
        self.raise_if_lost()
        is_first = self._identity is None
        if is_first:
            self._refuse_leftovers()
        try:
            connection = open_connection(self.path, patience, may_create=is_first, vfs=self._vfs)
        except StoreUnavailable:
            if (found := _identity_of(self.path)) is not None:
                self._compare_with_first(found)
            raise
        if not is_file(self.path):
            return connection, None
        try:
            return connection, self._files_of(connection)
        except BaseException:
            connection.close()
            raise

    def check(self, files: "OpenFiles | None") -> None:
        """Raise StoreLost unless a connection's open files are still at their paths."""
        if files is not None and (changed := files.changed()) is not None:
            self._lose(*changed, files)

    def raise_if_lost(self) -> None:
        if self.lost is not None:
            raise StoreLost(self.path, self.lost.reason)

    def note_write(self, error: BaseException | None = None) -> None:
        """Record the result of a write; ignore errors that say nothing about the database."""
        if error is None:
            self._written_at, self.write_error = clock.elapsed(), None
        elif isinstance(error, StoreUnavailable) and _is_of_database(error):
            self.write_error = error

    def was_written_within(self, seconds: float) -> bool:
        """Return True if a write succeeded within `seconds`, and none has failed since for a lasting cause."""
        written_at = self._written_at
        return self.write_error is None and written_at is not None and clock.elapsed() - written_at < seconds

    def _refuse_leftovers(self) -> None:
        """Refuse to create a file where one was deleted or moved in use: its log is left, and nodes may still run."""
        if is_file(self.path) and os.path.exists(f"{self.path}{LOG}") and not os.path.exists(self.path):
            name = os.path.basename(self.path)
            left = f"{name}{LOG} is there and {name} is not: it was deleted or moved while it was in use"
            raise StoreUnwritable(self.path, f"{left}; put it back, or remove {name}{LOG} to begin with an empty one")

    def _files_of(self, connection: apsw.Connection) -> "OpenFiles":
        with reachable(self.path):
            if connection.readonly("main"):
                raise apsw.ReadOnlyError("the file was opened for reading only")
            connection.execute("select count(*) from sqlite_schema").fetchall()  # now all three files are open
        identity = _identity_of(self.path)
        if identity is None or _has_moved(connection):  # checked last: else it could be replaced in between
            raise StoreUnavailable(f"{self.path}: the file was moved or replaced while it was opened")
        self._compare_with_first(identity)
        return OpenFiles({self.path: identity, **{each: _identity_of(each) for each in self._beside()}})

    def _compare_with_first(self, identity: _Identity) -> None:
        """Raise StoreLost if this is not the file that this process opened first."""
        with self._lock:
            if self._identity is None:
                self._identity = identity
        if identity != self._identity:
            self._lose(self.path, True, None)

    def _beside(self) -> tuple[str, str]:
        return f"{self.path}{LOG}", f"{self.path}{INDEX}"

    def _lose(self, path: str, is_replaced: bool, files: "OpenFiles | None") -> None:
        name = os.path.basename(path)
        what = f"{name} was {'replaced' if is_replaced else 'deleted or moved'} while this process had it open"
        error = StoreLost(self.path, what)
        with self._lock:
            is_first = self.lost is None
            if is_first:
                self.lost = error
        if is_first:
            if path == self.path and is_replaced and files is not None:
                files.put_aside(self._beside())
            self._on_lost(error)
        self.raise_if_lost()


class OpenFiles:
    """The files that one connection has open."""

    def __init__(self, identities: dict[str, _Identity | None]) -> None:
        self._identities = identities

    def changed(self) -> tuple[str, bool] | None:
        """Return the first path that has another file (True) or none (False); None if all files are the same."""
        for path, identity in self._identities.items():
            found = _identity_of(path)
            if found != identity or found is None:
                return path, found is not None
        return None

    def put_aside(self, paths: tuple[str, str]) -> None:
        """Rename those of the files that are still there, so that SQLite does not apply them to the new file."""
        for path in paths:
            if _identity_of(path) == self._identities[path] is not None:
                with suppress(OSError):
                    os.rename(path, f"{path}.old")


def _is_of_database(error: StoreUnavailable) -> bool:
    """Return True if the error is about the database, and not only about its lock."""
    cause = error.__cause__
    return isinstance(error, StoreUnwritable) or (isinstance(cause, apsw.Error) and not isinstance(cause, _PASSING))


def _identity_of(path: str) -> _Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _has_moved(connection: apsw.Connection) -> bool:
    """Return True if the connection's open file is not the one at its path."""
    answer = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(answer))
    return bool(answer.value)
