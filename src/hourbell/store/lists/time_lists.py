"""Lists of scheduled times: the runs and skips of jobs, in a short form and by scheduled time."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.run.states import Kind, RunState, SkipReason
from hourbell.store.lists.pages import run_page, run_times_pages
from hourbell.store.lists.query import ListPosition, RunQuery
from hourbell.store.lists.statements import ListStatements
from hourbell.store.lists.times import FailedRun, RecentTimes, RunsOfDay, RunTime, SkipsOfDay, SkipTime
from hourbell.store.rows import Row

MAX_VERSIONS = 500  # of a job, looked at to name those of its skips
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_BIGGEST = 2**63 - 1
_OF_FAILED = tuple(field.name for field in fields(FailedRun))
_OF_SKIPS = tuple(field.name for field in fields(SkipsOfDay))
_Limits = Mapping[tuple[UUID, int], timedelta | None]


class TimeLists(ListStatements):
    """Lists of scheduled times."""

    async def run_times(
        self,
        job_id: UUID,
        limit: int,
        *,
        states: Collection[RunState] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: ListPosition | None = None,
    ) -> list[RunTime]:
        """Runs of a job in these states by (scheduled_at, id), newest first, after the given position.

        They are scheduled at or after `since` and before `until`.
        """
        pages = run_times_pages(job_id, states, since, until, limit, after)
        found = await self._answers([(page.statement(self._sql, "run_times"), page.values) for page in pages])
        rows = sorted((row for rows in found for row in rows), key=_by_time, reverse=True)
        return await self._run_times(rows[:limit])

    async def skip_times(
        self,
        job_id: UUID,
        limit: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        before: tuple[datetime, int] | None = None,
    ) -> list[SkipTime]:
        """Skips of a job by (last_at, id), newest first, before the one given.

        They have times at or after `since` and before `until`.
        """
        last_at, skip_id = before or (_LAST, _BIGGEST)
        if until is not None and until <= last_at:
            [row] = await self._rows("newest_skip", job_id=job_id, until=until)
            newest = until if row["last_at"] is None else row["last_at"]
            if newest < last_at:
                last_at, skip_id = newest, _BIGGEST
        values = {"job_id": job_id, "since": since or _FIRST, "until": until or _LAST, "limit": limit}
        rows = await self._rows("skip_times", **values, last_at=last_at, id=max(0, min(skip_id, _BIGGEST)))
        return [_skip_time(row) for row in rows]

    async def recent_times(self, job_ids: Sequence[UUID], limit: int) -> dict[UUID, RecentTimes]:
        """The newest runs of each job by (scheduled_at, id), and its newest skips by (last_at, id)."""
        if not job_ids:
            return {}
        values = {"job_ids": list(job_ids), "limit": limit}
        run_rows, skip_rows = await self._answers(
            [(self._sql["recent_runs"], values), (self._sql["recent_skips"], values)]
        )
        runs: dict[UUID, list[RunTime]] = {}
        for run in await self._run_times(sorted(run_rows, key=_by_time, reverse=True)):
            runs.setdefault(run.job_id, []).append(run)
        skips: dict[UUID, list[SkipTime]] = {}
        for skip in sorted(map(_skip_time, skip_rows), key=lambda each: (each.last_at, each.id), reverse=True):
            skips.setdefault(skip.job_id, []).append(skip)
        return {job_id: RecentTimes(runs.get(job_id, ()), skips.get(job_id, ())) for job_id in job_ids}

    async def recent_runs(self, job_ids: Sequence[UUID], limit: int) -> dict[UUID, list[RunTime]]:
        """The newest runs of each job by (scheduled_at, id)."""
        rows = await self._rows("recent_runs", job_ids=list(job_ids), limit=limit) if job_ids else []
        found: dict[UUID, list[RunTime]] = {job_id: [] for job_id in job_ids}
        for run in await self._run_times(sorted(rows, key=_by_time, reverse=True)):
            found[run.job_id].append(run)
        return found

    async def ended_times(self, job_id: UUID, limit: int) -> list[RunTime]:
        """The newest runs of a job that ended, by (scheduled_at, id), newest first."""
        return await self._run_times(await self._rows("ended_times", job_id=job_id, limit=limit))

    async def run_days(
        self, job_id: UUID, since: datetime, until: datetime, offset: timedelta, limit: int
    ) -> list[RunsOfDay]:
        """Count the newest runs of a job in a range by local day and state. Local time is UTC + offset."""
        values = {"job_id": job_id, "since": since, "until": until, "offset": offset, "limit": limit}
        rows = await self._rows("run_days", **values)
        return [RunsOfDay(row["day"], RunState(row["state"]), bool(row["late"]), row["runs"]) for row in rows]

    async def skip_days(
        self, job_id: UUID, since: datetime, until: datetime, offset: timedelta, limit: int
    ) -> list[SkipsOfDay]:
        """Sum up the newest skips of a job that end in a range by local day, and name each that lasts over midnight."""
        values = {"job_id": job_id, "since": since, "until": until, "offset": offset, "limit": limit}
        rows = await self._rows("skip_days", **values)
        return [SkipsOfDay(**{name: row[name] for name in _OF_SKIPS}) for row in rows]

    async def failed_runs(self, query: RunQuery, limit: int, after: ListPosition | None = None) -> list[FailedRun]:
        """A page of failed runs with their errors. Those of one job may be cleared; `query` asks for failed runs."""
        page = run_page(query, limit, after)
        [rows] = await self._answers([(page.statement(self._sql, "failed_runs"), page.values)])
        return [FailedRun(**{name: row[name] for name in _OF_FAILED}) for row in rows]

    async def version_times(self, job_id: UUID) -> list[tuple[int, datetime]]:
        """The newest 500 versions of a job, newest first, and since when each was valid."""
        rows = await self._rows("version_times", job_id=job_id, limit=MAX_VERSIONS)
        return [(row["version"], row["changed_at"]) for row in rows]

    async def _run_times(self, rows: Sequence[Row]) -> list[RunTime]:
        limits = await self._late_limits({(row["job_id"], row["job_version"]) for row in rows})
        return [_run_time(row, limits) for row in rows]

    async def _late_limits(self, versions: Iterable[tuple[UUID, int]]) -> _Limits:
        """Return `late_after` of each version of a job that there is."""
        keys = sorted(versions)
        if not keys:
            return {}
        job_ids, numbers = [job_id for job_id, _ in keys], [number for _, number in keys]
        rows = await self._rows("late_limits", job_ids=job_ids, versions=numbers)
        return {(row["job_id"], row["version"]): _seconds(row["late_after_seconds"]) for row in rows}


def _by_time(row: Row) -> tuple[datetime, bytes]:
    return row["scheduled_at"], row["id"].bytes


def _seconds(value: Any) -> timedelta | None:
    try:
        return None if value is None else timedelta(seconds=float(value))
    except (OverflowError, ValueError):
        return None


def _run_time(row: Row, limits: _Limits) -> RunTime:
    return RunTime(
        id=row["id"],
        job_id=row["job_id"],
        job_version=row["job_version"],
        kind=Kind(row["kind"]),
        state=RunState(row["state"]),
        scheduled_at=row["scheduled_at"],
        ready_at=row["ready_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        late_after=limits.get((row["job_id"], row["job_version"])),
        attempt=row["attempt"],
        reason=row.get("reason"),
        local_at=row.get("local_at"),
        replay_of=row.get("replay_of"),
        error=row.get("error"),
        status_code=row.get("status_code"),
    )


def _skip_time(row: Row) -> SkipTime:
    return SkipTime(row["id"], row["job_id"], row["first_at"], row["last_at"], row["count"], SkipReason(row["reason"]))
