"""The policies of a job for missed instants, overlapping runs and failed attempts."""

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum


class CatchUp(StrEnum):
    LATEST = "latest"  # one run for the newest missed instant
    EARLIEST = "earliest"  # one run for the oldest missed instant
    ALL = "all"  # a run for each, oldest first
    NONE = "none"  # no run for missed instants


class Overlap(StrEnum):
    ALLOW = "allow"
    QUEUE_ALL = "queue_all"
    QUEUE_ONE = "queue_one"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"


class Delivery(StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Rank(IntEnum):
    """A run's priority in its lane, lowest number first. A run planned late gets one level less than its job."""

    HIGH = 0
    NORMAL = 1
    LOW = 2
    LATE_LOW = 3


_RANKS = {Priority.HIGH: Rank.HIGH, Priority.NORMAL: Rank.NORMAL, Priority.LOW: Rank.LOW}
_LATE_RANKS = {priority: Rank(rank + 1) for priority, rank in _RANKS.items()}


def rank_of(priority: Priority, *, is_late: bool) -> Rank:
    return (_LATE_RANKS if is_late else _RANKS)[priority]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts and the waits between them; the last wait repeats. `spread` randomizes waits."""

    attempts: int
    backoff: tuple[timedelta, ...]
    spread: float = 0.0

    def wait_after(self, failures: int, random: float = 0.0) -> timedelta | None:
        """Return the wait after the nth counted failure, or None to give up.

        `random` is a random number in [0, 1) that shortens a spread wait.
        """
        if failures >= self.attempts:
            return None
        wait = self.backoff[min(failures, len(self.backoff)) - 1]
        return wait * (1 - self.spread * random)


RETRY_PRESETS = {
    "default": RetryPolicy(4, (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))),
    "fixed": RetryPolicy(3, (timedelta(minutes=1),)),
    "exponential": RetryPolicy(8, tuple(timedelta(seconds=10 * 4**step) for step in range(6)), spread=0.5),
    "none": RetryPolicy(1, (timedelta(0),)),
}
