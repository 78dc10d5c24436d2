"""The session cookie: a token id, the start time and id of the session, signed with a key stored in the database.

The cookie grants no right by itself: its token is looked up on every request. The server stores a session only if it
was ended before it expired.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hourbell.ids import new_id

COOKIE = "__Host-hourbell"
LASTS = timedelta(hours=12)
_VALUE = re.compile(r"(([0-9a-f]{32})\.([0-9]{1,12})\.([0-9a-f]{32}))\.([0-9a-f]{64})", re.ASCII)
_LEAST_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """The content of a session cookie. The CSRF token is a second signature of it, which no other site can read."""

    id: UUID
    token_id: UUID
    expires_at: datetime
    csrf_token: str


class SessionCookies:
    def __init__(self, key: bytes, *, now: Callable[[], datetime], new_id: Callable[[], UUID] = new_id) -> None:
        if len(key) < _LEAST_KEY_BYTES:
            raise ValueError(f"a session key has at least {_LEAST_KEY_BYTES} bytes")
        self._key = key
        self._now = now
        self._new_id = new_id

    def issue(self, token_id: UUID) -> tuple[str, Session]:
        """Create a session that begins now; return its cookie value and the session."""
        claim = f"{token_id.hex}.{int(self._now().timestamp())}.{self._new_id().hex}"
        value = f"{claim}.{self._sign('session', claim)}"
        session = self.read(value)
        assert session is not None
        return value, session

    def read(self, value: str) -> Session | None:
        """Verify a cookie value; return its session, or None if the signature is wrong or the session expired."""
        found = _VALUE.fullmatch(value)
        if found is None:
            return None
        claim, token_id, began, session_id, signature = found.groups()
        if not hmac.compare_digest(self._sign("session", claim), signature):
            return None
        expires_at = datetime.fromtimestamp(int(began), UTC) + LASTS
        if self._now() >= expires_at:
            return None
        return Session(UUID(session_id), UUID(token_id), expires_at, self._sign("csrf", claim))

    def _sign(self, purpose: str, claim: str) -> str:
        return hmac.new(self._key, f"{purpose}:{claim}".encode(), hashlib.sha256).hexdigest()
