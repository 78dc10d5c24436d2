"""The watcher: it opens, repeats, escalates and resolves incidents. Every node runs one; no leader is needed.

What changed is found each second: streaks of failures, skips, incidents whose next step is due, late runs. What only
time changes is looked at every few seconds, and what takes a scan of all jobs page by page, each minute. Two watchers
that see the same write it once (`store/alerts/watching.py`).
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from hourbell.core.alerts.incident import Trouble
from hourbell.core.alerts.kinds import Event, IncidentKind
from hourbell.core.alerts.policy import BUILT_IN, DEFAULT_POLICY, AlertPolicy
from hourbell.core.alerts.scheduler import (
    AFTER_OUTAGE,
    MAX_LATE_JOBS,
    LateRuns,
    NodeFacts,
    RecoverySummary,
    failing_channel,
    recovery,
    silent_nodes,
    silent_planning,
    unserved_lanes,
)
from hourbell.core.alerts.watch import Move
from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.alerts.reader import LateJob, WatchedNode
from hourbell.store.alerts.watching import AlertStore, WatchResult
from hourbell.store.base import LaneWork
from hourbell.store.engine.records import serves

log = logging.getLogger("hourbell.alerts")

INTERVAL_SECONDS = 1.0
BATCH = 200  # jobs in one transaction
PAGE = 2_000  # jobs that a page of a scan looks at
WAITING_PAGE = 250  # jobs with waiting runs that are looked at each second
MAX_DIGEST_ROWS = 1_000  # incidents that end their wait together at the end of quiet hours
_OFTEN, _SELDOM = 5.0, 60.0  # seconds between looks at what only time changes, and between scans
_AGAIN = 10.0  # seconds, before a job that is still late is watched again
_UNCOUNTED_LOOKS = 3  # without a late run, before recovery mode is logged without a count
_WARM_UP = 60.0  # seconds, before a watcher that just started says that others are silent
_HOURBELL = (IncidentKind.CHANNEL_FAILED, IncidentKind.UNSERVED, IncidentKind.RECOVERY)


class LaneStore(Protocol):
    async def lanes(self, now: datetime) -> list[LaneWork]:
        """Return every lane with waiting runs, and the time at which the first of them is ready."""


class Watcher:
    name = "watcher"

    def __init__(
        self,
        store: AlertStore,
        lanes: LaneStore,
        clock: DatabaseClock,
        *,
        metrics: Metrics,
        live_for: timedelta,
        retention: timedelta,
        elapsed: Callable[[], float],
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._clock = clock
        self._metrics = metrics
        self._live_for = live_for
        self._silent_after = live_for * 1.5
        self._retention = retention
        self._elapsed = elapsed
        self._started = elapsed()
        self._often_at = self._seldom_at = self._started
        self._policies: dict[str, AlertPolicy] = {}
        self._late: dict[UUID, float] = {}  # when a late job was watched last
        self._late_runs = LateRuns()
        self._scanning: dict[UUID, LateJob] = {}  # late jobs that the scan of waiting runs has found, and those that
        self._scanned: dict[UUID, LateJob] = {}  # the one before found
        self._scan_after: UUID | None = None  # where the scan goes on
        self._scan_at = self._started
        self._is_recovering = False
        self._looks_in_recovery = 0
        self._pages: dict[str, UUID] = {}  # where the next look at each list goes on
        self._scans: dict[str, UUID] = {}  # where a scan goes on at once

    async def tick(self) -> float:
        """Watch what changed, and from time to time what only time changes; return 0 if there is more to do."""
        if self._clock.confirmations < 1:
            return NotAsked(INTERVAL_SECONDS)
        now, elapsed = self._clock.now(), self._elapsed()
        late = await self._late_jobs(now, elapsed)
        is_full = False
        if late or await self._store.has_work(now):
            self._report(await self._store.end_quiet_hours(now, MAX_DIGEST_ROWS))
            is_full = await self._watch(now, late)
        if elapsed >= self._often_at:
            self._often_at = elapsed + _OFTEN
            await self._look_often(now, elapsed)
        if elapsed >= self._seldom_at or self._scans:
            await self._look_seldom(now, elapsed)
        return 0.0 if is_full else INTERVAL_SECONDS

    async def _watch(self, now: datetime, jobs: Sequence[UUID]) -> bool:
        """Watch jobs in batches; return True if there was enough for more."""
        results: list[WatchResult] = []
        for first in range(0, max(len(jobs), 1), BATCH):
            results += await self._store.watch_jobs(now, BATCH, jobs[first : first + BATCH])
        self._report(results)
        return len(results) >= BATCH

    async def _late_jobs(self, now: datetime, elapsed: float) -> list[UUID]:
        """Return the late jobs that were not watched just now.

        The oldest runs of each lane show a late job at once; a scan of all jobs with waiting runs finds those behind.
        """
        await self._scan_waiting(now, elapsed)
        oldest = {each.job_id: each for each in await self._store.late_jobs(now, MAX_LATE_JOBS)}
        found = list((self._scanned | self._scanning | oldest).values())
        self._late_runs = LateRuns(
            sum(each.runs for each in found),
            len(found),
            min((each.oldest_at for each in found), default=None),
            Counter(each.catch_up for each in found),
        )
        known = {each.job_id: self._late.get(each.job_id, float("-inf")) for each in found}
        due = [job_id for job_id, at in known.items() if elapsed - at >= _AGAIN][:MAX_LATE_JOBS]
        self._late = known | dict.fromkeys(due, elapsed)
        return due

    async def _scan_waiting(self, now: datetime, elapsed: float) -> None:
        """Read the next page of the jobs with waiting runs; begin again some seconds after the last page."""
        if self._scan_after is None and elapsed < self._scan_at:
            return
        late, self._scan_after = await self._store.waiting_jobs(now, self._scan_after, WAITING_PAGE)
        self._scanning |= {each.job_id: each for each in late}
        if self._scan_after is None:
            self._scanned, self._scanning = self._scanning, {}
            self._scan_at = elapsed + _OFTEN

    async def _look_often(self, now: datetime, elapsed: float) -> None:
        self._policies = await self._store.policies()
        await self._watch_hourbell(now, elapsed)
        jobs: list[UUID] = []
        if (limit := self._least(IncidentKind.SLOW, lambda policy: policy.slow_after)) is not None:
            jobs += await self._store.slow_jobs(now - limit, MAX_LATE_JOBS)
        jobs += await self._page("incidents", lambda after: self._store.incident_jobs(after, BATCH))
        if jobs:
            await self._watch(now, jobs)
        counts = await self._store.open_incidents()
        for state in ("open", "acknowledged"):
            self._metrics.incidents.labels(state).set(counts.get(state, 0))

    async def _look_seldom(self, now: datetime, elapsed: float) -> None:
        """Scan for what has no index of its own, a page at a time."""
        if elapsed >= self._seldom_at:
            self._seldom_at = elapsed + _SELDOM
            await self._store.forget(now - self._retention, BATCH)
            limit = self._least(IncidentKind.PAUSED_TOO_LONG, lambda policy: policy.paused_for)
            if limit is not None and (paused := await self._store.paused_jobs(now - limit, PAGE)):
                await self._watch(now, paused)
        if (limit := self._least(IncidentKind.NO_SUCCESS, lambda policy: policy.no_success_for)) is not None:
            before = now - limit
            found = await self._page(
                "no_success", lambda after: self._store.jobs_without_success(before, after, PAGE), goes_on=True
            )
            if found:
                await self._watch(now, found)

    async def _page(
        self,
        name: str,
        read: Callable[[UUID | None], Awaitable[tuple[list[UUID], UUID | None]]],
        *,
        goes_on: bool = False,
    ) -> list[UUID]:
        """Read the next page of a scan. One that goes on is continued with the next tick, else with the next look."""
        store = self._scans if goes_on else self._pages
        found, after = await read(store.get(name))
        if after is None:
            store.pop(name, None)
        else:
            store[name] = after
        return found

    async def _watch_hourbell(self, now: datetime, elapsed: float) -> None:
        """Watch the nodes, the planning, the lanes and the channels."""
        troubles: list[Trouble] = []
        kinds: tuple[IncidentKind, ...] = _HOURBELL
        default = self._policies.get(DEFAULT_POLICY, BUILT_IN)
        nodes = await self._store.nodes()
        if elapsed - self._started >= _WARM_UP:  # else it was itself away
            facts = [NodeFacts(node.id, node.host, node.started_at, node.beat_at) for node in nodes]
            troubles += silent_nodes(facts, now, self._silent_after)
            planning = silent_planning(await self._store.earliest_plan_at(), now)
            troubles += [planning] if planning is not None else []
            kinds = (*_HOURBELL, IncidentKind.SCHEDULER_SILENT)
        if IncidentKind.UNSERVED in default.on:
            troubles += unserved_lanes(await self._unserved(nodes, now), now)
        for state in await self._store.channel_states():
            name = state.channel.name
            failing = failing_channel(name, state.failing_since, state.error, state.run_id, now)
            troubles += [failing] if failing is not None else []
        late, is_on = self._late_runs, await self._store.is_recovering()
        active = await self._store.active_jobs() if late.runs and not is_on else 0
        outage = await self._store.last_outage(now - AFTER_OUTAGE)
        recovering = recovery(late, active, now, is_on=is_on, outage=outage)
        troubles += [recovering] if recovering is not None else []
        results = await self._store.watch_keys(now, kinds, troubles)
        self._report(results)
        self._note_recovery(is_on=recovering is not None)
        for each in results:
            if each.recovery is not None and each.incident.is_resolved:
                self._sum_up(each.recovery)

    def _sum_up(self, recovery: RecoverySummary) -> None:
        counts = {"succeeded": recovery.succeeded, "failed": recovery.failed, "skipped": recovery.skipped}
        for outcome, count in counts.items():
            self._metrics.recovered.labels(outcome).inc(count)
        seconds = recovery.duration.total_seconds()
        self._metrics.recovery_seconds.inc(seconds)
        rates = {"runs_per_second": round(recovery.runs_per_second, 2), "duration_ms": round(seconds * 1_000)}
        log.info("recovery_finished", extra={"ended": recovery.ended, **counts, **rates, "summary": str(recovery)})

    async def _unserved(self, nodes: Sequence[WatchedNode], now: datetime) -> list[tuple[str, datetime]]:
        served = {lane for node in nodes if now - node.beat_at <= self._live_for for lane in node.lanes}
        return [(work.lane, work.ready_at) for work in await self._lanes.lanes(now) if not serves(served, work.lane)]

    def _least(self, kind: IncidentKind, limit_of: Callable[[AlertPolicy], timedelta | None]) -> timedelta | None:
        """Return the least limit that a policy sets for this kind; None if no policy asks for it."""
        limits = [limit_of(policy) for policy in self._policies.values() if kind in policy.on]
        return min((limit for limit in limits if limit is not None), default=None)

    def _note_recovery(self, *, is_on: bool) -> None:
        """Log that recovery mode begins, once the backlog is planned and can be counted, and that it ends."""
        self._metrics.recovery_mode.set(is_on)
        self._looks_in_recovery = self._looks_in_recovery + 1 if is_on else 0
        if is_on and not self._late_runs.runs and self._looks_in_recovery < _UNCOUNTED_LOOKS:
            return
        if is_on != self._is_recovering:
            late = self._late_runs
            facts = {"late_runs": late.runs, "jobs": late.jobs}
            if is_on:
                log.warning("recovery_mode_entered", extra=facts)
            else:
                log.info("recovery_mode_left", extra=facts)
        self._is_recovering = is_on

    def _report(self, results: Sequence[WatchResult]) -> None:
        for each in results:
            incident = each.incident
            facts = {"incident": str(incident.id), "kind": incident.kind.value, "error": incident.error}
            if incident.job_id is not None:
                facts["job_id"] = str(incident.job_id)
            if each.event is not None:
                facts["channels"] = ", ".join(each.channels)
                self._metrics.notifications.labels(each.event.value).inc(len(each.channels))
            if each.move is Move.OPEN:
                log.warning("incident_opened", extra=facts)
            elif each.move in (Move.RESOLVE, Move.REPLACE):
                log.info("incident_resolved", extra=facts)
            elif each.event is Event.ESCALATED:
                log.warning("incident_escalated", extra=facts)
            elif each.event is not None:
                log.info("incident_notified", extra=facts | {"event_type": each.event.value})
