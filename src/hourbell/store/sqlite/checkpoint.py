"""Checkpoints: copy the write-ahead log into the database file without delaying commits.

A thread copies the log on its own connection each time it has grown by 16 MB. Commits continue meanwhile, so under
constant load the log may never be fully copied; past 64 MB the writers of all processes wait briefly while the log is
restarted.
"""

from contextlib import suppress
from random import Random
from threading import Lock, Thread

import apsw

from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.connection import Patience, reachable
from hourbell.store.sqlite.database_file import DatabaseFile

_GROWN = 4_000  # pages of 4 KB
_TOO_LARGE = 16_000
_PATIENCE = 0.1  # seconds


class Checkpoints:
    def __init__(self, file: DatabaseFile, random: Random) -> None:
        self._file = file
        self._random = random
        self._pages = 0
        self._copied = 0
        self.running = Lock()  # held while a checkpoint is in progress

    def watch(self, connection: apsw.Connection) -> None:
        """Record the size of the log after every commit on this connection."""

        def note(_: apsw.Connection, __: str, pages: int) -> int:
            self._pages = pages
            return apsw.SQLITE_OK

        connection.set_wal_hook(note)

    def start_if_due(self) -> None:
        self._copied = min(self._copied, self._pages)  # fewer pages than before: the log was restarted
        if self._pages - self._copied < _GROWN or not self.running.acquire(blocking=False):
            return
        self._copied = self._pages
        try:
            Thread(target=self._copy, name="hourbell-sqlite-checkpoint", daemon=True).start()
        except RuntimeError:  # no more threads; this must not end the writer thread
            self.running.release()

    def _copy(self) -> None:
        """Copy as many pages as possible. After a failure, later commits start another attempt."""
        try:
            with suppress(StoreUnavailable), reachable(self._file.path):
                connection, _ = self._file.open(Patience(self._random, _PATIENCE))
                try:
                    pages, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                    if pages >= _TOO_LARGE and copied == pages:  # else a reader blocks it, and waiting is useless
                        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                finally:
                    connection.close()
        finally:
            self.running.release()
