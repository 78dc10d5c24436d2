"""What is asked of a store about the secrets of jobs. It never sees one in the clear."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from hourbell.sealing import Sealed

CANARY = "secret_canary"


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret as it may be shown: that there is one."""

    id: UUID
    field: str
    key_id: str
    created_at: datetime
    valid_until: datetime | None


class SecretStore(Protocol):
    async def put_secret(self, secret: Sealed, now: datetime, by: str, *, old_until: datetime) -> None:
        """Add a secret of a job; those of the same field before it are valid until then at the longest.

        `Conflict` if there is no such job.
        """

    async def remove_secret(self, job_id: UUID, field: str, now: datetime, by: str) -> bool:
        """Take the secrets of a field away at once. False if there was none."""

    async def list_secrets(self, job_id: UUID, now: datetime) -> list[SecretRow]:
        """The secrets of a job that are valid, the newest of each field first."""

    async def reseal(self, newest: str, limit: int, seal_again: Callable[[Sealed], Sealed]) -> int:
        """Seal up to `limit` secrets anew that another key than the newest sealed; how many there were."""

    async def canary(self) -> str | None:
        """What was sealed once, to tell whether a process has the right keys."""

    async def set_canary(self, text: str) -> None:
        """Keep the canary."""
