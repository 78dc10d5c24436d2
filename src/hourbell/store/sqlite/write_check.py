"""The check that the database takes writes, by the writes that happen anyway, or else by a write of its own."""

import asyncio
from contextlib import suppress

from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.database_file import DatabaseFile
from hourbell.store.sqlite.writer import Executor

FRESH_SECONDS = 5.0  # for which a successful write counts as proof
_PATIENCE = 1.0  # seconds to wait for a write; the lock may be taken, which says nothing about the database


class WriteCheck:
    def __init__(self, file: DatabaseFile, runner: Executor) -> None:
        self._file = file
        self._runner = runner
        self._writing: asyncio.Task[None] | None = None

    async def error(self) -> StoreUnavailable | None:
        """Return why the database takes no writes; None if it does, as far as is known."""
        if self._file.lost is None and not self._file.was_written_within(FRESH_SECONDS):
            if self._writing is None or self._writing.done():
                self._writing = asyncio.create_task(self._write())
            await asyncio.wait([self._writing], timeout=_PATIENCE)
        return self._file.lost or self._file.write_error

    async def _write(self) -> None:
        with suppress(StoreUnavailable):  # the file has recorded it
            await self._runner.write(_rewrite_header)
            self._file.note_write()


def _rewrite_header(session: Session) -> None:
    """Commit a page without changing anything."""
    version = session.connection.pragma("user_version")
    session.connection.pragma("user_version", version)
