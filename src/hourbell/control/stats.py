"""Statistics of a job's ended runs: counts by state, durations and lateness."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from hourbell.core.run.measures import MILLISECOND, percentile_ms
from hourbell.core.run.states import RunState
from hourbell.store.lists.query import EndedRun

_ZERO = timedelta(0)


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of ended runs; None if there is no data. A run that never started has no duration and no lateness."""

    total: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate_percent: float | None  # of those that succeeded or failed
    average_duration_ms: int | None
    p95_duration_ms: int | None
    longest_duration_ms: int | None
    average_lateness_ms: int | None
    p95_lateness_ms: int | None
    longest_lateness_ms: int | None


def summarize(ended: Sequence[EndedRun]) -> Summary:
    """Compute statistics. Duration is from the start of a run to its end, lateness from its due time to its start."""
    states = [run.state for run in ended]
    succeeded, failed = states.count(RunState.SUCCEEDED), states.count(RunState.FAILED)
    judged = succeeded + failed
    begun = [(run.due_at, run.started_at, run.finished_at) for run in ended if run.started_at is not None]
    durations = sorted(max(_ZERO, finished - started) for _, started, finished in begun)
    lateness = sorted(max(_ZERO, started - due) for due, started, _ in begun)
    return Summary(
        total=len(states),
        succeeded=succeeded,
        failed=failed,
        cancelled=states.count(RunState.CANCELLED),
        success_rate_percent=round(100 * succeeded / judged, 1) if judged else None,
        average_duration_ms=_average(durations),
        p95_duration_ms=percentile_ms(durations, 95),
        longest_duration_ms=percentile_ms(durations, 100),
        average_lateness_ms=_average(lateness),
        p95_lateness_ms=percentile_ms(lateness, 95),
        longest_lateness_ms=percentile_ms(lateness, 100),
    )


def _average(spans: Sequence[timedelta]) -> int | None:
    return round(sum(spans, _ZERO) / MILLISECOND / len(spans)) if spans else None
