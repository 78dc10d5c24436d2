"""The time line: jobs with their runs, their skips and their planned times in a window, and who needs attention."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from hourbell.control.calculations import calculate_much
from hourbell.control.pages import BadCursor, Page, cursor_of, number_of, page_of, parts_of, position_of
from hourbell.control.waiting import is_served
from hourbell.core.run.attention import GROUPS, Attention, first_reason
from hourbell.core.run.attention_notes import failing_note, late_note, losing_note, paused_note, retrying_note
from hourbell.core.run.fates import is_late
from hourbell.core.run.outages import Outage
from hourbell.core.run.timeline import (
    Bucket,
    SkippedRange,
    Window,
    count_planned,
    count_planned_by_bucket,
    fill_buckets,
    median_duration,
    planned_from,
    planned_times,
    waits_late,
)
from hourbell.core.schedule import ScheduleError
from hourbell.store.base import LIVE_FOR
from hourbell.store.lists.query import JobQuery, JobView, ListPosition
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.timeline import (
    AttentionCounts,
    AttentionSets,
    BucketedRuns,
    JobFacts,
    TimelineRun,
    TimelineSkip,
)

MAX_SPAN = timedelta(days=62)
MAX_MARKS = 10_000  # of all jobs of a page
_ZERO = timedelta(0)


class TimelineSort(StrEnum):
    ATTENTION = "attention"  # failing, retrying, losing, late and paused jobs, then the others; each by name
    NAME = "name"
    NEXT = "next"  # only jobs that will fire


@dataclass(frozen=True, slots=True)
class TimelineRetry:
    """A run whose last attempt failed, and when the next one may begin; None while that is running."""

    run_id: UUID
    attempt: int  # that failed
    next_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class TimelineItem:
    """A job in a window. With `buckets`, its runs and planned times are too many to be listed."""

    view: JobView
    facts: JobFacts
    attention: Attention | None
    attention_note: str | None
    streak: int
    retry: TimelineRetry | None
    runs: Sequence[TimelineRun]
    skips: Sequence[TimelineSkip]
    planned: Sequence[datetime]
    buckets: Sequence[Bucket] | None
    is_sampled: bool
    now: datetime

    @property
    def median_duration(self) -> timedelta | None:
        return median_duration(self.facts.durations)

    def is_late(self, run: TimelineRun) -> bool:
        if run.started_at is None:
            return waits_late(run.kind, run.state, run.scheduled_at, run.late_after, self.now)
        return is_late(run.kind, run.scheduled_at, run.started_at, run.late_after)


@dataclass(frozen=True, slots=True)
class Timeline:
    now: datetime
    window: Window
    page: Page[TimelineItem]
    outages: Sequence[Outage]  # the newest that touch the window, oldest first


@dataclass(frozen=True, slots=True)
class Pulse:
    """The scheduler's state: which jobs need attention, how far it is behind, and how many nodes are live."""

    now: datetime
    counts: AttentionCounts
    lag: timedelta
    nodes: int


class Timelines:
    def __init__(self, lists: ListStore, *, now: Callable[[], datetime], live_for: timedelta = LIVE_FOR) -> None:
        self._lists = lists
        self._now = now
        self._live_for = live_for

    async def page(
        self,
        query: JobQuery,
        sort: TimelineSort,
        window: Window,
        *,
        limit: int,
        max_marks: int,
        cursor: str | None = None,
    ) -> Timeline:
        """Return a page of jobs, in their order, with what happened and what is planned in a window."""
        now = self._now()
        reasons = GROUPS if sort is TimelineSort.ATTENTION else (Attention.RETRYING, Attention.LATE)
        sets = await self._lists.attention_sets(now, (*reasons, query.attention), query.last_result)
        if sort is TimelineSort.ATTENTION:
            found = await self._by_attention(query, sets, limit, cursor)
        else:
            found = await self._in_one_order(query, sort, sets, limit, cursor)
        items, outages = await self._items(found.items, sets, window, max_marks, now)
        page = Page(items, has_more=found.has_more, cursor_after=found.cursor_after)
        return Timeline(now, window, page, outages)

    async def pulse(self) -> Pulse:
        """Count who needs attention, and measure how far the oldest due work is behind."""
        now = self._now()
        counts = await self._lists.attention_counts(now)
        nodes = await self._lists.nodes(now - self._live_for)
        heads = await self._lists.ready_heads(now)
        due = [await self._lists.oldest_due_at()]
        due += [head.ready_at for head in heads if is_served(head.lane, nodes)]
        lag = max((now - at for at in due if at is not None), default=_ZERO)
        return Pulse(now, counts, max(lag, _ZERO), len(nodes))

    async def _in_one_order(
        self, query: JobQuery, sort: TimelineSort, sets: AttentionSets, limit: int, cursor: str | None
    ) -> Page[JobView]:
        kind = f"timeline:{sort}"
        is_by_time = sort is TimelineSort.NEXT
        after = None if cursor is None else position_of(*parts_of(kind, cursor, 2), is_time=is_by_time)
        found = await self._lists.chosen_jobs(query, sets, limit + 1, after)

        def cursor_after(last: JobView) -> str:
            key = last.job.plan_at if is_by_time else last.job.definition.name
            return cursor_of(kind, key, last.job.id)

        return page_of(found, limit, cursor_after)

    async def _by_attention(
        self, query: JobQuery, sets: AttentionSets, limit: int, cursor: str | None
    ) -> Page[JobView]:
        """Return the jobs of the first groups, as many as fit into a page, each group by name."""
        kind = f"timeline:{TimelineSort.ATTENTION}"
        first, after = 0, None
        if cursor is not None:
            group, name, job_id = parts_of(kind, cursor, 3)
            first, after = number_of(group), position_of(name, job_id, is_time=False)
            if first >= len(GROUPS):
                raise BadCursor
        found: list[tuple[int, JobView]] = []
        for index in range(first, len(GROUPS)):
            if len(found) > limit:
                break
            position: ListPosition | None = after if index == first else None
            rest = limit + 1 - len(found)
            jobs = await self._lists.chosen_jobs(query, sets, rest, position, groups=[GROUPS[index]])
            found += [(index, view) for view in jobs]

        def cursor_after(at: int) -> str:
            group, last = found[at]
            return cursor_of(kind, group, last.job.definition.name, last.job.id)

        return Page([view for _, view in found[:limit]], has_more=len(found) > limit, cursor_after=cursor_after)

    async def _items(
        self, views: Sequence[JobView], sets: AttentionSets, window: Window, max_marks: int, now: datetime
    ) -> tuple[list[TimelineItem], Sequence[Outage]]:
        """Return the items of jobs, and the outages of the window."""
        most = min(max_marks, MAX_MARKS // max(1, len(views)))
        rows = await self._lists.timeline_rows([view.job for view in views], sets, window, most + 1)
        room = {view.job.id: most - len(rows.runs.get(view.job.id, ())) for view in views}
        planned = await calculate_much(_plan_all, views, window, room, now)
        crowded = {
            view.job.id: view.job.definition.late_after
            for view in views
            if room[view.job.id] < 0 or isinstance(planned[view.job.id], dict)
        }
        counts = await self._lists.timeline_buckets(crowded, window)
        items = []
        for view in views:
            job_id = view.job.id
            runs, skips = rows.runs.get(job_id, ()), rows.skips.get(job_id, ())
            own = rows.facts[job_id]
            streak = max(1, own.streak) if own.last_state == "failed" else 0
            retry = _retry(own)
            attention, note = _attention(view, own, sets.late.get(job_id), retry, streak, now)
            times = planned[job_id]
            buckets, is_sampled = None, len(skips) > most
            if isinstance(times, dict):
                counted = counts.get(job_id, BucketedRuns((), is_sampled=False))
                ranges = [SkippedRange(skip.first_at, skip.last_at, skip.count) for skip in skips]
                buckets = fill_buckets(window, counted.counts, ranges, times)
                runs, is_sampled = (), is_sampled or counted.is_sampled
            items.append(
                TimelineItem(
                    view=view,
                    facts=own,
                    attention=attention,
                    attention_note=note,
                    streak=streak,
                    retry=retry,
                    runs=runs,
                    skips=skips[:most],
                    planned=times if isinstance(times, list) else (),
                    buckets=buckets,
                    is_sampled=is_sampled,
                    now=now,
                )
            )
        return items, rows.outages[::-1]


def _retry(facts: JobFacts) -> TimelineRetry | None:
    run = facts.retrying
    if run is None:
        return None
    if run.is_running:
        return TimelineRetry(run.run_id, run.attempt - 1, None, facts.retry_error)
    return TimelineRetry(run.run_id, run.attempt, run.ready_at, facts.retry_error)


def _attention(
    view: JobView,
    facts: JobFacts,
    late_since: datetime | None,
    retry: TimelineRetry | None,
    streak: int,
    now: datetime,
) -> tuple[Attention | None, str | None]:
    reason = first_reason(
        is_failing=facts.last_state == "failed",
        is_retrying=retry is not None,
        is_losing=bool(facts.lost),
        is_late=late_since is not None,
        is_paused=not view.job.definition.enabled,
    )
    match reason:
        case Attention.FAILING:
            return reason, failing_note(streak, facts.last_error)
        case Attention.RETRYING:
            assert retry is not None
            return reason, retrying_note(retry.attempt, retry.next_at, retry.error)
        case Attention.LOSING:
            return reason, losing_note(facts.lost)
        case Attention.LATE:
            assert late_since is not None
            return reason, late_note(late_since, now)
        case Attention.PAUSED:
            return reason, paused_note(view.paused_by, view.job.paused_until, view.paused_note)
    return None, None


def _plan_all(
    views: Sequence[JobView], window: Window, room: Mapping[UUID, int], now: datetime
) -> dict[UUID, list[datetime] | dict[datetime, int]]:
    """Return the planned times of each job, or their counts by bucket if they do not fit beside its runs."""
    return {view.job.id: _plan(view, window, room[view.job.id], now) for view in views}


def _plan(view: JobView, window: Window, room: int, now: datetime) -> list[datetime] | dict[datetime, int]:
    job = view.job
    after = planned_from(job.definition, now, job.cursor_at, job.paused_until)
    if job.error is not None or after is None:
        return [] if room >= 0 else {}
    try:
        if room >= 0 and count_planned(job.definition, after, window) <= room:
            return planned_times(job.definition, after, window)
        return count_planned_by_bucket(job.definition, after, window)
    except ScheduleError:
        return [] if room >= 0 else {}
