"""The time line: the width of its buckets, the planned times of a job, and counts of what happened in each bucket.

A bucket begins at a multiple of its width since the epoch, so that buckets stay where they are while the window moves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hourbell.core.job.definition import Definition
from hourbell.core.run.fates import is_late
from hourbell.core.run.forecast import forecast
from hourbell.core.run.states import Kind, RunState

MAX_BUCKETS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND, _MINUTE, _HOUR, _DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
_WIDTHS = [
    *(count * _SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 4, 6, 8, 12)),
    *(count * _DAY for count in (1, 2, 7)),
]


@dataclass(slots=True)
class Bucket:
    """Counts of the scheduled times in a bucket. A run that succeeded late counts as late, not as succeeded."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    late: int = 0
    cancelled: int = 0
    unfinished: int = 0
    skipped: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A span of the time line, [start, end), and the width of its buckets."""

    start: datetime
    end: datetime
    bucket: timedelta

    @staticmethod
    def of(start: datetime, end: datetime) -> "Window":
        """Return the window with the narrowest buckets of which it has at most MAX_BUCKETS."""
        width = next((width for width in _WIDTHS if (end - start) / width <= MAX_BUCKETS), _WIDTHS[-1])
        return Window(start, end, width)

    @property
    def first_bucket(self) -> datetime:
        return self.bucket_of(self.start)

    @property
    def buckets(self) -> int:
        return (self.end - self.first_bucket - _MICROSECOND) // self.bucket + 1

    def bucket_of(self, at: datetime) -> datetime:
        """Return the beginning of the bucket that holds an instant."""
        return at - (at - _EPOCH) % self.bucket


@dataclass(frozen=True, slots=True)
class SkippedRange:
    first_at: datetime
    last_at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class RunCount:
    """The number of a job's runs with one fate in the bucket that begins at `at`."""

    at: datetime
    state: RunState
    is_late: bool
    count: int


def planned_from(
    definition: Definition, now: datetime, cursor_at: datetime | None, paused_until: datetime | None
) -> datetime | None:
    """Return the instant after which a job's times are still to be planned; None if none will be."""
    if not definition.enabled and paused_until is None:
        return None
    return max(filter(None, (now, cursor_at, paused_until)))


def count_planned(definition: Definition, after: datetime, window: Window) -> int:
    """Count the planned times of a job strictly after an instant, within the window."""
    span = _span(definition, after, window)
    return 0 if span is None else definition.parsed().count(*span)


def planned_times(definition: Definition, after: datetime, window: Window) -> list[datetime]:
    """Return the planned times of a job strictly after an instant, within the window."""
    span = _span(definition, after, window)
    return [] if span is None else list(definition.parsed().between(*span))


def count_planned_by_bucket(definition: Definition, after: datetime, window: Window) -> dict[datetime, int]:
    """Count the planned times in each bucket, without walking from one to the next where they are many."""
    start = max(window.start, after + _MICROSECOND)
    if definition.ends_at is not None and definition.ends_at < start:
        return {}
    first = window.first_bucket
    # The last bucket may reach past the window.
    ends_at = min(filter(None, (definition.ends_at, window.end - _MICROSECOND)))
    counts = forecast([(replace(definition, ends_at=ends_at), 1)], first, window.bucket, window.buckets, now=start)
    return {first + index * window.bucket: count for index, count in enumerate(counts) if count}


def fill_buckets(
    window: Window, runs: Iterable[RunCount], skips: Iterable[SkippedRange], planned: dict[datetime, int]
) -> list[Bucket]:
    """Return the buckets that hold something, in order."""
    found: dict[datetime, Bucket] = {}

    def bucket(at: datetime) -> Bucket:
        return found.setdefault(at, Bucket(at))

    for run in runs:
        into = bucket(run.at)
        match run.state:
            case RunState.SUCCEEDED if run.is_late:
                into.late += run.count
            case RunState.SUCCEEDED:
                into.succeeded += run.count
            case RunState.FAILED:
                into.failed += run.count
            case RunState.CANCELLED:
                into.cancelled += run.count
            case _:
                into.unfinished += run.count
    for skip in skips:
        for at, count in _spread(skip, window):
            bucket(at).skipped += count
    for at, count in planned.items():
        bucket(at).planned += count
    return [found[at] for at in sorted(found)]


def waits_late(
    kind: Kind, state: RunState, scheduled_at: datetime, late_after: timedelta | None, now: datetime
) -> bool:
    """Check if a run that has not begun would be late if it began now."""
    return state is RunState.PENDING and is_late(kind, scheduled_at, now, late_after)


def median_duration(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the median; of an even number the mean of the middle two."""
    if not durations:
        return None
    rising, middle = sorted(durations), len(durations) // 2
    return rising[middle] if len(rising) % 2 else (rising[middle - 1] + rising[middle]) / 2


def _span(definition: Definition, after: datetime, window: Window) -> tuple[datetime, datetime] | None:
    """Return the span (start, end] of planned times as schedules count it; None if it is empty."""
    start = max(after, window.start - _MICROSECOND)
    if definition.starts_at is not None:
        start = max(start, definition.starts_at - _MICROSECOND)
    end = window.end - _MICROSECOND
    if definition.ends_at is not None:
        end = min(end, definition.ends_at)
    return (start, end) if start < end else None


def _spread(skip: SkippedRange, window: Window) -> Iterable[tuple[datetime, int]]:
    """Spread the times of a skip evenly from its first to its last, and count those in each bucket of the window."""
    if skip.count == 1 or skip.first_at == skip.last_at:
        if window.start <= skip.last_at < window.end:
            yield window.bucket_of(skip.last_at), skip.count
        return
    step = (skip.last_at - skip.first_at) / (skip.count - 1)

    def before(at: datetime) -> int:
        """Count the times before an instant."""
        return 0 if at <= skip.first_at else min(skip.count, -((skip.first_at - at) // step))

    at = window.bucket_of(max(window.start, skip.first_at))
    while at < window.end and at <= skip.last_at:
        end = min(at + window.bucket, window.end)
        if count := before(end) - before(max(at, window.start)):
            yield at, count
        at += window.bucket
