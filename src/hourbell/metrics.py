"""Prometheus metrics. They have no job label unless it is switched on, so that a million jobs stay a few series."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import HistogramMetricFamily

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


class Metrics:
    def __init__(self, *, with_job_names: bool = False) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        self.planned = Counter("hourbell_runs_planned", "Runs planned", registry=registry)
        self.skipped = Counter(
            "hourbell_instants_skipped", "Scheduled times that got no run", ["reason"], registry=registry
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
            "hourbell_notifications_planned", "Messages planned, by type", ["type"], registry=registry
        )
        self.recovery_mode = Gauge(
            "hourbell_recovery_mode", "1 while one incident speaks for all late jobs", registry=registry
        )
        self.by_job = (
            Counter("hourbell_job_runs", "Runs by job and final state", ["job", "state"], registry=registry)
            if with_job_names
            else None
        )

    def render(self) -> bytes:
        return generate_latest(self.registry)
