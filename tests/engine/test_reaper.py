"""Timing of the reaper: its passes, its notifications and its sleep."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Settlement, settle_lost
from hourbell.core.run.states import Kind, RunState
from hourbell.engine.events import EngineEvents
from hourbell.engine.reaper import Reaper
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.base import EngineStore
from hourbell.store.errors import StoreUnavailable

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)
INTERVAL, LIVE_FOR = timedelta(seconds=8), timedelta(minutes=3)


def a_run(number: int, lane: str = "a", crashes: int = 0) -> Run:
    job = UUID(int=1)
    times = (NOW, NOW, NOW + timedelta(1))
    return Run(UUID(int=100 + number), job, 1, Kind.SCHEDULED, *times, RunState.RUNNING, lane, 1, 0, crashes)


@dataclass
class ScriptedStore:
    """These leases ran out, and so many runs are too old."""

    lost: list[Run] = field(default_factory=list)
    too_old: int = 0
    has_definitions: bool = True
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def reap(self, now: datetime, limit: int, decide: Callable[[Run, datetime], Settlement]) -> list[Settlement]:
        self.asked.append(("reap", now, limit))
        return [decide(run, now, run.crashes) for run in self.lost[:limit]]

    async def expire(self, now: datetime, limit: int, live_for: timedelta) -> list[UUID]:
        self.asked.append(("expire", now, limit, live_for))
        return [UUID(int=number) for number in range(min(limit, self.too_old))]

    async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
        if not self.has_definitions:
            raise StoreUnavailable("unreachable")
        return {version: Definition("nightly", "@daily", {}) for version in versions}


@dataclass
class Reaping:
    store: ScriptedStore
    may_reap: bool = True
    poison_after: int = 3
    lanes: list[frozenset[str]] = field(default_factory=list)

    async def tick(self) -> float:
        clock = DatabaseClock(lambda: 0.0)
        clock.observe(NOW, 0.0)
        reaper = Reaper(
            cast(EngineStore, self.store),
            clock,
            events=EngineEvents(Metrics(), lambda: 0.0),
            may_reap=lambda: self.may_reap,
            on_runs=self.lanes.append,
            interval=INTERVAL,
            live_for=LIVE_FOR,
            poison_after=self.poison_after,
        )
        return await reaper.tick()


async def test_the_reaper_takes_a_thousand_at_once_and_runs_again_after_its_interval() -> None:
    reaping = Reaping(ScriptedStore())

    assert await reaping.tick() == 8

    assert reaping.store.asked == [("reap", NOW, 1_000), ("expire", NOW, 1_000, LIVE_FOR)]
    assert reaping.lanes == []


async def test_a_reaper_that_may_not_reap_touches_nothing_and_asks_again_soon() -> None:
    reaping = Reaping(ScriptedStore([a_run(1)]), may_reap=False)

    assert await reaping.tick() == 2
    assert (reaping.store.asked, reaping.lanes) == ([], [])


@pytest.mark.parametrize(("lost", "too_old", "wait"), [(999, 999, 8), (1_000, 0, 0), (0, 1_000, 0), (1_001, 1_001, 0)])
async def test_the_reaper_continues_at_once_while_there_is_more(lost: int, too_old: int, wait: float) -> None:
    store = ScriptedStore([a_run(number) for number in range(lost)], too_old)

    assert await Reaping(store).tick() == wait


@pytest.mark.parametrize("has_definitions", [True, False])
async def test_expired_runs_are_reported_to_the_runner_and_logged(
    caplog: pytest.LogCaptureFixture, has_definitions: bool
) -> None:
    reaping = Reaping(ScriptedStore([a_run(1, "a"), a_run(2, "b")], 5, has_definitions))
    await reaping.tick()

    assert reaping.lanes == [frozenset({"a", "b"})]
    lost = [record.__dict__ for record in caplog.records if record.message == "lease_lost"]
    assert [each.get("job") for each in lost] == ["nightly" if has_definitions else None] * 2
    assert [each["run"] for each in lost] == [str(UUID(int=101)), str(UUID(int=102))]
    assert [record.__dict__["count"] for record in caplog.records if record.message == "runs_expired"] == [5]


async def test_the_number_of_deaths_that_make_poison_is_a_setting(caplog: pytest.LogCaptureFixture) -> None:
    run = a_run(1, crashes=1)
    states = {}
    for poison_after in (2, 3):
        caplog.clear()
        await Reaping(ScriptedStore([run]), poison_after=poison_after).tick()
        states[poison_after] = caplog.records[0].__dict__["state"]

    assert states == {after: settle_lost(run, NOW, run.crashes, after).state.value for after in (2, 3)}
    assert states[2] == "failed"
