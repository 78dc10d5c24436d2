"""The shortest history that still breaks a promise: what can be left out of a scenario is left out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.simulation.scenario import Scenario
from tests.simulation.world import SimulationReport

T = TypeVar("T")


def shrink(report: SimulationReport, simulate: Callable[[Scenario], SimulationReport]) -> SimulationReport:
    """Leave out acts, then jobs, then nodes, for as long as a promise of the same number is still broken."""
    promise = _promise(report)
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for smaller in _smaller(report.scenario):
            tried = simulate(smaller)
            if tried.broken is not None and _promise(tried) == promise:
                report, is_shorter = tried, True
                break
    return report


def _promise(report: SimulationReport) -> str:
    assert report.broken is not None
    return report.broken.partition(":")[0]


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """The larger halves first, single ones last."""
    size = len(scenario.acts)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(scenario.acts), size):
            yield replace(scenario, acts=scenario.acts[:start] + scenario.acts[start + size :])
    if len(scenario.acts) == 1:
        yield replace(scenario, acts=())
    for index in range(len(scenario.jobs)):
        if len(scenario.jobs) > 1:
            yield replace(scenario, jobs=_without(scenario.jobs, index))
    if scenario.nodes > 1:
        yield replace(scenario, nodes=scenario.nodes - 1)


def _without(items: tuple[T, ...], index: int) -> tuple[T, ...]:
    return items[:index] + items[index + 1 :]
