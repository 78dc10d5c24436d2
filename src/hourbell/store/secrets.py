"""What is asked of a store about the secrets of jobs. It never sees one in the clear."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Request

CANARY = "secret_canary"


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret as it may be shown: that there is one."""

    id: UUID
    job_id: UUID
    field: str
    key_id: str
    created_at: datetime
    valid_until: datetime | None


def refuse_to_put(has_one: bool, is_first: bool | None) -> None:
    """Raise a Conflict where a first secret would not be the first, or a replacement had nothing to replace."""
    if is_first is True and has_one:
        raise Conflict("secret_exists", "the job has a signing secret; rotate it to replace it")
    if is_first is False and not has_one:
        raise Conflict("no_such_secret", "the job has no signing secret yet; create one")


class SecretStore(Protocol):
    """A change that takes a `request` acts once under its key, as those of `ControlStore` do."""

    async def put_secret(
        self,
        secret: Sealed,
        now: datetime,
        by: str,
        *,
        old_until: datetime,
        is_first: bool | None = None,
        request: Request | None = None,
    ) -> None:
        """Add a secret of a job; those of the same field before it are valid until then at the longest.

        `Conflict` if there is no such job, if there is one although it is to be the first, or none although it is not.
        """

    async def remove_secret(
        self, job_id: UUID, field: str, now: datetime, by: str, *, request: Request | None = None
    ) -> bool:
        """Take the secrets of a field away at once. False if there was none."""

    async def list_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[SecretRow]:
        """Which secrets of jobs are valid, by job, the newest of each field first."""

    async def sealed_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[Sealed]:
        """The secrets of jobs that are valid, the newest of each field first."""

    async def reseal(
        self, newest: str, limit: int, seal_again: Callable[[Sealed], Sealed], now: datetime, by: str
    ) -> int:
        """Seal up to `limit` secrets anew that another key than the newest sealed; how many there were."""

    async def canary(self) -> str | None:
        """What was sealed once, to tell whether a process has the right keys."""

    async def set_canary(self, text: str, *, replace: bool = False) -> None:
        """Keep the canary, if there is none yet or it is to be replaced. It goes with the last secret."""
