"""Run many seeds in several processes."""

import time
from collections.abc import Generator
from dataclasses import dataclass
from multiprocessing import get_context

from tests.simulation.scenario import scenario_of
from tests.simulation.world import simulate


@dataclass(frozen=True)
class Result:
    seed: int
    broken: str | None
    runs: int
    effects: int
    seconds: float


def results_of(seeds: range, processes: int) -> Generator[Result, None, None]:
    """Yield the results as they arrive; closing the generator ends the processes."""
    if processes == 1:
        yield from map(_result_of, seeds)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_result_of, seeds, chunksize=4)


def _result_of(seed: int) -> Result:
    started = time.process_time()
    report = simulate(scenario_of(seed))
    return Result(seed, report.broken, report.runs, report.effects, time.process_time() - started)
