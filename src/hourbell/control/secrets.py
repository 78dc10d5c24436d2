"""Secrets of jobs: create, rotate, set and remove. A generated secret is shown once, to its creator."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.access.signing import SECRET_BYTES, new_secret, secret_bytes
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import HEADER, SIGNING, header_name, origin_of
from hourbell.core.job.target import HttpCall, TargetError, check_header, parse_target
from hourbell.sealing import CannotOpen, KeyRing, Plain, Sealed
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import NewSecret
from hourbell.store.control.secrets import SecretRow, SecretStore
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict

KEEP_OLD = timedelta(hours=24)
_NOBODY = UUID(int=0)
_CANARY_FIELD = "canary"
_BATCH = 500
MAKE_KEY = "set HOURBELL_SECRET_KEY to base64 of 32 random bytes, as `openssl rand -base64 32` makes"


class WrongKeys(Exception):
    """A key mismatch: the secrets of the database were sealed with a key that this process does not have."""


class Secrets:
    """Operations on the secrets of jobs. Without `keys` it can list secrets, but not create any."""

    def __init__(
        self,
        secrets: SecretStore,
        jobs: ControlStore,
        keys: KeyRing | None,
        *,
        new_id: Callable[[], UUID],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._secrets = secrets
        self._jobs = jobs
        self._keys = keys
        self._new_id = new_id
        self._random_bytes = random_bytes

    @property
    def has_keys(self) -> bool:
        """True if there is a key to seal secrets with."""
        return self._keys is not None

    async def create(self, ref: str | UUID, actor: Actor) -> Plain:
        """Create the signing secret of a job and return it. Raise Conflict if the job has one already."""
        return await self._sign_anew(await self._job(ref), actor, old_until=actor.at, is_first=True)

    async def prepare(
        self, job_id: UUID, definition: Definition, given: Plain | None, field: str = SIGNING
    ) -> tuple[Plain, Sealed]:
        """Seal a secret for a job with this definition; return it plain and sealed.

        Without a given secret a new signing secret is generated. A header is bound to the origin of the definition.
        """
        plain = given or Plain(new_secret(self._random_bytes(SECRET_BYTES)))
        if field == SIGNING:
            secret_bytes(plain.reveal())
        return plain, await self.seal(plain, job_id, field, _origin_for(field, definition))

    async def current(self, job_ids: Sequence[UUID], now: datetime) -> dict[UUID, list[Sealed]]:
        """Return the current secrets of jobs, without replaced ones that stay valid for a while."""
        found: dict[UUID, list[Sealed]] = {}
        for sealed in await self._secrets.sealed_secrets(job_ids, now):
            if sealed.valid_until is None:
                found.setdefault(sealed.job_id, []).append(sealed)
        return found

    def reveal(self, sealed: Sealed) -> Plain | None:
        """Open a sealed secret to use it again where it was set for; None if it cannot be opened."""
        try:
            return self._ring.open(sealed)
        except (CannotOpen, Conflict):
            return None

    def is_same(self, sealed: Sealed, plain: Plain) -> bool:
        """Return True if a sealed secret has this value; False if it cannot be opened."""
        try:
            return self._ring.open(sealed).reveal() == plain.reveal()
        except CannotOpen:
            return False

    async def rotate(self, ref: str | UUID, actor: Actor, *, keep_old: timedelta = KEEP_OLD) -> Plain:
        """Replace the signing secret. The old one also signs during `keep_old`, so that either one verifies."""
        return await self._sign_anew(await self._job(ref), actor, old_until=actor.at + keep_old, is_first=False)

    async def put(self, ref: str | UUID, field: str, plain: Plain, actor: Actor) -> None:
        """Set a given secret: `signing`, or `header:Name`, which is sent with each request."""
        job = await self._job(ref)
        if field == SIGNING:
            secret_bytes(plain.reveal())
        elif field.startswith(HEADER):
            problem = check_header(field.removeprefix(HEADER), plain.reveal())
            if problem:
                raise ValueError(problem)
        else:
            raise ValueError(f"write {SIGNING}, or {HEADER} and the name of a header, as in {HEADER}Authorization")
        await self._put(job, field, plain, actor, old_until=actor.at)

    async def remove(self, ref: str | UUID, field: str, actor: Actor) -> None:
        """Remove a secret at once. Raise Conflict if there is none."""
        if not await self._secrets.remove_secret((await self._job(ref)).id, field, actor):
            raise Conflict("no_such_secret", f"the job has no secret {field!r}")

    async def list(self, ref: str | UUID, now: datetime) -> list[SecretRow]:
        """List the secrets of a job, without their values."""
        return await self._secrets.list_secrets([(await self._job(ref)).id], now)

    async def list_by_job(self, job_ids: Sequence[UUID], now: datetime) -> Mapping[UUID, Sequence[SecretRow]]:
        """Return the secrets of many jobs by job id, without their values. Jobs without secrets are absent."""
        found: dict[UUID, list[SecretRow]] = {}
        for row in await self._secrets.list_secrets(job_ids, now) if job_ids else ():
            found.setdefault(row.job_id, []).append(row)
        return found

    async def rotate_keys(self, actor: Actor) -> int:
        """Seal all secrets and commands again with the newest key of the ring, in batches; return their number."""
        await check_keys(self._secrets, self._ring)
        done = 0
        while count := await self._secrets.reseal(self._ring.newest, _BATCH, self._seal_again, actor):
            done += count
        after: tuple[UUID, int] | None = (_NOBODY, 0)
        while after is not None:
            count, after = await self._secrets.reseal_commands(after, _BATCH, actor)
            done += count
        if await self._secrets.canary() is not None:
            await self._secrets.set_canary(_canary(self._ring), replace=True)
        return done

    def _seal_again(self, sealed: Sealed) -> Sealed:
        plain = self._ring.open(sealed)
        return self._ring.seal(plain, sealed.id, sealed.job_id, sealed.field, sealed.origin)

    async def _sign_anew(self, job: Job, actor: Actor, *, old_until: datetime, is_first: bool) -> Plain:
        plain = Plain(new_secret(self._random_bytes(SECRET_BYTES)))
        await self._put(job, SIGNING, plain, actor, old_until=old_until, is_first=is_first)
        return plain

    async def _put(
        self,
        job: Job,
        field: str,
        plain: Plain,
        actor: Actor,
        *,
        old_until: datetime,
        is_first: bool | None = None,
    ) -> None:
        try:
            if not isinstance(parse_target(job.definition.target), HttpCall):
                raise Conflict("not_a_webhook", "only a job with an http target has secrets")
        except TargetError as error:
            raise Conflict("job_in_error", f"the job is in error: {job.error or error}") from None
        sealed = await self.seal(plain, job.id, field, _origin_for(field, job.definition))
        await self._secrets.put_secret(
            NewSecret(sealed, old_until, actor.at + job.definition.max_age),
            actor,
            is_first=is_first,
            expect_version=None if sealed.origin is None else job.version,
        )

    async def seal(self, plain: Plain, job_id: UUID, field: str, origin: str | None) -> Sealed:
        """Seal a secret for a job, with the newest key. Raise Conflict if there is no key."""
        keys = self._ring
        _open_canary(await self._secrets.set_canary(_canary(keys)), keys)  # an existing canary must open with our keys
        return keys.seal(plain, self._new_id(), job_id, field, origin)

    @property
    def _ring(self) -> KeyRing:
        if self._keys is None:
            raise Conflict("no_secret_key", f"no key for sealing secrets is configured; {MAKE_KEY}")
        return self._keys

    async def _job(self, ref: str | UUID) -> Job:
        job = await self._jobs.get_job(ref)
        if job is None:
            raise Conflict("no_such_job", f"there is no job named {str(ref)!r}")
        return job


def _origin_for(field: str, definition: Definition) -> str | None:
    """Return the origin that a secret is bound to: for a header that of the definition, else None."""
    return None if header_name(field) is None else origin_of(definition)


async def check_keys(secrets: SecretStore, keys: KeyRing | None) -> None:
    """Raise WrongKeys if the database has secrets that this process could not open."""
    _open_canary(await secrets.canary(), keys)


def _open_canary(canary: str | None, keys: KeyRing | None) -> None:
    if canary is None:
        return
    if keys is None:
        raise WrongKeys(
            "this database holds secrets of jobs, and the key that sealed them is not here: on SQLite restore the file "
            "….key beside the database, else set HOURBELL_SECRET_KEY"
        )
    key_id, _, text = canary.partition(":")
    try:
        keys.open(Sealed(_NOBODY, _NOBODY, _CANARY_FIELD, key_id, base64.b64decode(text)))
    except (CannotOpen, binascii.Error):
        raise WrongKeys(
            "the key here (HOURBELL_SECRET_KEY, or the file ….key beside a SQLite database) is not the one that sealed "
            "this database's secrets"
        ) from None


def _canary(keys: KeyRing) -> str:
    sealed = keys.seal(Plain(_CANARY_FIELD), _NOBODY, _NOBODY, _CANARY_FIELD)
    return f"{sealed.key_id}:{base64.b64encode(sealed.sealed).decode()}"
