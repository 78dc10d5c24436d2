"""The changes requested for a job while it ran, and the expected fate of each scheduled time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise

from hourbell.core.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Step:
    """A version of a job. It came into force somewhere between the time it was asked with and the answer."""

    version: int
    asked_at: datetime
    answered_at: datetime
    schedule: str
    enabled: bool = True
    reaches_back: bool = False  # resumed with catch-up: what fell due in the pause is its own


@dataclass(frozen=True, slots=True)
class History:
    """Versions of one job, oldest first."""

    steps: Sequence[Step]

    def valid_at(self, instant: datetime) -> list[Step]:
        """The version an instant belongs to; two or more only if the instant lies between a question and its answer."""
        found = []
        for step, follower in zip(self.steps, [*self.steps[1:], None], strict=True):
            has_begun = instant > step.asked_at
            has_ended = follower is not None and instant > follower.answered_at
            if has_begun and not has_ended:
                found.append(step)
        return found

    def may_run_as(self, instant: datetime) -> set[int]:
        """The versions that the run of an instant may carry."""
        versions = {step.version for step in self.valid_at(instant)}
        for paused, resumed in pairwise(self.steps):
            if resumed.reaches_back and paused.version in versions:
                versions.add(resumed.version)
        return versions

    def pauses(self) -> list[tuple[datetime, datetime]]:
        """From when a pause had been answered until its end was asked for."""
        return [(step.answered_at, follower.asked_at) for step, follower in pairwise(self.steps) if not step.enabled]

    def expected_counts(self, instant: datetime) -> tuple[int, int]:
        """The least and the most places that an instant may have."""
        fires = {_fires_at(step.schedule, instant) for step in self.valid_at(instant)}
        return int(fires == {True}), int(True in fires)


def _fires_at(schedule: str, instant: datetime) -> bool:
    return _parsed(schedule).next(instant - timedelta(microseconds=1)) == instant


@cache
def _parsed(schedule: str) -> Schedule:
    return Schedule.parse(schedule)
