"""API tokens and sessions: create, authenticate and revoke. Only the digest of a token is stored.

Results of the database are cached for at most five seconds, so that a token that is revoked on one node stops working
on every node within that time.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Literal, TypeVar
from uuid import UUID

from hourbell.core.access.roles import Role
from hourbell.core.access.token_text import RANDOM_BYTES, digest_of, is_token_text, token_text
from hourbell.sealing import Plain
from hourbell.settings import Address
from hourbell.store.control.access import AccessStore, EndedSession, IdempotencyRecord, Token
from hourbell.store.control.actor import NO_REQUEST, Actor, Request
from hourbell.store.errors import Conflict, StoreUnavailable

K = TypeVar("K")
V = TypeVar("V")

EXPIRES_IN = timedelta(days=90)
_MAX_EXPIRY = timedelta(days=3_650)
_BELIEVED_SECONDS = 5.0
_NOTED_SECONDS = 60.0
_MAX_VALID_TOKENS, _MAX_WRONG_TOKENS = 10_000, 10_000
_MAX_GOOD_TOKENS, _GOOD_SECONDS = 10_000, 1.0
_MAX_NAME_CHARACTERS = 100


class TooManyUnknown(Exception):
    """Too many unknown tokens from one address; the token is not looked up for `wait` seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__(f"unknown tokens are not looked up for {wait:g} s")
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a token was refused, for the log, and the id of the token if known."""

    reason: Literal["missing", "malformed", "unknown", "expired", "revoked", "session_ended"]
    token_id: UUID | None = None


class Access:
    def __init__(
        self,
        store: AccessStore,
        *,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
        random_bytes: Callable[[int], bytes],
        elapsed: Callable[[], float],
    ) -> None:
        self._store = store
        self._now = now
        self._new_id = new_id
        self._random_bytes = random_bytes
        self._elapsed = elapsed
        self._by_digest: _Believed[bytes, Token] = _Believed(elapsed, _MAX_VALID_TOKENS)
        self._by_id: _Believed[UUID, Token] = _Believed(elapsed, _MAX_VALID_TOKENS)
        self._wrong: _Believed[bytes, bool] = _Believed(
            elapsed, _MAX_WRONG_TOKENS
        )  # separate: they must evict no valid one
        self._open: _Believed[None, bool] = _Believed(elapsed, 1)
        self._good: frozenset[bytes] = frozenset()  # digests of valid tokens as of `_good_at`
        self._good_at = -_GOOD_SECONDS
        self._good_lock = asyncio.Lock()
        self._used: dict[UUID, datetime] = {}
        self._noted: dict[UUID, float] = {}
        self._flushed_at = elapsed()

    async def create(
        self,
        name: str,
        role: Role,
        by: str,
        *,
        expires_in: timedelta | None = EXPIRES_IN,
        request: Request = NO_REQUEST,
    ) -> tuple[Token, Plain]:
        """Create a token; return it with its text, which is not stored. Raise ValueError for a bad name or expiry."""
        check_token(name, expires_in)
        now, text = self._now(), Plain(token_text(self._random_bytes(RANDOM_BYTES)))
        token = Token(self._new_id(), name.strip(), role, now, now + expires_in if expires_in else None)
        await self._store.add_token(token, digest_of(text.reveal()), Actor(by, token.created_at, request))
        self._open.forget()
        return token, text

    async def list(self) -> list[Token]:
        """Return all tokens, including expired and revoked ones, newest first."""
        return await self._store.tokens()

    async def revoke(self, token_id: UUID, by: str, *, request: Request = NO_REQUEST) -> None:
        """Revoke a token: at once in this process, within five seconds in others. Raise Conflict if there is none."""
        if not await self._store.revoke_token(token_id, Actor(by, self._now(), request)):
            raise Conflict("no_such_token", f"there is no token {token_id} that is not revoked")
        self._by_digest.forget()
        self._by_id.forget()
        self._open.forget()

    async def authenticate(self, text: str, *, delay: Callable[[], float] = lambda: 0.0) -> Token | None:
        """Return the valid token of a text, or None. All wrong tokens take the same path (no timing side channel).

        `delay` is called before a token that is not cached is looked up. If it returns seconds other than 0, the token
        is not looked up and TooManyUnknown is raised, unless its digest is that of a valid token.
        """
        if not is_token_text(text):
            return None
        digest = digest_of(text)
        found = self._by_digest.get(digest)
        if found is None and self._wrong.get(digest) is None:
            if digest not in self._good and (wait := delay()) and not await self._is_good(digest):
                raise TooManyUnknown(wait)
            asked_at = self._elapsed()
            found = await self._store.token_by_digest(digest)
            if found is None:
                self._wrong.put(digest, True, asked_at)
            else:
                self._by_digest.put(digest, found, asked_at)
        return await self._valid(found)

    def refusal(self, text: str) -> Refusal:
        """Return the reason why a token text was just refused."""
        if not is_token_text(text):
            return Refusal("malformed")
        return self._refusal(self._by_digest.get(digest_of(text)))

    def session_refusal(self, token_id: UUID) -> Refusal:
        """Return the reason why a session of that token was just refused."""
        return self._refusal(self._by_id.get(token_id))

    async def session_token(self, token_id: UUID) -> Token | None:
        """Return the valid token of that id, or None."""
        found = self._by_id.get(token_id)
        if found is None:
            asked_at = self._elapsed()
            found = await self._store.token(token_id)
            if found is not None:
                self._by_id.put(token_id, found, asked_at)
        return await self._valid(found)

    async def end_session(
        self, session_id: UUID, token_id: UUID, expires_at: datetime, by: str, *, request: Request = NO_REQUEST
    ) -> None:
        """End a session at once, on every node."""
        ended = EndedSession(session_id, token_id, expires_at)
        await self._store.end_session(ended, Actor(by, self._now(), request))

    async def is_session_ended(self, session_id: UUID) -> bool:
        """Return True if a session was ended. The result is not cached, so that ending a session acts at once."""
        return await self._store.is_session_ended(session_id)

    async def is_open(self) -> bool:
        """Return True if no token is needed.

        The first token closes the server permanently: revoking all tokens does not reopen it, only `open` does.
        """
        known = self._open.get(None)
        if known is None:
            asked_at = self._elapsed()
            known = await self._store.is_open()
            if not known:  # True is never cached: the first token closes the server at once
                self._open.put(None, known, asked_at)
        return known

    async def open(self, by: str) -> None:
        """Admit every program on the server's machine without a token, until the next token is created.

        Servers apply it within five seconds. Raise Conflict while a token is valid.
        """
        if valid := await self._store.open_access(Actor(by, self._now())):
            tokens = "a token is" if valid == 1 else f"{valid} tokens are"
            raise Conflict("tokens_valid", f"{tokens} still valid; revoke them first, see hourbell token list")
        self._open.forget()

    async def idempotency_record(self, key: str) -> IdempotencyRecord | None:
        """Return the record of a change that was made under that idempotency key, or None."""
        return await self._store.idempotency_record(key)

    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:
        """Store the response of a change that was made under that key; the first one stays."""
        await self._store.keep_answer(key, answer)

    async def flush(self) -> None:
        """Write the last use of tokens to the database, at most once a minute per token."""
        self._flushed_at = self._elapsed()
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._store.touch_tokens(used)
        except StoreUnavailable:
            self._used = used | self._used  # written by the next flush
            raise
        self._noted.update(dict.fromkeys(used, self._flushed_at))

    async def _is_good(self, digest: bytes) -> bool:
        """Return True if a valid token has that digest. All digests are read together, at most once a second."""
        async with self._good_lock:
            if self._elapsed() - self._good_at >= _GOOD_SECONDS:
                self._good_at = self._elapsed()
                self._good = frozenset(await self._store.valid_digests(self._now(), _MAX_GOOD_TOKENS))
        return digest in self._good

    def _refusal(self, token: Token | None) -> Refusal:
        if token is None:
            return Refusal("unknown")
        if token.is_valid(self._now()):
            return Refusal("session_ended", token.id)
        return Refusal("revoked" if token.revoked_at is not None else "expired", token.id)

    async def _valid(self, token: Token | None) -> Token | None:
        now = self._now()
        if token is None or not token.is_valid(now):
            return None
        if self._elapsed() - self._noted.get(token.id, -_NOTED_SECONDS) >= _NOTED_SECONDS:
            self._used[token.id] = now
        if self._elapsed() - self._flushed_at >= _NOTED_SECONDS:
            with contextlib.suppress(StoreUnavailable):  # a failed write of the last use must not refuse a valid token
                await self.flush()
        return token


def check_token(name: str, expires_in: timedelta | None) -> None:
    """Raise ValueError if the name or the expiry of a new token is invalid."""
    if not name.strip() or len(name) > _MAX_NAME_CHARACTERS or not name.isprintable():
        raise ValueError(f"write a name of 1 to {_MAX_NAME_CHARACTERS} printable characters")
    if expires_in is not None and not timedelta(0) < expires_in <= _MAX_EXPIRY:
        raise ValueError(f"a token is valid for up to {_MAX_EXPIRY.days}d, or never expires")


def refuse_to_listen(address: Address, is_open: bool) -> str | None:
    """Return why a server must not listen on an address, with what to do; None if it may."""
    if address.is_loopback or not is_open:
        return None
    return (
        f"refusing to listen on {address}: there is no token yet, so that anybody who reaches it could run anything; "
        "make one with `hourbell token create admin --role admin` (with the same DATABASE_URL) and start again, "
        "or listen on this machine alone with HTTP_ADDR=127.0.0.1:8080"
    )


class _Believed(Generic[K, V]):
    """A bounded cache of database results that are at most five seconds old."""

    def __init__(self, elapsed: Callable[[], float], limit: int) -> None:
        self._elapsed = elapsed
        self._max_items = limit
        self._answers: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        answer, asked_at = self._answers.get(key, (None, 0.0))
        return answer if self._elapsed() - asked_at < _BELIEVED_SECONDS else None

    def put(self, key: K, answer: V, asked_at: float) -> None:
        """Cache a result as of the time of its query: the data may have changed while the query ran."""
        self._answers[key] = (answer, asked_at)
        self._answers.move_to_end(key)
        if len(self._answers) > self._max_items:
            self._answers.popitem(last=False)

    def forget(self) -> None:
        self._answers.clear()
