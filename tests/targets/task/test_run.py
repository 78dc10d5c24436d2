"""The run object of a task: its fields, its notes, and its cancellation."""

import asyncio
import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import hourbell
from hourbell.core.job.definition import Definition
from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.targets.attempt_context import NodeAttemptContext
from hourbell.targets.task import Task
from hourbell.targets.task_run import MAX_RESULT_BYTES, Run
from hourbell.targets.time_limits import TimeLimit
from tests.engine.virtual import VirtualTime, run_virtually
from tests.targets.task import functions
from tests.targets.task.steps import NOW, RUN, SECOND, Attempt

pytestmark = pytest.mark.anyio
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


async def test_a_run_has_its_ids() -> None:
    async def function(run: Run) -> list[object]:
        facts = [run.id, run.job, run.job_id, run.job_version, run.scheduled_at, run.attempt, run.lateness, run.payload]
        assert isinstance(run, hourbell.Run)
        assert (facts, run.definition.name) == (
            [RUN.id, "job", RUN.job_id, 3, NOW - SECOND, 2, SECOND, {"days": 3}],
            "job",
        )
        return ["seen"]

    assert await Attempt(function).make() == Succeeded(["seen"])


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_run_has_its_trigger_and_its_predecessor(isolate: bool) -> None:
    attempt = Attempt(functions.facts, isolate=isolate, previous_success_at=NOW - HOUR)

    assert await attempt.make() == Succeeded(
        {
            "kind": "scheduled",
            "trigger": "schedule:* * * * *",
            "payload": {"days": 3},
            "expires_at": (NOW + timedelta(1)).isoformat(),
            "previous_at": (NOW - MINUTE).isoformat(),
            "previous_success_at": (NOW - HOUR).isoformat(),
        }
    )


async def test_a_job_without_a_success_has_no_previous_one() -> None:
    async def function(run: Run) -> list[object]:
        return [run.previous_success_at]

    assert await Attempt(function).make() == Succeeded([None])


@pytest.mark.parametrize(
    ("definition", "scheduled_at", "previous_at"),
    [
        (Definition("job", "0 9 * * *", {}), NOW, NOW - DAY),
        (Definition("job", "0 9 * * *", {}), NOW + SECOND, NOW),  # a run by hand
        (Definition("job", "0 9 * * *", {}, starts_at=NOW - DAY), NOW, NOW - DAY),
        (Definition("job", "0 9 * * *", {}, starts_at=NOW - DAY + SECOND), NOW, None),
        (Definition("job", "0 9 * * *", {}, ends_at=NOW), NOW + 7 * DAY, NOW),
        (Definition("job", "0 9 * * *", {}, ends_at=NOW - SECOND), NOW + 7 * DAY, NOW - DAY),
        (Definition("job", "at 2026-03-02T09:00Z", {}), NOW, None),
        (Definition("job", "0 9 * * *", {}, "Europe/Paris"), datetime(2026, 3, 29, 7, tzinfo=UTC),
         datetime(2026, 3, 28, 8, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_the_time_before_is_the_one_the_schedule_names(
    definition: Definition, scheduled_at: datetime, previous_at: datetime | None
) -> None:
    assert definition.previous_instant(scheduled_at) == previous_at


@pytest.mark.parametrize("isolate", [False, True])
async def test_the_last_success_is_read_only_for_functions_that_name_it(isolate: bool) -> None:
    attempt = Attempt(functions.ask_helper, isolate=isolate)

    assert "run.previous_success_at is read only for functions that name it" in await attempt.error()
    assert attempt.asked_for_success == 0


def _bare(run: Run) -> object:
    return run.previous_success_at


def _wrapped(run: Run) -> object:
    return _bare(run)


_wrapped.__wrapped__ = _bare  # type: ignore[attr-defined]


class _Callable:
    def __call__(self, run: Run) -> object:
        return (lambda: run.previous_success_at)()

    def method(self, run: Run) -> object:
        return getattr(run, "previous_success_at")  # noqa: B009


@pytest.mark.parametrize(
    ("function", "names_it"),
    [
        (_bare, True),
        (_wrapped, True),
        (_Callable(), True),
        (_Callable().method, True),
        (partial(_bare), True),
        (functions.ask_helper, False),
        (functions.exaggerate, False),
        (print, True),  # nobody can look into it
    ],
)
def test_the_code_of_a_function_shows_whether_it_reads_the_last_success(
    function: Callable[..., Any], names_it: bool
) -> None:
    assert Task("job", function).reads_last_success is names_it


async def test_an_attempt_whose_last_success_cannot_be_read_has_not_begun() -> None:
    begun = []

    async def function(run: Run) -> None:
        begun.append(run.previous_success_at)

    attempt = Attempt(function, fails_to_read=True)

    assert (await attempt.make(), begun, attempt.begins) == (Unstarted(), [], 0)


async def test_an_attempt_leaves_nothing_to_the_garbage_collector() -> None:
    async def function(_: Run) -> None: ...

    def count() -> int:
        return sum(type(each) in (TimeLimit, NodeAttemptContext) for each in gc.get_objects())

    gc.collect()
    before = count()
    gc.disable()
    try:
        await Attempt(function).make(times=10)
        assert count() == before
    finally:
        gc.enable()


async def test_a_task_without_notes_writes_nothing() -> None:
    async def function(_: Run) -> None: ...

    attempt = Attempt(function)
    await attempt.make()

    assert attempt.written == []


async def test_the_notes_of_a_task_are_written_before_its_outcome_is_known() -> None:
    async def function(run: Run) -> None:
        run.progress(0.5, "half of it")
        run.log("nearly there")
        raise ValueError("no")

    attempt = Attempt(function)
    assert "ValueError: no" in await attempt.error()

    last = attempt.written[-1]
    assert (last.run_id, last.attempt, last.fraction, last.message) == (RUN.id, 2, 0.5, "half of it")
    assert attempt.lines == ["nearly there"]


async def test_a_function_in_a_thread_may_write_notes() -> None:
    def function(run: Run) -> None:
        helper = threading.Thread(target=run.log, args=("from a thread of its own",))
        helper.start()
        helper.join()
        run.log("from its thread")

    attempt = Attempt(function)
    assert await attempt.make() == Succeeded()
    assert attempt.lines == ["from a thread of its own", "from its thread"]


@pytest.mark.parametrize("isolate", [False, True])
async def test_invalid_progress_raises_in_the_function(isolate: bool) -> None:
    error = await Attempt(functions.exaggerate, isolate=isolate).error()

    assert "in exaggerate" in error
    assert error.endswith("ValueError: the progress is 2; give a fraction from 0 to 1")


def test_notes_are_written_at_most_once_a_second() -> None:
    attempt = Attempt(_talk)

    async def talk(_: VirtualTime) -> None:
        await attempt.make()

    run_virtually(talk)
    assert len(attempt.written) == 4  # at once, after one second and two, and at the end
    assert [line.at - NOW for line in attempt.written[-1].log][:3] == [timedelta(0), 0.1 * SECOND, 0.2 * SECOND]
    assert attempt.written[-1].fraction == 1


async def _talk(run: Run) -> None:
    for number in range(25):
        run.log(number)
        run.progress((number + 1) / 25)
        await asyncio.sleep(0.1)


async def test_an_unreachable_database_costs_the_notes_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def function(run: Run) -> str:
        run.log("heard by nobody")
        await asyncio.sleep(0.01)
        return "done"

    assert await Attempt(function, fails_to_write=True).make() == Succeeded("done")
    assert [record.getMessage() for record in caplog.records] == ["notes_not_written"]


async def test_an_async_function_is_cancelled_and_may_write_last_notes() -> None:
    begun = asyncio.Event()

    async def function(run: Run) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            run.log("cleaned up")

    attempt = Attempt(function)
    making = attempt.begun()
    await begun.wait()
    making.cancel()

    with pytest.raises(asyncio.CancelledError):
        await making
    assert attempt.lines == ["cleaned up"]


@pytest.mark.parametrize("how", ["its time is over", "it is stopped"])
async def test_an_async_function_sees_while_it_ends_that_it_should_end(how: str) -> None:
    begun, seen = asyncio.Event(), []

    async def function(run: Run) -> None:
        seen.append(run.is_cancelled)
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(run.is_cancelled)

    attempt = Attempt(function, timeout="1s" if how == "its time is over" else "60s")
    making = attempt.begun()
    await begun.wait()
    if how == "it is stopped":
        attempt.stop(making)

    await asyncio.wait([making])
    assert seen == [False, True]


async def test_a_timeout_of_the_functions_own_does_not_mean_that_it_should_end() -> None:
    async def function(run: Run) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                try:
                    await asyncio.sleep(60)
                finally:
                    run.result = run.is_cancelled
        return bool(run.result)

    assert await Attempt(function).make() == Succeeded(False)


async def test_a_function_in_a_thread_can_see_that_it_should_end() -> None:
    begun = threading.Event()

    def function(run: Run) -> None:
        begun.set()
        while True:
            run.raise_if_cancelled()
            threading.Event().wait(0.001)

    making = Attempt(function).begun()
    await asyncio.to_thread(begun.wait, 10)
    making.cancel()

    with pytest.raises(asyncio.CancelledError):
        await making


async def test_a_function_that_ends_soon_after_its_timeout_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def function(run: Run) -> str:
        while not run.is_cancelled:
            threading.Event().wait(0.001)
        return "too late"

    attempt = Attempt(function, timeout="1s")
    assert await attempt.make() == Failed("timed out after 1s")
    assert (caplog.records, attempt.lines) == ([], [])


def test_a_function_that_overruns_its_timeout_in_a_thread_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def function(_: Run) -> str:
        while not caplog.records:
            threading.Event().wait(0.001)
        return "too late"

    attempt = Attempt(function, timeout="60s")

    async def overrun(time: VirtualTime) -> tuple[Outcome, float]:
        making = attempt.begun()
        while not caplog.records:
            await asyncio.sleep(0.1)
        reported_after = time.elapsed()
        while not making.done():
            await asyncio.sleep(0.1)
        return await making, reported_after

    outcome, reported_after = run_virtually(overrun)
    assert outcome == Failed("timed out after 60s")
    assert reported_after == pytest.approx(65, abs=0.2)
    [reported] = [record for record in caplog.records if record.message == "task_overruns"]
    assert (reported.getMessage(), reported.__dict__["hint"]) == ("task_overruns", "isolate=True ends it")
    assert "until the function returns" in attempt.lines[0]


@pytest.mark.parametrize("is_in_transaction", [False, True])
async def test_a_result_is_kept_whole_up_to_a_size(is_in_transaction: bool) -> None:
    async def function(run: Run, size: int) -> str:
        result = "x" * (size - len('""'))
        if is_in_transaction:
            async with run.transaction():
                run.result = result
        return result

    largest = await Attempt(function, {"size": MAX_RESULT_BYTES}).make()
    larger = await Attempt(function, {"size": MAX_RESULT_BYTES + 1}).make()

    assert largest == Succeeded("x" * (MAX_RESULT_BYTES - 2))
    assert isinstance(larger, Succeeded)
    beginning, _, why = str(larger.result).partition(" … ")
    assert set(beginning) == {'"', "x"}
    assert why == "(65,537 bytes of JSON; a run keeps a result of at most 65,536)"


@pytest.mark.parametrize("is_in_transaction", [False, True])
async def test_characters_of_a_result_that_no_database_can_store_are_replaced(is_in_transaction: bool) -> None:
    async def function(run: Run) -> object:
        result = {"a\0": ["b\ud800", {"c": ("\0", 1, None)}], "d": "é 😀 \\u0000"}
        if is_in_transaction:
            async with run.transaction():
                run.result = result
        return result

    assert await Attempt(function).make() == Succeeded({"a�": ["b?", {"c": ["�", 1, None]}], "d": "é 😀 \\u0000"})


async def test_characters_of_other_text_that_no_database_can_store_are_replaced() -> None:
    class Unprintable:
        def __str__(self) -> str:
            return "a\0b\ud800"

    async def answer(_: Run) -> object:
        return Unprintable()

    async def fail(_: Run) -> None:
        raise RuntimeError("a\0b\ud800")

    assert await Attempt(answer).make() == Succeeded("a�b?")
    assert (await Attempt(fail).error()).endswith("RuntimeError: a�b?")


class Textless:
    def __repr__(self) -> str:
        raise RuntimeError("its session is closed")


@pytest.mark.parametrize(
    ("result", "kept"),
    [(Textless(), "<Textless, which has no text>"), (10**5_000, "<int, which has no text>")],
    ids=["no-text", "too-long-a-number"],
)
async def test_a_result_without_text_is_none_of_the_functions_failures(result: object, kept: str) -> None:
    async def function(_: Run) -> object:
        return result

    assert await Attempt(function).make() == Succeeded(kept)


async def answer_five(_: Run) -> int:
    await asyncio.sleep(0)
    return 5


def decorated(run: Run) -> object:
    return answer_five(run)


async def handed_on(run: Run) -> object:
    return answer_five(run)


@pytest.mark.parametrize("function", [decorated, handed_on])
async def test_a_coroutine_that_a_function_returns_is_awaited(function: Any) -> None:
    assert await Attempt(function).make() == Succeeded(5)


def test_a_coroutine_that_a_function_returns_has_the_functions_time() -> None:
    async def wait() -> None:
        await asyncio.sleep(90)

    async def attempt() -> Outcome:
        return await Attempt(lambda _: wait()).make()

    assert run_virtually(lambda _: attempt()) == Failed("timed out after 60s")


def test_a_coroutine_that_continues_after_its_timeout_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def function(_: Run) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(90)
        await asyncio.sleep(20)
        return "done"

    async def attempt() -> Outcome:
        return await Attempt(function).make()

    assert run_virtually(lambda _: attempt()) == Failed("timed out after 60s")
    [reported] = caplog.records
    assert reported.getMessage() == "task_overruns"


async def test_the_end_of_a_transaction_settles_the_run_with_its_result() -> None:
    async def function(run: Run) -> str:
        async with run.transaction() as connection:
            run.result = {"through": connection}
        return "not this"

    attempt = Attempt(function)
    outcome = await attempt.make()

    assert outcome == Succeeded({"through": "the connection"})
    assert (attempt.transaction.settled, attempt.transaction.is_committed) == ([outcome], True)


async def test_a_result_set_after_the_commit_is_logged_once_for_each_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def function(run: Run) -> str:
        async with run.transaction():
            return "too late"

    assert await Attempt(function).make(times=2) == Succeeded()
    [reported] = caplog.records
    assert (reported.getMessage(), reported.__dict__["job"]) == ("task_result_after_commit", "job")


async def test_a_result_set_before_the_commit_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def function(run: Run) -> str:
        async with run.transaction():
            run.result = "in time"
        return "in time"

    assert await Attempt(function).make() == Succeeded("in time")
    assert caplog.records == []


async def test_an_exception_in_the_transaction_undoes_it_and_fails_the_attempt() -> None:
    async def function(run: Run) -> None:
        async with run.transaction():
            raise KeyError("gone")

    attempt = Attempt(function)

    assert "KeyError: 'gone'" in await attempt.error()
    assert (attempt.transaction.settled, attempt.transaction.is_committed) == ([], False)


async def test_a_transaction_of_a_run_that_was_taken_over_is_undone() -> None:
    seen = []

    async def function(run: Run) -> None:
        try:
            async with run.transaction():
                pass
        except hourbell.Superseded:
            seen.append(True)
            raise

    attempt = Attempt(function)
    attempt.transaction.answer = False

    assert await attempt.error() == "another node has taken over this run"
    assert (seen, attempt.transaction.is_committed) == ([True], False)


@pytest.mark.parametrize("how", ["raises", "is cancelled", "takes too long"])
async def test_an_error_after_the_transaction_changes_nothing(how: str, caplog: pytest.LogCaptureFixture) -> None:
    committed = asyncio.Event()

    async def function(run: Run) -> None:
        async with run.transaction():
            pass
        committed.set()
        if how == "raises":
            raise ValueError("too late")
        await asyncio.sleep(60)

    making = Attempt(function, timeout="1s").begun()
    await committed.wait()
    if how == "is cancelled":
        making.cancel()

    assert await making == Succeeded()
    reported = [record.getMessage() for record in caplog.records]
    assert reported == ([] if how == "is cancelled" else ["task_failed_after_commit"])


async def test_a_run_has_one_transaction() -> None:
    async def function(run: Run) -> None:
        with pytest.raises(ZeroDivisionError):
            async with run.transaction():
                _ = 1 / 0
        async with run.transaction():
            pass

    assert "can be opened once" in await Attempt(function).error()


async def test_a_function_in_a_thread_has_no_transaction() -> None:
    def function(run: Run) -> None:
        asyncio.run(_open(run))

    assert "run.transaction() is for async functions" in await Attempt(function).error()


async def _open(run: Run) -> Any:
    async with run.transaction() as connection:
        return connection
