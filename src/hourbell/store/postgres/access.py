"""Who may call, on PostgreSQL."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.store.access import Kept, Token
from hourbell.store.base import Request
from hourbell.store.postgres.auditing import act_once, audit
from hourbell.store.postgres.connections import Connections
from hourbell.store.queries import load_queries
from hourbell.store.rows import Row
from hourbell.store.views import ACCESS_OPEN, SESSION_KEY, expired_text, kept_of, token_of, token_text

SQL = load_queries("hourbell.store.postgres", "access.sql")


class PostgresAccessStore:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def add_token(self, token: Token, digest: bytes, by: str, *, request: Request | None = None) -> None:
        async with self._connections.transaction() as connection:
            await act_once(connection, request, token.created_at)
            times = (token.created_at, token.expires_at, token.last_used_at, token.revoked_at)
            await connection.execute(SQL["insert_token"], token.id, token.name, digest, token.role.value, *times)
            await connection.execute(SQL["forget_meta"], ACCESS_OPEN)
            values = ("token.create", str(token.id), None, token_text(token), request)
            await audit(connection, token.created_at, by, *values)

    async def token_by_digest(self, digest: bytes) -> Token | None:
        row = await self._row("token_by_digest", digest)
        return None if row is None else token_of(row)

    async def token(self, token_id: UUID) -> Token | None:
        row = await self._row("token_by_id", token_id)
        return None if row is None else token_of(row)

    async def tokens(self) -> list[Token]:
        async with self._connections.connection() as connection:
            return [token_of(row) for row in await connection.fetch(SQL["tokens"])]

    async def is_open(self) -> bool:
        row = await self._row("is_open", ACCESS_OPEN)
        return row is not None and bool(row["is_open"])

    async def open_access(self, now: datetime, by: str) -> int:
        async with self._connections.transaction() as connection:
            valid = int(await connection.fetchval(SQL["count_valid_tokens"], now))
            if not valid:
                expired = len(await connection.fetch(SQL["revoke_expired_tokens"], now))
                await connection.execute(SQL["set_meta_once"], ACCESS_OPEN, now.isoformat())
                await audit(connection, now, by, "access.open", "server", None, expired_text(expired), None)
            return valid

    async def revoke_token(self, token_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> bool:
        async with self._connections.transaction() as connection:
            await act_once(connection, request, now)
            row = await connection.fetchrow(SQL["revoke_token"], token_id, now)
            if row is not None:
                values = ("token.revoke", str(token_id), token_text(token_of(row)), None, request)
                await audit(connection, now, by, *values)
                await connection.execute(SQL["forget_meta"], ACCESS_OPEN)
            return row is not None

    async def touch_tokens(self, used: Mapping[UUID, datetime]) -> None:
        async with self._connections.transaction() as connection:
            # In one order, so that nodes which touch the same tokens wait for each other in a line.
            await connection.executemany(SQL["touch_token"], sorted(used.items()))

    async def kept(self, key: str) -> Kept | None:
        row = await self._row("kept", key)
        return None if row is None else kept_of(row)

    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:
        async with self._connections.connection() as connection:
            await connection.execute(SQL["keep_answer"], key, json.dumps(dict(answer)))

    async def forget_kept(self, before: datetime, limit: int) -> int:
        async with self._connections.connection() as connection:
            return len(await connection.fetch(SQL["forget_kept"], before, limit))

    async def session_key(self, fresh: bytes) -> bytes:
        async with self._connections.connection() as connection:
            await connection.execute(SQL["set_meta_once"], SESSION_KEY, fresh.hex())
            return bytes.fromhex(await connection.fetchval(SQL["meta"], SESSION_KEY))

    async def _row(self, name: str, *values: Any) -> Row | None:
        async with self._connections.connection() as connection:
            row: Row | None = await connection.fetchrow(SQL[name], *values)
            return row
