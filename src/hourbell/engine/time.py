"""The database's time, estimated between samples, so that a node with a wrong clock decides like the others."""

from collections.abc import Callable
from datetime import datetime, timedelta

STEP = timedelta(seconds=60)


class DatabaseClock:
    """Time as the database tells it: the last sample plus what has elapsed since.

    A sample that differs from the estimate by more than a minute is a step: it is taken at once, and `confirmations`
    tells how many samples have agreed with it since, so that who must not be fooled by one wrong sample can wait.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        # One value, so that a thread never sees half of a new sample.
        self._sample: tuple[datetime, float] | None = None
        self._confirmations = 0

    def now(self) -> datetime:
        if self._sample is None:
            raise RuntimeError("the clock was asked before its first sample")
        time, at = self._sample
        return time + timedelta(seconds=self._elapsed() - at)

    @property
    def has_time(self) -> bool:
        return self._sample is not None

    @property
    def confirmations(self) -> int:
        """How many samples have agreed with the present course of time."""
        return self._confirmations

    def observe(self, sample: datetime, asked_at: float, answered_at: float) -> timedelta:
        """Take a sample asked for and answered at these elapsed seconds; by how much it differs from the estimate."""
        middle = (asked_at + answered_at) / 2
        drift = timedelta(0)
        if self._sample is not None:
            time, at = self._sample
            drift = sample - (time + timedelta(seconds=middle - at))
        self._confirmations = 0 if abs(drift) > STEP else self._confirmations + 1
        self._sample = (sample, middle)
        return drift
