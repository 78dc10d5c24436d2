"""Reads for the time line and for attention: which jobs need it, and what happened to the jobs of a page.

Every statement is bounded. A filter by attention looks up its jobs by key, or walks through all names if they are more
than MAX_CHOSEN_JOBS, which are then dense. Late jobs are those of the oldest waiting runs of each lane.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Job
from hourbell.core.run.attention import DUE_WITHIN, GROUPS, LOSING_WITHIN, Attention
from hourbell.core.run.plan import RESCAN_DELAY
from hourbell.core.run.states import Kind, RunState, SkipReason
from hourbell.core.run.timeline import RunCount, Window
from hourbell.store.lists.pages import Choice, job_page
from hourbell.store.lists.query import JobQuery, JobSort, JobView, ListPosition
from hourbell.store.lists.statements import Wanted
from hourbell.store.lists.time_lists import TimeLists
from hourbell.store.lists.timeline import (
    MAX_CHOSEN_JOBS,
    AttentionCounts,
    AttentionSets,
    BucketedRuns,
    JobFacts,
    ReadyHead,
    RetryingRun,
    TimelineRows,
    TimelineRun,
    TimelineSkip,
)
from hourbell.store.lists.views import job_view
from hourbell.store.rows import Row, outage_of

COUNTED_JOBS = 10_000  # of each reason for attention
MAX_OUTAGES = 1_000  # of a window
_MAX_LANES = 1_000
_OLDEST_OF_LANE = 1_000  # waiting runs, of each rank
_OLDEST_RUNS = 20_000  # of all lanes
_HEADS = 20  # waiting runs of each lane and rank, of which the first that may begin is found
_DURATIONS, _DURATIONS_AMONG = 20, 100  # succeeded runs, of so many of the newest
_STREAK = 1_000  # failed runs in a row
_LOST = 1_000  # skips of a job
_STEPS_TO_CHOOSE, _STEPS_TO_COUNT = 5_000, 10_000  # to find losing jobs: one for each job and hour
_COUNTED_RUNS = 200_000  # of a page of jobs, in buckets
_LEAST_PER_BUCKET = 10

_KINDS = {each.value: each for each in Kind}
_STATES = {each.value: each for each in RunState}


class TimelineReader(TimeLists):
    """Reads for the time line and for attention."""

    async def attention_sets(
        self, now: datetime, reasons: Iterable[Attention | None], last_result: str | None = None
    ) -> AttentionSets:
        """The jobs that need attention for these reasons, and those with this last result."""
        asked = set(reasons)
        wanted: dict[str, list[Wanted]] = {}
        if Attention.FAILING in asked:
            wanted["failing"] = [self._jobs_of_result("failed", MAX_CHOSEN_JOBS + 1)]
        if Attention.RETRYING in asked:
            wanted["retrying"] = [self._retrying_jobs(COUNTED_JOBS)]
        if Attention.LOSING in asked:
            wanted["losing"] = [self._losing_jobs(now, MAX_CHOSEN_JOBS + 1, _STEPS_TO_CHOOSE)]
        if Attention.LATE in asked:
            wanted["late"] = [self._late_jobs(now, COUNTED_JOBS)]
        if Attention.DUE in asked:
            wanted["due"] = [self._due_jobs(now, MAX_CHOSEN_JOBS + 1)]
        if last_result is not None:
            wanted["of_result"] = [self._jobs_of_result(last_result, MAX_CHOSEN_JOBS + 1)]
        found = await self._found(wanted)
        sets: dict[str, Any] = {
            name: _ids_within(rows, MAX_CHOSEN_JOBS) for name, rows in found.items() if name not in ("late", "retrying")
        }
        if _is_cut(found.get("losing", ()), _STEPS_TO_CHOOSE):
            sets["losing"] = None
        late = {row["job_id"]: row["due_at"] for row in found.get("late", ())}
        retrying = {
            row["job_id"]: RetryingRun(row["run_id"], row["attempt"], row["ready_at"], bool(row["is_running"]))
            for row in found.get("retrying", ())
        }
        return AttentionSets(now=now, late=late, retrying=retrying, **sets)

    async def attention_counts(self, now: datetime) -> AttentionCounts:
        """Count the jobs that need attention, at most COUNTED_JOBS for each reason."""
        limit = COUNTED_JOBS + 1
        found = await self._found(
            {
                "failing": [self._jobs_of_result("failed", limit)],
                "retrying": [self._retrying_jobs(limit)],
                "losing": [self._losing_jobs(now, limit, _STEPS_TO_COUNT)],
                "late": [self._late_jobs(now, limit)],
                "due_within_hour": [self._due_jobs(now, limit)],
            }
        )
        counts = {name: sum(row["job_id"] is not None for row in rows) for name, rows in found.items()}
        is_cut = {name: count > COUNTED_JOBS for name, count in counts.items()}
        is_cut["losing"] |= _is_cut(found["losing"], _STEPS_TO_COUNT)
        at_least = [name for name in counts if is_cut[name]]
        return AttentionCounts(**{name: min(count, COUNTED_JOBS) for name, count in counts.items()}, at_least=at_least)

    async def oldest_due_at(self) -> datetime | None:
        """Return the earliest `plan_at` of all jobs; None if nothing is planned."""
        rows = await self._rows("oldest_due_job")
        return next((row["plan_at"] for row in rows), None)

    async def ready_heads(self, now: datetime) -> list[ReadyHead]:
        """The lanes with a run that may begin, and since when the oldest such run is ready."""
        rows = await self._rows("ready_heads", now=now, lanes=_MAX_LANES, window=_HEADS)
        return [ReadyHead(row["lane"], row["ready_at"]) for row in rows if row["ready_at"] is not None]

    async def chosen_jobs(
        self,
        query: JobQuery,
        sets: AttentionSets,
        limit: int,
        after: ListPosition | None = None,
        *,
        groups: Sequence[Attention | None] = (),
    ) -> list[JobView]:
        """A page of jobs that need attention for the reason of the query, and whose first reason is that of a group.

        A group of None holds the jobs that need none. Without groups, jobs of all groups are listed together.
        """
        choice = _choice(query, sets, groups)
        if choice.ids is not None and not choice.ids:
            return []
        page = job_page(query, limit, after, choice)
        [rows] = await self._answers([(page.statement(self._sql, "jobs_page"), page.values)])
        return [job_view(row) for row in rows]

    async def choice_of(self, query: JobQuery, now: datetime) -> Choice:
        """Return what restricts a query of jobs to those that need attention for its reason."""
        return _choice(query, await self.attention_sets(now, [query.attention]), ())

    async def timeline_rows(self, jobs: Sequence[Job], sets: AttentionSets, window: Window, limit: int) -> TimelineRows:
        """Return the facts of jobs, and their runs and skips by scheduled time, oldest first, at most `limit` of each.

        The sets have the time, and the runs that are retrying if they were asked for.
        """
        assert sets.now is not None
        job_ids = [job.id for job in jobs]
        retrying = {job_id: sets.retrying[job_id] for job_id in job_ids if job_id in sets.retrying}
        span = {"since": window.start, "until": window.end}
        of_window = {"job_ids": job_ids, **span, "limit": limit}
        wanted: dict[str, dict[str, Any]] = {
            "job_facts": {
                "job_ids": job_ids,
                "enabled": [job.definition.enabled for job in jobs],
                "failures": _STREAK,
                "window": _DURATIONS_AMONG,
                "limit": _DURATIONS,
            },
            "lost_times": {"job_ids": job_ids, "lost_since": sets.now - LOSING_WITHIN, "limit": _LOST},
            "timeline_runs": of_window,
            "timeline_skips": of_window,
            "outages": {**span, "limit": MAX_OUTAGES, "before_at": window.end, "before_of": ""},
        }
        if retrying:
            wanted["retry_errors"] = {"run_ids": [run.run_id for run in retrying.values()]}
        read = await self._read([(self._sql[name], values) for name, values in wanted.items()])
        rows = dict(zip(wanted, read, strict=True))
        errors = {row["run_id"]: row["error"] for row in rows.get("retry_errors", ())}
        lost: dict[UUID, dict[SkipReason, int]] = defaultdict(dict)
        for row in rows["lost_times"]:
            lost[row["job_id"]][SkipReason(row["reason"])] = row["count"]
        facts = {}
        for row in rows["job_facts"]:
            job_id = row["job_id"]
            retry = retrying.get(job_id)
            facts[job_id] = JobFacts(
                last_state=row["last_state"],
                last_error=row["last_error"],
                streak=row["streak"] or 0,
                paused_at=row["paused_at"],
                lost=lost.get(job_id, {}),
                durations=row["durations"],
                retrying=retry,
                retry_error=None if retry is None else errors.get(retry.run_id),
            )
        return TimelineRows(
            facts,
            runs=await self._timeline_runs(jobs, rows["timeline_runs"]),
            skips=_timeline_skips(rows["timeline_skips"]),
            outages=list(map(outage_of, rows["outages"])),
        )

    async def _timeline_runs(self, jobs: Sequence[Job], rows: Sequence[Row]) -> dict[UUID, list[TimelineRun]]:
        """Return runs by job, oldest first. What is late is read only for versions before the present one."""
        limits = {(job.id, job.version): job.definition.late_after for job in jobs}
        older = {(row["job_id"], row["job_version"]) for row in rows} - limits.keys()
        known = {**limits, **await self._late_limits(older)}
        runs: dict[UUID, list[TimelineRun]] = defaultdict(list)
        for row in sorted(rows, key=itemgetter("scheduled_at")):
            runs[row["job_id"]].append(_timeline_run(row, known.get((row["job_id"], row["job_version"]))))
        return runs

    async def timeline_buckets(self, jobs: Mapping[UUID, timedelta], window: Window) -> dict[UUID, BucketedRuns]:
        """Count the runs of jobs by bucket; of each job is given what is late."""
        if not jobs:
            return {}
        starts = [window.first_bucket + index * window.bucket for index in range(window.buckets)]
        ends = [min(start + window.bucket, window.end) for start in starts]
        limit = max(_LEAST_PER_BUCKET, _COUNTED_RUNS // len(jobs) // len(starts))
        rows = await self._rows(
            "timeline_buckets",
            job_ids=list(jobs),
            late_after=list(jobs.values()),
            starts=starts,
            ends=ends,
            since=window.start,
            limit=limit + 1,
        )
        counts: dict[UUID, list[RunCount]] = defaultdict(list)
        totals: dict[tuple[UUID, datetime], int] = defaultdict(int)
        for row in rows:
            job_id, at = row["job_id"], row["bucket_at"]
            counts[job_id].append(RunCount(at, RunState(row["state"]), bool(row["is_late"]), row["count"]))
            totals[job_id, at] += row["count"]
        sampled = {job_id for (job_id, _), total in totals.items() if total > limit}
        return {job_id: BucketedRuns(counts.get(job_id, ()), job_id in sampled) for job_id in jobs}

    def _jobs_of_result(self, result: str, limit: int) -> Wanted:
        return self._sql["jobs_of_result"], {"result": result, "limit": limit}

    def _retrying_jobs(self, limit: int) -> Wanted:
        return self._sql["retrying_jobs"], {"total": _OLDEST_RUNS, "limit": limit}

    def _losing_jobs(self, now: datetime, limit: int, steps: int) -> Wanted:
        hour, last_hour = (
            at.astimezone(UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
            for at in (now - LOSING_WITHIN, now)
        )
        values = {"hour": hour, "last_hour": last_hour, "since": now - LOSING_WITHIN, "limit": limit}
        return self._sql["losing_jobs"], {**values, "steps": steps}

    def _late_jobs(self, now: datetime, limit: int) -> Wanted:
        values = {"now": now, "lanes": _MAX_LANES, "window": _OLDEST_OF_LANE, "total": _OLDEST_RUNS, "limit": limit}
        return self._sql["late_jobs"], values

    def _due_jobs(self, now: datetime, limit: int) -> Wanted:
        before = now + DUE_WITHIN
        return self._sql["due_jobs"], {"next_before": before, "plan_before": before + RESCAN_DELAY, "limit": limit}

    async def _found(self, wanted: Mapping[str, Sequence[Wanted]]) -> dict[str, list[Row]]:
        """The rows of the statements under each name, all as of one moment."""
        if not wanted:
            return {}
        found = iter(await self._answers([each for statements in wanted.values() for each in statements]))
        return {name: [row for _ in statements for row in next(found)] for name, statements in wanted.items()}


def _ids_within(rows: Sequence[Row], most: int) -> list[UUID] | None:
    """The jobs of the rows; None if they are too many."""
    ids = [row["job_id"] for row in rows if row["job_id"] is not None]
    return ids if len(ids) <= most else None


def _is_cut(losing: Sequence[Row], steps: int) -> bool:
    """Check if there may be more losing jobs than were found."""
    return any(row["steps"] >= steps for row in losing)


def _choice(query: JobQuery, sets: AttentionSets, groups: Sequence[Attention | None]) -> Choice:
    conditions: list[str] = []
    candidates: list[Sequence[UUID] | None] = [sets.of_result if query.last_result is not None else None]
    values: dict[str, Any] = {}
    for reason in (query.attention, *groups):
        match reason:
            case Attention.FAILING:
                conditions.append("job_is_failing")
                candidates.append(sets.failing)
            case Attention.RETRYING:
                conditions.append("job_is_retrying")
                candidates.append(list(sets.retrying))
            case Attention.LOSING:
                conditions.append("job_is_losing")
                candidates.append(sets.losing)
            case Attention.LATE:
                conditions.append("job_is_late")
                candidates.append(list(sets.late))
            case Attention.PAUSED:
                conditions.append("job_is_paused")
            case Attention.DUE:
                conditions += ["job_will_fire", "job_next_before"] if query.sort is JobSort.NEXT else ["job_is_due"]
                candidates.append(sets.due)
    if groups:
        [group] = groups
        earlier = GROUPS[: GROUPS.index(group)]
        no_more = {
            Attention.FAILING: "job_is_not_failing",
            Attention.RETRYING: "job_is_not_retrying",
            Attention.LOSING: "job_is_not_losing",
            Attention.LATE: "job_is_not_late",
            Attention.PAUSED: "job_is_enabled",
        }
        conditions += [no_more[each] for each in earlier if each is not None]
    assert sets.now is not None or not conditions
    if sets.now is not None:
        before = sets.now + DUE_WITHIN
        values = {
            "lost_since": sets.now - LOSING_WITHIN,
            "late_ids": list(sets.late),
            "retrying_ids": list(sets.retrying),
            "next_before": before,
            "plan_before": before + RESCAN_DELAY,
        }
    known = [ids for ids in candidates if ids is not None]
    return Choice(tuple(dict.fromkeys(conditions)), values, min(known, key=len) if known else None)


def _timeline_skips(rows: Sequence[Row]) -> dict[UUID, list[TimelineSkip]]:
    """Return skips by job, oldest first."""
    skips: dict[UUID, list[TimelineSkip]] = defaultdict(list)
    for row in sorted(rows, key=itemgetter("last_at")):
        skip = TimelineSkip(row["first_at"], row["last_at"], row["count"], SkipReason(row["reason"]))
        skips[row["job_id"]].append(skip)
    return skips


def _timeline_run(row: Row, late_after: timedelta | None) -> TimelineRun:
    return TimelineRun(
        row["id"],
        _KINDS[row["kind"]],
        _STATES[row["state"]],
        row["reason"],
        row["scheduled_at"],
        row["ready_at"],
        row["started_at"],
        row["finished_at"],
        row["attempt"],
        late_after,
        row["error"],
    )
