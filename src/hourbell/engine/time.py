"""The database's time, estimated between samples, so that a node with a wrong clock decides as the others do."""

from collections.abc import Callable
from datetime import datetime, timedelta

STEP = timedelta(seconds=60)


class DatabaseClock:
    """The database's time: the last sample plus the time elapsed since.

    A sample that differs from the estimate by more than a minute is a step. It takes effect at once, and
    `confirmations` counts the samples that have agreed with it since, so that a caller can wait until a second sample
    confirms the step.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.elapsed = elapsed
        # One tuple, so that another thread never sees half of a new sample.
        self._sample: tuple[datetime, float] | None = None
        self._confirmations = 0

    def now(self) -> datetime:
        if self._sample is None:
            raise RuntimeError("the clock was asked before its first sample")
        time, at = self._sample
        return time + timedelta(0, self.elapsed() - at)  # days, seconds: keyword arguments would cost 50 % more

    @property
    def has_time(self) -> bool:
        return self._sample is not None

    @property
    def confirmations(self) -> int:
        """The number of samples that have agreed with the estimate since the last step."""
        return self._confirmations

    def drift_of(self, sample: datetime, answered_at: float) -> timedelta:
        """Return the difference between the estimate and a sample that was answered at this elapsed second."""
        if self._sample is None:
            return timedelta(0)
        time, at = self._sample
        return sample - (time + timedelta(seconds=answered_at - at))

    def observe(self, sample: datetime, answered_at: float) -> timedelta:
        """Use a sample that was answered at this elapsed second, and return its difference from the estimate.

        The sample counts from the arrival of the answer, whatever its latency: the estimate may lag behind the database
        by that latency, and is never ahead of it.
        """
        drift = self.drift_of(sample, answered_at)
        self._confirmations = 0 if abs(drift) > STEP else self._confirmations + 1
        self._sample = (sample, answered_at)
        return drift
