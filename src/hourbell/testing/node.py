"""One life of a rehearsed node, from start to crash: the real engine on an in-memory database."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from datetime import datetime, timedelta
from uuid import UUID

from tzdata import IANA_VERSION

from hourbell.engine.engine import Engine, EngineSettings
from hourbell.engine.run_events import RunListener
from hourbell.metrics import Metrics
from hourbell.store.errors import StoreUnavailable
from hourbell.store.sqlite.connection import Operation, T
from hourbell.store.sqlite.engine import SqliteEngineStore
from hourbell.store.sqlite.hints import Hints
from hourbell.store.sqlite.writer import InlineExecutor
from hourbell.targets.base import Target
from hourbell.testing.horizon import Work, idle_until, is_done
from hourbell.testing.inline import answer_of
from hourbell.testing.loop import VirtualLoop, is_housekeeping
from hourbell.testing.transactions import Transactions

_FOREVER = timedelta(days=36_500)


class _Connection:
    """The database connection of one node. A crashed node can neither read nor write."""

    poll_seconds = None

    def __init__(self, database: InlineExecutor, transactions: Transactions) -> None:
        self._database = database
        self._transactions = transactions
        self.is_cut = False

    @property
    def hints(self) -> Hints:
        return self._database.hints

    def read(self, operation: Operation[T]) -> Awaitable[T]:
        return self._open().read(operation)

    def write(self, operation: Operation[T]) -> Awaitable[T]:
        return self._open().write(operation)

    async def close(self) -> None: ...

    def _open(self) -> InlineExecutor:
        if self.is_cut:
            raise StoreUnavailable("this node was stopped")
        if self._transactions.has_lock:
            raise StoreUnavailable("a task has the database for itself")
        return self._database


class _Store(SqliteEngineStore):
    """The real store with the time of the test."""

    def __init__(self, connection: _Connection, now: Callable[[], datetime]) -> None:
        super().__init__(connection)
        self._now = now

    async def sample_time(self) -> datetime:
        return self._now()


class Node:
    def __init__(
        self,
        loop: VirtualLoop,
        database: InlineExecutor,
        targets: Sequence[Target],
        *,
        node_id: UUID,
        now: Callable[[], datetime],
        random: Callable[[], float],
        listener: RunListener,
    ) -> None:
        self._loop = loop
        self._now = now
        self._id = node_id
        self._transactions = Transactions(database.path)
        self._connection = _Connection(database, self._transactions)
        self._engine = Engine(
            _Store(self._connection, now),
            targets,
            EngineSettings(retention=_FOREVER, prune_interval=_FOREVER),
            node_id=node_id,
            host="rehearsal",
            tzdata=IANA_VERSION,
            metrics=Metrics(),
            elapsed=loop.time,
            random=random,
            transactions=self._transactions,
            listener=listener,
        )

    def start(self) -> None:
        context = copy_context()
        context.run(is_housekeeping.set, True)
        self._loop.run_until_complete(self._loop.create_task(self._engine.start(), context=context))
        self._loop.idle_until, self._loop.on_jump = self._idle_until, self._engine.pulse.beat

    def crash(self) -> None:
        """Crash like a killed process: cut the database connection and cancel running functions."""
        self._connection.is_cut = True
        self._loop.idle_until = self._loop.on_jump = None
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop._asyncgens_shutdown_called = False  # type: ignore[attr-defined]  # the next node uses the same loop

    @property
    def has_lock(self) -> bool:
        """True while a transaction of one of its functions locks the database."""
        return self._transactions.has_lock

    @property
    def is_quiet(self) -> bool:
        """True if all due work is done and written."""
        if self.has_lock or not self._engine.settler.is_idle:
            return False
        now = self._now()
        return is_done(answer_of(self._connection.read(lambda session: Work.at(session, now, self._id))), now)

    def _idle_until(self) -> float:
        if self.has_lock or not self._engine.settler.is_idle:
            return self._loop.time()
        now = self._now()
        until = answer_of(self._connection.read(lambda session: idle_until(session, now, self._id)))
        return self._loop.time() + (until - now).total_seconds()
