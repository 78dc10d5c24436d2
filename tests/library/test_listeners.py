"""Callbacks for events of runs: called for what this process executes, and never in the way of a run."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from hourbell import Run, RunEvent, Scheduler
from hourbell.library import listeners

pytestmark = pytest.mark.anyio


class Flaky:
    """A task that fails at first."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("no answer")
        return "done"


async def soon(queue: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(queue.get(), 20)


async def test_each_event_of_a_run_reaches_its_callbacks(scheduler: Scheduler) -> None:
    seen: asyncio.Queue[RunEvent] = asyncio.Queue()
    flaky = Flaky()

    @scheduler.task(name="flaky")
    async def task(_: Run) -> str:
        return await flaky()

    async def note(event: RunEvent) -> None:
        seen.put_nowait(event)

    for name in ("run_started", "attempt_failed", "run_succeeded"):
        assert scheduler.on(name, note) is note
    async with scheduler:
        job = await scheduler.create(
            "one", "@yearly", "flaky", run_on_create=True, retry={"attempts": 2, "backoff": ["1s"]}
        )
        events = [await soon(seen) for _ in range(4)]

    assert [event.name for event in events] == ["run_started", "attempt_failed", "run_started", "run_succeeded"]
    assert {(event.job, event.job_id, event.kind) for event in events} == {("one", job.id, "manual")}
    assert [event.attempt for event in events] == [1, 1, 2, 2]
    assert "no answer" in (events[1].error or "")
    assert events[1].ready_at is not None


async def test_an_ordinary_function_is_called_in_a_thread(scheduler: Scheduler) -> None:
    called = threading.Event()
    threads: list[threading.Thread] = []

    @scheduler.task(name="fails")
    async def fails(_: Run) -> None:
        raise RuntimeError("no answer")

    def note(event: RunEvent) -> None:
        threads.append(threading.current_thread())
        assert event.reason == "exhausted"
        called.set()

    scheduler.on("run_failed", note)
    async with scheduler:
        await scheduler.create("one", "@yearly", fails, run_on_create=True, retry="none")
        assert await asyncio.to_thread(called.wait, 20)

    assert threads[0] is not threading.main_thread()


async def test_a_callback_that_raises_is_logged_and_harms_nothing(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    seen: asyncio.Queue[RunEvent] = asyncio.Queue()

    @scheduler.task(name="works")
    async def works(_: Run) -> None: ...

    async def wrong(_: RunEvent) -> None:
        raise RuntimeError("the callback's own")

    async def leaves(_: RunEvent) -> None:
        raise SystemExit(1)

    async def cancels_its_own(_: RunEvent) -> None:
        waiting = asyncio.create_task(asyncio.sleep(30))
        waiting.cancel()
        await waiting

    def wrong_too(_: RunEvent) -> None:
        raise RuntimeError("another one's")

    async def note(event: RunEvent) -> None:
        seen.put_nowait(event)

    for callback in (wrong, wrong_too, leaves, cancels_its_own, note):
        scheduler.on("run_succeeded", callback)
    async with scheduler:
        await scheduler.create("one", "@yearly", works, run_on_create=True)
        await soon(seen)
        await scheduler.trigger("one")
        await soon(seen)

    failures = [text for text in caplog.messages if text.startswith("listener_failed")]
    assert len(failures) == 8
    assert "wrong_too" in failures[1]


async def test_events_that_wait_for_a_slow_callback_are_dropped_and_logged(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(listeners, "_MAX_WAITING_EVENTS", 1)
    monkeypatch.setattr(listeners, "_LAST_SECONDS", 0.1)
    done: asyncio.Queue[Run] = asyncio.Queue()

    @scheduler.task(name="works")
    async def works(run: Run) -> None:
        done.put_nowait(run)

    async def slow(_: RunEvent) -> None:
        await asyncio.sleep(30)

    scheduler.on("run_started", slow)
    async with scheduler:
        await scheduler.create("one", "@yearly", works)
        for number in range(5):
            await scheduler.trigger("one", key=str(number))
        for _ in range(5):
            await soon(done)

    assert any(text.startswith("listener_events_dropped") for text in caplog.messages)


async def test_an_unknown_event_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(ValueError, match="there is no event 'run_missed'; use one of run_started, run_succeeded"):
        scheduler.on("run_missed", print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'notify' is not a function"):
        scheduler.on("run_failed", "notify")  # type: ignore[arg-type]
