"""Prometheus metrics. They have no job label unless it is switched on, so that a million jobs stay a few series."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import HistogramMetricFamily

MAX_LABELLED_JOBS = 1_000
OTHER_JOBS = "(other jobs)"  # no job can have this name
_LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600)
_DURATION = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600)


class Histogram:
    """A histogram of seconds, updated by one thread. Each attempt updates three, and the library's class costs five
    times as much.
    """

    def __init__(self, name: str, text: str, *, buckets: tuple[float, ...], registry: CollectorRegistry) -> None:
        self._name = name
        self._text = text
        self._bounds = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0
        registry.register(self)

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        names = [*map(str, map(float, self._bounds)), "+Inf"]
        buckets = list(zip(names, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=self._sum)


class JobMetrics:
    """Series by job: of the first `MAX_LABELLED_JOBS` jobs that end a run here; all others share one series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Counter("hourbell_job_runs", "Runs by job and final state", ["job", "state"], registry=registry)
        self._last = Gauge(
            "hourbell_job_last_run_timestamp_seconds", "When a run of the job last ended on this node", ["job"],
            registry=registry,
        )  # fmt: skip
        self._success = Gauge(
            "hourbell_job_last_run_success", "1 if that run succeeded, else 0", ["job"], registry=registry
        )
        self._duration = Gauge(
            "hourbell_job_last_duration_seconds", "Seconds that its last attempt took", ["job"], registry=registry
        )
        self._next = Gauge(
            "hourbell_job_next_run_timestamp_seconds", "When the job is next due, as of that run", ["job"],
            registry=registry,
        )  # fmt: skip
        self._names: set[str] = set()

    def label_of(self, job: str) -> str:
        if job not in self._names:
            if len(self._names) >= MAX_LABELLED_JOBS:
                return OTHER_JOBS
            self._names.add(job)
        return job

    def ended(self, job: str, state: str) -> None:
        self._runs.labels(self.label_of(job), state).inc()

    def last_run(
        self, job: str, at: datetime, *, success: bool, seconds: float | None, next_at: datetime | None
    ) -> None:
        """Set the gauges of a job; jobs that share a series have none."""
        label = self.label_of(job)
        if label == OTHER_JOBS:
            return
        self._last.labels(label).set(at.timestamp())
        self._success.labels(label).set(success)
        if seconds is not None:
            self._duration.labels(label).set(seconds)
        if next_at is not None:
            self._next.labels(label).set(next_at.timestamp())


class Metrics:
    def __init__(self, *, with_job_names: bool = False) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        self.planned = Counter("hourbell_runs_planned", "Runs planned", registry=registry)
        self.skipped = Counter(
            "hourbell_instants_skipped", "Scheduled times that got no run, by reason", ["reason"], registry=registry
        )
        self.claimed = Counter("hourbell_runs_claimed", "Leases taken", registry=registry)
        self.settled = Counter("hourbell_attempts_settled", "Attempts by outcome", ["outcome"], registry=registry)
        self.ended = Counter("hourbell_runs_ended", "Runs by final state", ["state"], registry=registry)
        self.superseded = Counter(
            "hourbell_writes_superseded", "Outcomes that arrived after their lease was lost", registry=registry
        )
        self.lost = Counter("hourbell_leases_lost", "Leases that expired", registry=registry)
        self.lateness = Histogram(
            "hourbell_lateness_seconds",
            "Seconds from the scheduled time to the start of the first attempt",
            buckets=_LATENESS,
            registry=registry,
        )
        self.dispatch = Histogram(
            "hourbell_dispatch_seconds",
            "Seconds from planned and ready to the start",
            buckets=_LATENESS,
            registry=registry,
        )
        self.duration = Histogram(
            "hourbell_run_seconds",
            "Seconds from the start of an attempt to its end",
            buckets=_DURATION,
            registry=registry,
        )
        self.backlog = Gauge("hourbell_backlog", "Runs that are ready and wait", registry=registry)
        self.backlog_age = Gauge(
            "hourbell_backlog_age_seconds", "Seconds since the oldest waiting run became ready", registry=registry
        )
        self.loop_age = Gauge(
            "hourbell_loop_age_seconds", "Seconds since a loop last succeeded", ["loop"], registry=registry
        )
        self.pool_size = Gauge(
            "hourbell_pool_size", "Capacity of a pool, such as its threads", ["pool"], registry=registry
        )
        self.pool_taken = Gauge("hourbell_pool_taken", "Capacity used by attempts", ["pool"], registry=registry)
        self.pool_overdue = Gauge(
            "hourbell_pool_overdue", "Capacity used by attempts past their timeout", ["pool"], registry=registry
        )
        self.audit_chain_broken = Gauge(
            "hourbell_audit_chain_broken", "1 if the node found a break in the audit chain", registry=registry
        )
        self.incidents = Gauge("hourbell_incidents", "Incidents that are not resolved", ["state"], registry=registry)
        self.notifications = Counter(
            "hourbell_notifications_planned",
            "Messages planned, by type, such as incident.opened",
            ["type"],
            registry=registry,
        )
        self.notifications_ended = Counter(
            "hourbell_notifications_ended",
            "Messages delivered (succeeded) or given up, by channel",
            ["channel", "state"],
            registry=registry,
        )
        self.recovery_mode = Gauge(
            "hourbell_recovery_mode", "1 while one incident speaks for all late jobs", registry=registry
        )
        self.recovered = Counter(
            "hourbell_recovery_runs",
            "Runs that ended in recovery mode, and scheduled times skipped, by outcome; counted at its end by one node",
            ["outcome"],
            registry=registry,
        )
        self.recovery_seconds = Counter(
            "hourbell_recovery_seconds", "Seconds of recovery mode, counted at its end by one node", registry=registry
        )
        self.late = Counter(
            "hourbell_runs_late",
            "Runs whose first attempt started later than their job's `late_after`",
            registry=registry,
        )
        self.planning_errors = Counter(
            "hourbell_planning_errors", "Jobs that could not be planned, once for each try", registry=registry
        )
        self.database_errors = Counter(
            "hourbell_database_errors",
            "Passes of a loop that could not reach the database",
            ["loop"],
            registry=registry,
        )
        self.analytics_counted = Counter("hourbell_analytics_counted", "Ended runs counted in Redis", registry=registry)
        self.analytics_lost = Counter(
            "hourbell_analytics_lost", "Ended runs that could not be counted in Redis", registry=registry
        )
        self.by_job = JobMetrics(registry) if with_job_names else None

    def render(self) -> bytes:
        return generate_latest(self.registry)
