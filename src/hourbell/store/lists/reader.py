"""Lists and single objects for users: the statements of each query, and the views of their rows.

Rows that belong together are read as of one moment.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.conflicts import JobConflict
from hourbell.core.run.outages import Outage
from hourbell.core.run.states import RunState
from hourbell.store.lists.pages import job_page, run_page
from hourbell.store.lists.query import (
    AttemptView,
    AuditRow,
    ChangedIncident,
    ChangedJob,
    ChangeMark,
    Changes,
    EndedRun,
    InstantFacts,
    JobQuery,
    JobSort,
    JobView,
    Late,
    ListPosition,
    NodeView,
    Overview,
    RunQuery,
    RunView,
    ScheduleGroup,
    SkipView,
    VersionView,
)
from hourbell.store.lists.statements import Wanted
from hourbell.store.lists.timeline import AttentionSets
from hourbell.store.lists.timeline_reader import TimelineReader
from hourbell.store.lists.views import (
    attempt_view,
    audit_row,
    changed_run,
    ended_run,
    instant_facts,
    job_conflict,
    job_view,
    listed_job_row,
    node_view,
    run_view,
    skip_view,
    unplanned_version,
    version_view,
    with_definition,
)
from hourbell.store.rows import Row, outage_of, shown_job_of

LATE_WINDOW = 5_000  # the latest to start, and the last to end
COUNTED = 100_000  # ended runs in an overview
_SOURCES = 50  # an owner with more sources is not walked source by source
_DELETED = "job.delete"
_BIGGEST, _BIGGEST_VERSION = 2**63 - 1, 2**31 - 1

_LATEST = Late(timedelta(days=10_000_000), UUID(int=2**128 - 1))  # before the run that started last
_LONG_AGO, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_FIRST_TO_EXPIRE = ListPosition(datetime(1, 1, 2, tzinfo=UTC), UUID(int=0))  # before the run that expires first


class ListStore(TimelineReader):
    """Reads lists and single objects."""

    async def job(self, ref: str | UUID, *, deleted: bool = False) -> JobView | None:
        """Return a job by id or name; with `deleted`, a deleted job can be found by id."""
        name = "job_by_id" if isinstance(ref, UUID) else "job_by_name"
        rows = await self._rows(name, ref=ref)
        return next((job_view(row) for row in rows if deleted or row["deleted_at"] is None), None)

    async def jobs(
        self, query: JobQuery, limit: int, after: ListPosition | None = None, now: datetime | None = None
    ) -> list[JobView]:
        """Return a page of jobs. The position holds the name, `plan_at`, or only the id.

        Who needs attention depends on the time, so that a query with `attention` needs `now`.
        """
        if query.attention is not None or query.names is not None:
            sets = AttentionSets() if now is None else await self.attention_sets(now, [query.attention])
            return await self.chosen_jobs(query, sets, limit, after)
        sources = await self._sources_to_walk(query)
        queries = [query] if sources is None else [replace(query, source=source) for source in sources]
        pages = [job_page(each, limit, after) for each in queries]
        found = await self._answers([(page.statement(self._sql, "jobs_page"), page.values) for page in pages])
        if sources is None:
            return [job_view(row) for row in found[0]]
        rows = sorted((row for rows in found for row in rows), key=lambda row: str(row["name"]))
        return [job_view(row) for row in rows[:limit]]

    async def count_jobs(self, query: JobQuery, limit: int, now: datetime) -> int:
        """Count the jobs of a query, up to `limit`. It walks the same indexes as a page."""
        choice = await self.choice_of(query, now)
        if choice.ids is not None and not choice.ids:
            return 0
        sources = await self._sources_to_walk(query)
        queries = [query] if sources is None else [replace(query, source=source) for source in sources]
        pages = [job_page(each, limit, None, choice) for each in queries]
        found = await self._answers([(page.statement(self._sql, "jobs_count"), page.values) for page in pages])
        number: int = sum(row["number"] for rows in found for row in rows)
        return min(limit, number)

    async def _sources_to_walk(self, query: JobQuery) -> list[str] | None:
        """Return the sources of an owner, to walk each by name; None if another index serves the query."""
        is_by_owner = query.managed_by not in (None, "api") and query.source is None
        if not is_by_owner or query.sort is not JobSort.NAME or query.tag is not None or query.state is not None:
            return None
        rows = await self._rows("sources", managed_by=query.managed_by, limit=_SOURCES + 1)
        return None if len(rows) > _SOURCES else [row["source"] for row in rows]

    async def run(self, run_id: UUID) -> RunView | None:
        """Return a run."""
        return next(map(run_view, await self._rows("run", run_id=run_id)), None)

    async def attempts(self, run_id: UUID) -> list[AttemptView]:
        """Return the ended attempts of a run, in order."""
        return [attempt_view(row) for row in await self._rows("attempts", run_id=run_id)]

    async def runs(self, query: RunQuery, limit: int, after: ListPosition | None = None) -> list[RunView]:
        """Return a page of runs. Its position holds the time that the list is sorted by."""
        page = run_page(query, limit, after)
        [rows] = await self._answers([(page.statement(self._sql, "runs_page"), page.values)])
        return await self._listed_runs(rows)

    async def _listed_runs(self, rows: Sequence[Row]) -> list[RunView]:
        """Return views of runs in a list. A definition too long for a list is read once, without its long values."""
        keys = list({(row["job_id"], row["job_version"]) for row in rows if row["definition"] is None})
        if not keys:
            return [run_view(row) for row in rows]
        job_ids, versions = [job_id for job_id, _ in keys], [version for _, version in keys]
        found = await self._rows("long_definitions", job_ids=job_ids, versions=versions)
        known = {(row["job_id"], row["version"]): row for row in found}
        return [run_view(row if row["definition"] is not None else with_definition(row, known)) for row in rows]

    async def late_runs(
        self,
        now: datetime,  # noqa: ARG002 - only ended runs count
        limit: int,
        after: Late | None = None,
    ) -> list[RunView]:
        """Return ended runs that started later than their job's `late_after`, worst first; at most 5,000 are examined.

        Runs late by ten seconds or less are searched among the last 5,000 runs to end.
        """
        position = after or _LATEST
        values = {"window": LATE_WINDOW, "limit": limit, "after_lateness": position.lateness, "after_id": position.id}
        return await self._listed_runs(await self._rows("late_runs", **values))

    async def stuck_runs(
        self, ready_before: datetime, limit: int, *, untried: bool = False, after: ListPosition | None = None
    ) -> list[RunView]:
        """Return waiting runs that were planned and ready before then, by expiry; if asked, only those never tried."""
        position = after or _FIRST_TO_EXPIRE
        values = {"ready_before": ready_before, "untried": untried, "after_key": position.key, "after_id": position.id}
        rows = await self._rows("stuck_runs", **values, limit=limit)
        return await self._listed_runs(rows)

    async def skips(self, job_id: UUID, limit: int, before: tuple[datetime, int] | None = None) -> list[SkipView]:
        """Return a page of a job's skips by (last_at, id), newest first, before the given one."""
        if before is None:
            return [skip_view(row) for row in await self._rows("skips", job_id=job_id, limit=limit)]
        position = {"last_at": before[0], "id": _within(before[1], _BIGGEST)}
        return [skip_view(row) for row in await self._rows("skips_before", job_id=job_id, limit=limit, **position)]

    async def versions(self, job_id: UUID, limit: int, before: int | None = None) -> list[VersionView]:
        """Return a page of a job's versions, newest first, before the given one."""
        below = _BIGGEST_VERSION if before is None else _within(before, _BIGGEST_VERSION)
        return [version_view(row) for row in await self._rows("versions", job_id=job_id, limit=limit, before=below)]

    async def version(self, job_id: UUID, version: int) -> VersionView | None:
        """Return a version of a job as it was stored."""
        number = _within(version, _BIGGEST_VERSION)
        return next(map(version_view, await self._rows("version", job_id=job_id, version=number)), None)

    async def instant(self, job_id: UUID, at: datetime) -> InstantFacts | None:
        """Return the facts about one scheduled time of a job; None if the job does not exist."""
        values = {"job_id": job_id, "at": at}
        names = ("version_at", "change_at", "run_at", "replays_at", "skips_at", "outages_at")
        jobs, versions, changes, runs, replays, skips, outages = await self._read(
            [(self._sql["job_by_id"], {"ref": job_id}), *((self._sql[name], values) for name in names)]
        )
        if not jobs:
            return None
        version = unplanned_version(at, jobs[0], changes) or next(map(version_view, versions), None)
        view = job_view(jobs[0])
        return instant_facts(
            at, view, version=version, runs=runs, replays=replays, skips=skips, outages=list(map(outage_of, outages))
        )

    async def ended(self, job_id: UUID, since: datetime, limit: int) -> list[EndedRun]:
        """Return the newest ended runs of a job that were scheduled since then."""
        return [ended_run(row) for row in await self._rows("ended", job_id=job_id, since=since, limit=limit)]

    async def without_run(self, job_id: UUID, instants: Sequence[datetime]) -> list[datetime]:
        """Return the times that have neither a scheduled nor a backfilled run."""
        rows = await self._rows("with_run", job_id=job_id, instants=list(instants))
        taken = {row["at"] for row in rows}
        return [instant for instant in instants if instant not in taken]

    async def without_skip(self, job_id: UUID, instants: Sequence[datetime]) -> list[datetime]:
        """Return the times that no skip covers."""
        return [row["at"] for row in await self._rows("without_skip", job_id=job_id, instants=list(instants))]

    async def overview(self, since: datetime) -> Overview:
        """Count jobs and runs; ended runs are counted since then, at most 100,000 of them."""
        [[counts], ended] = await self._read(
            [(self._sql["overview"], {}), (self._sql["ended_since"], {"since": since, "limit": COUNTED})]
        )
        return Overview(**counts, ended={RunState(row["state"]): row["count"] for row in ended})

    async def schedules(self, limit: int) -> tuple[list[ScheduleGroup], int]:
        """Group jobs that will fire by their scheduled times, the most common first; count the jobs left out."""
        rows = await self._rows("schedules", limit=limit)
        groups = [ScheduleGroup(shown_job_of(listed_job_row(row)).definition, row["jobs"]) for row in rows]
        total = int(rows[0]["all_jobs"]) if rows else 0
        return groups, total - sum(group.jobs for group in groups)

    async def nodes(self, beat_after: datetime) -> list[NodeView]:
        """Return the nodes with a heartbeat since then, the newest last."""
        return [node_view(row) for row in await self._rows("nodes", beat_after=beat_after)]

    async def tags(self, limit: int, after: str = "") -> list[str]:
        """Return a page of the tags that jobs have, in order, after the given one."""
        return [row["tag"] for row in await self._rows("tags", limit=limit, after=after)]

    async def outages(
        self,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[Outage]:
        """Return a page of the outages that touch the span, newest first, that began before the given one."""
        before_at, before_of = before or (_NEVER, "")
        values = {"since": since or _LONG_AGO, "until": until or _NEVER, "limit": limit}
        rows = await self._rows("outages", **values, before_at=before_at, before_of=before_of)
        return [outage_of(row) for row in rows]

    async def conflicts(self, beat_after: datetime) -> list[JobConflict]:
        """Return jobs that a program defines, on a node with a heartbeat since then, but that have another owner."""
        return [job_conflict(row) for row in await self._rows("job_conflicts", beat_after=beat_after)]

    async def audit(self, limit: int, before: int | None = None, subject: str | None = None) -> list[AuditRow]:
        """Return a page of the audit, newest first, before the given row."""
        values: dict[str, Any] = {"limit": limit, "before": _BIGGEST if before is None else _within(before, _BIGGEST)}
        if subject is None:
            return [audit_row(row) for row in await self._rows("audit", **values)]
        return [audit_row(row) for row in await self._rows("audit_of_subject", **values, subject=subject)]

    async def audit_entry(self, entry_id: int) -> AuditRow | None:
        """Return one row of the audit."""
        return next(map(audit_row, await self._rows("audit_entry", id=_within(entry_id, _BIGGEST))), None)

    async def changes(self, since: ChangeMark | None, now: datetime, limit: int) -> Changes:
        """Return the jobs that changed, and the runs that started, reported something or ended, since the mark; without
        a mark, only the current position.
        """
        newest: Wanted = (self._sql["newest_audit"], {})
        if since is None:
            [[row]] = await self._read([newest])
            return Changes((), (), True, ChangeMark(now, row["newest"]))
        values = {"since": since.at, "audit_id": since.audit_id, "limit": limit + 1}
        names = ("changed_jobs", "deletions", "begun_runs", "noted_runs", "ended_runs", "changed_incidents")
        [[last], changed, deletions, begun, noted, ended, incidents] = await self._read(
            [newest, *((self._sql[name], values) for name in names)]
        )
        jobs = _changed_jobs(changed, deletions)
        # A run with notes has also started; report it once.
        runs = list({row["id"]: changed_run(row) for row in [*ended, *begun, *noted]}.values())
        found = [ChangedIncident(row["id"], row["state"]) for row in incidents]
        counts = (len(changed), len(deletions), len(jobs), len(runs), len(found))
        is_whole = max(counts) <= limit and all(row["action"] == _DELETED for row in deletions)
        return Changes(jobs[:limit], runs[:limit], is_whole, ChangeMark(now, last["newest"]), found[:limit])


def _changed_jobs(changed: Sequence[Row], deletions: Sequence[Row]) -> list[ChangedJob]:
    """Return each changed job at its newest version, or as deleted. Jobs that an import pruned are not included."""
    versions: dict[UUID, int | None] = {}
    for row in sorted(changed, key=lambda row: int(row["version"])):
        versions[row["job_id"]] = row["version"]
    for row in deletions:
        if row["action"] == _DELETED:
            versions[UUID(row["subject"])] = None
    return [ChangedJob(job_id, version) for job_id, version in versions.items()]


def _within(number: int, limit: int) -> int:
    """Limit a number to the range of the database's integers; no row is beyond it."""
    return max(-limit, min(number, limit))
