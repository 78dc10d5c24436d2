"""A scheduler in a thread of its own: start, stop, and code without an event loop that asks for runs."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hourbell import Run, Scheduler
from hourbell.library import background
from tests.servers.ledger import Ledger

pytestmark = pytest.mark.anyio

Seen = queue.SimpleQueue[Any]


@pytest.fixture
def seen() -> Seen:
    return queue.SimpleQueue()


@pytest.fixture
def in_a_thread(scheduler: Scheduler) -> Any:
    """Stop the thread at the end of every test."""
    yield scheduler
    scheduler.stop()


async def eventually(is_so: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    return found


async def test_it_works_from_start_to_stop_and_may_do_so_again(
    in_a_thread: Scheduler, seen: Seen, ledger: Ledger
) -> None:
    in_a_thread.register("tick", "* * * * * *", lambda run: seen.put(run))

    for _ in range(2):
        in_a_thread.start()
        in_a_thread.start()  # is one
        first = await asyncio.to_thread(seen.get, timeout=20)
        assert first.job == "tick"
        assert [each.name for each in threading.enumerate()].count("hourbell") == 1
        await asyncio.to_thread(in_a_thread.stop)
        assert await ledger.rows("select id from hourbell.nodes") == []
        while not seen.empty():
            seen.get()


async def test_code_without_an_event_loop_triggers_and_calls_once(in_a_thread: Scheduler, seen: Seen) -> None:
    in_a_thread.register("report", "@yearly", lambda run: seen.put(run))
    in_a_thread.task(lambda _, whom: seen.put(whom), name="greet")
    in_a_thread.start()

    def ask() -> tuple[Any, ...]:
        keyed = {in_a_thread.blocking.trigger("report", key="1") for _ in range(2)}
        in_a_thread.blocking.once("greet", delay="0s", args={"whom": "Ada"})
        return keyed, {seen.get(timeout=20) for _ in range(2)}

    keyed, called = await asyncio.to_thread(ask)

    assert {run.id for run in called if isinstance(run, Run)} == keyed
    assert "Ada" in called
    with pytest.raises(LookupError, match="there is no job 'nothing'"):
        await asyncio.to_thread(in_a_thread.blocking.trigger, "nothing")


async def test_other_event_loops_may_ask_too(in_a_thread: Scheduler, seen: Seen) -> None:
    in_a_thread.register("report", "@yearly", lambda run: seen.put(run))
    in_a_thread.start()

    asked = await in_a_thread.trigger("report")  # also before the thread has begun to work

    assert (await asyncio.to_thread(seen.get, timeout=20)).id == asked


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
async def test_a_call_that_would_wait_for_itself_is_refused(in_a_thread: Scheduler, seen: Seen) -> None:
    in_a_thread.register("report", "@yearly", lambda _: None)

    async def asks(_: Run) -> None:
        try:
            in_a_thread.blocking.trigger("report")
        except RuntimeError as error:
            seen.put(str(error))

    in_a_thread.register("asks", "* * * * * *", asks)
    in_a_thread.start()

    assert "await scheduler.trigger" in await asyncio.to_thread(seen.get, timeout=20)


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
async def test_calls_are_answered_before_the_start_and_after_the_stop(in_a_thread: Scheduler) -> None:
    in_a_thread.task(lambda _: None, name="report")
    before = await asyncio.to_thread(in_a_thread.blocking.once, "report", delay="1m")

    in_a_thread.start()
    await asyncio.to_thread(in_a_thread.stop)

    after = await asyncio.to_thread(in_a_thread.blocking.once, "report", delay="1m")
    assert {job.name for job in await in_a_thread.list()} == {before, after}
    with pytest.raises(RuntimeError, match=r"write await scheduler\."):
        in_a_thread.blocking.trigger("report")


async def test_a_run_that_has_begun_finishes_before_the_stop(
    in_a_thread: Scheduler, seen: Seen, ledger: Ledger
) -> None:
    def slow(run: Run) -> str:
        seen.put(run)
        time.sleep(1)
        return "done"

    in_a_thread.register("slow", "* * * * * *", slow, overlap="skip")
    in_a_thread.start()
    run = await asyncio.to_thread(seen.get, timeout=20)

    await asyncio.to_thread(in_a_thread.stop)

    states = dict(await ledger.rows("select id, state from hourbell.runs where attempt > 0"))
    assert states in ({run.id: "succeeded"}, {run.id.bytes: "succeeded"})


async def test_a_run_that_does_not_finish_in_time_is_taken_up_by_the_next_start(
    in_a_thread: Scheduler, seen: Seen, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOURBELL_DRAIN_TIMEOUT", "1s")

    async def slow(run: Run) -> None:
        seen.put(run)
        await asyncio.sleep(30 if run.attempt == 1 else 0)

    in_a_thread.register("slow", "@yearly", slow)
    in_a_thread.start()
    await in_a_thread.trigger("slow")
    first = await asyncio.to_thread(seen.get, timeout=20)
    await asyncio.to_thread(in_a_thread.stop)
    assert await ledger.rows("select state, failures, crashes from hourbell.runs") == [("retrying", 0, 0)]

    in_a_thread.start()

    again = await asyncio.to_thread(seen.get, timeout=20)
    assert (again.id, again.attempt) == (first.id, 2)


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
async def test_the_thread_waits_for_an_unreachable_database(
    ledger: Ledger, home: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_TRY_AGAIN", 0.2)
    monkeypatch.setattr(background, "_MAX_WAIT_SECONDS", 0.5)
    scheduler = Scheduler("shop", database_url=f"sqlite:///{home}/later/hourbell.db")
    scheduler.register("report", "@yearly", lambda run: seen.put(run))
    scheduler.start()
    await eventually(lambda: [text for text in caplog.messages if text.startswith("scheduler_waits reason=")])

    with pytest.raises(RuntimeError, match="the scheduler has not started yet"):
        await asyncio.to_thread(scheduler.blocking.trigger, "report")
    (home / "later").mkdir()
    await eventually((home / "later" / "hourbell.db").exists)
    await eventually(lambda: scheduler._embedded)
    asked = await asyncio.to_thread(scheduler.blocking.trigger, "report")

    assert (await asyncio.to_thread(seen.get, timeout=20)).id == asked
    await asyncio.to_thread(scheduler.stop)
    assert ledger.url is None
