"""The janitor prunes batch by batch, and then logs runs that have waited too long."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from hourbell.engine.janitor import Janitor
from hourbell.engine.loop import NotAsked
from hourbell.engine.time import DatabaseClock
from hourbell.metrics import Metrics
from hourbell.store.base import Backlog, EngineStore, Mark, Pruned
from tests.core.values import DAY, HOUR, MICROSECOND, MINUTE, T0
from tests.engine.test_time import Elapsed

pytestmark = pytest.mark.anyio
RETENTION, KEEP, INTERVAL, STUCK_AFTER, LIVE_FOR = 30 * DAY, 5, HOUR, 15 * MINUTE, 3 * MINUTE
MARK = Mark(T0 - DAY, UUID(int=1))


@dataclass
class ScriptedStore:
    pruned: list[Pruned] = field(default_factory=list)  # answers, in turn; then there is nothing to prune
    waiting: Backlog = field(default_factory=lambda: Backlog(0, None, ()))
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def prune(self, now: datetime, retention: timedelta, keep: int, limit: int, mark: Mark | None) -> Pruned:
        self.asked.append(("prune", now, retention, keep, limit, mark))
        return self.pruned.pop(0) if self.pruned else Pruned(0, None)

    async def backlog(self, now: datetime, live_for: timedelta) -> Backlog:
        self.asked.append(("backlog", now, live_for))
        return self.waiting


class Tidying:
    def __init__(self, store: ScriptedStore, *, has_time: bool = True) -> None:
        clock = DatabaseClock(Elapsed())
        if has_time:
            clock.observe(T0, 0.0)
        self.metrics = Metrics()
        self.janitor = Janitor(
            cast(EngineStore, store),
            clock,
            metrics=self.metrics,
            retention=RETENTION,
            keep=KEEP,
            interval=INTERVAL,
            stuck_after=STUCK_AFTER,
            live_for=LIVE_FOR,
        )


def reported(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    facts = ("runs", "waiting", "oldest_seconds", "lane")
    return [
        (each.message, *(each.__dict__[name] for name in facts if name in each.__dict__)) for each in caplog.records
    ]


async def test_the_runner_claims_nothing_before_the_first_clock_sample() -> None:
    store = ScriptedStore()
    delay = await Tidying(store, has_time=False).janitor.tick()

    assert (delay, isinstance(delay, NotAsked), store.asked) == (1.0, True, [])


async def test_the_janitor_prunes_batch_by_batch_and_then_waits_for_its_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "hourbell.engine")
    store = ScriptedStore([Pruned(7, MARK), Pruned(0, MARK), Pruned(0, None)])
    janitor = Tidying(store).janitor

    assert [await janitor.tick() for _ in range(4)] == [0.1, 0.1, 3_600, 3_600]
    marks = [asked[-1] for asked in store.asked if asked[0] == "prune"]
    assert (store.asked[0], marks) == (("prune", T0, RETENTION, KEEP, 1_000, None), [None, MARK, MARK, None])
    assert [asked for asked in store.asked if asked[0] == "backlog"] == [("backlog", T0, LIVE_FOR)] * 2
    assert reported(caplog) == [("history_pruned", 7)]


@pytest.mark.parametrize(
    ("oldest_at", "stuck"),
    [
        (None, []),
        (T0 - STUCK_AFTER, []),
        (T0 - STUCK_AFTER - MICROSECOND, [("runs_stuck", 3, 900)]),
        (T0 - HOUR, [("runs_stuck", 3, 3_600)]),
    ],
)
async def test_runs_that_have_waited_too_long_are_logged(
    caplog: pytest.LogCaptureFixture, oldest_at: datetime | None, stuck: list[tuple[str, ...]]
) -> None:
    tidying = Tidying(ScriptedStore(waiting=Backlog(3, oldest_at, ())))
    await tidying.janitor.tick()

    assert reported(caplog) == stuck
    assert tidying.metrics.registry.get_sample_value("hourbell_backlog") == 3


async def test_a_lane_that_nobody_serves_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    await Tidying(ScriptedStore(waiting=Backlog(3, None, ("task:a", "task:b")))).janitor.tick()

    assert reported(caplog) == [("lane_unserved", "task:a"), ("lane_unserved", "task:b")]
