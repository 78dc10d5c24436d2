"""The actor of a change: a name, a time and a request."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Request:
    """The call behind a change: what the audit keeps of it, and the key under which it acts once."""

    id: str | None = None
    token_id: UUID | None = None
    ip: str | None = None
    key: str | None = None  # of the caller and the place it calls, not of the caller's choice alone
    fingerprint: bytes = b""  # of what was asked for
    key_milliseconds: int | None = None  # since the epoch: the time that the caller's key begins with, if it has one
    is_known: bool = False  # the same was asked for before under this key, and what was answered is lost

    @property
    def is_fresh(self) -> bool:
        """Tell if it has a key that nobody has used of late."""
        return self.key is not None and not self.is_known


NO_REQUEST = Request()


@dataclass(frozen=True, slots=True)
class Actor:
    """The one who makes a change, when, and by which request. A request with a key acts once."""

    by: str
    at: datetime
    request: Request = NO_REQUEST

    def without_key(self) -> "Actor":
        """Return the actor of one of many changes, none of which takes the key of the request for itself."""
        return replace(self, request=replace(self.request, key=None))
