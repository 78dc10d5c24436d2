"""Candidates that take turns, each with its seconds and the CPU seconds of its parts, for one job."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from bench.measure import alternate

Measured = tuple[float, dict[str, float]]
"""Seconds, and the CPU seconds of each part: `process`, `here`, `machine` and `wall` always, `database` if known."""


@dataclass(slots=True)
class Candidate:
    """Something that does `count` jobs a round, and what each round took for one of them."""

    name: str
    database: str
    processes: int
    count: int
    work: Callable[[], Measured]
    seconds: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return 1 / median(self.seconds)

    def used(self, part: str) -> float | None:
        taken = [used[part] for used in self.parts if part in used]
        return median(taken) if taken else None

    @property
    def others(self) -> float:
        """Return the share of the machine that other programs used."""
        return median(map(_others, self.parts))

    def sample(self) -> float:
        seconds, parts = self.work()
        self.seconds.append(seconds / self.count)
        self.parts.append({part: used / self.count for part, used in parts.items()})
        return seconds


def play(candidates: Sequence[Candidate], rounds: int) -> None:
    alternate({str(index): partial(Candidate.sample, each) for index, each in enumerate(candidates)}, rounds)


def _others(used: dict[str, float]) -> float:
    ours = used["process"] + used["here"] + used.get("database", 0.0)
    return max(0.0, used["machine"] - ours) / (used["wall"] * len(os.sched_getaffinity(0)))
