"""A loop ticks, sleeps as long as its tick asks, and survives every exception of a tick."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from hourbell.engine.loop import LoopRunner, NotAsked, Signal
from hourbell.store.errors import StoreUnavailable
from tests.engine.virtual import VirtualTime, run_virtually

AWAY = StoreUnavailable("unreachable")
BUG = ValueError("a bug")


class Script:
    """A loop whose ticks answer or raise what is written; after the last one it stops its runner."""

    name = "script"

    def __init__(self, answers: Iterable[float | Exception]) -> None:
        self._answers = iter(answers)
        self.ticks: list[float] = []
        self.runner: LoopRunner | None = None

    async def tick(self) -> float:
        self.ticks.append(asyncio.get_running_loop().time())
        answer = next(self._answers, "end")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            assert self.runner is not None
            self.runner.stop()
            return 3_600
        return answer


def waits(
    *answers: float | Exception,
    random: float = 1.0,
    max_backoff: float | None = None,
    meanwhile: Callable[[LoopRunner], None] | None = None,
) -> list[float]:
    """Return the intervals between the ticks."""
    script = Script(answers)

    async def run(_: VirtualTime) -> None:
        loop = asyncio.get_running_loop()
        limit = {} if max_backoff is None else {"max_backoff": max_backoff}
        runner = LoopRunner(script, elapsed=loop.time, random=lambda: random, **limit)
        script.runner = runner
        if meanwhile is not None:
            meanwhile(runner)
        await runner.run()

    run_virtually(run)
    return [round(later - earlier, 6) for earlier, later in zip(script.ticks, script.ticks[1:], strict=False)]


def test_a_loop_sleeps_as_long_as_its_tick_asks() -> None:
    assert waits(2.5, 0, NotAsked(1), 0.25) == [2.5, 0, 1, 0.25]


def test_a_wake_ends_the_sleep_and_counts_once() -> None:
    def wake_twice(runner: LoopRunner) -> None:
        asyncio.get_running_loop().call_later(0.5, lambda: (runner.wake.set(), runner.wake.set()))

    assert waits(10, 10, meanwhile=wake_twice) == [0.5, 10]


def test_a_wake_during_a_tick_leaves_no_sleep_after_it() -> None:
    assert waits(10, 10, meanwhile=lambda runner: runner.wake.set()) == [0, 10]


@pytest.mark.parametrize(("random", "share"), [(1.0, 1.0), (0.5, 0.75), (0.0, 0.5)])
@pytest.mark.parametrize("error", [AWAY, BUG])
def test_a_loop_that_fails_waits_twice_as_long_each_time_up_to_a_limit(
    error: Exception, random: float, share: float
) -> None:
    found = waits(*[error] * 7, random=random)

    assert found == [round(share * wait, 6) for wait in (0.2, 0.4, 0.8, 1.6, 3.2, 5, 5)]


def test_the_limit_of_the_waits_may_be_shorter() -> None:
    assert waits(AWAY, AWAY, AWAY, max_backoff=0.5) == [0.2, 0.4, 0.5]


def test_a_successful_tick_resets_the_backoff() -> None:
    assert waits(AWAY, AWAY, 1.0, AWAY) == [0.2, 0.4, 1.0, 0.2]


def test_a_tick_without_a_query_is_no_recovery(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    assert waits(AWAY, NotAsked(1), AWAY, 1.0) == [0.2, 1, 0.4, 1]

    reported = [(record.message, record.__dict__.get("failures")) for record in caplog.records]
    assert reported == [("database_unavailable", None), ("loop_recovered", 2)]
    assert {record.__dict__["loop"] for record in caplog.records} == {"script"}


def test_an_unreachable_database_is_logged_once_and_a_bug_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    waits(AWAY, AWAY, AWAY, BUG, BUG, 1.0, AWAY)

    assert caplog.messages == [
        "database_unavailable",
        "tick_failed",
        "tick_failed",
        "loop_recovered",
        "database_unavailable",
        "loop_recovered",
    ]


def test_a_loop_that_is_stopped_ends_its_sleep() -> None:
    async def run(time: VirtualTime) -> None:
        runner = LoopRunner(Script([3_600]), elapsed=time.elapsed, random=lambda: 1.0)
        asyncio.get_running_loop().call_later(2, runner.stop)
        await runner.run()
        assert time.elapsed() == pytest.approx(2, abs=0.001)

    run_virtually(run)


def test_a_loop_is_unhealthy_if_no_tick_succeeded_for_twice_its_sleep_plus_a_margin() -> None:
    ages: list[tuple[float, float]] = []

    def read(runner: LoopRunner) -> None:
        assert (runner.name, runner.age, runner.max_age_of_pass) == ("script", 0, 15)
        for at in (3, 12):
            asyncio.get_running_loop().call_later(
                at, lambda: ages.append((round(runner.age, 3), runner.max_age_of_pass))
            )

    waits(10, AWAY, AWAY, AWAY, AWAY, AWAY, meanwhile=read)

    assert ages == [(3, 35), (12, 35)]


def test_a_signal_waits_no_longer_than_its_timeout() -> None:
    async def wait(time: VirtualTime) -> None:
        signal, loop = Signal(), asyncio.get_running_loop()
        for seconds in (2.0, 0.0, -1.0):
            started = loop.time()
            await signal.wait(seconds)
            assert round(loop.time() - started, 6) == max(0.0, seconds)
        del time

    run_virtually(wait)


def test_a_wait_of_zero_seconds_yields_and_takes_the_signal() -> None:
    async def wait(_: VirtualTime) -> None:
        signal, seen = Signal(), []
        asyncio.get_running_loop().call_soon(lambda: seen.append("other"))
        signal.set()
        await signal.wait(0)
        assert seen == ["other"]
        started = asyncio.get_running_loop().time()
        await signal.wait(1.0)  # the signal was taken
        assert asyncio.get_running_loop().time() - started == pytest.approx(1.0)

    run_virtually(wait)
