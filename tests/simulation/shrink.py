"""The shortest history that still breaks a promise: what can be left out of a scenario is left out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.simulation.scenario import Scenario
from tests.simulation.world import Told

T = TypeVar("T")


def shrink(told: Told, simulate: Callable[[Scenario], Told]) -> Told:
    """Leave out acts, then jobs, then nodes, for as long as a promise of the same number is still broken."""
    promise = _promise(told)
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for smaller in _smaller(told.scenario):
            tried = simulate(smaller)
            if tried.broken is not None and _promise(tried) == promise:
                told, is_shorter = tried, True
                break
    return told


def _promise(told: Told) -> str:
    assert told.broken is not None
    return told.broken.partition(":")[0]


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """The larger halves first, single ones last."""
    size = len(scenario.acts)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(scenario.acts), size):
            yield replace(scenario, acts=scenario.acts[:start] + scenario.acts[start + size :])
    if len(scenario.acts) == 1:
        yield replace(scenario, acts=())
    for place in range(len(scenario.jobs)):
        if len(scenario.jobs) > 1:
            yield replace(scenario, jobs=_without(scenario.jobs, place))
    if scenario.nodes > 1:
        yield replace(scenario, nodes=scenario.nodes - 1)


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return items[:place] + items[place + 1 :]
