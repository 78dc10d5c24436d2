"""The actor of a change: a name, a time and a request."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Request:
    """The call behind a change: the values that the audit stores, and the idempotency key."""

    id: str | None = None
    token_id: UUID | None = None
    ip: str | None = None
    key: str | None = None  # made from the caller, the endpoint and the caller's key
    fingerprint: bytes = b""  # hash of the request's content
    key_milliseconds: int | None = None  # Unix time at the start of the caller's key, if it has one
    is_known: bool = False  # the same request was made under this key, and its answer is lost

    @property
    def is_fresh(self) -> bool:
        """Return True if it has a key that was not used before, as far as keys are remembered."""
        return self.key is not None and not self.is_known


NO_REQUEST = Request()


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change, its time and its request. A request with a key acts once."""

    by: str
    at: datetime
    request: Request = NO_REQUEST

    def without_key(self) -> "Actor":
        """Return the actor for one of many changes, none of which takes the key of the request."""
        return replace(self, request=replace(self.request, key=None))
