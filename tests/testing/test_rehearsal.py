"""The rehearsal keeps what docs/testing.md promises."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hourbell import Scheduler
from hourbell.testing import Rehearsal

MINUTE = timedelta(minutes=1)


def program(schedule: str, function: Any, **more: Any) -> Scheduler:
    scheduler = Scheduler(source="tests")
    scheduler.job(schedule, name="job", **more)(function)
    return scheduler


async def nothing(run: Any) -> None: ...


def test_a_run_due_at_the_end_of_the_rehearsal_is_done(hourbell: Rehearsal) -> None:
    hourbell.at("2026-05-01T08:00")
    hourbell.load(program("0 9 * * *", nothing))

    hourbell.advance("59m59s")
    assert hourbell.runs("job") == []
    hourbell.advance("1s")
    assert [run.state for run in hourbell.runs("job")] == ["succeeded"]


def test_a_coroutine_sleeps_in_virtual_time(hourbell: Rehearsal) -> None:
    async def slow(_: Any) -> str:
        await asyncio.sleep(3_600)
        return hourbell.now().isoformat()

    hourbell.load(program("0 9 * * *", slow, timeout="2h"))
    hourbell.advance("9h30m")
    assert hourbell.runs("job")[0].state == "running"
    hourbell.advance("30m")

    [run] = hourbell.runs("job")
    assert run.result == "2026-01-01T10:00:00+00:00"
    assert run.finished_at is not None
    assert timedelta(0) <= run.finished_at - run.scheduled_at - 60 * MINUTE < timedelta(milliseconds=50)


def test_a_timeout_fires_in_virtual_time(hourbell: Rehearsal) -> None:
    async def endless(_: Any) -> None:
        await asyncio.Event().wait()

    hourbell.load(program("0 9 * * *", endless, timeout="7m", retry="none"))
    hourbell.advance("10h")

    [run] = hourbell.runs("job")
    assert run.state == "failed"
    assert "timed out after" in (run.error or "")
    assert run.finished_at == run.scheduled_at + 7 * MINUTE


def test_an_ordinary_function_runs_in_this_thread_as_if_there_were_no_event_loop(hourbell: Rehearsal) -> None:
    async def elsewhere() -> int:
        return threading.get_ident()

    def ordinary(_: Any) -> int:
        return asyncio.run(elsewhere())

    before = set(threading.enumerate())
    hourbell.load(program("0 9 * * *", ordinary))

    assert hourbell.trigger("job").result == threading.get_ident()
    assert set(threading.enumerate()) <= before


def test_work_handed_to_a_thread_is_done_at_once(hourbell: Rehearsal) -> None:
    async def handing_over(_: Any) -> int:
        return await asyncio.to_thread(threading.get_ident)

    hourbell.load(program("0 9 * * *", handing_over))

    assert hourbell.trigger("job").result == threading.get_ident()


@pytest.mark.anyio
async def test_an_event_loop_of_the_test_is_not_affected(hourbell: Rehearsal) -> None:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    hourbell.load(program("0 9 * * *", nothing))

    hourbell.advance("1d")

    assert (asyncio.current_task(), asyncio.get_running_loop()) == (task, loop)
    await asyncio.sleep(0)
    assert len(hourbell.runs("job")) == 1


def test_a_quiet_month_costs_few_turns_of_the_loop(hourbell: Rehearsal) -> None:
    hourbell.load(program("0 9 1 * *", nothing))
    turns = 0
    loop = hourbell._service._loop
    turn = loop._run_once

    def counted() -> None:
        nonlocal turns
        turns += 1
        turn()

    loop._run_once = counted  # type: ignore[method-assign]
    hourbell.advance("31d")

    assert len(hourbell.runs("job")) == 1
    assert turns < 300


def test_a_run_cut_off_by_an_outage_is_made_again(hourbell: Rehearsal) -> None:
    begun: list[datetime] = []

    async def long(_: Any) -> None:
        begun.append(hourbell.now())
        await asyncio.sleep(600)

    hourbell.load(program("0 9 * * *", long, timeout="1h"))
    hourbell.outage("2026-01-01T09:05", "2026-01-01T09:30")
    hourbell.advance("10h")

    [run] = hourbell.runs("job")
    assert [attempt.outcome for attempt in run.attempts] == ["lost", "succeeded"]
    assert begun[0] == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert 30 * MINUTE < begun[1] - begun[0] < 32 * MINUTE


def test_inside_the_block_of_an_outage_the_service_is_down(hourbell: Rehearsal) -> None:
    hourbell.load(program("0 * * * *", nothing, catch_up="all"))

    with hourbell.outage("2026-01-01T02:00", "2026-01-01T04:30"):
        assert hourbell.now() == datetime(2026, 1, 1, 2, tzinfo=UTC)
        hourbell.advance("2h")
        assert [run.local[11:16] for run in hourbell.runs("job")] == ["01:00"]
        assert hourbell.trigger("job").state == "pending"

    assert hourbell.now() == datetime(2026, 1, 1, 4, 30, tzinfo=UTC)
    assert [run.local[11:16] for run in hourbell.runs("job")] == ["01:00", "02:00", "03:00", "04:00", "04:00"]
    assert {run.state for run in hourbell.runs("job")} == {"succeeded"}


def test_a_job_that_takes_longer_than_its_timeout_fails(hourbell: Rehearsal) -> None:
    def quick(run: Any) -> None: ...

    hourbell.load(program("0 9 * * *", quick, timeout="1m", retry="none"))
    hourbell.takes("job", "2m")
    hourbell.advance("10h")

    assert "timed out after" in (hourbell.runs("job")[0].error or "")


def test_one_waits_for_the_other_where_they_queue(hourbell: Rehearsal) -> None:
    hourbell.load(program("*/10 * * * *", nothing, overlap="queue_all", timeout="1h"))
    hourbell.takes("job", "25m")
    hourbell.advance("1h20m")

    starts = [run.started_at for run in hourbell.runs("job") if run.started_at is not None]
    waits = [later - earlier for earlier, later in pairwise(starts)]
    assert len(waits) == 2
    assert all(timedelta(0) <= wait - 25 * MINUTE < timedelta(seconds=1) for wait in waits)


def test_a_running_job_that_is_to_make_room_is_stopped(hourbell: Rehearsal) -> None:
    hourbell.load(program("0 * * * *", nothing, overlap="cancel_running", timeout="10h"))
    hourbell.takes("job", "5h")
    hourbell.advance("2h30m")

    first, second = hourbell.runs("job")
    assert (first.state, second.state) == ("cancelled", "running")
    assert second.lateness is not None
    assert second.lateness < timedelta(seconds=30)


def test_loaded_again_a_job_is_edited_and_fires_for_no_past(hourbell: Rehearsal) -> None:
    hourbell.load(program("0 9 * * *", nothing))
    hourbell.advance("12h")
    hourbell.load(program("0 10,15 * * *", nothing))
    hourbell.advance("12h")

    assert [run.local[11:16] for run in hourbell.runs("job")] == ["09:00", "15:00"]


def test_the_same_rehearsal_gives_the_same_runs() -> None:
    def rehearse() -> list[Any]:
        with Rehearsal() as hourbell:
            hourbell.load(program("0 9 * * *", _fails, jitter="10m", retry="exponential"))
            hourbell.advance("2d")
            return hourbell.runs()

    first = rehearse()
    assert first == rehearse()
    assert [run.state for run in first] == ["failed", "failed"]


def _fails(_: Any) -> None:
    raise ValueError("no")


def test_nothing_of_the_clock_on_the_wall_is_seen(hourbell: Rehearsal) -> None:
    hourbell.at("1999-12-31T23:00")
    hourbell.load(program("0 0 * * *", nothing))
    hourbell.advance("2h")

    assert [run.started_at for run in hourbell.runs("job")] == [datetime(2000, 1, 1, tzinfo=UTC)]
    assert hourbell.now() < datetime.fromtimestamp(time.time(), UTC)


def test_a_task_settles_in_its_own_transaction(hourbell: Rehearsal) -> None:
    async def exact(run: Any) -> None:
        async with run.transaction() as connection:
            await connection.execute("create table if not exists ledger (day text)")
            await connection.execute("insert into ledger values (?)", "today")
            await asyncio.sleep(1)

    hourbell.load(program("0 9 * * *", exact))
    hourbell.advance("10h")

    assert [run.state for run in hourbell.runs("job")] == ["succeeded"]


def test_a_transaction_that_lasts_too_long_is_rolled_back(hourbell: Rehearsal) -> None:
    async def slow(run: Any) -> None:
        async with run.transaction() as connection:
            await connection.execute("create table ledger (day text)")
            await asyncio.sleep(60)

    hourbell.load(program("0 9 * * *", slow, retry="none"))
    hourbell.advance("9h")
    assert hourbell.runs("job")[0].state == "running"
    hourbell.advance("1h")

    [run] = hourbell.runs("job")
    assert run.state == "failed"
    assert "may last 5 s" in (run.error or "")


def test_a_jobs_file_is_loaded_and_what_cannot_be_rehearsed_says_so(hourbell: Rehearsal, tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(
        '[[job]]\nname = "hook"\nschedule = "0 9 * * *"\n'
        'target = {type = "http", url = "https://example.com/hook", secret = "env:NOT_SET"}\n'
        '[[job]]\nname = "sql"\nschedule = "0 9 * * *"\ntarget = {type = "sql", function = "public.clean"}\n'
        '[[job]]\nname = "task"\nschedule = "0 9 * * *"\ntarget = {type = "task", name = "reports.weekly"}\n'
    )
    hourbell.load(path)
    hourbell.advance("10h")

    assert hourbell.runs("hook")[0].state == "succeeded"
    assert "cannot be rehearsed" in (hourbell.runs("sql")[0].error or "")
    assert "load the Scheduler" in (hourbell.runs("task")[0].error or "")


def test_a_coroutine_that_opens_a_connection_gets_an_error_with_the_reason(hourbell: Rehearsal) -> None:
    async def connecting(_: Any) -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    hourbell.load(program("0 9 * * *", connecting, retry="none"))

    assert "cannot open connections" in (hourbell.trigger("job").error or "")


def test_a_task_that_never_lets_time_pass_ends_the_test(hourbell: Rehearsal) -> None:
    async def spinning(_: Any) -> None:
        while True:
            await asyncio.sleep(0)

    hourbell.load(program("0 9 * * *", spinning))

    with pytest.raises(RuntimeError, match="no time passes"):
        hourbell.advance("10h")


def test_misuse_raises_errors_with_an_explanation(hourbell: Rehearsal) -> None:
    hourbell.load(program("0 9 * * *", nothing))

    with pytest.raises(RuntimeError, match="call at\\(\\) before"):
        hourbell.at("2027-01-01")
    with pytest.raises(LookupError, match="no job named 'jop' is loaded; there is job"):
        hourbell.runs("jop")
    with pytest.raises(ValueError, match="2h30m"):
        hourbell.advance("two hours")
    with pytest.raises(ValueError, match="time does not go back"):
        hourbell.advance_to("2025-01-01")
    with pytest.raises(ValueError, match="before it begins"):
        hourbell.outage("2025-01-01", "2027-01-01")
    with pytest.raises(ValueError, match="ends after it begins"):
        hourbell.outage("2027-01-01", "2026-06-01")
    with pytest.raises(ValueError, match="ten years"):
        hourbell.advance("4000d")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_task_sees_why_it_runs_and_what_was_before_it(hourbell: Rehearsal, is_async: bool) -> None:
    seen = []

    def see(run: Any) -> None:
        seen.append((run.kind, run.trigger, run.previous_at, run.previous_success_at))
        if run.scheduled_at.day == 2:
            raise ValueError("not today")

    async def see_async(run: Any) -> None:
        assert run.previous_success_at in (None, *days)
        see(run)

    days = [datetime(2026, 1, day, 9, tzinfo=UTC) for day in range(1, 5)]
    hourbell.at("2025-12-31T10:00")
    hourbell.load(program("0 9 * * *", see_async if is_async else see, retry="none"))
    hourbell.advance("3d")
    hourbell.trigger("job")
    hourbell.advance("1m")

    new_year = days[0] - timedelta(days=1)
    assert seen == [
        ("scheduled", "schedule:0 9 * * *", new_year, None),
        ("scheduled", "schedule:0 9 * * *", days[0], days[0]),
        ("scheduled", "schedule:0 9 * * *", days[1], days[0]),
        ("manual", "manual", days[2], days[2]),
    ]


def test_a_long_payload_and_a_long_result_are_recorded_whole(hourbell: Rehearsal) -> None:
    async def echo(run: Any) -> Any:
        return run.payload

    hourbell.at("2026-05-01T08:59")
    hourbell.load(program("0 9 * * *", echo, payload={"text": "x" * 5_000}))
    hourbell.advance("2m")

    [run] = hourbell.runs("job")
    assert run.payload == {"text": "x" * 5_000}
    assert "x" * 5_000 in str(run.result)
