"""An attempt ends when its time is over, whether its timer was set at once or later."""

import asyncio

import pytest

from hourbell.targets.time_limits import TimeLimit, TimeLimits
from tests.engine.virtual import VirtualTime, run_virtually


@pytest.mark.parametrize("seconds", [0.5, 2.0, 2.5, 600.0])
def test_work_that_takes_too_long_is_cancelled_at_its_limit(seconds: float) -> None:
    async def main(time: VirtualTime) -> float:
        limit = TimeLimit(TimeLimits(), seconds)
        began = time.elapsed()
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(3_600)
        assert limit.is_over
        return time.elapsed() - began

    assert run_virtually(main) == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize("seconds", [1.0, 600.0])
def test_work_that_ends_in_time_is_not_cancelled(seconds: float) -> None:
    async def main(_: VirtualTime) -> None:
        limits = TimeLimits()
        for _ in range(3):
            with TimeLimit(limits, seconds):
                await asyncio.sleep(seconds - 0.1)
        await asyncio.sleep(seconds)

    run_virtually(main)


@pytest.mark.parametrize("seconds", [1.0, 600.0])
def test_a_cancellation_from_outside_goes_before_the_limit(seconds: float) -> None:
    async def work() -> None:
        with TimeLimit(TimeLimits(), seconds):
            await asyncio.sleep(3_600)

    async def main(_: VirtualTime) -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(seconds / 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(main)


def test_a_limit_inside_a_limit_ends_by_itself() -> None:
    async def main(_: VirtualTime) -> None:
        limits = TimeLimits()
        with TimeLimit(limits, 600.0):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await asyncio.sleep(3_600)
            await asyncio.sleep(5)

    run_virtually(main)
