"""Timing of an attempt: the seconds of each phase it reached, and the current phase."""

from collections.abc import Callable
from typing import Literal

Phase = Literal["dns", "connect", "tls", "wait", "read"]


class Stopwatch:
    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._since = elapsed()
        self._seconds: dict[str, float] = {}
        self.phase: Phase | None = None

    def start(self, phase: Phase | None) -> None:
        """End the current phase, if any, and begin this one; None is time that belongs to no phase."""
        now = self._elapsed()
        if self.phase is not None:
            self._seconds[self.phase] = self._seconds.get(self.phase, 0.0) + now - self._since
        self.phase, self._since = phase, now

    def phases(self) -> dict[str, float]:
        """Return the seconds of every phase so far, including the current one."""
        self.start(self.phase)
        return self._seconds
