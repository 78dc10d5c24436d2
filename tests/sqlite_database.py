"""SQLite for the tests: a file as several processes share it, or memory as simulation does."""

import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from hourbell.store.alerts.verbs import AlertVerbs
from hourbell.store.alerts.watching import AlertStore
from hourbell.store.control.access import AccessStore
from hourbell.store.control.audit_chain import AuditChainStore
from hourbell.store.control.secrets import SecretStore
from hourbell.store.control.store import ControlStore
from hourbell.store.migrations import Migration
from hourbell.store.sqlite.engine import SqliteEngineStore
from hourbell.store.sqlite.lists import SqliteListStore
from hourbell.store.sqlite.migrate import migrate
from hourbell.store.sqlite.session import SqliteSessions
from hourbell.store.sqlite.values import rows_of
from hourbell.store.sqlite.writer import Executor, InlineExecutor, WriterThread

Row = dict[str, Any]
_JSON = {"target", "payload", "retry", "definition", "result", "phases", "answer", "before", "after"}
_ID = re.compile(r"'([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})'")


class SqliteDatabase:
    def __init__(self, path: str, open_runner: Callable[[], Executor]) -> None:
        self.path = path
        self._open_runner = open_runner
        self._opened: list[Executor] = []
        self.connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        self.connection.set_busy_timeout(10_000)

    @classmethod
    @asynccontextmanager
    async def in_file(cls, *, migrated: bool = True) -> AsyncIterator["SqliteDatabase"]:
        with tempfile.TemporaryDirectory(prefix="hourbell-") as folder:
            path = str(Path(folder, "hourbell.db"))
            async with cls._made(path, WriterThread(path), lambda: WriterThread(path), migrated=migrated) as made:
                yield made

    @classmethod
    @asynccontextmanager
    async def in_memory(cls, *, migrated: bool = True) -> AsyncIterator["SqliteDatabase"]:
        first = InlineExecutor()
        async with cls._made(first.path, first, first.another, migrated=migrated) as made:
            yield made

    @classmethod
    @asynccontextmanager
    async def _made(
        cls, path: str, first: Executor, open_runner: Callable[[], Executor], *, migrated: bool
    ) -> AsyncIterator["SqliteDatabase"]:
        if migrated:
            await _copy_schema(path)
        await first.read(lambda _: None)
        made = cls(path, open_runner)
        try:
            yield made
        finally:
            for each in made._opened:
                await each.close()
            made.connection.close()
            await first.close()

    def runner(self) -> Executor:
        self._opened.append(self._open_runner())
        return self._opened[-1]

    def engine(self) -> SqliteEngineStore:
        return SqliteEngineStore(self.runner())

    def control(self) -> ControlStore:
        return ControlStore(SqliteSessions(self.runner()))

    def secrets(self) -> SecretStore:
        return SecretStore(SqliteSessions(self.runner()))

    def lists(self) -> SqliteListStore:
        return SqliteListStore(self.runner())

    def access(self) -> AccessStore:
        return AccessStore(SqliteSessions(self.runner()))

    def audit_chain(self) -> AuditChainStore:
        return AuditChainStore(SqliteSessions(self.runner()))

    def alerts(self) -> AlertStore:
        return AlertStore(SqliteSessions(self.runner()), public_url="https://hourbell.example")

    def alert_control(self) -> AlertVerbs:
        return AlertVerbs(SqliteSessions(self.runner()))

    async def migrate(self) -> list[Migration]:
        return await migrate(self.runner())

    async def rows(self, table: str, order: str = "1") -> list[Row]:
        cursor = self.connection.execute(f"select * from hourbell_{table} order by {order}")
        found = cursor.fetchall()
        names = [column[1] for column in self.connection.execute(f"pragma table_info(hourbell_{table})")]
        return [
            {name: json.loads(value) if name in _JSON and value else value for name, value in row.items()}
            for row in rows_of(names, found)
        ]

    async def sql(self, statement: str) -> None:
        self.connection.execute(_ID.sub(r"x'\1\2\3\4\5'", statement).replace("hourbell.", "hourbell_")).fetchall()

    async def set_clock(self, moment: datetime) -> None:
        """SQLite lets a connection replace the function that its triggers read the time by."""
        days = 2440587.5 + round(moment.timestamp() * 1_000) / 86_400_000
        self.connection.create_scalar_function("julianday", lambda _: days, 1)


_templates: list[apsw.Connection] = []


async def _copy_schema(path: str) -> None:
    """Give an empty database today's schema, copied from one that was migrated once in this process."""
    if not _templates:
        runner = InlineExecutor()
        await migrate(runner)
        _templates.append(apsw.Connection(runner.path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI))
        await runner.close()
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(path, flags=flags)) as copy, copy.backup("main", _templates[0], "main") as backup:
        backup.step()
