"""Transactions on the engine's own file, lent to tasks: they write the task's work and the settlement, or neither.

SQLite has one write lock. A transaction takes it with its first statement and must release it within a few seconds,
well before other writers time out. Transactions have a separate connection and thread:

1. The first statement gives the thread an operation that begins the transaction and then waits for steps.
2. Each statement and the settlement are steps; the task awaits each result without blocking the event loop.
3. The end of the block is the last step: the operation returns, which commits, or raises, which rolls back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic

import apsw

from hourbell.store.base import LeaseKey, OpenTransaction, SettledAttempt
from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.connection import Operation, Session, T
from hourbell.store.sqlite.settling import write_settlements
from hourbell.store.sqlite.task_connection import TaskConnection
from hourbell.store.sqlite.writer import Executor

MAX_TRANSACTION_SECONDS = 5.0  # seconds with the write lock
_BREATH = 0.005  # seconds between two transactions, in which other writers can take the lock
_STEPS_BETWEEN_CHECKS = 10_000  # of SQLite's virtual machine, while a statement runs


class TooLong(StoreUnavailable):
    """The transaction held the write lock for too long and was rolled back."""

    def __init__(self) -> None:
        super().__init__(
            f"a transaction on SQLite may last {MAX_TRANSACTION_SECONDS:g} s from its first statement; "
            "it was rolled back"
        )


class _RolledBack(Exception):
    """The block ended with an exception."""


class SqliteTransactionStore:
    """Lends transactions on a `runner` of its own. `elapsed` is monotonic and may be called from any thread."""

    def __init__(self, runner: Executor, *, elapsed: Callable[[], float]) -> None:
        self._runner = runner
        self._elapsed = elapsed
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self, held: LeaseKey) -> AsyncIterator[OpenTransaction]:  # noqa: ARG002 - settlements name it
        conversation = _Conversation(self._runner, self._elapsed, self._turn)
        try:
            yield _Opened(TaskConnection(conversation.ask), conversation)
        except BaseException:
            with suppress(_RolledBack, StoreUnavailable):
                await conversation.end(is_good=False)
            raise
        await conversation.end(is_good=True)

    async def check(self) -> None:
        """Do nothing: it writes to the file of its engine, so no privilege can be missing."""

    async def close(self) -> None:
        await self._runner.close()


@dataclass(frozen=True, slots=True)
class _Opened:
    connection: TaskConnection
    conversation: "_Conversation"

    async def settle(self, settled: SettledAttempt) -> bool:
        unwritten = await self.conversation.ask(lambda session: write_settlements(session, [settled]))
        return not unwritten


@dataclass(frozen=True, slots=True)
class _Step(Generic[T]):
    operation: Operation[T]
    future: asyncio.Future[T]

    def take(self, session: Session) -> None:
        if self.future.cancelled():
            return
        try:
            answer = self.operation(session)
        except apsw.InterruptError:
            self._answer(self.future.set_exception, TooLong())
        except BaseException as error:
            self._answer(self.future.set_exception, error)
        else:
            self._answer(self.future.set_result, answer)

    def _answer(self, give: Callable[[Any], None], value: object) -> None:
        def deliver() -> None:
            if not self.future.done():
                give(value)

        with suppress(RuntimeError):  # its event loop is closed
            self.future.get_loop().call_soon_threadsafe(deliver)


class _Conversation:
    """One transaction: the block sends steps from the event loop, and the thread returns their results."""

    def __init__(self, runner: Executor, elapsed: Callable[[], float], turn: asyncio.Lock) -> None:
        self._runner = runner
        self._elapsed = elapsed
        self._turn = turn
        self._steps: SimpleQueue[_Step[Any] | bool] = SimpleQueue()
        self._beginning = asyncio.Lock()
        self._done: asyncio.Future[None] | None = None
        self._is_given_up = False

    async def ask(self, operation: Operation[T]) -> T:
        """Run an operation in the transaction and return its result; the first one begins the transaction."""
        done = await self._begin()
        step = _Step(operation, asyncio.get_running_loop().create_future())
        self._steps.put(step)
        try:
            await asyncio.wait([step.future, done], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            step.future.cancel()  # the thread skips the step if it has not begun
            raise
        if not step.future.done():
            done.result()  # raises if it could not begin, or took too long
            raise StoreUnavailable("the transaction has ended")
        answer: T = step.future.result()
        return answer

    async def _begin(self) -> asyncio.Future[None]:
        async with self._beginning:  # a block may run several operations concurrently
            if self._done is None:
                await self._turn.acquire()
                loop = asyncio.get_running_loop()
                self._done = asyncio.ensure_future(self._runner.write(self._converse))
                self._done.add_done_callback(lambda _: loop.call_later(_BREATH, self._turn.release))
            return self._done

    async def end(self, *, is_good: bool) -> None:
        """Commit or roll back, and wait for the result even if cancelled meanwhile."""
        if self._done is None:
            return
        self._is_given_up = not is_good
        self._steps.put(is_good)
        stopped: asyncio.CancelledError | None = None
        while not self._done.done():
            try:
                await asyncio.wait([self._done])
            except asyncio.CancelledError as error:
                stopped = error
        self._done.result()
        if stopped is not None:
            raise stopped

    def _converse(self, session: Session) -> None:
        """Run the steps of the transaction, in the thread."""
        end = self._elapsed() + MAX_TRANSACTION_SECONDS

        def is_over() -> bool:
            return self._is_given_up or self._elapsed() >= end

        with session.watched(is_over, _STEPS_BETWEEN_CHECKS):
            while True:
                try:
                    step = self._steps.get(timeout=max(0.001, end - self._elapsed()))
                except Empty:
                    raise TooLong from None
                if step is True and self._elapsed() < end:
                    return
                if isinstance(step, bool):
                    raise TooLong if step else _RolledBack
                if not session.connection.in_transaction:  # full disk, interrupt or `insert or rollback`
                    raise StoreUnavailable("SQLite has rolled back the transaction")
                step.take(session)
