"""The audit chain on SQLite. Hashes are computed by the thread that reads; the one that writes only appends."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from hourbell.core.audit_chain import Link
from hourbell.store.audit_chain import (
    PAGE_BYTES,
    PAGE_ROWS,
    ChainedRow,
    Extend,
    Extended,
    Stray,
    Waiting,
    chained_row,
    change_of,
    link_of,
)
from hourbell.store.queries import load_queries
from hourbell.store.sqlite.connection import Operation, Session, T
from hourbell.store.sqlite.values import array
from hourbell.store.sqlite.writer import Runner

SQL = load_queries("hourbell.store.sqlite", "audit_chain.sql")


class _Reader(Protocol):
    def read(self, operation: Operation[T]) -> Awaitable[T]:
        """Run an operation that changes nothing."""


class SqliteChainReader:
    def __init__(self, reader: _Reader) -> None:
        self._reader = reader

    async def head(self) -> Link | None:
        return await self._reader.read(_head)

    async def page(self, after: int) -> list[ChainedRow]:
        rows = await self._reader.read(lambda session: session.fetch(SQL["page"], after, PAGE_ROWS, PAGE_BYTES))
        return [chained_row(row) for row in rows]

    async def strays(self, after_id: int, limit: int) -> list[Stray]:
        rows = await self._reader.read(lambda session: session.fetch(SQL["strays"], after_id, limit))
        return [Stray(row["audit_id"], row["at"]) for row in rows]

    async def waiting(self) -> Waiting:
        [row] = await self._reader.read(lambda session: session.fetch(SQL["count_waiting"]))
        return Waiting(row["total"], row["oldest_at"])

    async def highest_id(self) -> int:
        [row] = await self._reader.read(lambda session: session.fetch(SQL["highest_id"]))
        highest: int = row["id"]
        return highest


class SqliteAuditChainStore(SqliteChainReader):
    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._runner = runner

    async def extend(self, decide: Extend) -> Extended:
        def read(session: Session) -> tuple[Link | None, bool, Sequence[Link]]:
            head, rows = _head(session), session.fetch(SQL["waiting"], PAGE_ROWS, PAGE_BYTES)
            return head, bool(rows), decide(head, [change_of(row) for row in rows])

        head, has_rows, links = await self._runner.read(read)
        if not links:
            return Extended(head)
        if not await self._runner.write(lambda session: _append(session, links)):
            return Extended(head, is_lost=True, has_more=True)
        return Extended(head, links, has_more=has_rows)


def _head(session: Session) -> Link | None:
    row = session.fetch_one(SQL["head"])
    return None if row is None else link_of(row)


def _append(session: Session, links: Sequence[Link]) -> bool:
    """Append links, unless another process has extended the chain since it was read."""
    if session.fetch(SQL["is_extended"], links[0].position):
        return False
    for link in links:
        session.execute(SQL["append"], *link)
    session.execute(SQL["dequeue"], array(link.audit_id for link in links if link.audit_id is not None))
    return True
