"""Who may call, on SQLite."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.store.access import Kept, Token
from hourbell.store.base import Request
from hourbell.store.queries import load_queries
from hourbell.store.rows import Row
from hourbell.store.sqlite.auditing import act_once, audit
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import Runner
from hourbell.store.views import ACCESS_OPEN, SESSION_KEY, expired_text, kept_of, token_of, token_text

SQL = load_queries("hourbell.store.sqlite", "access.sql")


class SqliteAccessStore:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def add_token(self, token: Token, digest: bytes, by: str, *, request: Request | None = None) -> None:
        def add(session: Session) -> None:
            act_once(session, request, token.created_at)
            times = (token.created_at, token.expires_at, token.last_used_at, token.revoked_at)
            session.execute(SQL["insert_token"], token.id, token.name, digest, token.role.value, *times)
            session.execute(SQL["forget_meta"], ACCESS_OPEN)
            values = ("token.create", str(token.id), None, token_text(token), request)
            audit(session, token.created_at, by, *values)

        await self._runner.write(add)

    async def token_by_digest(self, digest: bytes) -> Token | None:
        row = await self._row("token_by_digest", digest)
        return None if row is None else token_of(row)

    async def token(self, token_id: UUID) -> Token | None:
        row = await self._row("token_by_id", token_id)
        return None if row is None else token_of(row)

    async def tokens(self) -> list[Token]:
        return [token_of(row) for row in await self._runner.read(lambda session: session.fetch(SQL["tokens"]))]

    async def is_open(self) -> bool:
        row = await self._row("is_open", ACCESS_OPEN)
        return row is not None and bool(row["is_open"])

    async def open_access(self, now: datetime, by: str) -> int:
        def open_it(session: Session) -> int:
            [row] = session.fetch(SQL["count_valid_tokens"], now)
            valid = int(row["valid"])
            if not valid:
                expired = session.execute(SQL["revoke_expired_tokens"], now)
                session.execute(SQL["set_meta_once"], ACCESS_OPEN, now.isoformat())
                audit(session, now, by, "access.open", "server", None, expired_text(expired), None)
            return valid

        return await self._runner.write(open_it)

    async def revoke_token(self, token_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> bool:
        def revoke(session: Session) -> bool:
            act_once(session, request, now)
            row = session.fetch_one(SQL["revoke_token"], token_id, now)
            if row is not None:
                values = ("token.revoke", str(token_id), token_text(token_of(row)), None, request)
                audit(session, now, by, *values)
                session.execute(SQL["forget_meta"], ACCESS_OPEN)
            return row is not None

        return await self._runner.write(revoke)

    async def touch_tokens(self, used: Mapping[UUID, datetime]) -> None:
        def touch(session: Session) -> None:
            for token_id, at in used.items():
                session.execute(SQL["touch_token"], token_id, at)

        await self._runner.write(touch)

    async def kept(self, key: str) -> Kept | None:
        row = await self._row("kept", key)
        return None if row is None else kept_of(row)

    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:
        text = json.dumps(dict(answer))
        await self._runner.write(lambda session: session.execute(SQL["keep_answer"], key, text))

    async def forget_kept(self, before: datetime, limit: int) -> int:
        return len(await self._runner.write(lambda session: session.fetch(SQL["forget_kept"], before, limit)))

    async def session_key(self, fresh: bytes) -> bytes:
        def settle(session: Session) -> bytes:
            session.execute(SQL["set_meta_once"], SESSION_KEY, fresh.hex())
            [row] = session.fetch(SQL["meta"], SESSION_KEY)
            return bytes.fromhex(row["value"])

        return await self._runner.write(settle)

    async def _row(self, name: str, *values: Any) -> Row | None:
        return await self._runner.read(lambda session: session.fetch_one(SQL[name], *values))
