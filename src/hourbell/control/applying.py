"""Applying all jobs, channels and alert policies of a file atomically, with a plan that can be shown first.

A plan is based on a state. A later apply names that state, and is refused if any of these changed since.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from hourbell.control.alert_bundles import AlertBundles, PlannedEntry, WantedAlerts
from hourbell.control.jobs import Jobs
from hourbell.control.secrets import KEEP_OLD, Secrets
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from hourbell.core.job.body import GENERATE
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.differences import FieldChange, field_changes, hidden_change
from hourbell.core.job.secret_headers import HEADER, SIGNING, header_name, origin_of
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.field_errors import BodyError, FieldError, RequestError, pointer_to
from hourbell.sealing import Plain, Sealed
from hourbell.store.alerts.bundle import AppliedEntry, ChannelSecrets
from hourbell.store.control.bundles import Applied, AppliedJob, Bundle, ImportResult, JobEntry, NewSecret, Rights
from hourbell.store.control.store import ControlStore

FILE = "file"
JOBS_A_TURN = 50  # yield to the event loop after so many: a few milliseconds


class PlanRefused(Exception):
    """A refused plan: the jobs that cannot be applied, by index, and channels and policies. Nothing was changed."""

    def __init__(self, refused: Mapping[int, ImportResult], alerts: Sequence[tuple[str, AppliedEntry]] = ()) -> None:
        super().__init__("some of it was refused, so nothing was changed")
        self.refused = refused
        self.alerts = alerts

    @property
    def errors(self) -> list[FieldError]:
        """One error per refused job, channel and policy, with a pointer to it in the request."""
        jobs = [error for index, each in self.refused.items() for error in _errors(pointer_to("jobs", index), each)]
        alerts = [FieldError(pointer_to(kind, each.name), each.refused or "", each.hint) for kind, each in self.alerts]
        return alerts + jobs


def _errors(at: str, result: ImportResult) -> list[FieldError]:
    if result.errors:
        return [replace(error, pointer=at + error.pointer) for error in result.errors]
    return [FieldError(at, *_why(result))]


def _why(result: ImportResult) -> tuple[str, str | None]:
    if result.owner is not None:
        return (
            f"the job belongs to {result.owner}",
            "take it over (take_over=true), delete it there, or use another name",
        )
    return result.message or "", None


@dataclass(frozen=True, slots=True)
class Wish:
    """The desired jobs of a source: bodies as the API accepts them, each with its `secret_headers`.

    `channels` and `alert_policies` are bodies by name.
    """

    jobs: Sequence[object]
    source: str = ""
    prune: bool = False
    take_over: bool = False
    drop_secrets: bool = False
    expect: str | None = None
    channels: Mapping[str, object] = field(default_factory=dict)
    alert_policies: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job of the file; `fields` is empty for a new or an unchanged job."""

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
    channels: tuple[PlannedEntry, ...] = ()
    alert_policies: tuple[PlannedEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A parsed job with its secrets by field. The signing secret may be `generate`, which asks for a new one."""

    definition: Definition
    secrets: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SecretWork:
    """The secret changes of one job: values to set by field, None for a secret to generate."""

    to_set: Mapping[str, Plain | None] = field(default_factory=dict)
    fields: tuple[FieldChange, ...] = ()
    kept_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The sealed secrets of channels; True if some of them were generated, and are shown only once."""

    secrets: Sequence[ChannelSecrets]
    has_generated: bool


class Applying:
    def __init__(
        self,
        store: ControlStore,
        jobs: Jobs,
        alerts: AlertBundles,
        *,
        secrets: Secrets,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._alerts = alerts
        self._secrets = secrets
        self._now = now
        self._new_id = new_id

    async def apply(self, wish: Wish, user: User, *, dry_run: bool = False) -> AppliedPlan:
        """Make the jobs of a source match the wish, or in a dry run return the plan.

        Raises BodyError with all validation errors, PlanRefused, or Conflict (`plan_outdated` if the state is not the
        expected one). In all these cases nothing was changed.
        """
        user.must_be(Role.EDITOR, "to apply jobs")
        wanted, alerts = await self._read(wish, user, dry_run=dry_run)
        entries = [JobEntry(each.definition, self._new_id(), frozenset(each.secrets)) for each in wanted]
        rights = user.rights(drop_secrets=wish.drop_secrets)
        concerns_alerts = bool(wish.channels or wish.alert_policies or wish.prune)
        of_alerts = alerts.bundle if concerns_alerts else None
        bundle = Bundle(entries, FILE, wish.source, wish.prune, wish.take_over, alerts=of_alerts)
        now = self._now()
        planned = await self._store.apply_jobs(bundle, user.actor(now), expect=wish.expect, rights=rights, dry_run=True)
        if planned.refused or planned.alerts.refused:
            raise PlanRefused(planned.refused, planned.alerts.refused)
        compares = not dry_run or user.role.may(Role.ADMIN)  # else a dry run would confirm a guessed secret
        work = await self._secret_work(wanted, planned, now, compares=compares)
        channel_work = self._alerts.find_secrets(alerts, planned.alerts, compares=compares)
        generated: Mapping[UUID | None, Plain] = {}
        of_channels: Mapping[str, Plain] = {}
        if not dry_run:
            channel_secrets, of_channels = await self._alerts.seal(alerts, channel_work)
            prepared = _Prepared(channel_secrets, has_generated=bool(of_channels))
            generated = await self._write(bundle, planned, work, prepared, now, user, rights)
        jobs = tuple(
            _planned(job, each, of_job, generated.get(job.result.job_id))
            for job, each, of_job in zip(planned.jobs, wanted, work, strict=True)
        )
        channels, policies = self._alerts.plan(alerts, planned.alerts, channel_work, of_channels)
        return AppliedPlan(jobs, planned.undefined, planned.state, channels, policies)

    async def _write(
        self,
        bundle: Bundle,
        planned: Applied,
        work: Sequence[_SecretWork],
        channels: _Prepared,
        now: datetime,
        user: User,
        rights: Rights,
    ) -> dict[UUID | None, Plain]:
        """Apply the plan if its state is unchanged; return the generated secrets by job."""
        secrets: list[NewSecret] = []
        generated: dict[UUID | None, Plain] = {}
        for job, of_job in zip(planned.jobs, work, strict=True):
            for name, given in of_job.to_set.items():
                assert job.result.job_id is not None
                assert job.after is not None
                plain, sealed = await self._secrets.prepare(job.result.job_id, job.after.definition, given, name)
                old_until = now + KEEP_OLD if name == SIGNING else now
                max_age = (job.before or job.after).definition.max_age
                secrets.append(NewSecret(sealed, old_until, now + max_age))
                if given is None:
                    generated[job.result.job_id] = plain
        is_shown_once = bool(generated) or channels.has_generated  # a generated secret
        with contextlib.nullcontext() if is_shown_once else user.acting_once():
            await self._store.apply_jobs(
                bundle,
                user.actor(now),
                secrets=secrets,
                channel_secrets=channels.secrets,
                expect=planned.state,
                rights=rights,
            )
        return generated

    async def _read(self, wish: Wish, user: User, *, dry_run: bool) -> tuple[list[_Wanted], WantedAlerts]:
        errors: list[FieldError] = []
        alerts = await self._alerts.read(wish.channels, wish.alert_policies, user, errors, dry_run=dry_run)
        wanted = []
        for index, body in enumerate(wish.jobs):
            wanted.append(self._read_job(index, body, wish.source, user, errors))
            if index % JOBS_A_TURN == 0:
                await asyncio.sleep(0)
        if wish.prune and not (wish.jobs or wish.channels or wish.alert_policies):
            errors.append(FieldError("/jobs", "pruning by an empty list would delete every job of its source"))
        if errors:
            raise (BodyError if all(each.pointer.startswith("/jobs") for each in errors) else RequestError)(errors)
        return [each for each in wanted if each is not None], alerts

    def _read_job(self, index: int, body: object, source: str, user: User, errors: list[FieldError]) -> _Wanted | None:
        at = pointer_to("jobs", str(index))
        try:
            parsed = self._jobs.parse(body, user)
        except BodyError as error:
            errors += [replace(each, pointer=at + each.pointer) for each in error.errors]
            return None
        secrets = {f"{HEADER}{name}": value for name, value in parsed.headers.items()}
        if parsed.secret is not None:
            secrets[SIGNING] = Plain(parsed.secret)
        return _Wanted(replace(parsed.definition, managed_by=FILE, source=source), secrets)

    async def _secret_work(
        self, wanted: Sequence[_Wanted], planned: Applied, now: datetime, *, compares: bool
    ) -> list[_SecretWork]:
        """Find the secret changes of each job. Without `compares`, every given secret counts as changed."""
        ids = [job.result.job_id for job in planned.jobs if job.before is not None and job.result.job_id is not None]
        known = await self._secrets.current(ids, now)
        work = []
        for each, job in zip(wanted, planned.jobs, strict=True):
            assert job.result.job_id is not None
            after = each.definition if job.after is None else job.after.definition
            work.append(self._work_of(each, known.get(job.result.job_id, []), after, compares=compares))
        return work

    def _work_of(
        self, wanted: _Wanted, known: Sequence[Sealed], definition: Definition, *, compares: bool
    ) -> _SecretWork:
        origin = origin_of(definition)
        there = {each.field.lower(): each for each in known if header_name(each.field) is None or each.origin == origin}
        to_set: dict[str, Plain | None] = {}
        fields = []
        for name, given in wanted.secrets.items():
            stored = there.get(name.lower())  # header names are case-insensitive
            is_to_be_made = name == SIGNING and given.reveal() == GENERATE
            if stored is not None and (is_to_be_made or (compares and self._secrets.is_same(stored, given))):
                continue
            to_set[name] = None if is_to_be_made else given
            fields.append(hidden_change(_shown_field(name), was_there=stored is not None, is_there=True))
        names = {name.lower() for name in wanted.secrets}
        headers = [each.field for each in there.values() if header_name(each.field) is not None]
        kept = [each.removeprefix(HEADER) for each in headers if each.lower() not in names]
        return _SecretWork(to_set, tuple(fields), tuple(kept))


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
