"""Jobs: made, looked at, changed and removed. The only door for users.

Everything that is wrong with a definition is told at once, before anything is stored. A job whose owner is a program, a
file or plain SQL is changed here only by whoever takes it over, because its owner would put it back.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.control.rules import Rules
from hourbell.control.secrets import Secrets
from hourbell.control.user import User
from hourbell.core.ids import keyed_id
from hourbell.core.job import Definition, Job
from hourbell.core.job_body import GENERATE, READ_ONLY, BodyError, Fault, ParsedJob, job_to_body, merge_patch, parse_job
from hourbell.core.roles import Role
from hourbell.core.run import manual_run_id
from hourbell.core.same import same_definition
from hourbell.core.schedule import ScheduleError
from hourbell.core.states import RunState
from hourbell.core.target import TargetError, parse_target
from hourbell.sealing import HEADER, SIGNING, Plain, Sealed
from hourbell.store.base import Conflict
from hourbell.store.changes import runs_still_running
from hourbell.store.control import ControlStore
from hourbell.store.lists import JobView, ListStore, RunList, RunQuery

OWN = "api"
_KEYS = UUID("0f6c0a5e-8a57-5c39-9a1e-5d1c7f6b2a40")  # the namespace of ids that come from a caller's key
_LONGEST_NOTE = 1_000
_PURGED_AT_ONCE = 1_000  # runs in one transaction
_MOST_COUNTED = 1_000
_MAKE_KEY = "set HOURBELL_SECRET_KEY to base64 of 32 random bytes, as `openssl rand -base64 32` makes"


@dataclass(frozen=True, slots=True)
class Defined:
    """A job as it stands after it was defined, and its signing secret, which is shown this once."""

    view: JobView
    secret: Plain | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Intended:
    """What a definition would do: nothing was stored."""

    before: Definition | None
    after: Definition


class _Unchanged(Exception):
    """The new definition is the old one: there is nothing to write."""


class Jobs:
    def __init__(
        self,
        store: ControlStore,
        lists: ListStore,
        *,
        rules: Rules,
        secrets: Secrets | None,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._lists = lists
        self._rules = rules
        self._secrets = secrets
        self._now = now
        self._new_id = new_id

    async def get(self, ref: str | UUID, *, deleted: bool = False) -> JobView:
        """A job by its id or its name; by id also a deleted one, if asked for. Conflict if there is none."""
        found = await self._find(ref, deleted=deleted)
        if found is None:
            raise no_such_job(ref)
        return found

    async def create(self, body: object, user: User) -> Defined:
        """Store a job that fires from now on. A secret that is asked for is made with it, or neither is."""
        parsed = self.parse(body, user)
        job_id = self.id_for(user)
        is_used = user.request.is_fresh and await self._lists.job(job_id, deleted=True) is not None
        plain, sealed = await self._seal(parsed.secret, job_id)
        with contextlib.nullcontext() if plain else user.acting_once():  # a secret that was told cannot be told again
            await self._store.create_job(
                parsed.definition, job_id, self._now(), user.name, secrets=sealed, request=user.request
            )
            if is_used:
                raise key_used_before()
        return Defined(await self.get(job_id), plain, is_new=True)

    async def replace(
        self,
        ref: str,
        body: object,
        user: User,
        *,
        expect_version: int | None = None,
        drop_backlog: bool = False,
        take_over: bool = False,
    ) -> Defined:
        """Put a definition in the place of another, or make the job if none has this name."""
        found = await self._find(ref)
        if found is None:
            if _is_id(ref):
                raise no_such_job(ref)
            if expect_version is not None:
                raise Conflict("version_mismatch", f"there is no job {ref!r} that could be at version {expect_version}")
            return await self.create(_named(body, ref), user)
        return await self._edit(
            found,
            lambda job: _for(job, body),
            user,
            expect_version=expect_version,
            drop_backlog=drop_backlog,
            take_over=take_over,
        )

    async def patch(
        self,
        ref: str,
        patch: object,
        user: User,
        *,
        expect_version: int | None = None,
        drop_backlog: bool = False,
        take_over: bool = False,
    ) -> Defined:
        """Change what a JSON merge patch says, and nothing else."""
        _refuse_read_only(patch)
        return await self._edit(
            await self.get(ref),
            lambda job: merge_patch(job_to_body(job.definition), patch),
            user,
            expect_version=expect_version,
            drop_backlog=drop_backlog,
            take_over=take_over,
        )

    async def intend(
        self, ref: str | None, body: object, user: User, *, is_patch: bool = False, take_over: bool = False
    ) -> Intended:
        """What `create`, `replace` or `patch` would store; it is refused for the same reasons."""
        found = None if ref is None else await self._find(ref)
        if found is None:
            if ref is not None and is_patch:
                raise no_such_job(ref)
            parsed = self.parse(body if ref is None else _named(body, ref), user)
            taken = await self._lists.job(parsed.definition.name)
            if taken is not None:
                raise Conflict("name_taken", "another job has this name")
            return Intended(None, parsed.definition)
        new = merge_patch(job_to_body(found.job.definition), body) if is_patch else _for(found.job, body)
        if is_patch:
            _refuse_read_only(body)
        has_headers = await self._has_secret_headers(found.job)
        try:
            after = self._redefined(found.job, new, user, take_over=take_over, has_secret_headers=has_headers)
            return Intended(found.job.definition, after)
        except _Unchanged:
            return Intended(found.job.definition, found.job.definition)

    async def delete(
        self,
        ref: str,
        user: User,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        purge: bool = False,
    ) -> None:
        """Remove a job from use and cancel its waiting runs. Its history stays, unless an admin purges it.

        By its id, a job that was deleted before may be purged too.
        """
        if purge:
            user.must_be(Role.ADMIN, "to purge the history of a job")
        found = await self.get(ref, deleted=purge)
        if purge:
            running = RunQuery(RunList.OF_JOB, RunState.RUNNING, found.job.id)
            if under_way := await self._lists.runs(running, _MOST_COUNTED):
                raise runs_still_running(len(under_way))
        if found.deleted_at is None:
            await self._delete(found, user, expect_version=expect_version, take_over=take_over)
        if purge:
            request = replace(user.request, key=None)
            while not await self._store.purge_job(
                found.job.id, self._now(), user.name, limit=_PURGED_AT_ONCE, request=request
            ):
                pass

    async def _delete(self, found: JobView, user: User, *, expect_version: int | None, take_over: bool) -> None:
        self._may_change(found.job, user)
        if not take_over:
            _refuse_owned(found.job)
        await self._store.delete_job(
            found.job.id,
            self._now(),
            user.name,
            expect_version=expect_version or found.job.version,  # it is what was looked at that may be deleted
            request=user.request,
        )

    async def pause(
        self,
        ref: str,
        user: User,
        *,
        note: str = "",
        until: datetime | None = None,
        cancel_waiting: bool = False,
        expect_version: int | None = None,
    ) -> JobView:
        """Stop planning, until then if said so. Runs already planned go on unless they are cancelled too."""
        user.must_be(Role.OPERATOR, "to pause a job")
        now = self._now()
        faults = []
        if until is not None and until <= now:
            faults.append(Fault("/until", "it is over already", "write a time to come, or leave it out"))
        if len(note) > _LONGEST_NOTE:
            faults.append(Fault("/note", f"it has {len(note)} characters; at most {_LONGEST_NOTE} are kept"))
        if faults:
            raise BodyError(faults)
        found = await self.get(ref)
        with user.acting_once():
            await self._store.pause_job(
                found.job.id,
                now,
                user.name,
                note=note,
                until=until,
                cancel_waiting=cancel_waiting,
                expect_version=expect_version,
                request=user.request,
            )
        return await self.get(found.job.id)

    async def resume(
        self, ref: str, user: User, *, catch_up: bool = False, expect_version: int | None = None
    ) -> JobView:
        """Plan again from now on, or with `catch_up` also what the pause swallowed, by the job's catch-up policy."""
        user.must_be(Role.OPERATOR, "to resume a job")
        found = await self.get(ref)
        if found.job.definition.enabled:
            return found
        try:
            with user.acting_once():
                await self._store.resume_job(
                    found.job.id,
                    self._now(),
                    user.name,
                    catch_up=catch_up,
                    expect_version=expect_version,
                    request=user.request,
                )
        except ScheduleError as error:
            raise Conflict("job_in_error", f"its schedule cannot be read: {error}") from None
        return await self.get(found.job.id)

    async def trigger(self, ref: str, user: User, *, payload: object = None, key: str | None = None) -> UUID:
        """Run a job now, with a payload of its own if one is given; the id of the run.

        The same key runs it once, however often it is asked for.
        """
        user.must_be(Role.OPERATOR, "to trigger a job")
        found = await self.get(ref)
        run_id = manual_run_id(found.job.id, key) if key is not None else self.id_for(user)
        is_used = key is None and user.request.is_fresh and await self._lists.run(run_id) is not None
        with user.acting_once():
            await self._store.trigger_job(found.job.id, run_id, self._now(), payload, user.name, request=user.request)
            if is_used:
                raise key_used_before()
        return run_id

    async def rotate_secret(self, ref: str, user: User, *, keep_old: timedelta) -> tuple[Plain, datetime | None]:
        """Give a job a new signing secret, and until when the one before it is valid; None if it is the first."""
        found = await self.get(ref)
        self._may_change(found.job, user)
        if self._secrets is None:
            raise Conflict("no_secret_key", f"there is no key to keep secrets with; {_MAKE_KEY}")
        now = self._now()
        fields = [row.field for row in await self._secrets.list(found.job.id, now)]
        if SIGNING not in fields:
            return await self._secrets.create(found.job.id, now, user.name, request=user.request), None
        plain = await self._secrets.rotate(found.job.id, now, user.name, keep_old=keep_old, request=user.request)
        return plain, now + keep_old

    def id_for(self, user: User) -> UUID:
        """A new id, or the one that belongs to the key of the call: repeating the call finds what it made."""
        request = user.request
        return self._new_id() if request.key is None else keyed_id(_KEYS, request.key, request.key_milliseconds)

    async def _find(self, ref: str | UUID, *, deleted: bool = False) -> JobView | None:
        if isinstance(ref, UUID):
            return await self._lists.job(ref, deleted=deleted)
        try:
            by_id = await self._lists.job(UUID(ref), deleted=deleted)
        except ValueError:
            by_id = None
        return by_id or await self._lists.job(ref)

    async def _edit(
        self,
        found: JobView,
        change: Callable[[Job], object],
        user: User,
        *,
        expect_version: int | None,
        drop_backlog: bool,
        take_over: bool,
    ) -> Defined:
        def edit(job: Job) -> Definition:
            return self._redefined(job, change(job), user, take_over=take_over, has_secret_headers=has_secret_headers)

        has_secret_headers = await self._has_secret_headers(found.job)
        with contextlib.suppress(_Unchanged):
            await self._store.edit_job(
                found.job.id,
                edit,
                self._now(),
                user.name,
                expect_version=expect_version,
                drop_backlog=drop_backlog,
                request=user.request,
            )
        return Defined(await self.get(found.job.id))

    def _redefined(
        self, job: Job, body: object, user: User, *, take_over: bool, has_secret_headers: bool
    ) -> Definition:
        """The definition that a body makes of a job, or what speaks against it."""
        old = job.definition
        self._may_change(job, user)
        parsed = self.parse(body, user)
        if parsed.secret is not None:
            hint = "POST …/rotate-secret replaces it, and keeps the old one valid for a while"
            raise BodyError([Fault("/target/secret", "a job's secret is not changed with its definition", hint)])
        new = parsed.definition
        if not take_over:
            _refuse_owned(job)
            new = replace(new, source=old.source)
        if has_secret_headers and new.lane != old.lane:
            user.must_be(Role.ADMIN, "to send a job's secret headers to another host")
        if job.error is None and same_definition(new, old):
            raise _Unchanged
        return new

    async def _has_secret_headers(self, job: Job) -> bool:
        if self._secrets is None:
            return False
        return any(row.field.startswith(HEADER) for row in await self._secrets.list(job.id, self._now()))

    def _may_change(self, job: Job, user: User) -> None:
        try:
            user.may_define(parse_target(job.definition.target))
        except TargetError:
            user.must_be(Role.EDITOR, "to change a job")

    def parse(self, body: object, user: User) -> ParsedJob:
        """A definition that may be stored, or everything that speaks against it."""
        parsed = parse_job(body)
        call = parse_target(parsed.definition.target)
        user.may_define(call)
        faults = self._rules.check(call)
        if parsed.secret is not None and self._secrets is None:
            faults.append(Fault("/target/secret", "there is no key to keep secrets with", _MAKE_KEY))
        if faults:
            raise BodyError(faults)
        return parsed

    async def _seal(self, secret: str | None, job_id: UUID) -> tuple[Plain | None, tuple[Sealed, ...]]:
        """What to show and what to store of the secret that a body asks for."""
        if secret is None or self._secrets is None:
            return None, ()
        plain, sealed = await self._secrets.prepare(job_id, None if secret == GENERATE else Plain(secret))
        return (plain if secret == GENERATE else None), (sealed,)


def no_such_job(ref: str | UUID) -> Conflict:
    return Conflict("no_such_job", f"there is no job {str(ref)[:100]!r}")


def key_used_before() -> Conflict:
    """What is told where a key is taken anew, and what it once made is still there: nothing was made now."""
    return Conflict("idempotency_key_reused", "this Idempotency-Key was used long ago; choose a new one for each call")


def _refuse_owned(job: Job) -> None:
    """Raise a Conflict if somebody else owns the job, and would put it back."""
    definition = job.definition
    if definition.managed_by != OWN:
        owner = f"{definition.managed_by}:{definition.source}".removesuffix(":")
        raise Conflict(
            "owned_by_another",
            f"the job belongs to {owner}, which would put it back; change it there, or take it over (take_over=true)",
        )


def _refuse_read_only(patch: object) -> None:
    """Raise a BodyError if a patch would change what no patch changes."""
    given = sorted(READ_ONLY.intersection(patch)) if isinstance(patch, dict) else []
    if given:
        hint = "leave it out; a version is expected by If-Match, and a job is paused by POST …/pause"
        raise BodyError([Fault(f"/{name}", f"{name} is not changed by a patch", hint) for name in given])


def _is_id(ref: str) -> bool:
    try:
        UUID(ref)
    except ValueError:
        return False
    return True


def _named(body: object, name: str) -> object:
    """A body for a job that is to be made under a name, which it may leave out but not contradict."""
    if not isinstance(body, dict):
        return body
    if body.get("name", name) != name:
        raise BodyError([Fault("/name", f"it is not {name!r}, under which the job would be made")])
    return {**body, "name": name}


def _for(job: Job, body: object) -> object:
    """A body that is to replace a job's definition; what it is called need not be repeated."""
    return {"name": job.definition.name, **body} if isinstance(body, dict) else body
