"""Ordinary functions run in threads, and what finds none free is handed back. The only tests here with real threads."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from uuid import UUID

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.core.run.states import Kind, RunState
from hourbell.targets.base import Call
from hourbell.targets.task import Task, TaskTarget
from hourbell.targets.task_run import Run as TaskRun
from tests.engine.virtual import START, VirtualTime, run_virtually
from tests.targets.calls import ReportingCall


def call_of(
    number: int,
    begun: list[int],
    *,
    name: str = "job",
    timeout: str = "60s",
    begin: Callable[[], Awaitable[bool]] | None = None,
) -> Call:
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

    async def begin_at_once() -> bool:
        begun.append(number)
        return True

    target = {"type": "task", "name": name, "timeout": timeout}
    return ReportingCall(run, Definition(name, "* * * * *", target), START, begin=begin or begin_at_once)


def target_of(function: Callable[[TaskRun], None], *, threads: int) -> TaskTarget:
    tasks = {"job": Task("job", function), "other": Task("other", function)}
    return TaskTarget(tasks, threads=threads)


async def until_done(attempts: Iterable[asyncio.Task[Outcome]]) -> list[Outcome]:
    """Threads take real time, which virtual time does not wait for."""
    waiting = list(attempts)
    while not all(attempt.done() for attempt in waiting):
        await asyncio.sleep(0.001)
    return [attempt.result() for attempt in waiting]


@pytest.mark.anyio
async def test_a_function_without_a_free_thread_is_handed_back_at_once() -> None:
    may_end, called, begun = threading.Event(), [], list[int]()

    def function(run: TaskRun) -> None:
        called.append(run.id.int)
        may_end.wait(10)

    target = target_of(function, threads=1)
    first = asyncio.create_task(target.deliver(call_of(1, begun)))
    for _ in range(5):
        await asyncio.sleep(0)

    assert await target.deliver(call_of(2, begun)) == Unstarted()
    assert begun == [1]
    may_end.set()
    assert await first == Succeeded()
    assert await target.deliver(call_of(3, begun)) == Succeeded()
    assert (called, begun) == ([1, 3], [1, 3])
    await target.close()


def test_all_ordinary_functions_share_the_threads_and_coroutines_need_none() -> None:
    def function(run: TaskRun) -> None: ...

    async def coroutine(run: TaskRun) -> None: ...

    ordinary, isolated = Task("a", function), Task("b", print, isolate=True)
    target = TaskTarget({"a": ordinary, "b": isolated, "c": Task("c", coroutine)}, threads=7)

    [threads] = target.pools
    assert threads.size == 7
    assert [target.pool(lane) for lane in target.lanes()] == [threads, threads, None]
    assert target.pool("task:unknown") is None


def test_the_time_limit_counts_from_the_delivery_so_that_what_does_not_begin_is_handed_back() -> None:
    async def main(time: VirtualTime) -> tuple[Outcome, float, int]:
        async def hang() -> bool:
            await asyncio.Event().wait()
            raise AssertionError

        def function(_: TaskRun) -> None:
            raise AssertionError

        target = TaskTarget({"job": Task("job", function)}, threads=1)
        call = call_of(1, [], timeout="30s", begin=hang)
        began = time.elapsed()
        outcome = await target.deliver(call)
        return outcome, time.elapsed() - began, target.pools[0].taken

    assert run_virtually(main) == (Unstarted(), pytest.approx(30, abs=0.01), 0)


def test_a_function_past_its_timeout_keeps_its_thread_until_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    may_end = [threading.Event(), threading.Event()]

    def function(run: TaskRun) -> None:
        may_end[run.id.int].wait(60)

    async def main(_: VirtualTime) -> None:
        target = target_of(function, threads=2)
        [threads] = target.pools
        calls = [call_of(0, [], timeout="10s"), call_of(1, [], timeout="20s", name="other")]
        first, second = (asyncio.create_task(target.deliver(call)) for call in calls)
        await asyncio.sleep(16)
        assert (dict(threads.overdue), threads.is_exhausted) == ({"job": 1}, False)

        await asyncio.sleep(10)
        assert (dict(threads.overdue), threads.is_exhausted) == ({"job": 1, "other": 1}, True)
        assert await target.deliver(call_of(2, [])) == Unstarted()

        may_end[0].set()
        [outcome] = await until_done([first])
        assert outcome == Failed("timed out after 10s")
        assert (dict(threads.overdue), threads.is_exhausted, threads.taken) == ({"other": 1}, False, 1)

        may_end[1].set()
        await until_done([second])
        assert (dict(threads.overdue), threads.taken) == ({}, 0)
        await target.close()

    with caplog.at_level(logging.WARNING, "hourbell.targets"):
        run_virtually(main)

    reported = [record for record in caplog.records if record.message.startswith("pool")]
    assert [record.message for record in reported] == ["pool_exhausted", "pool_recovered"]
    assert reported[0].__dict__["tasks"] == "job (1), other (1)"


def test_a_function_that_ends_within_its_grace_is_not_overdue() -> None:
    may_end = threading.Event()

    async def main(_: VirtualTime) -> None:
        target = target_of(lambda _: may_end.wait(60) and None, threads=1)
        attempt = asyncio.create_task(target.deliver(call_of(0, [], timeout="10s")))
        await asyncio.sleep(12)
        assert not target.pools[0].overdue

        may_end.set()
        await until_done([attempt])
        await asyncio.sleep(10)
        assert not target.pools[0].overdue
        await target.close()

    run_virtually(main)
