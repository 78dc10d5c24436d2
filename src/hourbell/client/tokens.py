"""Methods of the client for API tokens."""

from datetime import timedelta
from uuid import UUID

from hourbell.answers.server import Token
from hourbell.client.api_client import API, ApiClient, segment
from hourbell.client.pages import Page
from hourbell.client.reading import read
from hourbell.core.access.roles import Role

DEFAULT_EXPIRY = "90d"


class Tokens:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    async def list(self) -> Page[Token]:
        """Return every token, including expired and revoked ones."""
        return Page.of(Token, await self._api.get(f"{API}/tokens"))

    async def create(
        self,
        name: str,
        role: Role | str,
        *,
        expires_in: str | timedelta | None = DEFAULT_EXPIRY,
        idempotency_key: str | None = None,
    ) -> Token:
        """Create a token; only this answer shows it, in `token`. With `expires_in=None` it never expires."""
        body = {"name": name, "role": str(role), "expires_in": expires_in}
        return read(Token, await self._api.post(f"{API}/tokens", body, key=idempotency_key))

    async def revoke(self, token: UUID | str) -> None:
        """Revoke a token: at once on the node that answers, within five seconds on the others."""
        await self._api.delete(f"{API}/tokens/{segment(token)}", may_repeat=True)
