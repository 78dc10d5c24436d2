"""What is asked of a store about those who call: their tokens, and what they asked for under a key."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from hourbell.core.roles import Role
from hourbell.store.base import Request


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
class Kept:
    """What was asked for under a key, and what was answered; None if the answer was not kept."""

    fingerprint: bytes
    answer: Mapping[str, object] | None


class AccessStore(Protocol):
    """Each change is one transaction with one row in the audit; a `request` with a key acts once as in ControlStore."""

    async def add_token(self, token: Token, digest: bytes, by: str, *, request: Request | None = None) -> None:
        """Keep a token, known by its digest."""

    async def token_by_digest(self, digest: bytes) -> Token | None:
        """The token of that digest, also if it is not valid."""

    async def token(self, token_id: UUID) -> Token | None:
        """The token of that id, also if it is not valid."""

    async def tokens(self) -> list[Token]:
        """All tokens, the newest first."""

    async def is_open(self) -> bool:
        """Whether callers need no token: none was ever made, or `open_access` came after the last change of one."""

    async def open_access(self, now: datetime, by: str) -> int:
        """Let callers in without a token until the next one is made; how many tokens are still valid.

        Nothing is changed while one is. Tokens that have expired are revoked.
        """

    async def revoke_token(self, token_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> bool:
        """End a token at once. False if there is none such, or it was revoked before."""

    async def touch_tokens(self, used: Mapping[UUID, datetime]) -> None:
        """Note when tokens were last used; never earlier than noted. Not a change that anybody made: no audit."""

    async def kept(self, key: str) -> Kept | None:
        """What was asked for under a key."""

    async def keep_answer(self, key: str, answer: Mapping[str, object]) -> None:
        """Keep the answer of a change that was made under that key; the first one stays."""

    async def forget_kept(self, before: datetime, limit: int) -> int:
        """Forget keys older than that; how many."""

    async def session_key(self, fresh: bytes) -> bytes:
        """The key of this database that signs sessions: the one kept, or else this one from now on."""
