"""Methods of the client for jobs. Refer to a job by its name or its id.

A method `preview_…` takes the same arguments as its counterpart, returns what that would do, and changes nothing.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypedDict, Unpack
from uuid import UUID

from hourbell.answers.jobs import (
    Backfill,
    ImportResult,
    Intention,
    Job,
    JobBulk,
    Plan,
    RotatedSecret,
    Skip,
    Stats,
    Upcoming,
    Version,
)
from hourbell.answers.runs import Run, Triggered
from hourbell.answers.times import Days, LedgerItem, Series
from hourbell.client.api_client import API, DRY_RUN, ApiClient, Edit, is_id, segment, set_options
from hourbell.client.batches import Batches
from hourbell.client.importing import Source, import_batches
from hourbell.client.pages import Page, Pages
from hourbell.client.reading import read
from hourbell.core.run.fates import Fate
from hourbell.core.run.states import RunState

Ref = UUID | str
Definition = Mapping[str, Any]

_JOBS = f"{API}/jobs"


class JobFilter(TypedDict, total=False):
    """A filter and a sort order for lists of jobs. With `secrets`, each job lists its secrets, without values;
    with `recent`, it has so many of its newest scheduled times, and figures."""

    q: str | None  # prefix of the name
    tag: str | None
    state: str | None
    target: str | None
    managed_by: str | None
    source: str | None
    subject: str | None
    last_result: RunState | str | None
    next_before: datetime | None
    attention: str | None
    sort: str | None
    secrets: bool
    recent: int | None


class BulkOptions(TypedDict, total=False):
    """Options of `bulk`: either `jobs` or `filter`, such as `{"tag": "billing"}` or `{"all": True}`.

    With `expect`, nothing is changed if another number of jobs matches.
    """

    jobs: Sequence[str] | None
    filter: Mapping[str, Any] | None
    expect: int | None
    note: str
    until: datetime | None
    tags: Sequence[str]
    payload: Any


class EditOptions(TypedDict, total=False):
    take_over: bool
    drop_backlog: bool
    drop_secrets: bool
    approve_command: bool


class ApplyOptions(TypedDict, total=False):
    """Options of `apply`. `prune` deletes what belongs to the source and is not given."""

    source: str
    prune: bool
    take_over: bool
    drop_secrets: bool
    channels: Mapping[str, Mapping[str, Any]]
    alert_policies: Mapping[str, Mapping[str, Any]]


class ImportOptions(TypedDict, total=False):
    source: str
    prune: bool
    take_over: bool
    drop_secrets: bool
    managed_by: str | None


class Jobs:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def list(self, *, limit: int | None = None, **filters: Unpack[JobFilter]) -> Pages[Job]:
        """List jobs by name, or by their next time (with `sort="next_at"`, and always with `next_before`)."""
        return Pages(Job, lambda page: self._api.get(_JOBS, page), set_options(filters), limit)

    async def create(
        self, definition: Definition, *, run_on_create: bool = False, idempotency_key: str | None = None
    ) -> Job:
        """Create a job. It fires from now on, never for past times; with `run_on_create` it also runs once at once."""
        query = set_options({"run_on_create": run_on_create})
        return read(Job, await self._api.post(_JOBS, definition, query, key=idempotency_key))

    async def preview_create(self, definition: Definition) -> Intention:
        return read(Intention, await self._api.post(_JOBS, definition, DRY_RUN))

    async def get(self, job: Ref, *, recent: int | None = None) -> Job:
        """Return a job with its definition, its state and its secrets, without their values.

        With `recent`, it also has so many of its newest scheduled times, and figures.
        """
        return read(Job, await self._api.get(_path(job), {"recent": recent}))

    async def replace(
        self,
        job: Ref,
        definition: Definition,
        *,
        expect_version: int | None = None,
        **options: Unpack[EditOptions],
    ) -> Job:
        """Replace the definition of a job, or create a job with that name. Absent fields get their defaults."""
        # A secret is created or accepted only once: a retry would be refused, and could not return it either.
        has_secret = "secret" in (definition.get("target") or {})
        edit = Edit("PUT", _path(job), definition, set_options(options), expect_version)
        return read(Job, await self._api.edit(edit, may_repeat=not has_secret))

    async def preview_replace(self, job: Ref, definition: Definition, **options: Unpack[EditOptions]) -> Intention:
        edit = Edit("PUT", _path(job), definition, {**set_options(options), **DRY_RUN})
        return read(Intention, await self._api.edit(edit, may_repeat=True))

    async def patch(
        self,
        job: Ref,
        changes: Definition,
        *,
        expect_version: int | None = None,
        **options: Unpack[EditOptions],
    ) -> Job:
        """Change a job by a JSON merge patch: absent fields stay as they are, None restores the default."""
        edit = Edit("PATCH", _path(job), changes, set_options(options), expect_version)
        return read(Job, await self._api.edit(edit, may_repeat=expect_version is not None))

    async def preview_patch(self, job: Ref, changes: Definition, **options: Unpack[EditOptions]) -> Intention:
        edit = Edit("PATCH", _path(job), changes, {**set_options(options), **DRY_RUN})
        return read(Intention, await self._api.edit(edit, may_repeat=True))

    async def delete(
        self, job: Ref, *, expect_version: int | None = None, take_over: bool = False, purge: bool = False
    ) -> None:
        """Delete a job and cancel its waiting runs. Its history stays, unless you pass `purge`."""
        query = set_options({"take_over": take_over, "purge": purge})
        # By name, a retry might delete a job that was created since.
        await self._api.delete(_path(job), query, expect_version=expect_version, may_repeat=is_id(job))

    async def pause(
        self,
        job: Ref,
        *,
        note: str = "",
        until: datetime | None = None,
        cancel_waiting: bool = False,
        expect_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Pause a job, until a time if given. Planned runs still run, unless you pass `cancel_waiting`."""
        body = {"note": note, "until": until, "cancel_waiting": cancel_waiting}
        path = _path(job, "pause")
        return read(Job, await self._api.post(path, body, key=idempotency_key, expect_version=expect_version))

    async def resume(
        self,
        job: Ref,
        *,
        catch_up: bool = False,
        expect_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Resume a job from now on; with `catch_up`, times missed during the pause get the job's catch-up policy."""
        path, body = _path(job, "resume"), {"catch_up": catch_up}
        return read(Job, await self._api.post(path, body, key=idempotency_key, expect_version=expect_version))

    async def trigger(
        self, job: Ref, *, payload: Any = None, key: str | None = None, idempotency_key: str | None = None
    ) -> Triggered:
        """Trigger a job: add a run that is ready at once, also while the job is paused.

        Calls with the same `key` return the same run, as long as retention keeps that run.
        """
        body = {name: value for name, value in (("payload", payload), ("key", key)) if value is not None}
        return read(Triggered, await self._api.post(_path(job, "trigger"), body, key=idempotency_key))

    async def bulk(self, action: str, *, idempotency_key: str | None = None, **options: Unpack[BulkOptions]) -> JobBulk:
        """Pause, resume, trigger, delete, tag or untag the named jobs, or those that match a filter; at most 1,000."""
        body = {"action": action, **set_options(options)}
        return read(JobBulk, await self._api.post(f"{_JOBS}/bulk", body, key=idempotency_key))

    async def preview_bulk(self, action: str, **options: Unpack[BulkOptions]) -> JobBulk:
        body = {"action": action, **set_options(options)}
        return read(JobBulk, await self._api.post(f"{_JOBS}/bulk", body, DRY_RUN))

    async def backfill(
        self,
        job: Ref,
        start: datetime,
        end: datetime,
        *,
        per_minute: int | None = None,
        include_pruned: bool = False,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Add runs for the scheduled times from start to end (inclusive) that have none, at most `per_minute`."""
        body = set_options({"per_minute": per_minute, "include_pruned": include_pruned})
        return await self._backfill(job, {"from": start, "to": end, **body}, key=idempotency_key)

    async def preview_backfill(
        self, job: Ref, start: datetime, end: datetime, *, include_pruned: bool = False
    ) -> Backfill:
        body = set_options({"include_pruned": include_pruned})
        return await self._backfill(job, {"from": start, "to": end, **body}, DRY_RUN)

    async def _backfill(
        self, job: Ref, body: Definition, query: Definition | None = None, key: str | None = None
    ) -> Backfill:
        return read(Backfill, await self._api.post(_path(job, "backfill"), body, query, key=key))

    async def rotate_secret(
        self, job: Ref, *, keep_old: str | timedelta | None = None, idempotency_key: str | None = None
    ) -> RotatedSecret:
        """Replace the signing secret and return the new one, once. The old one signs, too, for the time `keep_old`."""
        body = {} if keep_old is None else {"keep_old": keep_old}
        return read(RotatedSecret, await self._api.post(_path(job, "rotate-secret"), body, key=idempotency_key))

    async def upcoming(self, job: Ref, *, count: int | None = None, after: datetime | None = None) -> Page[Upcoming]:
        """Return the next times of a job; the page is empty while the job is paused or in error."""
        return Page.of(Upcoming, await self._api.get(_path(job, "upcoming"), {"count": count, "after": after}))

    def runs(
        self,
        job: Ref,
        *,
        state: RunState | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Pages[Run]:
        """List the runs of a job by scheduled time, newest first."""
        path = _path(job, "runs")
        query = {"state": state, "since": since, "until": until}
        return Pages(Run, lambda page: self._api.get(path, page), query, limit)

    def times(
        self,
        job: Ref,
        *,
        start: datetime | None = None,
        until: datetime | None = None,
        fate: Fate | str | Sequence[Fate | str] | None = None,
        limit: int | None = None,
    ) -> Pages[LedgerItem]:
        """List the scheduled times of a job with the fate of each, newest first.

        `fate` is one fate or several. A page of rare fates may hold fewer items than its limit, while more follow.
        """
        path = _path(job, "times")
        query = {"from": start, "until": until, "fate": fate}
        return Pages(LedgerItem, lambda page: self._api.get(path, page), query, limit)

    async def days(self, job: Ref, *, start: date | None = None, until: date | None = None) -> Days:
        """Count what became of the scheduled times of a job on each date from start to until, both included."""
        query = {"from": start and start.isoformat(), "until": until and until.isoformat()}
        return read(Days, await self._api.get(_path(job, "days"), query))

    async def series(self, job: Ref, *, limit: int | None = None) -> Series:
        """Return the newest ended runs of a job, oldest first, with their durations and lateness."""
        return read(Series, await self._api.get(_path(job, "series"), {"limit": limit}))

    async def stats(self, job: Ref, *, since: datetime | None = None) -> Stats:
        """Return counts, durations and lateness of runs since a time, by default of the last seven days."""
        return read(Stats, await self._api.get(_path(job, "stats"), {"since": since}))

    def skips(self, job: Ref, *, limit: int | None = None) -> Pages[Skip]:
        """List the scheduled times of a job that got no run, with the reason, newest first."""
        path = _path(job, "skips")
        return Pages(Skip, lambda page: self._api.get(path, page), {}, limit)

    def versions(self, job: Ref, *, limit: int | None = None) -> Pages[Version]:
        """List all versions of a job, with who made each and when, newest first."""
        path = _path(job, "versions")
        return Pages(Version, lambda page: self._api.get(path, page), {}, limit)

    async def version(self, job: Ref, version: int) -> Version:
        """Return one version of a job."""
        return read(Version, await self._api.get(_path(job, "versions", str(version))))

    async def apply(
        self,
        jobs: Sequence[Definition],
        *,
        expect: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[ApplyOptions],
    ) -> Plan:
        """Apply a list of jobs to a source atomically, with `channels` and `alert_policies` by name.

        Each job may also have `secret_headers`. Pass the `state` of an earlier plan as `expect`: the call is refused
        if any of this changed since.
        """
        body = {"jobs": jobs, **set_options(options), **set_options({"expect": expect})}
        return read(Plan, await self._api.post(f"{_JOBS}/apply", body, key=idempotency_key))

    async def preview_apply(self, jobs: Sequence[Definition], **options: Unpack[ApplyOptions]) -> Plan:
        return read(Plan, await self._api.post(f"{_JOBS}/apply", {"jobs": jobs, **set_options(options)}, DRY_RUN))

    def import_jobs(self, jobs: Source, **options: Unpack[ImportOptions]) -> AsyncIterator[ImportResult]:
        """Import jobs by name: create new ones, change those that differ, and yield one result for each line.

        The jobs are mappings, or lines of JSON such as an open file. They are sent as you iterate over the results.
        """
        return Batches(import_batches(self._api, jobs, set_options(options)))

    def preview_import(self, jobs: Source, **options: Unpack[ImportOptions]) -> AsyncIterator[ImportResult]:
        return Batches(import_batches(self._api, jobs, {**set_options(options), **DRY_RUN}))


def _path(job: Ref, *more: str) -> str:
    return "/".join([_JOBS, segment(job), *more])
