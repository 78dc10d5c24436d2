"""Ordinary functions run in threads, and what waits for one has not begun. The only test here with a real thread."""

import asyncio
import threading
from datetime import timedelta
from uuid import UUID

import pytest

from hourbell.core.job import Definition
from hourbell.core.run import Run
from hourbell.core.settle import Succeeded
from hourbell.core.states import Kind, RunState
from hourbell.targets.base import Call
from hourbell.targets.task import Task, TaskTarget
from hourbell.targets.task_run import Run as TaskRun
from tests.engine.virtual import START
from tests.targets.calls import ToldCall


def call_of(number: int, begun: list[int]) -> Call:
    run = Run(
        UUID(int=number),
        UUID(int=0),
        1,
        Kind.SCHEDULED,
        START,
        START,
        START + timedelta(1),
        RunState.RUNNING,
        "",
        1,
        0,
        0,
    )

    async def begin() -> bool:
        begun.append(number)
        return True

    return ToldCall(run, Definition("job", "* * * * *", {"type": "task", "name": "job"}), START, begin=begin)


@pytest.mark.anyio
async def test_a_function_that_waits_for_a_thread_has_not_begun_and_can_be_stopped() -> None:
    may_end, called, begun = threading.Event(), [], list[int]()

    def function(run: TaskRun) -> None:
        called.append(run.id.int)
        may_end.wait(10)

    target = TaskTarget({"job": Task("job", function)}, threads=1)
    first, second = (asyncio.create_task(target.deliver(call_of(number, begun))) for number in (1, 2))
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == [1]

    second.cancel()
    may_end.set()
    assert await first == Succeeded()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert (called, begun) == ([1], [1])
    await target.close()
