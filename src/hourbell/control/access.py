"""Who may call: tokens are made, told once, looked up and revoked. Of a token only its digest is kept.

What the database said is believed for five seconds at most, so that a token that is revoked anywhere stops working
everywhere within them.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from hourbell.core.roles import Role
from hourbell.core.token_text import RANDOM_BYTES, digest_of, is_token_text, token_text
from hourbell.sealing import Plain
from hourbell.settings import Address
from hourbell.store.access import AccessStore, Token
from hourbell.store.base import Conflict, Request, StoreUnavailable

K = TypeVar("K")
V = TypeVar("V")

EXPIRES_IN = timedelta(days=90)
_LONGEST = timedelta(days=3_650)
_BELIEVED_SECONDS = 5.0
_NOTED_SECONDS = 60.0
_MOST_VALID, _MOST_WRONG = 10_000, 10_000
_LONGEST_NAME = 100


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
        self._by_digest: _Believed[bytes, Token] = _Believed(elapsed, _MOST_VALID)
        self._by_id: _Believed[UUID, Token] = _Believed(elapsed, _MOST_VALID)
        self._wrong: _Believed[bytes, bool] = _Believed(elapsed, _MOST_WRONG)  # apart: they push out no valid one
        self._open: _Believed[None, bool] = _Believed(elapsed, 1)
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
        request: Request | None = None,
    ) -> tuple[Token, Plain]:
        """Make a token; its text is told here and never again. A ValueError says what cannot be used."""
        check_token(name, expires_in)
        now, text = self._now(), Plain(token_text(self._random_bytes(RANDOM_BYTES)))
        token = Token(self._new_id(), name.strip(), role, now, now + expires_in if expires_in else None)
        await self._store.add_token(token, digest_of(text.reveal()), by, request=request)
        self._open.forget()
        return token, text

    async def list(self) -> list[Token]:
        """All tokens, also those that are not valid, the newest first."""
        return await self._store.tokens()

    async def revoke(self, token_id: UUID, by: str, *, request: Request | None = None) -> None:
        """End a token: at once in this process, within five seconds in others. `Conflict` if it has none such."""
        if not await self._store.revoke_token(token_id, self._now(), by, request=request):
            raise Conflict("no_such_token", f"there is no token {token_id} that is not revoked")
        self._by_digest.forget()
        self._by_id.forget()
        self._open.forget()

    async def authenticate(self, text: str) -> Token | None:
        """The valid token of that text. Every wrong one takes the same way, so that time tells nothing apart."""
        if not is_token_text(text):
            return None
        digest = digest_of(text)
        found = self._by_digest.get(digest)
        if found is None and self._wrong.get(digest) is None:
            asked_at = self._elapsed()
            found = await self._store.token_by_digest(digest)
            if found is None:
                self._wrong.put(digest, True, asked_at)
            else:
                self._by_digest.put(digest, found, asked_at)
        return await self._valid(found)

    async def session_token(self, token_id: UUID) -> Token | None:
        """The valid token of that id."""
        found = self._by_id.get(token_id)
        if found is None:
            asked_at = self._elapsed()
            found = await self._store.token(token_id)
            if found is not None:
                self._by_id.put(token_id, found, asked_at)
        return await self._valid(found)

    async def is_open(self) -> bool:
        """Whether nobody needs a token.

        The first token closes the server for good: neither its end nor that of the last one opens it, only `open`.
        """
        known = self._open.get(None)
        if known is None:
            asked_at = self._elapsed()
            known = await self._store.is_open()
            if not known:  # that it is open is never believed: the first token closes it at once
                self._open.put(None, known, asked_at)
        return known

    async def open(self, by: str) -> None:
        """Let everybody on the server's machine in without a token, until the next one is made.

        Servers follow within five seconds. `Conflict` while a token is valid.
        """
        if valid := await self._store.open_access(self._now(), by):
            tokens = "a token is" if valid == 1 else f"{valid} tokens are"
            raise Conflict("tokens_valid", f"{tokens} still valid; revoke them first, see hourbell token list")
        self._open.forget()

    async def flush(self) -> None:
        """Note when tokens were last used: each at most once a minute."""
        self._flushed_at = self._elapsed()
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._store.touch_tokens(used)
        except StoreUnavailable:
            self._used = used | self._used  # for the next time
            raise
        self._noted.update(dict.fromkeys(used, self._flushed_at))

    async def _valid(self, token: Token | None) -> Token | None:
        now = self._now()
        if token is None or not token.is_valid(now):
            return None
        if self._elapsed() - self._noted.get(token.id, -_NOTED_SECONDS) >= _NOTED_SECONDS:
            self._used[token.id] = now
        if self._elapsed() - self._flushed_at >= _NOTED_SECONDS:
            with contextlib.suppress(StoreUnavailable):  # nobody is kept out because a note cannot be made
                await self.flush()
        return token


def check_token(name: str, expires_in: timedelta | None) -> None:
    """Raise a ValueError that says what of a new token cannot be used."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"write a name of 1 to {_LONGEST_NAME} printable characters")
    if expires_in is not None and not timedelta(0) < expires_in <= _LONGEST:
        raise ValueError(f"a token is valid for up to {_LONGEST.days}d, or never expires")


def refuse_to_listen(address: Address, is_open: bool) -> str | None:
    """Why a server must not listen there, with what to do; None if it may."""
    if address.is_loopback or not is_open:
        return None
    return (
        f"refusing to listen on {address}: there is no token yet, so that anybody who reaches it could run anything; "
        "make one with `hourbell token create admin --role admin` (with the same DATABASE_URL) and start again, "
        "or listen on this machine alone with HTTP_ADDR=127.0.0.1:8080"
    )


class _Believed(Generic[K, V]):
    """Answers of the database that are fresh enough, the most recent ones."""

    def __init__(self, elapsed: Callable[[], float], most: int) -> None:
        self._elapsed = elapsed
        self._most = most
        self._answers: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        answer, asked_at = self._answers.get(key, (None, 0.0))
        return answer if self._elapsed() - asked_at < _BELIEVED_SECONDS else None

    def put(self, key: K, answer: V, asked_at: float) -> None:
        """Believe an answer from the moment it was asked for: a change may have come while it was on its way."""
        self._answers[key] = (answer, asked_at)
        self._answers.move_to_end(key)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)

    def forget(self) -> None:
        self._answers.clear()
