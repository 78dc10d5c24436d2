"""Tokens, page sessions and idempotency keys of callers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from hourbell.core.access.roles import Role
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import act, audit
from hourbell.store.control.session import Session, Sessions
from hourbell.store.rows import UNREADABLE, Row

ACCESS_OPEN = "access_open"  # key in meta, set by `open_access` until a token is created or revoked
_SESSION_KEY = "session_key"  # key in meta; the value is hexadecimal


@dataclass(frozen=True, slots=True)
class Token:
    """The public data of a token. The token itself is not stored, only its digest."""

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
    """A session that was ended, its token, and the time at which its cookie would have expired."""

    id: UUID
    token_id: UUID
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The request made under an idempotency key, and its answer; None if that was not stored or cannot be read."""

    fingerprint: bytes
    answer: Mapping[str, object] | None


class AccessStore:
    """A change by a user is one transaction and one audit row; a request with a key acts once (see ControlStore)."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def add_token(self, token: Token, digest: bytes, actor: Actor) -> None:
        """Store a token under its digest, and end open access."""

        async def add(session: Session) -> None:
            values = {field.name: getattr(token, field.name) for field in fields(Token)}
            await session.execute("insert_token", **values | {"role": token.role.value, "digest": digest})
            await session.execute("forget_meta", key=ACCESS_OPEN)
            await audit(session, actor, "token.create", token.id, after=_audited(token))

        await act(self._sessions, actor, add)

    async def token_by_digest(self, digest: bytes) -> Token | None:
        """Return the token with this digest, valid or not."""
        return next(map(_token_of, await self._sessions.fetch("token_by_digest", digest=digest)), None)

    async def token(self, token_id: UUID) -> Token | None:
        """Return the token with this id, valid or not."""
        return next(map(_token_of, await self._sessions.fetch("token_by_id", id=token_id)), None)

    async def tokens(self) -> list[Token]:
        """Return all tokens, newest first."""
        return [_token_of(row) for row in await self._sessions.fetch("tokens")]

    async def is_open(self) -> bool:
        """Return True if callers need no token: none was ever made, or `open_access` came after the last change."""
        [row] = await self._sessions.fetch("is_open", key=ACCESS_OPEN)
        return bool(row["is_open"])

    async def open_access(self, actor: Actor) -> int:
        """Allow calls without a token until the next token is created; return the number of valid tokens.

        If a token is still valid, nothing changes. Expired tokens are revoked.
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
        """Revoke a token at once. Return False if it does not exist or was revoked before."""

        async def revoke(session: Session) -> bool:
            row = await session.fetch_one("revoke_token", id=token_id, now=actor.at)
            if row is not None:
                await audit(session, actor, "token.revoke", token_id, before=_audited(_token_of(row)))
                await session.execute("forget_meta", key=ACCESS_OPEN)
            return row is not None

        return await act(self._sessions, actor, revoke)

    async def valid_digests(self, now: datetime, limit: int) -> list[bytes]:
        """Return the digests of up to `limit` valid tokens, newest first."""
        return [bytes(row["digest"]) for row in await self._sessions.fetch("valid_digests", now=now, limit=limit)]

    async def end_session(self, ended: EndedSession, actor: Actor) -> None:
        """Record that a session was ended before it expires. Ending it again changes nothing."""

        async def end(session: Session) -> None:
            if await session.fetch("end_session", id=ended.id, expires_at=ended.expires_at):
                await audit(session, actor, "session.end", ended.token_id)

        await act(self._sessions, actor, end)

    async def is_session_ended(self, session_id: UUID) -> bool:
        """Return True if the session was ended and `forget_sessions` has not deleted the record."""
        return bool(await self._sessions.fetch("ended_session", id=session_id))

    async def forget_sessions(self, now: datetime, limit: int) -> int:
        """Delete up to `limit` records of ended sessions that have expired; return the number deleted."""
        return len(await self._sessions.write("forget_sessions", now=now, limit=limit))

    async def touch_tokens(self, used: Mapping[UUID, datetime]) -> None:
        """Record when tokens were last used. A stored time never moves back, and nothing is audited: no user acted."""
        # One lock order, so that nodes that touch the same tokens cannot deadlock.
        rows = [{"id": token_id, "at": at} for token_id, at in sorted(used.items())]
        await self._sessions.transact(lambda session: session.execute_many("touch_token", rows))

    async def idempotency_record(self, key: str) -> IdempotencyRecord | None:
        """Return the record of the change made under this key, or None."""
        rows = await self._sessions.fetch("idempotency_record", key=key)
        return next((IdempotencyRecord(bytes(row["fingerprint"]), _answer_of(row["answer"])) for row in rows), None)

    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:
        """Store the answer of the change made under this key; the first answer stays."""
        await self._sessions.write("keep_answer", key=key, answer=json.dumps(dict(answer)))

    async def forget_keys(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` keys that were created before `before`; return the number deleted."""
        return len(await self._sessions.write("forget_keys", before=before, limit=limit))

    async def session_key(self, fresh: bytes) -> bytes:
        """Return the key that signs sessions of this database; if there is none yet, store `fresh`."""

        async def settle(session: Session) -> bytes:
            await session.execute("set_meta_once", key=_SESSION_KEY, value=fresh.hex())
            [row] = await session.fetch("meta", key=_SESSION_KEY)
            return bytes.fromhex(row["value"])

        return await self._sessions.transact(settle)


def _token_of(row: Row) -> Token:
    values = {field.name: row[field.name] for field in fields(Token) if field.name != "role"}
    return Token(**values, role=Role(row["role"]))


def _audited(token: Token) -> dict[str, object]:
    """Return the values of a token for the audit; none of them can be used as a credential."""
    expires = None if token.expires_at is None else token.expires_at.isoformat()
    return {"name": token.name, "role": token.role.value, "expires": expires}


def _answer_of(text: str | None) -> Mapping[str, object] | None:
    """Return the stored answer, or None if there is none or it cannot be read."""
    try:
        answer: Mapping[str, object] | None = None if text is None else json.loads(text)
    except UNREADABLE:
        return None
    return answer
