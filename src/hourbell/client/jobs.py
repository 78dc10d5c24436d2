"""Jobs: defined, changed, run and looked at. A job is named by its name or its id."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, overload
from uuid import UUID

from hourbell.answers import (
    Backfill,
    ImportResult,
    Intention,
    Job,
    Plan,
    RotatedSecret,
    Run,
    Skip,
    Stats,
    Triggered,
    Upcoming,
    Version,
)
from hourbell.client.api_client import API, ApiClient, is_id, segment
from hourbell.client.batches import Batches
from hourbell.client.importing import Source, import_batches
from hourbell.client.pages import Page, Pages
from hourbell.client.reading import read
from hourbell.core.states import RunState

Ref = UUID | str
Definition = Mapping[str, Any]

_JOBS = f"{API}/jobs"


class Jobs:
    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def list(
        self,
        *,
        q: str | None = None,
        tag: str | None = None,
        state: str | None = None,
        target: str | None = None,
        managed_by: str | None = None,
        source: str | None = None,
        last_result: RunState | str | None = None,
        next_before: datetime | None = None,
        sort: str | None = None,
        secrets: bool = False,
        limit: int | None = None,
    ) -> Pages[Job]:
        """Jobs by name, or by when they fire next (`sort="next_at"`, and always with `next_before`).

        With `secrets`, each says which secrets it has.
        """
        query = {
            "q": q,
            "tag": tag,
            "state": state,
            "target": target,
            "managed_by": managed_by,
            "source": source,
            "last_result": last_result,
            "next_before": next_before,
            "sort": sort,
            "secrets": secrets or None,
        }
        return Pages(Job, lambda page: self._api.get(_JOBS, page), query, limit)

    @overload
    async def create(
        self, definition: Definition, *, dry_run: Literal[False] = False, idempotency_key: str | None = None
    ) -> Job: ...
    @overload
    async def create(
        self, definition: Definition, *, dry_run: Literal[True], idempotency_key: str | None = None
    ) -> Intention: ...
    @overload
    async def create(
        self, definition: Definition, *, dry_run: bool, idempotency_key: str | None = None
    ) -> Job | Intention: ...
    async def create(
        self, definition: Definition, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> Job | Intention:
        """Store a job that fires from now on, never for the past."""
        made = await self._api.post(_JOBS, definition, {"dry_run": dry_run or None}, key=idempotency_key)
        return read(Intention, made) if dry_run else read(Job, made)

    async def get(self, job: Ref) -> Job:
        """A job with its definition, its state, and which secrets it has."""
        return read(Job, await self._api.get(_path(job)))

    @overload
    async def replace(
        self,
        job: Ref,
        definition: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: Literal[False] = False,
    ) -> Job: ...
    @overload
    async def replace(
        self,
        job: Ref,
        definition: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: Literal[True],
    ) -> Intention: ...
    @overload
    async def replace(
        self,
        job: Ref,
        definition: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: bool,
    ) -> Job | Intention: ...
    async def replace(
        self,
        job: Ref,
        definition: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: bool = False,
    ) -> Job | Intention:
        """Put a definition in the place of the job's, or make a job of that name. What is absent is the default."""
        # A secret is made or taken only once: a second try would be refused, and could not tell it either.
        has_secret = "secret" in (definition.get("target") or {})
        query = _how(take_over=take_over, drop_backlog=drop_backlog, drop_secrets=drop_secrets, dry_run=dry_run)
        changed = await self._api.change(
            "PUT", _path(job), definition, query, expect_version=expect_version, may_repeat=dry_run or not has_secret
        )
        return read(Intention, changed) if dry_run else read(Job, changed)

    @overload
    async def patch(
        self,
        job: Ref,
        changes: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: Literal[False] = False,
    ) -> Job: ...
    @overload
    async def patch(
        self,
        job: Ref,
        changes: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: Literal[True],
    ) -> Intention: ...
    @overload
    async def patch(
        self,
        job: Ref,
        changes: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: bool,
    ) -> Job | Intention: ...
    async def patch(
        self,
        job: Ref,
        changes: Definition,
        *,
        expect_version: int | None = None,
        take_over: bool = False,
        drop_backlog: bool = False,
        drop_secrets: bool = False,
        dry_run: bool = False,
    ) -> Job | Intention:
        """Change what a JSON merge patch says; what is absent stays as it is, and None means the default."""
        query = _how(take_over=take_over, drop_backlog=drop_backlog, drop_secrets=drop_secrets, dry_run=dry_run)
        may_repeat = dry_run or expect_version is not None
        changed = await self._api.change(
            "PATCH", _path(job), changes, query, expect_version=expect_version, may_repeat=may_repeat
        )
        return read(Intention, changed) if dry_run else read(Job, changed)

    async def delete(
        self, job: Ref, *, expect_version: int | None = None, take_over: bool = False, purge: bool = False
    ) -> None:
        """Remove a job from use and cancel its waiting runs. Its history stays, or with `purge` goes too."""
        query = _how(take_over=take_over, purge=purge)
        # By name, a second try might meet a job that somebody has made since.
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
        """Stop planning, until then if said so. Runs already planned go on unless they are cancelled too."""
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
        """Plan again from now on; with `catch_up`, what the pause swallowed is planned as missed."""
        path, body = _path(job, "resume"), {"catch_up": catch_up}
        return read(Job, await self._api.post(path, body, key=idempotency_key, expect_version=expect_version))

    async def trigger(
        self, job: Ref, *, payload: Any = None, key: str | None = None, idempotency_key: str | None = None
    ) -> Triggered:
        """Add a run that is ready at once, also while the job is paused. The same `key` runs the job once, while
        that run is kept."""
        body = {name: value for name, value in (("payload", payload), ("key", key)) if value is not None}
        return read(Triggered, await self._api.post(_path(job, "trigger"), body, key=idempotency_key))

    async def backfill(
        self,
        job: Ref,
        start: datetime,
        end: datetime,
        *,
        per_minute: int | None = None,
        include_pruned: bool = False,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Make runs for the instants from start to end, both included, that have none yet, at a bounded rate."""
        body: dict[str, object] = {"from": start, "to": end}
        if per_minute is not None:
            body["per_minute"] = per_minute
        if include_pruned:
            body["include_pruned"] = True
        query = {"dry_run": dry_run or None}
        return read(Backfill, await self._api.post(_path(job, "backfill"), body, query, key=idempotency_key))

    async def rotate_secret(
        self, job: Ref, *, keep_old: str | timedelta | None = None, idempotency_key: str | None = None
    ) -> RotatedSecret:
        """Sign with a new secret, which the answer shows once; for a while the old one signs as well."""
        body = {} if keep_old is None else {"keep_old": keep_old}
        return read(RotatedSecret, await self._api.post(_path(job, "rotate-secret"), body, key=idempotency_key))

    async def upcoming(self, job: Ref, *, count: int | None = None, after: datetime | None = None) -> Page[Upcoming]:
        """When a job fires next. None while it is paused or in error."""
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
        """Runs of a job by the instant they are for, newest first."""
        path = _path(job, "runs")
        query = {"state": state, "since": since, "until": until}
        return Pages(Run, lambda page: self._api.get(path, page), query, limit)

    async def stats(self, job: Ref, *, since: datetime | None = None) -> Stats:
        """Counts, durations and lateness since a time, by default of the last seven days."""
        return read(Stats, await self._api.get(_path(job, "stats"), {"since": since}))

    def skips(self, job: Ref, *, limit: int | None = None) -> Pages[Skip]:
        """Instants of a job that got no run, with the reason, newest first."""
        path = _path(job, "skips")
        return Pages(Skip, lambda page: self._api.get(path, page), {}, limit)

    def versions(self, job: Ref, *, limit: int | None = None) -> Pages[Version]:
        """Every definition the job has had, with who changed it and when, newest first."""
        path = _path(job, "versions")
        return Pages(Version, lambda page: self._api.get(path, page), {}, limit)

    async def version(self, job: Ref, version: int) -> Version:
        """One definition the job has had."""
        return read(Version, await self._api.get(_path(job, "versions", str(version))))

    async def apply(
        self,
        jobs: Sequence[Definition],
        *,
        source: str = "",
        prune: bool = False,
        take_over: bool = False,
        drop_secrets: bool = False,
        expect: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Plan:
        """Make the jobs of a source these, all of it or nothing; a dry run only tells what that would do.

        Each job may have `secret_headers` besides. With `prune`, jobs of the source that are not among these go. With
        the `state` of an earlier plan as `expect`, it is refused if somebody has changed any of it since.
        """
        body: dict[str, object] = {"jobs": jobs, "source": source, "prune": prune, "take_over": take_over}
        body |= {"drop_secrets": True} if drop_secrets else {}
        body["expect"] = expect
        return read(
            Plan, await self._api.post(f"{_JOBS}/apply", body, {"dry_run": dry_run or None}, key=idempotency_key)
        )

    def import_jobs(
        self,
        source: Source,
        *,
        managed_by: str | None = None,
        source_label: str | None = None,
        prune: bool = False,
        take_over: bool = False,
        drop_secrets: bool = False,
        dry_run: bool = False,
    ) -> AsyncIterator[ImportResult]:
        """Create what is new and change what differs, by name, as the results are asked for; one for each line.

        The jobs are mappings, or lines of JSON as an open file has them. With `prune`, jobs of the same owner and
        `source_label` that were not imported are deleted.
        """
        query = {
            "managed_by": managed_by,
            "source": source_label,
            "prune": prune or None,
            "take_over": take_over or None,
            "drop_secrets": drop_secrets or None,
            "dry_run": dry_run or None,
        }
        return Batches(import_batches(self._api, source, query))


def _path(job: Ref, *more: str) -> str:
    return "/".join([_JOBS, segment(job), *more])


def _how(**flags: bool) -> dict[str, object]:
    return {name: True for name, is_set in flags.items() if is_set}
