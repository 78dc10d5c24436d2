"""Logging and metrics of the engine: one log event for each state change, and its metrics."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from uuid import UUID

from hourbell.core.alerts.channel import LANE_PREFIX
from hourbell.core.job.definition import Definition
from hourbell.core.run.run import Run, takeable_since, was_planned_late
from hourbell.core.run.settle import Outcome, Settlement
from hourbell.core.run.states import ENDS, Kind, RunState
from hourbell.core.schedule import ScheduleError
from hourbell.engine.run_events import RunListener, name_of, settled_event, started_event
from hourbell.engine.run_lines import RunLines
from hourbell.metrics import JobMetrics, Metrics
from hourbell.store.base import LeaseKey, Planned, Saved, SettledAttempt
from hourbell.store.rows import OUTCOMES

log = logging.getLogger("hourbell.engine")

OnEnded = Callable[[UUID, str, datetime], None]  # takes the job, the final state and when

VERY_LATE = timedelta(minutes=60)
_NAMED = 20  # runs in one log line
# Module constants, because attribute access on an enum costs ten times as much.
_SCHEDULED, _SUCCEEDED, _SUPERSEDED = Kind.SCHEDULED, RunState.SUCCEEDED, Saved.SUPERSEDED


class EngineEvents:
    def __init__(
        self,
        metrics: Metrics,
        elapsed: Callable[[], float],
        listener: RunListener | None = None,
        on_ended: OnEnded | None = None,
    ) -> None:
        self._metrics = metrics
        self._listener = listener
        self._on_ended = on_ended
        self._lines = RunLines(elapsed)

    @property
    def has_summary(self) -> bool:
        """True if runs have ended that no line has reported yet; `flush` does."""
        return self._lines.has_summary

    def flush(self) -> None:
        self._lines.flush()

    def planned(self, planned: Planned, now: datetime) -> None:  # noqa: ARG002
        if planned.runs:
            self._metrics.planned.inc(planned.runs)
            log.debug("runs_planned", extra={"jobs": planned.jobs, "runs": planned.runs})
        for reason, count in planned.skipped.items():
            self._metrics.skipped.labels(reason).inc(count)
            log.info("times_skipped", extra={"reason": reason, "count": count})
        self._metrics.planning_errors.inc(len(planned.errors))
        for name, error in planned.errors:
            log.error("job_cannot_be_planned", extra={"job": name, "error": error})

    def claimed(self, runs: Sequence[Run]) -> None:
        self._metrics.claimed.inc(sum(not run.lane.startswith(LANE_PREFIX) for run in runs))

    def started(self, run: Run, definition: Definition, now: datetime) -> None:
        if run.lane.startswith(LANE_PREFIX):
            return  # a notification; it has metrics of its own
        metrics = self._metrics
        waited = (now - takeable_since(run, definition)).total_seconds()
        metrics.dispatch.observe(waited if waited > 0 else 0.0)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("run_started", extra=_facts(run, definition.name))
        if self._listener is not None and self._listener.wants("run_started"):
            self._listener.notify(started_event(run, definition.name, now))
        if run.kind is not _SCHEDULED:
            return  # manual runs, backfills and replays start on purpose after their scheduled time
        lateness = now - run.scheduled_at
        if run.started_at is None:  # its first attempt
            late = lateness.total_seconds()
            metrics.lateness.observe(late if late > 0 else 0.0)
        if run.failures > 0 or lateness <= definition.late_after:
            return  # a retry is late because of its waits, and each failure was logged
        if run.started_at is None:
            self._metrics.late.inc()
        was_down = was_planned_late(run, definition) or run.crashes > 0
        facts = _facts(run, definition.name) | {
            "scheduled_at": run.scheduled_at.isoformat(),
            "started_at": now.isoformat(),
            "late_minutes": int(lateness.total_seconds() // 60),
            "late_hours": round(lateness.total_seconds() / 3_600, 1),
            "reason": "recovery from downtime" if was_down else "queued behind other runs",
        }
        if lateness > VERY_LATE:
            log.warning("run_very_late", extra=facts)
        else:
            log.info("run_late", extra=facts)

    def failed_to_begin(self, run: Run, now: datetime) -> None:
        """Observe the lateness of a run whose first attempt failed before it began."""
        if run.kind is _SCHEDULED and run.started_at is None:
            self._metrics.lateness.observe(max(0.0, (now - run.scheduled_at).total_seconds()))

    def settled(self, settled: Sequence[tuple[SettledAttempt, Definition, object]], saved: Sequence[Saved]) -> None:
        """Log and count settlements; each comes with the definition of its job and the result of its write."""
        outcomes: Counter[type[Outcome]] = Counter()
        ended: Counter[RunState] = Counter()
        without_line = 0
        observe, by_job, on_ended = self._metrics.duration.observe, self._metrics.by_job, self._on_ended
        is_logged = log.isEnabledFor(logging.INFO)
        lines = self._lines.room(_SUCCEEDED) if is_logged else 0
        for ((settlement, node, started_at, _), definition, _), answer in zip(settled, saved, strict=True):
            if answer is _SUPERSEDED:
                self._metrics.superseded.inc()
                log.warning("write_superseded", extra=_facts(settlement.run, definition.name))
                continue
            if settlement.run.lane.startswith(LANE_PREFIX):  # a notification; it has metrics of its own
                self._notified(settlement, definition.name)
                continue
            if node is not None:
                outcomes[type(settlement.outcome)] += 1
                if started_at is not None:
                    observe((settlement.at - started_at).total_seconds())
            state = settlement.state
            ended[state] += 1
            if state is not _SUCCEEDED:
                self._log_settlement(settlement, definition.name, _timing(settlement, started_at, definition))
            elif lines > 0:  # the check of many successes at once is faster than that of each
                lines -= 1
                self._log_settlement(settlement, definition.name, _timing(settlement, started_at, definition))
            else:
                without_line += 1
            if by_job is not None and state in ENDS:
                _count_by_job(by_job, settlement, started_at, definition)
            if on_ended is not None and state in ENDS:
                on_ended(settlement.run.job_id, state.value, settlement.at)
        if is_logged:
            self._lines.count(_SUCCEEDED, without_line)
        for outcome, count in outcomes.items():
            self._metrics.settled.labels(OUTCOMES[outcome]).inc(count)
        self._count_ended(ended)
        if self._listener is not None and self._listener.is_listening:
            for ((settlement, *_), definition, _), answer in zip(settled, saved, strict=True):
                if answer is not _SUPERSEDED:
                    self._notify(settlement, definition.name)

    def _notify(self, settlement: Settlement, job: str) -> None:
        """Tell the listener of a settlement that was written; notifications have no events."""
        name = name_of(settlement)
        if name is None or self._listener is None or settlement.run.lane.startswith(LANE_PREFIX):
            return
        if self._listener.wants(name):
            self._listener.notify(settled_event(name, settlement, job))

    def _notified(self, settlement: Settlement, name: str) -> None:
        """Count and log the end of a notification; a delivered one needs no line."""
        if settlement.state in ENDS:
            channel = settlement.run.lane.removeprefix(LANE_PREFIX)
            self._metrics.notifications_ended.labels(channel, settlement.state.value).inc()
        if settlement.state is not _SUCCEEDED:
            self._log_settlement(settlement, name)

    def handed_back(self, handed_back: Sequence[LeaseKey]) -> None:
        """Log runs that returned to the queue because the response to their claim was lost."""
        facts = {"count": len(handed_back), "runs": [str(each.run_id) for each in handed_back[:_NAMED]]}
        log.warning("leases_handed_back", extra=facts | {"hint": "the answer to their claim was lost"})

    def reaped(self, settlements: Sequence[Settlement], names: Mapping[UUID, str]) -> None:
        """Log and count settlements of expired leases, with the names of their jobs as far as they are known."""
        for settlement in settlements:
            run, name = settlement.run, names.get(settlement.run.job_id, "")
            self._metrics.lost.inc()
            self._metrics.settled.labels("lost").inc()
            log.warning("lease_lost", extra=_facts(run, name) | {"state": settlement.state.value})
            if self._metrics.by_job is not None and settlement.state in ENDS:
                self._metrics.by_job.ended(name, settlement.state.value)
            if self._on_ended is not None and settlement.state in ENDS and not run.lane.startswith(LANE_PREFIX):
                self._on_ended(run.job_id, settlement.state.value, settlement.at)
            self._log_settlement(settlement, name)
            self._notify(settlement, name)
        self._count_ended(Counter(settlement.state for settlement in settlements))

    def expired(self, count: int) -> None:
        if count:
            self._metrics.ended.labels("failed").inc(count)
            log.error("runs_expired", extra={"count": count, "hint": "no node served them within max_age"})

    def _count_ended(self, states: Mapping[RunState, int]) -> None:
        """Count the ended runs of a whole batch at once: the lookup of a metric series costs more than counting."""
        for state, count in states.items():
            if state in ENDS:
                self._metrics.ended.labels(state.value).inc(count)

    def _log_settlement(
        self, settlement: Settlement, name: str = "", timing: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        state = settlement.state
        if state in ENDS and not self._lines.write(state):
            return
        facts = {**_facts(settlement.run, name), "state": state.value, **timing}
        error = getattr(settlement.outcome, "error", None)
        match state:
            case RunState.SUCCEEDED:
                log.info("run_succeeded", extra=facts)
            case RunState.CANCELLED:
                log.info("run_cancelled", extra=facts)
            case RunState.FAILED:
                reason = settlement.reason.value if settlement.reason else None
                log.error("run_failed", extra=facts | {"reason": reason, "error": error})
            case RunState.RETRYING if error is not None:
                ready_at = settlement.ready_at.isoformat() if settlement.ready_at else None
                log.warning("attempt_failed", extra=facts | {"error": error, "ready_at": ready_at})


def _next_at(settlement: Settlement, definition: Definition) -> datetime | None:
    """Return when the job of an ended scheduled run is next due, by the definition that the run has."""
    if settlement.run.kind is not _SCHEDULED or settlement.state not in ENDS:
        return None
    try:
        return definition.parsed().next(settlement.at)
    except ScheduleError:  # it was valid when the run was planned
        return None


def _count_by_job(
    by_job: JobMetrics, settlement: Settlement, started_at: datetime | None, definition: Definition
) -> None:
    by_job.ended(definition.name, settlement.state.value)
    by_job.last_run(
        definition.name,
        settlement.at,
        success=settlement.state is _SUCCEEDED,
        seconds=None if started_at is None else (settlement.at - started_at).total_seconds(),
        next_at=_next_at(settlement, definition),
    )


def _timing(settlement: Settlement, started_at: datetime | None, definition: Definition) -> dict[str, object]:
    """Return when the run was due, how late it began, how long it took, and when its job is next due."""
    run = settlement.run
    timing: dict[str, object] = {"scheduled_at": run.scheduled_at.isoformat()}
    if started_at is not None:
        if run.kind is _SCHEDULED and run.attempt == 1:
            timing["lateness_seconds"] = round(max(0.0, (started_at - run.scheduled_at).total_seconds()), 3)
        timing["duration_seconds"] = round(max(0.0, (settlement.at - started_at).total_seconds()), 3)
    if (next_at := _next_at(settlement, definition)) is not None:
        timing["next_at"] = next_at.isoformat()
    return timing


def _facts(run: Run, name: str = "") -> dict[str, object]:
    facts: dict[str, object] = {"run": str(run.id), "attempt": run.attempt}
    return facts | ({"job": name} if name else {"job_id": str(run.job_id)})
