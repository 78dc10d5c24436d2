"""All jobs of a file at once: planned, shown, and then done as a whole or not at all.

A plan stands on a state. What is done later names that state, and is refused if anybody has changed any of it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from hourbell.control.jobs import Jobs
from hourbell.control.secrets import KEEP_OLD, Secrets
from hourbell.control.user import User
from hourbell.core.definition_changes import FieldChange, field_changes, hidden_change
from hourbell.core.job import Definition, Job
from hourbell.core.job_body import GENERATE, BodyError, Fault, ParsedJob, pointer_to
from hourbell.core.preview import rfc3339
from hourbell.core.roles import Role
from hourbell.core.target import HttpCall, check_header
from hourbell.sealing import HEADER, SIGNING, Plain
from hourbell.store.bundles import Applied, AppliedJob, Bundle, ImportResult, JobEntry, NewSecret
from hourbell.store.control import ControlStore

FILE = "file"
JOBS_A_TURN = 50  # then others may have theirs: a few milliseconds


class PlanRefused(Exception):
    """Jobs that cannot be brought in, by their place; so none was."""

    def __init__(self, refused: Mapping[int, ImportResult]) -> None:
        super().__init__("some of the jobs cannot be brought in, so nothing was changed")
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants the jobs of a source to be: bodies as the API takes them, each with its `secret_headers`."""

    jobs: Sequence[object]
    source: str = ""
    prune: bool = False
    take_over: bool = False
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job of the file; `fields` is empty for one that is new, or the same."""

    applied: AppliedJob
    definition: Definition
    fields: tuple[FieldChange, ...] = ()
    notes: tuple[str, ...] = ()
    generated_secret: Plain | None = None

    @property
    def action(self) -> str:
        if self.applied.before is None:
            return "create"
        return "change" if self.fields else "none"


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    jobs: tuple[PlannedJob, ...]
    deleted: tuple[Job, ...]
    state: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A job as it was read. Its secrets are by field; a signing secret may be the word for a new one."""

    definition: Definition
    secrets: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SecretWork:
    """What is to be done about the secrets of one job: those to set by field, None for one that is to be made."""

    to_set: Mapping[str, Plain | None] = field(default_factory=dict)
    fields: tuple[FieldChange, ...] = ()
    kept_headers: tuple[str, ...] = ()


class Applying:
    def __init__(
        self,
        store: ControlStore,
        jobs: Jobs,
        *,
        secrets: Secrets | None,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._secrets = secrets
        self._now = now
        self._new_id = new_id

    async def apply(self, wish: Wish, user: User, *, dry_run: bool = False) -> AppliedPlan:
        """Make the jobs of a source what is wished, or say what that would do.

        BodyError with everything that is wrong, PlanRefused, or a Conflict, which is `plan_outdated` if the state is
        not the expected one: then nothing was changed.
        """
        user.must_be(Role.EDITOR, "to apply jobs")
        wanted = await self._read(wish, user)
        entries = [JobEntry(each.definition, self._new_id()) for each in wanted]
        bundle = Bundle(entries, FILE, wish.source, wish.prune, wish.take_over)
        now = self._now()
        planned = await self._store.apply_jobs(
            bundle, now, user.name, expect=wish.expect, may_change=user.may_change, dry_run=True
        )
        if planned.refused:
            raise PlanRefused(planned.refused)
        work = await self._secret_work(wanted, planned, now, user)
        generated = {} if dry_run else await self._write(bundle, planned, work, now, user)
        jobs = tuple(
            _planned(job, each, of_job, generated.get(job.result.job_id))
            for job, each, of_job in zip(planned.jobs, wanted, work, strict=True)
        )
        return AppliedPlan(jobs, planned.gone, planned.state)

    async def _write(
        self, bundle: Bundle, planned: Applied, work: Sequence[_SecretWork], now: datetime, user: User
    ) -> dict[UUID | None, Plain]:
        """Do what is planned, on the state it was planned on; the secrets that were made, by job."""
        secrets: list[NewSecret] = []
        generated: dict[UUID | None, Plain] = {}
        for job, of_job in zip(planned.jobs, work, strict=True):
            for name, given in of_job.to_set.items():
                assert self._secrets is not None
                assert job.result.job_id is not None
                plain, sealed = await self._secrets.prepare(job.result.job_id, given, name)
                secrets.append(NewSecret(sealed, now + KEEP_OLD if name == SIGNING else now))
                if given is None:
                    generated[job.result.job_id] = plain
        with contextlib.nullcontext() if generated else user.acting_once():  # a secret that was told is told once
            await self._store.apply_jobs(
                bundle,
                now,
                user.name,
                secrets=secrets,
                expect=planned.state,
                may_change=user.may_change,
                request=user.request,
            )
        return generated

    async def _read(self, wish: Wish, user: User) -> list[_Wanted]:
        faults: list[Fault] = []
        wanted = []
        for place, body in enumerate(wish.jobs):
            wanted.append(self._read_job(place, body, wish.source, user, faults))
            if place % JOBS_A_TURN == 0:
                await asyncio.sleep(0)
        if wish.prune and not wish.jobs:
            faults.append(Fault("/jobs", "pruning by an empty list would delete every job of its source"))
        if faults:
            raise BodyError(faults)
        return [each for each in wanted if each is not None]

    def _read_job(self, place: int, body: object, source: str, user: User, faults: list[Fault]) -> _Wanted | None:
        at = pointer_to("jobs", str(place))
        headers: object = {}
        if isinstance(body, dict):
            headers = body.get("secret_headers", {})
            body = {name: value for name, value in body.items() if name != "secret_headers"}
        try:
            parsed = self._jobs.parse(body, user)
        except BodyError as error:
            faults += [replace(fault, pointer=at + fault.pointer) for fault in error.faults]
            return None
        wrong = _header_faults(headers, parsed, has_keys=self._secrets is not None)
        faults += [replace(fault, pointer=at + fault.pointer) for fault in wrong]
        if wrong:
            return None
        assert isinstance(headers, dict)
        secrets = {f"{HEADER}{name}": Plain(value) for name, value in headers.items()}
        if parsed.secret is not None:
            secrets[SIGNING] = Plain(parsed.secret)
        return _Wanted(replace(parsed.definition, managed_by=FILE, source=source), secrets)

    async def _secret_work(
        self, wanted: Sequence[_Wanted], planned: Applied, now: datetime, user: User
    ) -> list[_SecretWork]:
        """What each job's secrets need. Who may not see a header's secret may not send it elsewhere either."""
        if self._secrets is None:
            return [_SecretWork()] * len(wanted)
        ids = [job.result.job_id for job in planned.jobs if job.before is not None]
        known = await self._secrets.newest([each for each in ids if each is not None], now)
        work = []
        for each, job in zip(wanted, planned.jobs, strict=True):
            assert job.result.job_id is not None
            made = _work_of(each, known.get(job.result.job_id, {}))
            if made.kept_headers and _goes_elsewhere(job):
                user.must_be(Role.ADMIN, "to send a job's secret headers to another host")
            work.append(made)
        return work


def _goes_elsewhere(job: AppliedJob) -> bool:
    before, after = job.before, job.after
    return before is not None and after is not None and before.definition.lane != after.definition.lane


def _work_of(wanted: _Wanted, old: Mapping[str, Plain | None]) -> _SecretWork:
    to_set: dict[str, Plain | None] = {}
    stored_as = {name.lower(): name for name in old}  # a header is the same however it is written
    secrets = {stored_as.get(name.lower(), name): given for name, given in wanted.secrets.items()}
    for name, given in secrets.items():
        is_to_be_made = name == SIGNING and given.reveal() == GENERATE
        stored = old.get(name)
        if name in old and (is_to_be_made or (stored is not None and stored.reveal() == given.reveal())):
            continue
        to_set[name] = None if is_to_be_made else given
    fields = [hidden_change(_shown_field(name), was_there=name in old, is_there=True) for name in to_set]
    kept = [name.removeprefix(HEADER) for name in old if name.startswith(HEADER) and name not in secrets]
    return _SecretWork(to_set, tuple(fields), tuple(kept))


def _header_faults(headers: object, parsed: ParsedJob, *, has_keys: bool) -> list[Fault]:
    at = pointer_to("secret_headers")
    if not isinstance(headers, dict):
        return [Fault(at, "it is not an object of names and values")]
    if headers and not isinstance(parsed.call, HttpCall):
        return [Fault(at, "only an http target has headers")]
    if headers and not has_keys:
        return [Fault(at, "there is no key to keep secrets with", "set HOURBELL_SECRET_KEY on the server")]
    plain = parsed.definition.target.get("headers")
    seen = {name.lower() for name in plain} if isinstance(plain, dict) else set()
    faults = []
    for name, value in headers.items():
        fault = check_header(name, value)
        if fault is None and name.lower() in seen:
            fault = f"the header {name} is there already; write it once"
        seen.add(name.lower())
        if fault is not None:
            faults.append(Fault(pointer_to("secret_headers", name), fault))
    return faults


def _shown_field(name: str) -> str:
    return "secret" if name == SIGNING else f"secret_headers.{name.removeprefix(HEADER)}"


def _planned(job: AppliedJob, wanted: _Wanted, secrets: _SecretWork, generated: Plain | None) -> PlannedJob:
    after = job.after.definition if job.after is not None else wanted.definition
    fields = () if job.before is None else (*field_changes(job.before.definition, after), *secrets.fields)
    notes = [f"its secret header {name} is not in the file, and stays" for name in secrets.kept_headers]
    if wanted.definition.enabled and not after.enabled:
        until = None if job.after is None else job.after.paused_until
        end = "somebody resumes it" if until is None else rfc3339(until)
        notes.insert(0, f"it is paused, and stays so until {end}")
    return PlannedJob(job, after, fields, tuple(notes), generated)
