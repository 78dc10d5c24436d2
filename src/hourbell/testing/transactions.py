"""`run.transaction()` without a thread: each statement runs at once, on a separate connection.

While a transaction is open, nothing else can use the in-memory database. The engine does not block: it gets
StoreUnavailable and retries later. After five virtual seconds the transaction is rolled back.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from hourbell.store.base import LeaseKey, OpenTransaction, SettledAttempt
from hourbell.store.sqlite.connection import Operation, Patience, Session, T, open_connection
from hourbell.store.sqlite.settling import write_settlements
from hourbell.store.sqlite.task_connection import TaskConnection
from hourbell.store.sqlite.transactions import MAX_TRANSACTION_SECONDS, TooLong


class Transactions:
    def __init__(self, path: str) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self._open: _Conversation | None = None

    @property
    def has_lock(self) -> bool:
        """True while the transaction of a task locks the database."""
        return self._open is not None and self._open.has_begun

    @asynccontextmanager
    async def transaction(self, held: LeaseKey) -> AsyncIterator[OpenTransaction]:  # noqa: ARG002 - settlements name it
        async with self._turn:
            connection = open_connection(self._path, Patience(Random(0), limit=0.0))
            conversation = self._open = _Conversation(Session(connection))
            try:
                yield _Opened(TaskConnection(conversation.ask), conversation)
                conversation.commit()
            finally:
                conversation.roll_back()
                connection.close()
                self._open = None

    async def check(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Conversation:
    session: Session
    limit: asyncio.TimerHandle | None = None
    is_over: bool = False

    @property
    def has_begun(self) -> bool:
        return self.limit is not None

    async def ask(self, operation: Operation[T]) -> T:
        self._check()
        if self.limit is None:
            self.session.script("begin immediate")
            self.limit = asyncio.get_running_loop().call_later(MAX_TRANSACTION_SECONDS, self._give_up)
        return operation(self.session)

    def commit(self) -> None:
        self._check()
        self._end("commit")

    def roll_back(self) -> None:
        self._end("rollback")

    def _check(self) -> None:
        if self.is_over:
            raise TooLong

    def _give_up(self) -> None:
        self._end("rollback")
        self.is_over = True

    def _end(self, how: str) -> None:
        if self.limit is not None:
            self.limit.cancel()
            self.limit = None
            self.session.script(how)


@dataclass(frozen=True, slots=True)
class _Opened:
    connection: TaskConnection
    conversation: _Conversation

    async def settle(self, settled: SettledAttempt) -> bool:
        unwritten = await self.conversation.ask(lambda session: write_settlements(session, [settled]))
        return not unwritten
