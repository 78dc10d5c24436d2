"""The node's side of a task's run: what the task says is written at most once a second and once more at its end.

A task that says nothing costs nothing. The task may speak from any thread; everything else happens on the event loop
of its node.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from threading import Lock
from typing import Any

from hourbell.core.notes import Notebook
from hourbell.core.settle import Outcome
from hourbell.targets.base import Call, Transaction
from hourbell.targets.time_limits import TimeLimit

log = logging.getLogger("hourbell.targets")

_BETWEEN_WRITES = 1.0  # seconds
_LAST_WRITE = 5.0  # seconds that an outcome waits for the last words of its attempt
_opening = Lock()  # of a book: most attempts need none, and no lock of their own either


class NodeDesk:
    """Made on the event loop, for one attempt, with its time limit. `transactions` bounds how many are open at once;
    None for none."""

    __slots__ = (
        "_began",
        "_book",
        "_call",
        "_closing",
        "_has_opened",
        "_is_closed",
        "_is_new",
        "_is_stopped",
        "_is_told",
        "_limit",
        "_loop",
        "_transactions",
        "_writing",
        "committed",
    )

    def __init__(self, call: Call, limit: TimeLimit, transactions: asyncio.Semaphore | None) -> None:
        self.committed: Outcome | None = None
        self._call = call
        self._limit = limit
        self._transactions = transactions
        self._is_stopped = False
        self._has_opened = False
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._book: tuple[Lock, Notebook] | None = None
        self._is_new = False
        self._is_closed = False
        self._is_told = False
        self._closing: asyncio.Event | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def is_cancelled(self) -> bool:
        """A timeout within the function cancels its coroutine too, so that whoever is asked must know of the others."""
        return self._is_stopped or self._call.is_stopped() or self._limit.is_over

    def stop(self) -> None:
        """The attempt is to end, whatever for."""
        self._is_stopped = True

    def log(self, text: object) -> None:
        at = self._call.now + timedelta(seconds=self._loop.time() - self._began)
        lock, book = self._opened_book()
        with lock:
            book.add_line(at, text)
        self._have_written()

    def progress(self, fraction: float | None, message: object) -> None:
        lock, book = self._opened_book()
        with lock:
            book.set_progress(fraction, message)
        self._have_written()

    def open_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        if self._transactions is None:
            raise RuntimeError("run.transaction() is for async functions; make the function async")
        if self._has_opened:
            raise RuntimeError("run.transaction() can be opened once; do all the work in one block")
        self._has_opened = True
        return self._transaction(self._transactions)

    def close(self) -> bool:
        """Take no more words; whether there are any."""
        self._is_closed = True
        return self._book is not None

    async def write_last(self) -> None:
        """Write what is new, before the outcome is settled. It is not worth more than a few seconds."""
        try:
            async with asyncio.timeout(_LAST_WRITE):
                if self._writing is not None and self._closing is not None:
                    self._closing.set()
                    await asyncio.wait([self._writing])
                if self._is_new:
                    await self._write()
        except TimeoutError:
            self._tell("the database did not answer")

    @asynccontextmanager
    async def _transaction(self, free: asyncio.Semaphore) -> AsyncIterator[Transaction]:
        async with free:
            async with self._call.transaction() as opened:
                settling = _Settling(opened)
                yield settling
            self.committed = settling.outcome

    def _opened_book(self) -> tuple[Lock, Notebook]:
        with _opening:
            if self._book is None:
                self._book = Lock(), Notebook()
            return self._book

    def _have_written(self) -> None:
        if self._is_new or self._is_closed:
            return
        self._is_new = True
        with suppress(RuntimeError):  # the event loop is closed: a thread has outlived its node
            self._loop.call_soon_threadsafe(self._begin_to_write)

    def _begin_to_write(self) -> None:
        if self._writing is None and not self._is_closed:
            self._closing = asyncio.Event()
            self._writing = asyncio.create_task(self._write_on(self._closing))

    async def _write_on(self, closing: asyncio.Event) -> None:
        while self._is_new and not closing.is_set():
            await self._write()
            with suppress(TimeoutError):
                async with asyncio.timeout(_BETWEEN_WRITES):
                    await closing.wait()
        self._writing = None

    async def _write(self) -> None:
        self._is_new = False
        lock, book = self._opened_book()
        with lock:
            notes = book.notes(self._call.run.id, self._call.run.attempt)
        try:
            await self._call.note(notes)
        except Exception as error:  # the next write, if there is one, says it all again
            self._is_new = True
            self._tell(str(error) or type(error).__name__)

    def _tell(self, error: str) -> None:
        if not self._is_told:
            self._is_told = True
            log.warning("notes_not_written", extra={"run": str(self._call.run.id), "error": error})


class _Settling:
    """A transaction that remembers what it settled the run as."""

    def __init__(self, behind: Transaction) -> None:
        self._behind = behind
        self.outcome: Outcome | None = None

    @property
    def connection(self) -> Any:
        return self._behind.connection

    async def settle(self, outcome: Outcome) -> bool:
        is_settled = await self._behind.settle(outcome)
        self.outcome = outcome if is_settled else None
        return is_settled
