"""Many health checks cause few queries."""

import asyncio

import pytest

from hourbell.api.shared_answer import SharedAnswer
from tests.api.house import Time

pytestmark = pytest.mark.anyio


class Database:
    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()

    async def ask(self) -> int:
        self.asked += 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return self.asked


async def test_simultaneous_callers_share_one_answer() -> None:
    database, time = Database(), Time()
    shared = SharedAnswer(database.ask, seconds=0.5, elapsed=time.elapsed)
    asking = [asyncio.create_task(shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    asking[0].cancel()
    time.seconds += 10  # it is still on its way
    asking += [asyncio.create_task(shared.get())]
    await asyncio.sleep(0)
    database.may_answer.set()

    assert await asyncio.gather(*asking[1:]) == [1] * 100


async def test_a_cached_answer_is_returned_until_it_is_too_old() -> None:
    database, time = Database(), Time()
    database.may_answer.set()
    shared = SharedAnswer(database.ask, seconds=0.5, elapsed=time.elapsed)
    answers = []
    for _ in range(4):
        answers.append(await shared.get())
        time.seconds += 0.25

    assert answers == [1, 1, 2, 2]


async def test_an_error_is_shared_and_then_asked_again() -> None:
    database, time = Database(), Time()
    database.may_answer.set()
    database.error = OSError("away")
    shared = SharedAnswer(database.ask, seconds=0.5, elapsed=time.elapsed)
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            await shared.get()
    database.error = None
    time.seconds += 0.5

    assert await shared.get() == 2
