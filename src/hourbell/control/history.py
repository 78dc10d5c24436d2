"""Read access to jobs and their history: lists, next instants, skips, versions, the audit and explanations."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from hourbell.control.calculations import calculate, calculate_much
from hourbell.control.explain import Explanation, explain
from hourbell.control.jobs import Jobs
from hourbell.control.pages import BadCursor, Page, cursor_of, number_of, page_of, parts_of, position_of, text_of
from hourbell.control.stats import Summary, summarize
from hourbell.control.waiting import is_served, nobody_serves
from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import HttpCall, TargetError, parse_target
from hourbell.core.run.forecast import forecast
from hourbell.core.run.outages import Outage, OutageOf
from hourbell.core.run.states import RunState
from hourbell.core.schedule import ScheduleError, ScheduleWarning
from hourbell.core.schedule.preview import Upcoming, upcoming
from hourbell.core.values.url import Url
from hourbell.store.base import LIVE_FOR
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import (
    AttemptView,
    AuditRow,
    JobQuery,
    JobSort,
    JobView,
    Late,
    NodeView,
    Overview,
    RunView,
    SkipView,
    VersionView,
)
from hourbell.store.lists.reader import ListStore

MAX_SAMPLED_RUNS = 10_000
MAX_SCHEDULES = 2_000
MAX_COUNTED_JOBS = 10_000
STUCK_AFTER = timedelta(hours=1)
ORPHAN_AFTER = timedelta(minutes=15)
STALE_NODES_KEPT_FOR = timedelta(days=1)
CheckHosts = Callable[[Iterable[Url]], Awaitable[Mapping[str, str]]]
_ORDERED_BY_TIME = {JobSort.NEXT}
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Planned runs per time bucket. With too many different schedules, the rarest ones are left out."""

    start: datetime
    bucket: timedelta
    counts: list[int]
    jobs_left_out: int


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node of the list. A stale node has sent no heartbeat for too long and counts as dead."""

    node: NodeView
    is_stale: bool


class History:
    """Queries on jobs and their history.

    `check_hosts` returns a warning for each origin that webhooks may not reach. It must be fast and refuse nothing.
    """

    def __init__(
        self,
        jobs: Jobs,
        lists: ListStore,
        *,
        now: Callable[[], datetime],
        live_for: timedelta = LIVE_FOR,
        check_hosts: CheckHosts | None = None,
    ) -> None:
        self._jobs = jobs
        self._lists = lists
        self._now = now
        self._live_for = live_for
        self._check_hosts = check_hosts

    async def jobs(self, query: JobQuery, limit: int, cursor: str | None = None) -> Page[JobView]:
        """List jobs in the order of the query. Raise Conflict if no index supports that order with its filters."""
        _refuse_slow(query)
        kind = f"jobs:{query.sort}"
        position = None
        if cursor is not None:
            position = position_of(*parts_of(kind, cursor, 2), is_time=query.sort in _ORDERED_BY_TIME)
        found = await self._lists.jobs(query, limit + 1, position, self._now())
        return page_of(found, limit, lambda last: cursor_of(kind, _job_key(query.sort, last), last.job.id))

    async def count_jobs(self, query: JobQuery) -> int | None:
        """Count the jobs on all pages of a query; None if there are more than MAX_COUNTED_JOBS."""
        _refuse_slow(query)
        number = await self._lists.count_jobs(query, MAX_COUNTED_JOBS + 1, self._now())
        return number if number <= MAX_COUNTED_JOBS else None

    async def skips(self, ref: str, limit: int, cursor: str | None = None) -> Page[SkipView]:
        """List the instants of a job that got no run, newest first."""
        job_id = (await self._jobs.get(ref, deleted=True)).job.id
        before = None
        if cursor is not None:
            at, number = parts_of("skips", cursor, 2)
            before = _instant_of(at), number_of(number)
        found = await self._lists.skips(job_id, limit + 1, before)
        return page_of(found, limit, lambda last: cursor_of("skips", last.last_at, last.id))

    async def versions(self, ref: str, limit: int, cursor: str | None = None) -> Page[VersionView]:
        """List the versions of a job's definition, newest first."""
        job_id = (await self._jobs.get(ref, deleted=True)).job.id
        before = None if cursor is None else number_of(parts_of("versions", cursor, 1)[0])
        found = await self._lists.versions(job_id, limit + 1, before)
        return page_of(found, limit, lambda last: cursor_of("versions", last.version))

    async def version(self, ref: str, number: int) -> VersionView:
        """Return one version of a job's definition; raise Conflict if there is none."""
        job_id = (await self._jobs.get(ref, deleted=True)).job.id
        found = await self._lists.version(job_id, number)
        if found is None:
            raise Conflict("no_such_version", f"the job has no version {number}")
        return found

    async def audit(self, limit: int, cursor: str | None = None, subject: str | None = None) -> Page[AuditRow]:
        """List the entries of the audit, newest first."""
        before = None if cursor is None else number_of(parts_of("audit", cursor, 1)[0])
        found = await self._lists.audit(limit + 1, before, subject)
        return page_of(found, limit, lambda last: cursor_of("audit", last.id))

    async def audit_entry(self, entry_id: int) -> AuditRow:
        """Return one entry of the audit; raise Conflict if there is none."""
        found = await self._lists.audit_entry(entry_id)
        if found is None:
            raise Conflict("no_such_audit_entry", f"the audit has no entry {entry_id}")
        return found

    async def upcoming(self, ref: str, count: int, after: datetime | None = None) -> list[Upcoming]:
        """Return the next instants of a job; none while it is paused or in error."""
        return await instants_to_come((await self._jobs.get(ref)).job.definition, after or self._now(), count)

    async def explain(self, ref: str, at: datetime) -> Explanation:
        """Explain one instant of a job. A deleted job can be named by its id."""
        facts = await self._lists.instant(await self._id_of(ref), at)
        if facts is None:
            raise Conflict("no_such_job", f"there is no job {ref[:100]!r}")
        if facts.run is not None and facts.run.state is RunState.FAILED:
            attempts = await self._lists.attempts(facts.run.id)
            facts = replace(facts, late_success=late_success(facts.run, attempts))
        versions = () if facts.version is None else (facts.version.definition.schedule,)
        schedules = " ".join([facts.job.job.definition.schedule, *versions])
        return await calculate(schedules, explain, facts, at, self._now())

    async def stats(self, ref: str, since: datetime) -> tuple[JobView, Summary, bool]:
        """Return a job, statistics of its newest ended runs, and True if there may be more runs than were sampled."""
        view = await self._jobs.get(ref, deleted=True)
        ended = await self._lists.ended(view.job.id, since, MAX_SAMPLED_RUNS)
        return view, await calculate_much(summarize, ended), len(ended) == MAX_SAMPLED_RUNS

    async def overview(self, since: datetime) -> Overview:
        return await self._lists.overview(since)

    async def forecast(self, start: datetime, bucket: timedelta, buckets: int) -> Forecast:
        """Count the runs that will be planned in each future time bucket if no job changes."""
        groups, left_out = await self._lists.schedules(MAX_SCHEDULES)
        pairs = [(group.definition, group.jobs) for group in groups]
        counts = await calculate_much(partial(forecast, pairs, start, bucket, buckets, now=self._now()))
        return Forecast(start, bucket, counts, left_out)

    async def late(self, limit: int, cursor: str | None = None) -> Page[RunView]:
        """List runs that started late, worst first."""
        after = None
        if cursor is not None:
            lateness, run_id = parts_of("late", cursor, 2)
            after = Late(number_of(lateness) * _MICROSECOND, position_of(None, run_id, is_time=False).id)
        found = await self._lists.late_runs(self._now(), limit + 1, after)
        return page_of(found, limit, lambda last: cursor_of("late", _lateness(last) // _MICROSECOND, last.id))

    async def stuck(self, limit: int, cursor: str | None = None) -> Page[RunView]:
        """List runs that still wait an hour after they were planned and ready."""
        return await self._stuck(STUCK_AFTER, limit, cursor)

    async def orphans(self, limit: int, cursor: str | None = None) -> Page[RunView]:
        """List runs without any attempt 15 minutes after they were planned and ready."""
        return await self._stuck(ORPHAN_AFTER, limit, cursor, untried=True)

    async def _stuck(
        self, waiting_for: timedelta, limit: int, cursor: str | None, *, untried: bool = False
    ) -> Page[RunView]:
        after = None if cursor is None else position_of(*parts_of("stuck", cursor, 2), is_time=True)
        found = await self._lists.stuck_runs(self._now() - waiting_for, limit + 1, untried=untried, after=after)
        return page_of(found, limit, lambda last: cursor_of("stuck", last.expires_at, last.id))

    async def conflicts(self) -> list[JobConflict]:
        """List jobs that a program on a live node defines but another owner holds."""
        return await self._lists.conflicts(self._now() - self._live_for)

    async def tags(self, limit: int, cursor: str | None = None) -> Page[str]:
        """List the tags that jobs have, in order."""
        after = "" if cursor is None else text_of(parts_of("tags", cursor, 1)[0])
        return page_of(await self._lists.tags(limit + 1, after), limit, lambda last: cursor_of("tags", last))

    async def outages(
        self,
        limit: int,
        cursor: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[Outage]:
        """List the outages that touch a span, newest first."""
        before = None
        if cursor is not None:
            at, of = parts_of("outages", cursor, 2)
            if of not in list(OutageOf):
                raise BadCursor
            before = _instant_of(at), str(of)
        found = await self._lists.outages(limit + 1, since, until, before)
        return page_of(found, limit, lambda last: cursor_of("outages", last.start, last.of.value))

    async def nodes(self) -> list[ListedNode]:
        """List nodes until they shut down cleanly or a day after their last heartbeat, and mark stale ones."""
        now = self._now()
        found = await self._lists.nodes(now - STALE_NODES_KEPT_FOR)
        return [ListedNode(node, is_stale=node.beat_at < now - self._live_for) for node in found]

    async def warnings(self, definition: Definition) -> list[ScheduleWarning]:
        """Return warnings about a job: its schedule, a lane that no node serves, or a forbidden webhook address."""
        [found] = await self.warnings_of([definition])
        return found

    async def warnings_of(self, definitions: Sequence[Definition]) -> list[list[ScheduleWarning]]:
        """Return the warnings of each of several jobs, in the same order."""
        now = self._now()
        nodes = await self._lists.nodes(now - self._live_for)
        served = {lane: is_served(lane, nodes) for lane in {job.lane for job in definitions}}
        hosts = await self._host_warnings(definitions)
        found = []
        for job in definitions:
            warnings = await calculate(job.schedule, _warnings, job, now, served[job.lane])
            found.append([*warnings, *hosts.get(job.lane, ())])
        return found

    async def _host_warnings(self, definitions: Iterable[Definition]) -> dict[str, list[ScheduleWarning]]:
        """Return warnings about webhook hosts by lane, which is the origin."""
        if self._check_hosts is None:
            return {}
        urls = [url for job in definitions if (url := _url_of(job)) is not None]
        return {
            origin: [ScheduleWarning("address_forbidden", message)]
            for origin, message in (await self._check_hosts(urls)).items()
        }

    async def _id_of(self, ref: str) -> UUID:
        try:
            return UUID(ref)
        except ValueError:
            return (await self._jobs.get(ref)).job.id


def late_success(run: RunView, attempts: Iterable[AttemptView]) -> int | None:
    """Return the attempt of a failed run that succeeded after its lease was lost; None if there is none."""
    if run.state is not RunState.FAILED:
        return None
    return next((each.number for each in attempts if each.late_outcome == "succeeded"), None)


def _lateness(run: RunView) -> timedelta:
    assert run.started_at is not None
    return run.started_at - run.scheduled_at


def _warnings(job: Definition, now: datetime, is_served: bool) -> list[ScheduleWarning]:
    found = list(job.parsed().warnings(now))
    if job.enabled and not next_instants(job, now, 1) and not any(each.code == "never_fires" for each in found):
        found.insert(0, ScheduleWarning("never_fires", "never fires: its only time is in the past"))
    return found if is_served else [*found, _unserved(job.lane)]


def _url_of(job: Definition) -> Url | None:
    try:
        call = parse_target(job.target)
    except TargetError:
        return None
    return call.url if isinstance(call, HttpCall) else None


def _unserved(lane: str) -> ScheduleWarning:
    return ScheduleWarning("lane_unserved", f"{nobody_serves(lane)}; its runs will wait until one does")


async def instants_to_come(definition: Definition, after: datetime, count: int) -> list[Upcoming]:
    """Return the result of `next_instants` without blocking the event loop."""
    return await calculate(definition.schedule, next_instants, definition, after, count)


def next_instants(definition: Definition, after: datetime, count: int) -> list[Upcoming]:
    """Return the next instants of a definition within starts_at and ends_at; none if paused or not parseable."""
    if not definition.enabled:
        return []
    try:
        schedule = definition.parsed()
    except ScheduleError:
        return []
    if definition.starts_at is not None and definition.starts_at > after:
        after = definition.starts_at - timedelta(microseconds=1)
    found = upcoming(schedule, after, count)
    return [each for each in found if definition.ends_at is None or each.occurrence.at <= definition.ends_at]


def _refuse_slow(query: JobQuery) -> None:
    """Raise Conflict for an order that would require sorting all jobs first."""
    if query.last_result is not None and query.sort is not JobSort.ID:
        raise Conflict("unsorted", "jobs by last_result are listed by id; write sort=id")
    if query.next_before is not None and query.sort is not JobSort.NEXT:
        raise Conflict("unsorted", "jobs by next_before are listed by next_at; write sort=next_at")
    if query.sort is JobSort.ID and query.last_result is None:
        raise Conflict("unsorted", "sort=id is for last_result; leave it out")


def _job_key(sort: JobSort, view: JobView) -> str | datetime | None:
    match sort:
        case JobSort.NAME:
            return view.job.definition.name
        case JobSort.NEXT:
            return view.job.plan_at
        case JobSort.ID:
            return None


def _instant_of(part: object) -> datetime:
    position = position_of(part, UUID(int=0), is_time=True)
    assert isinstance(position.key, datetime)
    return position.key
