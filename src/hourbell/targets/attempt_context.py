"""The node's side of a task's run: cancellation, log, progress and transaction. Unused features cost nothing.

The task may log and report progress from any thread; everything else happens on the event loop of its node.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from threading import Lock
from typing import Any

from hourbell.core.run.settle import Outcome
from hourbell.targets.base import Call, Transaction
from hourbell.targets.task_notes import NoteWriter
from hourbell.targets.task_run import LastSuccess
from hourbell.targets.time_limits import TimeLimit

log = logging.getLogger("hourbell.targets")

_opening = Lock()  # guards the creation of writers; shared, because few attempts need a writer


class TransactionLimit:
    """A limit on the number of open transactions."""

    def __init__(self, size: int) -> None:
        self.taken = 0  # open, or about to be opened
        self._free = asyncio.Semaphore(size)

    async def __aenter__(self) -> None:
        await self._free.acquire()
        self.taken += 1

    async def __aexit__(self, *_: object) -> None:
        self.taken -= 1
        self._free.release()


class NodeAttemptContext:
    """The node's side of one attempt. The function is called within the time limit.

    `transactions` limits how many transactions are open at once; None if the function may not open one.
    """

    __slots__ = (
        "_begun_after",
        "_call",
        "_has_opened",
        "_is_closed",
        "_is_stopped",
        "_limit",
        "_transactions",
        "_writer",
        "committed",
        "last_success",
    )

    def __init__(
        self, call: Call, limit: TimeLimit, transactions: TransactionLimit | None, last_success: LastSuccess = ...
    ) -> None:
        self.committed: Outcome | None = None
        self.last_success = last_success
        self._begun_after: float | None = None  # seconds from the start of the time limit
        self._call = call
        self._limit = limit
        self._transactions = transactions
        self._is_stopped = False
        self._has_opened = False
        self._is_closed = False
        self._writer: NoteWriter | None = None

    @property
    def is_cancelled(self) -> bool:
        """True if the attempt was stopped, its node asked it to stop, or its timeout has passed.

        A cancelled coroutine alone is no evidence: a timeout within the function cancels it, too.
        """
        return self._is_stopped or self._call.is_stopped() or self._limit.is_over

    def begin(self) -> None:
        """Record the time at which the function is called."""
        self._begun_after = self._limit.elapsed

    @property
    def has_begun(self) -> bool:
        return self._begun_after is not None

    def stop(self) -> None:
        """Request that the attempt ends, for any reason."""
        self._is_stopped = True

    def log_overrun(self) -> None:
        """Log that the function still runs after its timeout."""
        is_async = self._transactions is not None
        hint = "let asyncio.CancelledError pass" if is_async else "isolate=True ends it"
        why = "it does not let itself be cancelled" if is_async else "a thread cannot be stopped"
        facts = {"run": str(self._call.run.id), "job": self._call.definition.name, "hint": hint}
        log.warning("task_overruns", extra=facts)
        self.log(f"its time is over, but {why}: it continues until the function returns")

    def log(self, text: object) -> None:
        at = self._call.now + timedelta(seconds=self._limit.elapsed - (self._begun_after or 0.0))
        self._opened_writer().add_line(at, text)

    def progress(self, fraction: float | None, message: object) -> None:
        self._opened_writer().set_progress(fraction, message)

    def open_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        if self._transactions is None:
            raise RuntimeError("run.transaction() is for async functions; make the function async")
        if self._has_opened:
            raise RuntimeError("run.transaction() can be opened once; do all the work in one block")
        self._has_opened = True
        return self._transaction(self._transactions)

    def close(self) -> NoteWriter | None:
        """Accept no more notes; return the writer that may still have notes to write, if there is one."""
        self._is_closed = True
        writer = self._writer
        if writer is not None:
            writer.close()
        return writer

    @asynccontextmanager
    async def _transaction(self, free: TransactionLimit) -> AsyncIterator[Transaction]:
        async with free:
            async with self._call.transaction() as opened:
                settling = _Settling(opened)
                yield settling
            self.committed = settling.outcome

    def _opened_writer(self) -> NoteWriter:
        with _opening:
            if self._writer is None:
                self._writer = NoteWriter(self._call, self._limit.loop)
            if self._is_closed:  # checked after the writer is set, because `close` reads the writer after the flag
                self._writer.close()
            return self._writer


class _Settling:
    """A transaction that remembers the outcome with which it settled the run."""

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
