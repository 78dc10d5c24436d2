"""The sealed secrets of jobs; no secret is ever stored in plain text."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import HEADER, SecretField, origin_of
from hourbell.core.job.target import command_of
from hourbell.core.job.version_json import definition_from_json
from hourbell.sealing import Sealed
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import act, audit
from hourbell.store.control.bundles import NewSecret
from hourbell.store.control.changes import ChangedJob, check_version
from hourbell.store.control.session import Session, Sessions
from hourbell.store.errors import Conflict, NoSuchJob
from hourbell.store.rows import sealed_of

_CANARY = "secret_canary"


@dataclass(frozen=True, slots=True)
class SecretRow:
    """The public data of a secret: that it exists, and the origin it may be sent to."""

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
    """A secret header that a job has, and the origin it was set for."""

    field: str
    origin: str | None
    valid_until: None = None


def refuse_other_origin(secrets: Iterable[NewSecret], definition: Definition) -> None:
    """Raise a Conflict if a secret was sealed for another origin than that of the definition it comes with."""
    origin = origin_of(definition)
    if any(each.sealed.origin not in (None, origin) for each in secrets):
        raise Conflict("version_mismatch", "the job was changed meanwhile; check it and try again")


def _refuse_to_put(has_one: bool, is_first: bool | None) -> None:
    """Raise a Conflict if a first secret already has a predecessor, or a replacement has none."""
    if is_first is True and has_one:
        raise Conflict("secret_exists", "the job has a signing secret; rotate it to replace it")
    if is_first is False and not has_one:
        raise Conflict("no_such_secret", "the job has no signing secret yet; create one")


class SecretStore:
    """Changes to secrets. A request with a key acts once (see ControlStore)."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def put_secret(
        self, secret: NewSecret, actor: Actor, *, is_first: bool | None = None, expect_version: int | None = None
    ) -> None:
        """Add a secret of a job, which ends the earlier ones of the same field.

        Raises `Conflict` if the job does not exist or is not at the expected version, if there is a secret and this
        must be the first, or if there is none and this must replace one.
        """

        async def put(session: Session) -> None:
            sealed = secret.sealed
            job = await session.fetch_one("lock_job", id=sealed.job_id)
            if job is None:
                raise NoSuchJob
            check_version(job, expect_version)
            rows = await session.fetch("list_secrets", job_ids=[sealed.job_id], now=actor.at)
            _refuse_to_put(any(row["field"] == sealed.field for row in rows), is_first)
            await put_secrets(session, [secret], actor)

        await act(self._sessions, actor, put)

    async def remove_secret(self, job_id: UUID, field: str, actor: Actor) -> bool:
        """Delete the secrets of a field. Return False if there was none."""

        async def remove(session: Session) -> bool:
            if not await session.execute("remove_secrets", job_id=job_id, field=field):
                return False
            await session.execute("forget_unneeded", key=_CANARY)
            await audit(session, actor, "secret.remove", job_id, after={"field": field})
            return True

        return await act(self._sessions, actor, remove)

    async def list_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[SecretRow]:
        """Return the public data of jobs' valid secrets, by job, the newest of each field first."""
        rows = await self._sessions.fetch("list_secrets", job_ids=list(job_ids), now=now)
        return [SecretRow(**row) for row in rows]

    async def sealed_secrets(self, job_ids: Sequence[UUID], now: datetime) -> list[Sealed]:
        """Return the valid sealed secrets of jobs, the newest of each field first."""
        return [sealed_of(row) for row in await self._sessions.fetch("secrets_of_jobs", job_ids=list(job_ids), now=now)]

    async def reseal(self, newest: str, limit: int, seal_again: Callable[[Sealed], Sealed], actor: Actor) -> int:
        """Seal up to `limit` secrets again whose key is not the newest; return how many there were."""

        async def reseal(session: Session) -> int:
            rows = await session.fetch("sealed_otherwise", newest=newest, limit=limit)
            again = [seal_again(sealed_of(row)) for row in rows]
            values = [{"id": each.id, "key_id": each.key_id, "sealed": each.sealed} for each in again]
            await session.execute_many("reseal", values)
            if again:
                await audit(session, actor, "secret.reseal", newest, after={"secrets": len(again)})
            return len(again)

        return await act(self._sessions, actor, reseal)

    async def reseal_commands(
        self, after: tuple[UUID, int], limit: int, actor: Actor
    ) -> tuple[int, tuple[UUID, int] | None]:
        """Seal the commands of up to `limit` versions again whose key is not the newest, and that are validly sealed.

        Return how many, and the version to continue after; None if there are no more.
        """

        async def reseal(session: Session) -> tuple[int, tuple[UUID, int] | None]:
            if session.seals is None:
                return 0, None
            rows = await session.fetch(
                "seals_by_other_keys",
                newest=session.seals.newest,
                after_id=after[0],
                after_version=after[1],
                limit=limit,
            )
            again = []
            for row in rows:
                call = command_of(definition_from_json(json.loads(row["definition"])))
                version = row["job_id"], row["version"]
                if call is not None and session.seals.verify(row["seal"], *version, call):
                    seal = session.seals.seal(*version, call)
                    again.append({"job_id": version[0], "version": version[1], "seal": seal, "now": actor.at})
            await session.execute_many("put_seal", again)
            if again:
                await audit(session, actor, "job.reseal", session.seals.newest, after={"commands": len(again)})
            last = rows[-1] if len(rows) == limit else None
            return len(again), None if last is None else (last["job_id"], last["version"])

        return await act(self._sessions, actor, reseal)

    async def canary(self) -> str | None:
        """Return the sealed check value, which shows whether a process has the right keys."""
        return next((row["value"] for row in await self._sessions.fetch("meta", key=_CANARY)), None)

    async def set_canary(self, text: str, *, replace: bool = False) -> str:
        """Store the check value if there is none, or if it is to be replaced; return the stored one.

        It is deleted with the last secret.
        """

        async def set_it(session: Session) -> str:
            await session.execute("set_meta" if replace else "set_meta_once", key=_CANARY, value=text)
            [row] = await session.fetch("meta", key=_CANARY)
            return str(row["value"])

        return await self._sessions.transact(set_it)


async def insert_secrets(session: Session, secrets: Iterable[Sealed], now: datetime) -> None:
    """Insert secrets of jobs, inside the transaction that creates or changes the jobs."""
    rows = [asdict(each) | {"now": now} for each in secrets]
    await session.execute_many("insert_secret", rows)


async def write_secrets(session: Session, secrets: Sequence[NewSecret], now: datetime) -> None:
    """Replace earlier secrets by new ones, inside the transaction that changes their jobs."""
    for each in secrets:
        await session.execute(
            "end_secrets",
            job_id=each.sealed.job_id,
            field=each.sealed.field,
            origin=each.sealed.origin,
            old_until=each.old_until,
            waiting_until=each.waiting_until,
        )
    if secrets:
        await session.execute("delete_ended", now=now)
        await insert_secrets(session, [each.sealed for each in secrets], now)


async def put_secrets(session: Session, secrets: Sequence[NewSecret], actor: Actor) -> None:
    """Write new secrets, each with an audit row."""
    await write_secrets(session, secrets, actor.at)
    for each in secrets:
        await audit(session, actor, "secret.put", each.sealed.job_id, after={"field": each.sealed.field})


async def secret_ids(session: Session, job_ids: Sequence[UUID], now: datetime) -> list[UUID]:
    """Return the valid secrets of jobs."""
    return [row["id"] for row in await session.fetch("secrets_of_jobs", job_ids=list(job_ids), now=now)]


async def current_headers(session: Session, job_ids: Sequence[UUID]) -> HeadersByJob:
    """Return the current secret headers of jobs."""
    found: dict[UUID, list[CurrentHeader]] = {}
    for row in await session.fetch("current_headers", job_ids=list(job_ids)) if job_ids else ():
        found.setdefault(row["job_id"], []).append(CurrentHeader(row["field"], row["origin"]))
    return found


async def leave_headers(session: Session, changed: Iterable[ChangedJob], now: datetime) -> None:
    """End the headers that jobs give up with their old origin, once no run that uses them is waiting."""
    for each in changed:
        if each.dropped_headers:
            fields = [f"{HEADER}{name}" for name in sorted(each.dropped_headers)]
            until = now + each.job.definition.max_age
            await session.execute("leave_secrets", job_id=each.job.id, fields=fields, until=until)
