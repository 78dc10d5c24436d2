"""Operations on jobs: create, read, change, trigger and delete, on behalf of users.

All validation errors of a definition are reported together, before anything is stored. A job that a program, a file or
plain SQL owns can be changed here only by taking it over, because its owner would revert the change.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.control.rules import Rules
from hourbell.control.secret_headers import header_errors, refuse_removals, without_secret_headers
from hourbell.control.secrets import MAKE_KEY, Secrets
from hourbell.control.user import JobOwner, User
from hourbell.core.access.roles import Role
from hourbell.core.alerts.channel import SYSTEM
from hourbell.core.job.body import GENERATE, READ_ONLY, job_to_body, merge_patch, parse_job
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.same import same_definition
from hourbell.core.job.secret_headers import HEADER, SIGNING, OriginChange
from hourbell.core.job.target import HttpCall, TargetCall, TargetError, parse_target
from hourbell.core.run.run import manual_run_id
from hourbell.core.run.states import RunState
from hourbell.core.schedule import ScheduleError
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.core.values.ids import keyed_id, parse_id
from hourbell.sealing import Plain, Sealed
from hourbell.store.control.bundles import APP, Bundle, Imported, JobEntry, NewSecret, owner_text
from hourbell.store.control.changes import refuse_origin, runs_still_running
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict, NoSuchJob, SystemJob
from hourbell.store.lists.query import JobView, RunList, RunQuery
from hourbell.store.lists.reader import ListStore

_REVERTS = "which would put it back"
_KEYS = UUID("0f6c0a5e-8a57-5c39-9a1e-5d1c7f6b2a40")  # the namespace of ids derived from an idempotency key
_MAX_NOTE_CHARACTERS = 1_000
_PURGED_AT_ONCE = 1_000  # runs per transaction
_MAX_COUNTED_RUNS = 1_000


@dataclass(frozen=True, slots=True)
class Defined:
    """A job after it was created or changed, and its generated signing secret, which is shown only once."""

    view: JobView
    secret: Plain | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """A validated body. `secret` is `generate` or a signing secret; `headers` are the secret headers."""

    definition: Definition
    call: TargetCall
    secret: str | None = field(repr=False)
    headers: Mapping[str, Plain]

    @property
    def header_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.headers)


@dataclass(frozen=True, slots=True)
class EditOptions:
    """Options of an edit: the expected version, and what the edit may do.

    `drop_backlog` skips instants that are due and not planned yet, `drop_secrets` removes secret headers that were set
    for another origin, and `take_over` takes over a job that somebody else owns. `approve_command` seals the command
    that the job then has, which the user has checked at the expected version.
    """

    expect_version: int | None = None
    drop_backlog: bool = False
    drop_secrets: bool = False
    take_over: bool = False
    approve_command: bool = False


_AS_IT_IS = EditOptions()


@dataclass(frozen=True, slots=True)
class Intended:
    """The definition before and after a dry run. Nothing was stored."""

    before: Definition | None
    after: Definition


class Jobs:
    def __init__(
        self,
        store: ControlStore,
        lists: ListStore,
        *,
        rules: Rules,
        secrets: Secrets,
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
        """Return a job by id or name, with `deleted` also a deleted one by id. Raise Conflict if there is none."""
        found = await self._find(ref, deleted=deleted)
        if found is None:
            raise no_such_job(ref)
        return found

    async def create(self, body: object, user: User, *, run_on_create: bool = False) -> Defined:
        """Store a job that fires from now on, in one transaction with its secrets.

        With `run_on_create` the same transaction adds a manual run that is ready now.
        """
        if run_on_create:
            user.must_be(Role.OPERATOR, "to trigger a job")
        parsed = self.parse(body, user)
        job_id = self.id_for(user)
        is_used = user.request.is_fresh and await self._lists.job(job_id, deleted=True) is not None
        plain, sealed = await self._seal(parsed, job_id)
        view: JobView | None = None
        with contextlib.nullcontext() if plain else user.acting_once():  # a secret is shown only once
            view = await self._store.create_job(
                parsed.definition, job_id, user.actor(self._now()), secrets=sealed, run_on_create=run_on_create
            )
            if is_used:
                raise key_used_before()
        return Defined(view or await self.get(job_id), plain, is_new=True)

    async def ensure(self, body: object, user: User, *, keep: bool, run_on_create: bool = False) -> Defined:
        """Create a job, or give this definition to the user's own job of that name, in one transaction.

        With `keep` an existing job stays as it is. A paused job stays paused. With `run_on_create` a job that is new
        gets a manual run that is ready now. Raises Conflict if the job has another owner. The body has no secrets.
        """
        parsed = self.parse(body, user)
        if parsed.secret is not None or parsed.headers:
            raise BodyError([FieldError("/target", "a job with secrets is created or replaced, each by itself")])
        job_id, owner = self._new_id(), user.owner
        entry = JobEntry(parsed.definition, job_id, run_on_create=run_on_create)
        bundle = Bundle([entry], owner.managed_by, owner.source, keep=keep)
        rights = user.rights(drop_secrets=False)
        applied = await self._store.apply_jobs(bundle, user.actor(self._now()), rights=rights)
        [result] = [job.result for job in applied.jobs]
        if result.result is Imported.REFUSED:
            raise Conflict(result.code or "refused", result.message or "the job was refused")
        return Defined(await self.get(result.job_id or job_id), is_new=result.result is Imported.CREATED)

    async def edit(
        self, ref: str | UUID, change: Callable[[Job], object], user: User, options: EditOptions = _AS_IT_IS
    ) -> Defined:
        """Change a job to the body that `change` computes from the stored job. The body has no secrets."""
        return await self._edit(ref, {}, change, user, options)

    async def replace(self, ref: str, body: object, user: User, options: EditOptions = _AS_IT_IS) -> Defined:
        """Replace the definition of a job, or create the job if none has this name."""
        found = await self._find(ref)
        if found is None:
            if parse_id(ref) is not None:
                raise no_such_job(ref)
            if (version := options.expect_version) is not None:
                raise Conflict("version_mismatch", f"there is no job {ref!r} that could be at version {version}")
            return await self.create(_named(body, ref), user)
        return await self._edit(found.job.id, body, lambda job: _for(job, body), user, options)

    async def patch(self, ref: str, patch: object, user: User, options: EditOptions = _AS_IT_IS) -> Defined:
        """Change a job by a JSON merge patch."""
        _refuse_read_only(patch)
        return await self._edit(ref, patch, lambda job: merge_patch(job_to_body(job.definition), patch), user, options)

    async def intend(
        self,
        ref: str | None,
        body: object,
        user: User,
        options: EditOptions = _AS_IT_IS,
        *,
        is_patch: bool = False,
    ) -> Intended:
        """Return what `create`, `replace` or `patch` would store; raise the same errors."""
        found = None if ref is None else await self._find(ref)
        if found is None:
            if ref is not None and is_patch:
                raise no_such_job(ref)
            parsed = self.parse(body if ref is None else _named(body, ref), user)
            taken = await self._lists.job(parsed.definition.name)
            if taken is not None:
                raise Conflict("name_taken", "another job has this name")
            await self._store.refuse_unknown_policy(parsed.definition)
            return Intended(None, parsed.definition)
        new = merge_patch(job_to_body(found.job.definition), body) if is_patch else _for(found.job, body)
        if is_patch:
            _refuse_read_only(body)
        old = found.job.definition
        after = self._redefined(found.job, new, user, take_over=options.take_over)
        moving = OriginChange(user.role.may(Role.ADMIN), options.drop_secrets, after.header_names)
        refuse_origin(old, after.definition, await self._secrets.list(found.job.id, self._now()), moving)
        await self._store.refuse_unknown_policy(after.definition, old)
        if not options.approve_command:
            await self._store.check_command(found.job, after.definition)
        return Intended(old, after.definition)

    async def delete(
        self,
        ref: str,
        user: User,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        purge: bool = False,
    ) -> None:
        """Delete a job and cancel its waiting runs. Its history stays, unless an admin purges it.

        A job that was deleted before can be purged by its id.
        """
        if purge:
            user.must_be(Role.ADMIN, "to purge the history of a job")
        found = await self.get(ref, deleted=purge)
        if purge:
            running = RunQuery(RunList.OF_JOB, RunState.RUNNING, found.job.id)
            if under_way := await self._lists.runs(running, _MAX_COUNTED_RUNS):
                raise runs_still_running(len(under_way))
        if found.deleted_at is None:
            await self._delete(found, user, expect_version=expect_version, take_over=take_over)
        if purge:
            while not await self._store.purge_job(
                found.job.id, user.actor(self._now()).without_key(), limit=_PURGED_AT_ONCE
            ):
                pass

    async def _delete(self, found: JobView, user: User, *, expect_version: int | None, take_over: bool) -> None:
        self._may_change(found.job, user)
        if not take_over:
            refuse_owned(found.job, user.owner)
        checked_version = expect_version or found.job.version  # no later version may be deleted
        await self._store.delete_job(found.job.id, user.actor(self._now()), expect_version=checked_version)

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
        """Stop planning a job, until a time if given. Planned runs continue unless `cancel_waiting` is set."""
        user.must_be(Role.OPERATOR, "to pause a job")
        now = self._now()
        check_pause(note, until, now)
        found, view = await self.get(ref), None
        with user.acting_once():
            view = await self._store.pause_job(
                found.job.id,
                user.actor(now),
                note=note,
                until=until,
                cancel_waiting=cancel_waiting,
                expect_version=expect_version,
            )
        return view or await self.get(found.job.id)

    async def resume(
        self, ref: str, user: User, *, catch_up: bool = False, expect_version: int | None = None
    ) -> JobView:
        """Plan a job again from now on; `catch_up` applies its catch-up policy to instants during the pause."""
        user.must_be(Role.OPERATOR, "to resume a job")
        found, view = await self.get(ref), None
        if found.job.definition.enabled:
            return found
        try:
            with user.acting_once():
                view = await self._store.resume_job(
                    found.job.id, user.actor(self._now()), catch_up=catch_up, expect_version=expect_version
                )
        except ScheduleError as error:
            raise Conflict("job_in_error", f"its schedule cannot be read: {error}") from None
        return view or await self.get(found.job.id)

    async def retag(self, ref: str, user: User, *, add: Collection[str] = (), remove: Collection[str] = ()) -> JobView:
        """Add tags to a job, and remove others."""

        def change(job: Job) -> object:
            tags = [tag for tag in dict.fromkeys([*job.definition.tags, *add]) if tag not in remove]
            return {**job_to_body(job.definition), "tags": tags}

        return (await self._edit(ref, {}, change, user, _AS_IT_IS)).view

    async def trigger(self, ref: str, user: User, *, payload: object = None, key: str | None = None) -> UUID:
        """Add a run that is ready now, with its own payload if one is given; return the run id.

        Calls with the same key add only one run.
        """
        user.must_be(Role.OPERATOR, "to trigger a job")
        found = await self.get(ref)
        run_id = manual_run_id(found.job.id, key) if key is not None else self.id_for(user)
        is_used = key is None and user.request.is_fresh and await self._lists.run(run_id) is not None
        with user.acting_once():
            await self._store.trigger_job(found.job.id, run_id, user.actor(self._now()), payload)
            if is_used:
                raise key_used_before()
        return run_id

    async def rotate_secret(self, ref: str, user: User, *, keep_old: timedelta) -> tuple[Plain, datetime | None]:
        """Set a new signing secret; return it and the end of the old one's validity, None if there was no old one."""
        found = await self.get(ref)
        self._may_change(found.job, user)
        now = self._now()
        fields = [row.field for row in await self._secrets.list(found.job.id, now)]
        if SIGNING not in fields:
            return await self._secrets.create(found.job.id, user.actor(now)), None
        plain = await self._secrets.rotate(found.job.id, user.actor(now), keep_old=keep_old)
        return plain, now + keep_old

    def id_for(self, user: User) -> UUID:
        """Return a new id, or the id derived from the idempotency key, so that a repeated call finds its result."""
        request = user.request
        return self._new_id() if request.key is None else keyed_id(_KEYS, request.key, request.key_milliseconds)

    async def _find(self, ref: str | UUID, *, deleted: bool = False) -> JobView | None:
        if isinstance(ref, UUID):
            return await self._lists.job(ref, deleted=deleted)
        job_id = parse_id(ref)
        by_id = None if job_id is None else await self._lists.job(job_id, deleted=deleted)
        return by_id or await self._lists.job(ref)

    async def _edit(
        self, ref: str | UUID, body: object, change: Callable[[Job], object], user: User, options: EditOptions
    ) -> Defined:
        """Edit a job: `change` computes the new body from the job that the store reads in the writing transaction.

        With secret headers the job is also read before, because they are sealed for the origin of the new body.
        """

        if options.approve_command and options.expect_version is None:
            raise Conflict("version_needed", "to approve a command, send the version that you have checked as If-Match")

        def edit(job: Job) -> Definition:
            return self._redefined(job, change(job), user, take_over=options.take_over).definition

        secrets: list[NewSecret] = []
        if without_secret_headers(body)[1]:
            job = (await self.get(ref)).job
            ref, secrets = job.id, await self._new_headers(job, change(job), user, take_over=options.take_over)
        given = frozenset(each.sealed.field.removeprefix(HEADER).lower() for each in secrets)
        try:
            edited = await self._store.edit_job(
                ref,
                edit,
                user.actor(self._now()),
                expect_version=options.expect_version,
                drop_backlog=options.drop_backlog,
                secrets=secrets,
                moving=OriginChange(user.role.may(Role.ADMIN), options.drop_secrets, given),
                approve_command=options.approve_command,
            )
        except NoSuchJob:
            raise no_such_job(ref) from None
        return Defined(edited)

    async def _new_headers(self, job: Job, body: object, user: User, *, take_over: bool) -> list[NewSecret]:
        """Seal the secret headers of a body for its origin."""
        new = self._redefined(job, body, user, take_over=take_over)
        now = self._now()
        until = now + job.definition.max_age
        prepared = [
            await self._secrets.prepare(job.id, new.definition, plain, f"{HEADER}{name}")
            for name, plain in new.headers.items()
        ]
        return [NewSecret(sealed, now, until) for _, sealed in prepared]

    def _redefined(self, job: Job, body: object, user: User, *, take_over: bool) -> Parsed:
        """Parse a body as the new definition of a job, or raise its errors. If nothing changes, keep the old one."""
        old = job.definition
        self._may_change(job, user)
        parsed = self.parse(body, user)
        if parsed.secret is not None:
            hint = "POST …/rotate-secret replaces it, and keeps the old one valid for a while"
            raise BodyError([FieldError("/target/secret", "a job's secret is not changed with its definition", hint)])
        new = parsed.definition
        if not take_over:
            refuse_owned(job, user.owner)
            new = replace(new, source=old.source)
        return replace(parsed, definition=old if job.error is None and same_definition(new, old) else new)

    def _may_change(self, job: Job, user: User) -> None:
        try:
            user.may_define(parse_target(job.definition.target))
        except TargetError:
            user.must_be(Role.EDITOR, "to change a job")

    def parse(self, body: object, user: User) -> Parsed:
        """Parse and validate the body of a job; raise BodyError with all its validation errors."""
        body, headers = without_secret_headers(body)
        parsed = parse_job(body)
        call = parsed.call
        user.may_define(call)
        errors = self._rules.check(call)
        if parsed.secret is not None and not self._secrets.has_keys:
            errors.append(FieldError("/target/secret", "no key for sealing secrets is configured", MAKE_KEY))
        plain = call.headers if isinstance(call, HttpCall) else {}
        errors += header_errors(headers, call, plain, has_keys=self._secrets.has_keys)
        if errors or not isinstance(headers, dict):
            raise BodyError(errors)
        sealed = {name: Plain(value) for name, value in headers.items()}
        definition = replace(parsed.definition, managed_by=user.owner.managed_by, source=user.owner.source)
        return Parsed(definition, call, parsed.secret, sealed)

    async def _seal(self, parsed: Parsed, job_id: UUID) -> tuple[Plain | None, list[Sealed]]:
        """Return the generated secret to show, if any, and the sealed secrets to store."""
        shown, stored = None, []
        if parsed.secret is not None:
            given = None if parsed.secret == GENERATE else Plain(parsed.secret)
            plain, sealed = await self._secrets.prepare(job_id, parsed.definition, given)
            shown, stored = (plain if given is None else None), [sealed]
        for name, value in parsed.headers.items():
            stored.append((await self._secrets.prepare(job_id, parsed.definition, value, f"{HEADER}{name}"))[1])
        return shown, stored


def check_pause(note: str, until: datetime | None, now: datetime) -> None:
    """Raise BodyError if a pause cannot have this note or this end."""
    errors = []
    if until is not None and until <= now:
        errors.append(FieldError("/until", "`until` is in the past", "use a future time or omit it"))
    if len(note) > _MAX_NOTE_CHARACTERS:
        errors.append(FieldError("/note", f"it has {len(note)} characters; at most {_MAX_NOTE_CHARACTERS} are kept"))
    if errors:
        raise BodyError(errors)


def no_such_job(ref: str | UUID) -> Conflict:
    return Conflict("no_such_job", f"there is no job {str(ref)[:100]!r}")


def key_used_before() -> Conflict:
    """Build the conflict for an expired idempotency key whose first result still exists: nothing was made now."""
    return Conflict(
        "idempotency_key_reused", "this Idempotency-Key was used before and has expired; use a new key for each call"
    )


def refuse_owned(job: Job, owner: JobOwner) -> None:
    """Raise Conflict if the job has another owner, which would revert or not expect the change."""
    definition = job.definition
    if definition.managed_by == SYSTEM:
        raise SystemJob
    if not owner.owns(definition):
        theirs = owner_text(definition.managed_by, definition.source)
        why = "whose program created it and may change it again" if definition.managed_by == APP else _REVERTS
        raise Conflict(
            "owned_by_another",
            f"the job belongs to {theirs}, {why}; change it there, or take it over (take_over=true)",
        )


def _refuse_read_only(patch: object) -> None:
    """Raise BodyError if a patch sets read-only fields or removes secret headers."""
    given = sorted(READ_ONLY.intersection(patch)) if isinstance(patch, dict) else []
    if given:
        hint = "omit it; send the expected version as If-Match, and pause a job with POST …/pause"
        raise BodyError([FieldError(f"/{name}", f"{name} cannot be changed by a patch", hint) for name in given])
    if errors := refuse_removals(patch):
        raise BodyError(errors)


def _named(body: object, name: str) -> object:
    """Return the body of a new job with this name; raise BodyError if the body has another name."""
    if not isinstance(body, dict):
        return body
    if body.get("name", name) != name:
        raise BodyError([FieldError("/name", f"it is not {name!r}, under which the job would be made")])
    return {**body, "name": name}


def _for(job: Job, body: object) -> object:
    """Return the body that replaces a job's definition, with the job's name if the body has none."""
    return {"name": job.definition.name, **body} if isinstance(body, dict) else body
