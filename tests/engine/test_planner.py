"""Timing of the planner: its passes, its sleep, and the time that a pass uses."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan
from hourbell.engine.events import EngineEvents
from hourbell.engine.loop import NotAsked
from hourbell.engine.planner import MAX_PASS_JOBS, Planner
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.base import EngineStore, Planned, Refreshed, Tzdata
from hourbell.store.errors import StoreUnavailable
from tests.core.values import T0, a_job
from tests.engine.nodes import MINUTE, SECOND, Cluster, virtually
from tests.engine.test_time import Elapsed
from tests.engine.virtual import START

anyio = pytest.mark.anyio
MAX_SLEEP = 2 * MINUTE
NOW = T0 + MINUTE


def planned(
    jobs: int = 0, runs: int = 0, *, next_at: datetime | None = None, lanes: frozenset[str] = frozenset()
) -> Planned:
    return Planned(jobs, runs, {}, (), lanes, next_at)


@dataclass
class ScriptedStore:
    """Answers passes in turn, the last answer for ever."""

    answers: list[Planned]
    hears_others: bool = True
    standing: Tzdata = Tzdata.CURRENT
    refreshes: int = 0  # before every job is in its place
    limits: list[int] = field(default_factory=list)
    during_pass: Callable[[Callable[[Job, datetime], Plan]], Awaitable[None]] | None = None

    async def check_tzdata(self, _version: str) -> Tzdata:
        return self.standing

    async def refresh(self, *_arguments: object) -> Refreshed:
        self.refreshes -= 1
        return Refreshed((), UUID(int=1) if self.refreshes else None)

    async def plan_due(self, _now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
        self.limits.append(limit)
        if self.during_pass is not None:
            await self.during_pass(decide)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Planning:
    """A planner on a scripted store, at NOW by a clock that was confirmed."""

    def __init__(self, store: ScriptedStore, *, max_sleep: timedelta = MAX_SLEEP) -> None:
        self.store = store
        self.elapsed = Elapsed()
        self.clock = DatabaseClock(self.elapsed)
        self.clock.observe(NOW, 0.0)
        self.lanes: list[frozenset[str]] = []
        self.metrics = Metrics()
        self.planner = Planner(
            cast(EngineStore, store),
            self.clock,
            events=EngineEvents(self.metrics, lambda: 0.0),
            on_runs=self.lanes.append,
            tzdata="2026b",
            max_sleep=max_sleep,
        )

    async def tick(self) -> float:
        return await self.planner.tick()

    async def tick_until_passes_are_large(self) -> None:
        for limit in (20, 40, 80, 160, 320, 640):
            self.store.answers.insert(0, planned(limit, next_at=NOW))
            await self.tick()
        self.store.limits.clear()


@virtually
async def test_a_planner_asks_once_for_an_instant_and_does_so_on_time(cluster: Cluster) -> None:
    await cluster.add_job()
    node = await cluster.start()
    await cluster.advance_to(START + MINUTE - SECOND)
    before = node.counted("plan_due")
    await cluster.advance(30 * SECOND)

    assert node.counted("plan_due") - before <= 3
    assert cluster.calls[0].lateness < SECOND / 100


@anyio
async def test_after_a_step_of_the_clock_nothing_is_planned_until_a_second_sample_confirms_it() -> None:
    planning = Planning(ScriptedStore([planned()]))
    planning.clock.observe(NOW + 2 * MINUTE, 0.0)
    delay = await planning.tick()

    assert (delay, isinstance(delay, NotAsked), planning.store.limits) == (0.1, True, [])
    planning.clock.observe(NOW + 2 * MINUTE, 0.0)
    await planning.tick()
    assert planning.store.limits == [20]


@anyio
async def test_a_node_with_older_time_zone_data_plans_nothing_and_asks_again_later() -> None:
    planning = Planning(ScriptedStore([planned()], standing=Tzdata.OUTDATED))

    assert (await planning.tick(), planning.store.limits) == (30.0, [])


@anyio
async def test_the_planner_continues_at_once_while_jobs_move_to_newer_time_zone_data() -> None:
    planning = Planning(ScriptedStore([planned()], standing=Tzdata.NEWER, refreshes=2))

    assert [await planning.tick() for _ in range(2)] == [0, MAX_SLEEP.total_seconds()]


@pytest.mark.parametrize(
    ("next_at", "hears_others", "max_sleep", "delay"),
    [
        (None, True, MAX_SLEEP, 120.0),
        (None, False, MAX_SLEEP, 1.0),
        (None, False, SECOND / 2, 0.5),
        (NOW + 10 * SECOND, True, MAX_SLEEP, 9.998),  # it wakes a little earlier
        (NOW + 10 * SECOND, True, 5 * SECOND, 5.0),
        (NOW + 10 * SECOND, False, MAX_SLEEP, 1.0),
        (NOW, True, MAX_SLEEP, 0.1),  # another node holds its lock
        (NOW - SECOND, True, MAX_SLEEP, 0.1),
    ],
)
@anyio
async def test_it_sleeps_until_the_next_job_is_due(
    next_at: datetime | None, hears_others: bool, max_sleep: timedelta, delay: float
) -> None:
    store = ScriptedStore([planned(next_at=next_at)], hears_others=hears_others)

    assert await Planning(store, max_sleep=max_sleep).tick() == pytest.approx(delay)


@anyio
async def test_jobs_due_after_a_pass_that_planned_some_are_planned_at_once() -> None:
    assert await Planning(ScriptedStore([planned(3, 3, next_at=NOW)])).tick() == 0


@anyio
async def test_runs_that_were_planned_are_counted_and_those_who_serve_their_lanes_are_woken() -> None:
    planning = Planning(ScriptedStore([planned(3, 7, lanes=frozenset({"a"})), planned()]))
    for _ in range(2):
        await planning.tick()

    assert planning.lanes == [frozenset({"a"})]
    assert planning.metrics.registry.get_sample_value("hourbell_runs_planned_total") == 7


@pytest.mark.parametrize(
    ("waited", "decided_at"),
    [(0.0, NOW), (1.0, NOW), (1.5, NOW + 1.5 * SECOND), (30.0, NOW + 30 * SECOND)],
)
@anyio
async def test_a_pass_decides_by_the_time_it_was_asked_for_unless_it_had_to_wait(
    waited: float, decided_at: datetime
) -> None:
    planning = Planning(ScriptedStore([planned()]))
    planning.elapsed.seconds = 50.0
    planning.clock.observe(NOW, 50.0)
    decided: list[datetime | None] = []

    async def wait_and_decide(decide: Callable[[Job, datetime], Plan]) -> None:
        for seconds in (waited, 10.0):  # and all of the pass by the same time
            planning.elapsed.seconds += seconds
            decided.append(decide(a_job(), T0).cursor_at)

    planning.store.during_pass = wait_and_decide
    await planning.tick()

    assert decided == [decided_at, decided_at]


@pytest.mark.parametrize(("runs", "passes"), [(2_000, 15), (2_001, 3)])
@anyio
async def test_passes_follow_one_another_unless_they_gave_many_runs(runs: int, passes: int) -> None:
    planning = Planning(ScriptedStore([planned()]))
    await planning.tick_until_passes_are_large()
    planning.store.answers = [planned(MAX_PASS_JOBS, runs, next_at=NOW)]
    await planning.tick()

    assert planning.store.limits == [MAX_PASS_JOBS] * passes


@pytest.mark.parametrize(("runs", "limit"), [(20, 40), (2_000, 20), (4_000, 10), (1_000_000, 1)])
@anyio
async def test_the_next_pass_takes_as_many_jobs_as_give_two_thousand_runs(runs: int, limit: int) -> None:
    planning = Planning(ScriptedStore([planned(20, runs, next_at=NOW), planned()]))
    for _ in range(2):
        await planning.tick()

    assert planning.store.limits == [20, limit]


@anyio
async def test_the_sleep_ends_with_the_first_job_that_any_of_several_passes_found() -> None:
    planning = Planning(ScriptedStore([planned()]))
    await planning.tick_until_passes_are_large()
    times = (None, NOW + 20 * SECOND, NOW + 10 * SECOND)
    planning.store.answers = [planned(1, 1, next_at=next_at) for next_at in times]

    assert await planning.tick() == pytest.approx(9.998)
    assert len(planning.store.limits) == 3


@anyio
async def test_a_pass_that_fails_is_raised_when_the_others_beside_it_have_ended() -> None:
    planning = Planning(ScriptedStore([planned()]))
    await planning.tick_until_passes_are_large()
    ended: list[int] = []

    async def fail_the_first(_: object) -> None:
        number = len(planning.store.limits)
        if number == 1:
            raise StoreUnavailable("unreachable")
        for _ in range(20):
            await asyncio.sleep(0)
        ended.append(number)

    planning.store.during_pass = fail_the_first
    with pytest.raises(StoreUnavailable):
        await planning.tick()

    assert ended == [2, 3]
