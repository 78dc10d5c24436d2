"""Measuring: candidates take turns within one run, and each is judged by its median round.

The machine is shared, so only figures of one run are compared, and only as ratios. The clock counts the CPU time of
this process, which other people's work disturbs less than the time on the wall.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import median

ROUNDS = 9
_ROUND_SECONDS = 0.005  # long beside the clock's own cost and resolution

Work = Callable[[], object]
Prepare = Callable[[], Work]
"""Set-up that is not timed; the work it returns is timed, and done once."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a candidate in each round, in seconds."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)


def compare(candidates: Mapping[str, Prepare], calls: int = 1, rounds: int = ROUNDS) -> dict[str, Timing]:
    """Time per call of each candidate, whose work makes this many calls."""
    repeats = {name: _repeats_for(prepare) for name, prepare in candidates.items()}

    def sample(name: str) -> Callable[[], float]:
        return lambda: _cpu_seconds(candidates[name], repeats[name]) / (repeats[name] * calls)

    return alternate({name: sample(name) for name in candidates}, rounds)


def alternate(samples: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, Timing]:
    """Let the candidates sample themselves in turn, each round beginning with another one."""
    names = list(samples)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in chain(names[first:], names[:first]):
            taken[name].append(samples[name]())
    return {name: Timing(tuple(seconds)) for name, seconds in taken.items()}


def _repeats_for(prepare: Prepare) -> int:
    _cpu_seconds(prepare, 1)  # fills caches
    return max(1, round(_ROUND_SECONDS / max(_cpu_seconds(prepare, 3) / 3, 1e-7)))


def _cpu_seconds(prepare: Prepare, repeats: int) -> float:
    works = [prepare() for _ in range(repeats)]
    gc.collect()
    gc.disable()
    try:
        start = time.process_time_ns()
        for work in works:
            work()
        return (time.process_time_ns() - start) / 1e9
    finally:
        gc.enable()
