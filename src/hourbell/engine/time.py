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
        self.elapsed = elapsed
        # One value, so that a thread never sees half of a new sample.
        self._sample: tuple[datetime, float] | None = None
        self._confirmations = 0

    def now(self) -> datetime:
        if self._sample is None:
            raise RuntimeError("the clock was asked before its first sample")
        time, at = self._sample
        return time + timedelta(0, self.elapsed() - at)  # days, seconds: by name it costs half as much again

    @property
    def has_time(self) -> bool:
        return self._sample is not None

    @property
    def confirmations(self) -> int:
        """How many samples have agreed with the present course of time."""
        return self._confirmations

    def drift_of(self, sample: datetime, answered_at: float) -> timedelta:
        """By how much a sample answered at this elapsed second differs from the estimate."""
        if self._sample is None:
            return timedelta(0)
        time, at = self._sample
        return sample - (time + timedelta(seconds=answered_at - at))

    def observe(self, sample: datetime, answered_at: float) -> timedelta:
        """Take a sample answered at this elapsed second; by how much it differs from the estimate.

        However long the answer was under way, it counts from when it came: the estimate may lag behind the database by
        that much, and is never ahead of it.
        """
        drift = self.drift_of(sample, answered_at)
        self._confirmations = 0 if abs(drift) > STEP else self._confirmations + 1
        self._sample = (sample, answered_at)
        return drift
