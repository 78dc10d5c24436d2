"""The audit chain on PostgreSQL."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

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
from hourbell.store.postgres.connections import Connections
from hourbell.store.queries import load_queries

SQL = load_queries("hourbell.store.postgres", "audit_chain.sql")


class _OtherNodeWasFaster(Exception):
    """A position or a row is taken already; the transaction must be rolled back."""


class PostgresChainReader:
    def __init__(self, connection: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._connection = connection

    async def head(self) -> Link | None:
        async with self._connection() as connection:
            row = await connection.fetchrow(SQL["head"])
        return None if row is None else link_of(row)

    async def page(self, after: int) -> list[ChainedRow]:
        async with self._connection() as connection:
            return [chained_row(row) for row in await connection.fetch(SQL["page"], after, PAGE_ROWS, PAGE_BYTES)]

    async def strays(self, after_id: int, limit: int) -> list[Stray]:
        async with self._connection() as connection:
            return [Stray(*row) for row in await connection.fetch(SQL["strays"], after_id, limit)]

    async def waiting(self) -> Waiting:
        async with self._connection() as connection:
            return Waiting(*await connection.fetchrow(SQL["count_waiting"]))

    async def highest_id(self) -> int:
        async with self._connection() as connection:
            highest: int = await connection.fetchval(SQL["highest_id"])
            return highest


class PostgresAuditChainStore(PostgresChainReader):
    def __init__(self, connections: Connections) -> None:
        super().__init__(connections.connection)
        self._connections = connections

    async def extend(self, decide: Extend) -> Extended:
        async with self._connections.connection() as connection:
            newest = await connection.fetchrow(SQL["head"])
            rows = await connection.fetch(SQL["waiting"], PAGE_ROWS, PAGE_BYTES)
            head = None if newest is None else link_of(newest)
            links = decide(head, [change_of(row) for row in rows])
            if not links:
                return Extended(head)
            try:
                async with connection.transaction():
                    await _append(connection, links)
            except _OtherNodeWasFaster:
                return Extended(head, is_lost=True, has_more=True)
        return Extended(head, links, has_more=bool(rows))


async def _append(connection: Any, links: Any) -> None:
    appended = await connection.fetch(SQL["append"], *(list(column) for column in zip(*links, strict=True)))
    if len(appended) < len(links):
        raise _OtherNodeWasFaster
    await connection.execute(SQL["dequeue"], [link.audit_id for link in links if link.audit_id is not None])
