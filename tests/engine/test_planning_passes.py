"""Sizes of planning passes: jobs per pass, and passes before the planner polls again."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from hourbell.engine.events import EngineEvents
from hourbell.engine.planner import MAX_PASS_JOBS, Planner
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.base import EngineStore, Planned, Tzdata

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class ScriptedStore:
    """So many jobs are due, each of which gives so many runs."""

    hears_others = True

    def __init__(self, due: int, runs_of_each: int = 1) -> None:
        self.due = due
        self.runs_of_each = runs_of_each
        self.passes: list[int] = []
        self.asked_at: list[datetime] = []

    async def check_tzdata(self, _version: str) -> Tzdata:
        return Tzdata.CURRENT

    async def plan_due(self, now: datetime, limit: int, _decide: Callable[..., Any]) -> Planned:
        self.asked_at.append(now)
        jobs = min(limit, self.due)
        self.due -= jobs
        self.passes.append(jobs)
        next_plan_at = now if jobs == limit else now + HOUR
        return Planned(jobs, jobs * self.runs_of_each, {}, (), frozenset(), next_plan_at)


def planner(store: ScriptedStore, elapsed: Callable[[], float] = lambda: 0.0) -> Planner:
    clock = DatabaseClock(elapsed)
    for _ in range(2):
        clock.observe(NOW, 0.0)
    return Planner(
        cast(EngineStore, store),
        clock,
        events=EngineEvents(Metrics(), lambda: 0.0),
        on_runs=lambda _: None,
        tzdata="2026b",
        max_sleep=2 * HOUR,
    )


async def ticks(of: Planner, limit: int = 100) -> int:
    """Tick until it wants to sleep; how often."""
    for count in range(1, limit + 1):
        if await of.tick() > 0:
            return count
    raise AssertionError(f"it did not sleep after {limit} ticks")


async def test_the_first_pass_is_small_and_each_next_one_twice_as_large() -> None:
    store = ScriptedStore(due=3_000)
    await ticks(planner(store))

    assert store.passes[:7] == [20, 40, 80, 160, 320, 640, 1_000]
    assert sum(store.passes) == 3_000


async def test_the_planner_checks_for_shutdown_after_a_few_full_passes() -> None:
    store = ScriptedStore(due=100 * MAX_PASS_JOBS)
    asked = planner(store)
    for _ in range(6):
        await asked.tick()
    before = len(store.passes)

    assert await asked.tick() == 0
    assert len(store.passes) - before == 15


async def test_passes_that_give_many_runs_take_fewer_jobs() -> None:
    store = ScriptedStore(due=20_000, runs_of_each=100)
    await ticks(planner(store), limit=10_000)

    assert max(store.passes) * store.runs_of_each <= 2_000


async def test_nothing_is_asked_again_once_all_is_planned() -> None:
    store = ScriptedStore(due=5 * MAX_PASS_JOBS)
    await ticks(planner(store))

    assert store.passes.count(0) <= 3
    assert sum(store.passes) == 5 * MAX_PASS_JOBS


async def test_it_wakes_before_a_turn_and_begins_with_it() -> None:
    def elapsed() -> float:
        times[0] += 0.0001
        return times[0]

    times = [0.0]
    store = ScriptedStore(due=0)
    asked = planner(store, elapsed)
    delay = await asked.tick()
    turn = store.asked_at[0] + HOUR  # as the store says
    times[0] += delay
    woken_at = NOW + timedelta(seconds=elapsed())

    await asked.tick()

    assert woken_at < turn
    assert timedelta(0) <= store.asked_at[1] - turn < timedelta(milliseconds=1)
