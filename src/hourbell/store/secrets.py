"""What is asked of a store about the secrets of jobs. It never sees one in the clear."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from hourbell.core.job import Definition
from hourbell.core.secret_headers import HEADER, SecretField, origin_of
from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Request
from hourbell.store.bundles import NewSecret
from hourbell.store.changes import ChangedJob
from hourbell.store.rows import Row

CANARY = "secret_canary"


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret as it may be shown: that there is one, and to which origin it may be sent."""

    id: UUID
    job_id: UUID
    field: str
    key_id: str
    origin: str | None
    created_at: datetime
    valid_until: datetime | None


HeadersByJob = Mapping[UUID, Sequence[SecretField]]


@dataclass(frozen=True, slots=True)
class CurrentHeader:
    """A secret header that a job has now, and the origin it was set for."""

    field: str
    origin: str | None
    valid_until: None = None


def headers_by_job(rows: Iterable[Row]) -> HeadersByJob:
    found: dict[UUID, list[CurrentHeader]] = {}
    for row in rows:
        found.setdefault(row["job_id"], []).append(CurrentHeader(row["field"], row["origin"]))
    return found


def left_values(changed: ChangedJob, now: datetime) -> tuple[UUID, list[str], datetime]:
    """A job, the fields of the headers it leaves behind, and until when runs may wait for them."""
    fields = [f"{HEADER}{name}" for name in sorted(changed.dropped_headers)]
    return changed.job.id, fields, now + changed.job.definition.max_age


def refuse_other_origin(secrets: Iterable[NewSecret], definition: Definition) -> None:
    """Raise a Conflict if a secret that comes with a definition was sealed for another origin than it has."""
    origin = origin_of(definition)
    if any(each.sealed.origin not in (None, origin) for each in secrets):
        raise Conflict("version_mismatch", "somebody has changed the job meanwhile; look at it, and try again")


def secret_text(secret: NewSecret) -> str:
    """What the audit keeps of a secret, as JSON text."""
    return json.dumps({"field": secret.sealed.field})


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
        secret: NewSecret,
        now: datetime,
        by: str,
        *,
        is_first: bool | None = None,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> None:
        """Add a secret of a job, which ends those of the same field before it.

        `Conflict` if there is no such job, if it is not at the expected version, if there is a secret although this is
        to be the first, or none although it is not.
        """

    async def remove_secret(
        self, job_id: UUID, field: str, now: datetime, by: str, *, request: Request | None = None
    ) -> bool:
        """Delete the secrets of a field. False if there was none."""

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
