"""Records of runs: log, progress, and a short stable text."""

import asyncio
from datetime import timedelta
from typing import Any

from hourbell import Scheduler
from hourbell.testing import Rehearsal


def program(function: Any, **more: Any) -> Scheduler:
    scheduler = Scheduler(source="tests")
    scheduler.register("job", "0 9 * * *", function, **more)
    return scheduler


def test_a_run_has_the_log_and_the_progress_of_its_last_attempt(hourbell: Rehearsal) -> None:
    def twice(run: Any) -> None:
        run.log(f"attempt {run.attempt}")
        run.log("done")
        run.progress(run.attempt / 4, "of four")
        assert run.attempt == 2

    hourbell.load(program(twice))
    hourbell.advance("1d")

    [run] = hourbell.runs("job")
    assert [attempt.log for attempt in run.attempts] == [("attempt 1", "done"), ("attempt 2", "done")]
    assert run.log == ("attempt 2", "done")
    assert run.progress is not None
    assert run.progress == (0.5, "of four")
    assert run.progress.message == "of four"


def test_a_running_run_has_its_log_so_far(hourbell: Rehearsal) -> None:
    async def slow(run: Any) -> None:
        run.log("begun")
        run.progress(None, "step 1")
        await asyncio.sleep(60)
        run.log("ended")

    hourbell.load(program(slow))
    hourbell.advance("9h")

    [run] = hourbell.runs("job")
    assert (run.state, run.log, run.progress, run.attempts) == ("running", ("begun",), (None, "step 1"), ())


def test_a_run_without_notes_has_no_progress(hourbell: Rehearsal) -> None:
    hourbell.load(program(lambda run: run.log("only this")))

    run = hourbell.trigger("job")
    assert (run.log, run.progress) == (("only this",), None)


def test_one_attempt_is_one_attempt(hourbell: Rehearsal) -> None:
    hourbell.load(program(lambda _: None))

    assert ", 1 attempt, " in repr(hourbell.trigger("job"))


def test_a_run_by_hand_shows_the_time_of_the_test_and_is_never_early(hourbell: Rehearsal) -> None:
    hourbell.load(program(lambda _: None))
    hourbell.advance("90s")
    runs = [hourbell.trigger("job") for _ in range(3)]

    assert {run.local for run in runs} == {"2026-01-01T00:01:30+00:00"}
    assert all(run.scheduled_at.microsecond % 1_000 == 0 for run in runs)
    assert all(run.lateness is not None and run.lateness >= timedelta(0) for run in runs)
