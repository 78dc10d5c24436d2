"""Callers: their tokens, their sessions of the page, and their idempotency keys."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from hourbell.core.access.roles import Role
from hourbell.store.actor import Actor
from hourbell.store.auditing import act, audit
from hourbell.store.rows import UNREADABLE, Row
from hourbell.store.session import Session, Sessions

ACCESS_OPEN = "access_open"  # in meta while somebody has opened a server whose tokens are all revoked
_SESSION_KEY = "session_key"  # in meta, as hexadecimal text


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it may be shown. The token itself is kept nowhere, only its digest."""

    id: UUID
    name: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session of a token that is over, and when its cookie would have expired."""

    id: UUID
    token_id: UUID
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The request that was made under an idempotency key, and its answer; None if that was not kept."""

    fingerprint: bytes
    answer: Mapping[str, object] | None


class AccessStore:
    """Each change is one transaction with one row in the audit; a request with a key acts once as in ControlStore."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def add_token(self, token: Token, digest: bytes, actor: Actor) -> None:
        """Keep a token, known by its digest."""

        async def add(session: Session) -> None:
            values = {field.name: getattr(token, field.name) for field in fields(Token)}
            await session.execute("insert_token", **values | {"role": token.role.value, "digest": digest})
            await session.execute("forget_meta", key=ACCESS_OPEN)
            await audit(session, actor, "token.create", token.id, after=_audited(token))

        await act(self._sessions, actor, add)

    async def token_by_digest(self, digest: bytes) -> Token | None:
        """The token of that digest, also if it is not valid."""
        return next(map(_token_of, await self._sessions.fetch("token_by_digest", digest=digest)), None)

    async def token(self, token_id: UUID) -> Token | None:
        """The token of that id, also if it is not valid."""
        return next(map(_token_of, await self._sessions.fetch("token_by_id", id=token_id)), None)

    async def tokens(self) -> list[Token]:
        """All tokens, the newest first."""
        return [_token_of(row) for row in await self._sessions.fetch("tokens")]

    async def is_open(self) -> bool:
        """Tell if callers need no token: none was ever made, or `open_access` came after the last change of one."""
        [row] = await self._sessions.fetch("is_open", key=ACCESS_OPEN)
        return bool(row["is_open"])

    async def open_access(self, actor: Actor) -> int:
        """Let callers in without a token until the next one is made; how many tokens are still valid.

        Nothing is changed while one is. Tokens that have expired are revoked.
        """

        async def open_it(session: Session) -> int:
            [row] = await session.fetch("count_valid_tokens", now=actor.at)
            if not row["valid"]:
                expired = await session.execute("revoke_expired_tokens", now=actor.at)
                await session.execute("set_meta_once", key=ACCESS_OPEN, value=actor.at.isoformat())
                await audit(session, actor, "access.open", "server", after={"expired_tokens_revoked": expired})
            return int(row["valid"])

        return await act(self._sessions, actor, open_it)

    async def revoke_token(self, token_id: UUID, actor: Actor) -> bool:
        """End a token at once. False if there is none such, or it was revoked before."""

        async def revoke(session: Session) -> bool:
            row = await session.fetch_one("revoke_token", id=token_id, now=actor.at)
            if row is not None:
                await audit(session, actor, "token.revoke", token_id, before=_audited(_token_of(row)))
                await session.execute("forget_meta", key=ACCESS_OPEN)
            return row is not None

        return await act(self._sessions, actor, revoke)

    async def valid_digests(self, now: datetime, limit: int) -> list[bytes]:
        """The digests of valid tokens, the newest first."""
        return [bytes(row["digest"]) for row in await self._sessions.fetch("valid_digests", now=now, limit=limit)]

    async def end_session(self, ended: EndedSession, actor: Actor) -> None:
        """Keep that a session was ended before it expires. Ending it again changes nothing."""

        async def end(session: Session) -> None:
            if await session.fetch("end_session", id=ended.id, expires_at=ended.expires_at):
                await audit(session, actor, "session.end", ended.token_id)

        await act(self._sessions, actor, end)

    async def is_session_ended(self, session_id: UUID) -> bool:
        """Tell if a session was ended, as far as that is not forgotten."""
        return bool(await self._sessions.fetch("ended_session", id=session_id))

    async def forget_sessions(self, now: datetime, limit: int) -> int:
        """Forget ended sessions that have expired; how many."""
        return len(await self._sessions.write("forget_sessions", now=now, limit=limit))

    async def touch_tokens(self, used: Mapping[UUID, datetime]) -> None:
        """Note when tokens were last used; never earlier than noted. Not a change that anybody made: no audit."""
        # In one order, so that nodes which touch the same tokens wait for each other in a line.
        rows = [{"id": token_id, "at": at} for token_id, at in sorted(used.items())]
        await self._sessions.transact(lambda session: session.execute_many("touch_token", rows))

    async def idempotency_record(self, key: str) -> IdempotencyRecord | None:
        """The record of a change that was made under that key."""
        rows = await self._sessions.fetch("idempotency_record", key=key)
        return next((IdempotencyRecord(bytes(row["fingerprint"]), _answer_of(row["answer"])) for row in rows), None)

    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:
        """Keep the answer of a change that was made under that key; the first one stays."""
        await self._sessions.write("keep_answer", key=key, answer=json.dumps(dict(answer)))

    async def forget_keys(self, before: datetime, limit: int) -> int:
        """Forget keys older than that; how many."""
        return len(await self._sessions.write("forget_keys", before=before, limit=limit))

    async def session_key(self, fresh: bytes) -> bytes:
        """The key of this database that signs sessions: the one kept, or else this one from now on."""

        async def settle(session: Session) -> bytes:
            await session.execute("set_meta_once", key=_SESSION_KEY, value=fresh.hex())
            [row] = await session.fetch("meta", key=_SESSION_KEY)
            return bytes.fromhex(row["value"])

        return await self._sessions.transact(settle)


def _token_of(row: Row) -> Token:
    values = {field.name: row[field.name] for field in fields(Token) if field.name != "role"}
    return Token(**values, role=Role(row["role"]))


def _audited(token: Token) -> dict[str, object]:
    """The values of a token for the audit: nothing that could be used in its place."""
    expires = None if token.expires_at is None else token.expires_at.isoformat()
    return {"name": token.name, "role": token.role.value, "expires": expires}


def _answer_of(text: str | None) -> Mapping[str, object] | None:
    """The answer, or None where it cannot be read any more."""
    try:
        answer: Mapping[str, object] | None = None if text is None else json.loads(text)
    except UNREADABLE:
        return None
    return answer
