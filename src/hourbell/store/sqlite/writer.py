"""The runners of operations: the writer thread of a process, or the caller's thread for simulation.

A whole operation, one transaction, is one task of the queue. `WriterThread` works as follows:

1. An operation waits in the queue with a future of the caller's event loop, the engine's before the users'.
2. The thread opens the connection if there is none, runs the operation, checks that the file is still there
   (`database_file.py`) and sets the result through that loop.
3. It announces the hints of the commit, and checks for commits of other processes.
4. If the log has grown, another thread copies it into the file, so that no commit waits for that.

A connection must not be used across a fork: SQLite counts the locks of its process, and even a new connection in the
child would assume locks that only the parent holds. So all are closed before a fork, and the next operation on either
side reopens them. A fork that Python does not see is detected by the changed process id.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from random import Random
from threading import Lock, Thread
from typing import Any, Protocol
from weakref import WeakSet

import apsw

from hourbell import clock
from hourbell.store.base import Wake
from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.checkpoint import Checkpoints
from hourbell.store.sqlite.connection import Operation, Patience, T, open_connection, reachable, transact
from hourbell.store.sqlite.database_file import CHECK_SECONDS, DatabaseFile, OpenFiles
from hourbell.store.sqlite.hints import Hints

POLL_SECONDS = 0.25
ENGINE_IN_A_ROW = 8  # the engine's operations that go before one of the users', so that users do not starve


class Executor(Protocol):
    """Runs operations, each as one transaction."""

    @property
    def hints(self) -> Hints:
        """The listeners for commits."""

    @property
    def poll_seconds(self) -> float | None:
        """The interval of checks for other processes' commits; None if there are no others."""

    def read(self, operation: Operation[T]) -> Awaitable[T]:
        """Run an operation that only reads."""

    def write(self, operation: Operation[T]) -> Awaitable[T]:
        """Run an operation that holds the write lock from its start."""

    async def close(self) -> None:
        """Close the connection; a later operation opens another."""


class InlineExecutor:
    """Runs operations at once on the caller's thread, by default in memory: the same code, in a fixed order.

    Each node of a simulation has `another`; they share hints. A database in memory ends with its last connection.
    """

    poll_seconds = None
    _names = count()

    def __init__(self, path: str | None = None, *, hints: Hints | None = None) -> None:
        self.path = path or f"file:/hourbell-{next(InlineExecutor._names)}?vfs=memdb"
        self._patience = Patience(Random(0))
        self._connection = open_connection(self.path, self._patience)
        self._is_open = True
        self.hints = hints or Hints()

    def another(self) -> "InlineExecutor":
        """Open a separate connection to the same database, for another node of this process."""
        return InlineExecutor(self.path, hints=self.hints)

    async def read(self, operation: Operation[T]) -> T:
        return self._run(operation, writes=False)

    async def write(self, operation: Operation[T]) -> T:
        return self._run(operation, writes=True)

    def _run(self, operation: Operation[T], *, writes: bool) -> T:
        if not self._is_open:
            self._connection, self._is_open = open_connection(self.path, self._patience), True
        with reachable(self.path):
            answer, wakes = transact(self._connection, operation, writes=writes)
        self.hints.announce(wakes)
        return answer

    async def close(self) -> None:
        self._is_open = False
        self._connection.close()


class ReadWriteSplit:
    """The users' runner. It reads in a separate thread, so that reads do not wait for writes, and its writes queue
    behind the engine's, so that an import of many jobs does not delay runs."""

    def __init__(self, reader: Executor, writer: "WriterThread") -> None:
        self._reader = reader
        self._writer = writer

    @property
    def hints(self) -> Hints:
        return self._writer.hints

    @property
    def poll_seconds(self) -> float | None:
        return self._writer.poll_seconds

    def read(self, operation: Operation[T]) -> Awaitable[T]:
        return self._reader.read(operation)

    def write(self, operation: Operation[T]) -> Awaitable[T]:
        return self._writer.write_behind(operation)

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()


@dataclass(frozen=True, slots=True)
class _Task:
    operation: Operation[Any] | None  # None: close the connection and end the thread
    writes: bool
    future: asyncio.Future[Any]
    is_behind: bool = False  # the engine's operations go first

    def answer(self, answer: Any, error: BaseException | None = None) -> None:
        def deliver() -> None:
            if self.future.done():
                return  # the caller was cancelled
            if error is None:
                self.future.set_result(answer)
            else:
                self.future.set_exception(error)

        with suppress(RuntimeError):  # its event loop is closed
            self.future.get_loop().call_soon_threadsafe(deliver)


class _Queue:
    """Operations in order of arrival, except that the engine's go first, up to ENGINE_IN_A_ROW in a row."""

    def __init__(self) -> None:
        self._first: deque[_Task] = deque()
        self._behind: deque[_Task] = deque()
        self._arrivals: SimpleQueue[None] = SimpleQueue()
        self._in_a_row = 0

    def put(self, task: _Task) -> None:
        (self._behind if task.is_behind else self._first).append(task)
        self._arrivals.put(None)

    def get(self) -> _Task:
        self._arrivals.get()
        if not self._behind:
            self._in_a_row = 0
        elif not self._first or self._in_a_row == ENGINE_IN_A_ROW:
            self._in_a_row = 0
            return self._behind.popleft()
        else:
            self._in_a_row += 1
        return self._first.popleft()

    def __len__(self) -> int:
        return self._arrivals.qsize()


class WriterThread:
    """Runs operations in its own thread, on a file that several processes of this host may share."""

    poll_seconds = POLL_SECONDS

    def __init__(self, file: DatabaseFile | str, *, random: Random | None = None) -> None:
        self._file = DatabaseFile(file) if isinstance(file, str) else file
        self._random = random or Random()
        self._start_anew()
        _LIVE.add(self)

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self.hints = Hints()
        self._tasks = _Queue()
        self._thread: Thread | None = None
        self._connection: apsw.Connection | None = None
        self._files: OpenFiles | None = None
        self._checked_at = 0.0
        self._seen_version = 0
        self._starting = Lock()
        self._connection_lock = Lock()  # held while the connection is used
        self._checkpoints = Checkpoints(self._file, self._random)

    async def read(self, operation: Operation[T]) -> T:
        answer: T = await self._hand_over(operation, writes=False)
        return answer

    async def write(self, operation: Operation[T]) -> T:
        answer: T = await self._hand_over(operation, writes=True)
        return answer

    async def write_behind(self, operation: Operation[T]) -> T:
        """Run like `write`, but later operations of the engine may go first."""
        answer: T = await self._hand_over(operation, writes=True, is_behind=True)
        return answer

    async def close(self) -> None:
        if self._thread is not None and self._pid == os.getpid():
            await self._hand_over(None, writes=False)

    def _hand_over(
        self, operation: Operation[Any] | None, *, writes: bool, is_behind: bool = False
    ) -> asyncio.Future[Any]:
        if self._pid != os.getpid():
            _INHERITED.append(self._connection)  # not even closed: that could remove files that the parent uses
            self._start_anew()
        future = asyncio.get_running_loop().create_future()
        with self._starting:
            self._tasks.put(_Task(operation, writes, future, is_behind))
            if self._thread is None:
                self._thread = Thread(target=self._work, name="hourbell-sqlite", daemon=True)
                self._thread.start()
        return future

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task.operation is not None:
                if not task.future.cancelled():
                    self._run(task, task.operation)
                continue
            self._disconnect()
            task.answer(None)
            with self._starting:
                if not self._tasks:
                    self._thread = None
                    return

    def _run(self, task: _Task, operation: Operation[Any]) -> None:
        with self._connection_lock:
            try:
                with reachable(self._file.path):
                    connection = self._connected()
                    changes = connection.total_changes()
                    answer, wakes = transact(connection, operation, writes=task.writes)
                self._check_file(writes=task.writes)
                if connection.total_changes() != changes:  # a commit of nothing says nothing about the disk
                    self._file.note_write()
            except BaseException as error:
                if task.writes:
                    self._file.note_write(error)
                if isinstance(error, StoreUnavailable):
                    self._drop_connection()
                task.answer(None, error)
                if isinstance(error.__cause__, apsw.BusyError):
                    self._refuse_waiting(error)
                return
            task.answer(answer)
            self.hints.announce(wakes | self._wakes_of_others())
            self._checkpoints.start_if_due()

    def _check_file(self, *, writes: bool) -> None:
        """Raise StoreLost if the file that was just written or read is no longer at its path."""
        now = clock.elapsed()
        if writes or now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            self._file.check(self._files)

    def _refuse_waiting(self, error: BaseException) -> None:
        """Refuse every queued write with the same error; else each would in turn wait for the lock up to the limit."""
        for _ in range(len(self._tasks)):
            task = self._tasks.get()
            if task.writes:
                task.answer(None, error)
            else:
                self._tasks.put(task)

    def _connected(self) -> apsw.Connection:
        self._file.raise_if_lost()
        if self._connection is None:
            self._connection, self._files = self._file.open(Patience(self._random))
            self._checkpoints.watch(self._connection)
            self._seen_version = -1
        return self._connection

    def _wakes_of_others(self) -> set[Wake]:
        """Return every hint if another connection has committed since the last check, or if this one is new."""
        assert self._connection is not None
        try:
            version = self._connection.pragma("data_version")
        except apsw.Error:
            return set()  # the next operation reports the error
        seen, self._seen_version = self._seen_version, version
        return set() if seen == version else set(Wake)

    def _disconnect(self) -> None:
        with self._connection_lock:
            self._drop_connection()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close()

    def before_fork(self) -> None:
        """Wait for the current operation, close the connection and block new ones."""
        self._starting.acquire()
        self._connection_lock.acquire()
        self._checkpoints.running.acquire()
        self._drop_connection()

    def after_fork_in_parent(self) -> None:
        self._checkpoints.running.release()
        self._connection_lock.release()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        self._start_anew()


_LIVE: WeakSet[WriterThread] = WeakSet()
_FORKING: list[WriterThread] = []
_INHERITED: list[object] = []


def _before_fork() -> None:
    _FORKING[:] = _LIVE
    for runner in _FORKING:
        runner.before_fork()


def _after_fork_in_parent() -> None:
    while _FORKING:
        _FORKING.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _FORKING:
        _FORKING.pop().after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
