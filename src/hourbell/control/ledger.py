"""The ledger of jobs: what became of each scheduled time, and figures about it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from hourbell.control.calculations import calculate_much
from hourbell.control.jobs import Jobs
from hourbell.control.pages import BadCursor, Page, cursor_of, number_of, parts_of, position_of
from hourbell.core.job.definition import Definition
from hourbell.core.run.days import DAY, Span, date_of_day, spans_of, spread_skip
from hourbell.core.run.fates import Fate, fate_of
from hourbell.core.run.measures import failure_streak, percentile_ms, slope_ms_per_week
from hourbell.core.run.states import WAITING, RunState
from hourbell.core.schedule import ScheduleError
from hourbell.core.schedule.zones import local_time_at, zone_names
from hourbell.store.lists.query import JobView, ListPosition
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.times import RecentTimes, RunsOfDay, RunTime, SkipsOfDay, SkipTime

MAX_SCANNED_RUNS = 5_000  # runs that one page of the ledger looks at, where only some fates are asked for
SAMPLED_RUNS = 50  # the newest of a job, for its figures in lists
MAX_STREAK_RUNS = 100
MAX_DAYS = 371  # 53 weeks
MAX_COUNTED_RUNS = 100_000  # runs, and skips, that the counts of days are made of
_MAX_BEYOND_TIMES = 20
_AT_ONCE = 500
_KIND = "times"
_SKIP, _RUN = 0, 1  # at the same time, runs come before skips

_STATES: dict[Fate, frozenset[RunState]] = {
    Fate.SUCCEEDED: frozenset({RunState.SUCCEEDED}),
    Fate.LATE: frozenset({RunState.SUCCEEDED}),
    Fate.FAILED: frozenset({RunState.FAILED}),
    Fate.CANCELLED: frozenset({RunState.CANCELLED}),
    Fate.RUNNING: frozenset({RunState.RUNNING}),
    Fate.WAITING: WAITING,
    Fate.SKIPPED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class TimesFilter:
    """A filter of scheduled times: at or after `since`, before `until`, with one of the fates (none: any)."""

    since: datetime | None = None
    until: datetime | None = None
    fates: frozenset[Fate] = frozenset()

    def wants(self, fate: Fate) -> bool:
        return not self.fates or fate in self.fates

    @property
    def states(self) -> frozenset[RunState] | None:
        return frozenset().union(*(_STATES[fate] for fate in self.fates)) if self.fates else None


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """One scheduled time of a job, or the times that one skip covers, and its fate."""

    at: datetime
    local: datetime  # without a zone
    until: datetime | None  # the last of several times
    count: int
    fate: Fate
    version: int | None  # of the job, as far as it is known
    run: RunTime | None = None
    skip: SkipTime | None = None

    @property
    def key(self) -> "_Key":
        if self.run is not None:
            return self.run.scheduled_at, _RUN, self.run.id.int
        assert self.skip is not None
        return self.skip.last_at, _SKIP, self.skip.id


@dataclass(frozen=True, slots=True)
class RecentTime:
    """One of the newest scheduled times of a job."""

    at: datetime
    fate: Fate
    run_id: UUID | None = None
    lateness: timedelta | None = None
    duration: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Recent:
    """The newest scheduled times of a job, oldest first, and figures of its newest runs.

    Durations are those of the newest 50 runs that began, and `streak` counts the failed runs in a row up to now, at
    most 100.
    """

    times: Sequence[RecentTime]
    median_duration_ms: int | None
    p95_duration_ms: int | None
    streak: int


@dataclass(frozen=True, slots=True)
class Series:
    """The newest ended runs of a job, oldest first, with figures. None if there is no data."""

    runs: Sequence[RunTime]
    median_duration_ms: int | None
    p95_duration_ms: int | None
    median_lateness_ms: int | None
    p95_lateness_ms: int | None
    duration_slope_ms_per_week: int | None  # of the runs that succeeded


@dataclass(slots=True)
class Day:
    """The number of scheduled times of a local date by fate."""

    date: date
    succeeded: int = 0
    failed: int = 0
    late: int = 0
    cancelled: int = 0
    skipped: int = 0
    unfinished: int = 0

    def add(self, fate: Fate, count: int) -> None:
        name = "unfinished" if fate in (Fate.RUNNING, Fate.WAITING) else fate.value
        setattr(self, name, getattr(self, name) + count)


@dataclass(frozen=True, slots=True)
class Days:
    """The dates that have scheduled times, oldest first. With `is_sampled`, only from `counted_from` on."""

    items: Sequence[Day]
    timezone: str
    counted_from: date
    is_sampled: bool


_Key = tuple[datetime, int, int]  # a position in the ledger; newer ones are greater


class Ledger:
    """Queries on the scheduled times of jobs."""

    def __init__(self, jobs: Jobs, lists: ListStore, *, now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._lists = lists
        self._now = now

    async def times(self, ref: str, wanted: TimesFilter, limit: int, cursor: str | None = None) -> Page[LedgerItem]:
        """List what became of the scheduled times of a job, newest first.

        Of runs, at most 5,000 are looked at: a page of a rare fate may hold fewer items than there are, and its cursor
        leads on.
        """
        view = await self._jobs.get(ref, deleted=True)
        after = None if cursor is None else _key_of(cursor)
        runs, scanned_to = await self._runs(view.job.id, wanted, limit + 1, after)
        skips = await self._skips(view.job.id, wanted, limit + 1, after)
        items = sorted([*map(_run_item, runs), *(await self._skip_items(view, skips))], key=_key, reverse=True)
        if scanned_to is not None:
            items = [item for item in items if item.key > scanned_to]

        def cursor_after(index: int) -> str:
            is_last = index == min(len(items), limit) - 1
            at, kind, number = (
                scanned_to if scanned_to is not None and is_last and len(items) <= limit else items[index].key
            )
            return cursor_of(_KIND, at, kind, UUID(int=number) if kind == _RUN else number)

        has_more = len(items) > limit or scanned_to is not None
        return Page(items[:limit], has_more=has_more, cursor_after=cursor_after)

    async def recent(self, job_ids: Sequence[UUID], count: int) -> dict[UUID, Recent]:
        """Return the `count` newest scheduled times of each job, with figures."""
        found = await self._lists.recent_times(job_ids, max(count, SAMPLED_RUNS))
        streaks = {job_id: _streak(times.runs) for job_id, times in found.items()}
        # A longer streak is rare: only those jobs need more of their runs.
        long = [job_id for job_id, times in found.items() if 0 < streaks[job_id] >= _ended_count(times.runs)]
        more = await self._lists.recent_runs(
            [job_id for job_id in long if len(found[job_id].runs) >= SAMPLED_RUNS], MAX_STREAK_RUNS
        )
        streaks |= {job_id: _streak(runs) for job_id, runs in more.items()}
        return {job_id: _recent(times, count, streaks[job_id]) for job_id, times in found.items()}

    async def days(self, ref: str, first: date | None, last: date | None) -> Days:
        """Count the fates of a job's scheduled times by local date, from first to last, both included.

        At most 100,000 runs and as many skips are read, the newest; older dates are left out.
        """
        view = await self._jobs.get(ref, deleted=True)
        definition = view.job.definition
        timezone = definition.timezone if definition.timezone in zone_names() else "UTC"
        if last is None:
            last = local_time_at(timezone, self._now())[0].date() if first is None else first + (MAX_DAYS - 1) * DAY
        first = first or last - (MAX_DAYS - 1) * DAY
        spans = spans_of(timezone, first, last)
        runs, runs_from = await self._run_days(view.job.id, spans)
        skips, skips_from = await self._skip_days(view.job.id, spans)
        cuts = [cut for cut in (runs_from, skips_from) if cut is not None]
        counted_from = max([first, *cuts])
        days: dict[date, Day] = {}
        for run in runs:
            day = date_of_day(run.day)
            days.setdefault(day, Day(day)).add(fate_of(run.state, is_late=run.is_late), run.runs)
        counts = await calculate_much(_skipped_by_date, skips, spans, definition)
        for day, count in counts.items():
            days.setdefault(day, Day(day)).add(Fate.SKIPPED, count)
        items = [days[day] for day in sorted(days) if counted_from <= day <= last]
        return Days(items, timezone, counted_from, is_sampled=bool(cuts))

    async def _run_days(self, job_id: UUID, spans: Sequence[Span]) -> tuple[list[RunsOfDay], date | None]:
        """Return the runs of each day, and the first date of which all were counted if some were not."""
        found: list[RunsOfDay] = []
        left = MAX_COUNTED_RUNS
        for span in spans:
            part = await self._lists.run_days(job_id, span.start, span.end, span.offset, left)
            found += part
            left -= sum(each.runs for each in part)
            if left <= 0:
                return found, date_of_day(min(each.day for each in found)) + DAY
        return found, None

    async def _skip_days(self, job_id: UUID, spans: Sequence[Span]) -> tuple[list[SkipsOfDay], date | None]:
        """Return the skips of each day, and the first date of which all were counted if some were not."""
        found: list[SkipsOfDay] = []
        left = MAX_COUNTED_RUNS
        if spans:  # a skip may last longer than the dates asked for
            end = spans[0].end
            beyond = await self._lists.skip_times(job_id, _MAX_BEYOND_TIMES, since=end, until=end)
            found += [SkipsOfDay(0, -1, skip.first_at, skip.last_at, skip.count, 1) for skip in beyond]
        for span in spans:
            part = await self._lists.skip_days(job_id, span.start, span.end, span.offset, left)
            found += part
            left -= sum(each.records for each in part)
            if left <= 0:
                return found, date_of_day(min(each.day for each in part)) + DAY
        return found, None

    async def series(self, ref: str, limit: int) -> Series:
        """Return the newest ended runs of a job, oldest first, with figures."""
        job_id = (await self._jobs.get(ref, deleted=True)).job.id
        runs = await self._lists.ended_times(job_id, limit)
        durations = _rising(run.duration for run in runs)
        lateness = _rising(run.lateness for run in runs)
        succeeded = [
            (run.scheduled_at, run.duration)
            for run in runs
            if run.state is RunState.SUCCEEDED and run.duration is not None
        ]
        return Series(
            runs=runs[::-1],
            median_duration_ms=percentile_ms(durations, 50),
            p95_duration_ms=percentile_ms(durations, 95),
            median_lateness_ms=percentile_ms(lateness, 50),
            p95_lateness_ms=percentile_ms(lateness, 95),
            duration_slope_ms_per_week=slope_ms_per_week(succeeded),
        )

    async def _runs(
        self, job_id: UUID, wanted: TimesFilter, count: int, after: _Key | None
    ) -> tuple[list[RunTime], _Key | None]:
        """Return up to `count` runs, and the position at which the search stopped, if it did."""
        states = wanted.states
        if states is not None and not states:
            return [], None
        position = None if after is None else _run_position(after)
        found: list[RunTime] = []
        scanned, at_once = 0, count
        while scanned < MAX_SCANNED_RUNS:
            page = await self._lists.run_times(
                job_id, at_once, states=states, since=wanted.since, until=wanted.until, after=position
            )
            found += [run for run in page if wanted.wants(run.fate)]
            if len(found) >= count or len(page) < at_once:
                return found[:count], None
            scanned += len(page)
            position = ListPosition(page[-1].scheduled_at, page[-1].id)
            at_once = max(count, _AT_ONCE)
        assert position is not None
        assert isinstance(position.key, datetime)
        return found, (position.key, _RUN, position.id.int)

    async def _skips(self, job_id: UUID, wanted: TimesFilter, count: int, after: _Key | None) -> list[SkipTime]:
        if not wanted.wants(Fate.SKIPPED):
            return []
        before = None
        if after is not None:
            at, kind, number = after
            before = (at, number) if kind == _SKIP else (at, 2**63 - 1)
        return await self._lists.skip_times(job_id, count, since=wanted.since, until=wanted.until, before=before)

    async def _skip_items(self, view: JobView, skips: Sequence[SkipTime]) -> list[LedgerItem]:
        versions = await self._lists.version_times(view.job.id) if skips else []
        zone = view.job.definition.timezone
        return [
            LedgerItem(
                at=skip.first_at,
                local=_local(zone, skip.first_at),
                until=None if skip.last_at == skip.first_at else skip.last_at,
                count=skip.count,
                fate=Fate.SKIPPED,
                # What was due at the moment of a change belongs to the version before it.
                version=next((version for version, since in versions if since < skip.last_at), None),
                skip=skip,
            )
            for skip in skips
        ]


def _skipped_by_date(skips: Sequence[SkipsOfDay], spans: Sequence[Span], definition: Definition) -> dict[date, int]:
    found: Counter[date] = Counter()
    try:
        schedule = definition.parsed()
    except ScheduleError:
        schedule = None
    for skip in skips:
        if skip.first_day == skip.day:
            found[date_of_day(skip.day)] += skip.count
        else:
            found.update(spread_skip(skip.first_at, skip.last_at, skip.count, spans, schedule))
    return found


def _recent(times: RecentTimes, count: int, streak: int) -> Recent:
    items = [
        *((run.scheduled_at, _RUN, run.id.int, _recent_run(run)) for run in times.runs),
        *((skip.last_at, _SKIP, skip.id, RecentTime(skip.first_at, Fate.SKIPPED)) for skip in times.skips),
    ]
    newest = sorted(items, key=lambda item: item[:3])[-count:] if count else []
    durations = _rising(run.duration for run in times.runs[:SAMPLED_RUNS])
    return Recent(
        times=[time for *_, time in newest],
        median_duration_ms=percentile_ms(durations, 50),
        p95_duration_ms=percentile_ms(durations, 95),
        streak=streak,
    )


def _recent_run(run: RunTime) -> RecentTime:
    return RecentTime(run.scheduled_at, run.fate, run.id, run.lateness, run.duration)


def _streak(runs: Sequence[RunTime]) -> int:
    return failure_streak((run.state, run.finished_at) for run in runs)


def _ended_count(runs: Sequence[RunTime]) -> int:
    return sum(run.finished_at is not None for run in runs)


def _rising(spans: Iterable[timedelta | None]) -> list[timedelta]:
    return sorted(span for span in spans if span is not None)


def _run_item(run: RunTime) -> LedgerItem:
    local = run.local_at or run.scheduled_at.replace(tzinfo=None)
    return LedgerItem(run.scheduled_at, local, None, 1, run.fate, run.job_version, run=run)


def _key(item: LedgerItem) -> _Key:
    return item.key


def _local(zone: str, at: datetime) -> datetime:
    try:
        return local_time_at(zone, at)[0]
    except ValueError:  # plain SQL may have written any text
        return at.replace(tzinfo=None)


def _run_position(after: _Key) -> ListPosition:
    """Convert a position in the ledger to one in the list of runs."""
    at, kind, number = after
    return ListPosition(at, UUID(int=number) if kind == _RUN else UUID(int=0))


def _key_of(cursor: str) -> _Key:
    at, kind, found_id = parts_of(_KIND, cursor, 3)
    if number_of(kind) == _RUN:
        position = position_of(at, found_id, is_time=True)
        number = position.id.int
    elif kind == _SKIP:
        position = position_of(at, UUID(int=0), is_time=True)
        number = number_of(found_id)
    else:
        raise BadCursor
    assert isinstance(position.key, datetime)
    return position.key, number_of(kind), number
