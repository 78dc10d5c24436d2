"""Writer for the log lines and progress of a running task: at most one write per second, and one more at its end."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from threading import Lock
from uuid import UUID

from hourbell.core.run.notes import Notebook, Notes
from hourbell.targets.base import Call

log = logging.getLogger("hourbell.targets")

_BETWEEN_WRITES = 1.0  # seconds
_LAST_WRITE = 5.0  # seconds that an outcome waits for the last notes of its attempt


class NoteWriter:
    """The note writer of one attempt. It accepts notes from any thread, and none after `close`."""

    def __init__(
        self, call: Call, loop: asyncio.AbstractEventLoop, source: Callable[[UUID, int], Notes] | None = None
    ) -> None:
        """`source` returns the notes to write; by default they are those that were added here."""
        self._call = call
        self._loop = loop
        self._lock = Lock()
        self._book = Notebook()
        self._source = source or self._book.notes
        self._is_new = False
        self._is_closed = False
        self._is_logged = False
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def add_line(self, at: datetime, text: object) -> None:
        with self._lock:
            self._book.add_line(at, text)
        self._have_written()

    def set_progress(self, fraction: float | None, message: object) -> None:
        with self._lock:
            self._book.set_progress(fraction, message)
        self._have_written()

    def source_changed(self) -> None:
        """Have the notes of the source written."""
        self._have_written()

    def close(self) -> None:
        self._is_closed = True

    async def write_last(self) -> None:
        """Write the remaining notes before the outcome is settled, within a short timeout."""
        try:
            async with asyncio.timeout(_LAST_WRITE):
                if self._writing is not None:
                    self._closing.set()
                    await asyncio.wait([self._writing])
                if self._is_new:
                    await self._write()
        except TimeoutError:
            self._log_error("the database did not answer")

    def _have_written(self) -> None:
        if self._is_new or self._is_closed:
            return
        self._is_new = True
        with suppress(RuntimeError):  # the event loop is closed: a thread has outlived its node
            self._loop.call_soon_threadsafe(self._begin_to_write)

    def _begin_to_write(self) -> None:
        if self._writing is None and not self._is_closed:
            self._writing = asyncio.create_task(self._write_on())

    async def _write_on(self) -> None:
        while self._is_new and not self._closing.is_set():
            await self._write()
            with suppress(TimeoutError):
                async with asyncio.timeout(_BETWEEN_WRITES):
                    await self._closing.wait()
        self._writing = None

    async def _write(self) -> None:
        self._is_new = False
        with self._lock:
            notes = self._source(self._call.run.id, self._call.run.attempt)
        try:
            await self._call.note(notes)
        except Exception as error:  # the next write, if there is one, includes all notes again
            self._is_new = True
            self._log_error(str(error) or type(error).__name__)

    def _log_error(self, error: str) -> None:
        if not self._is_logged:
            self._is_logged = True
            log.warning("notes_not_written", extra={"run": str(self._call.run.id), "error": error})
