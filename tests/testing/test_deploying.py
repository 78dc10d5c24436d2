"""A scheduler that is loaded again is a new release of its program, and operators act on it as on a service."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hourbell import Scheduler
from hourbell.testing import Rehearsal


async def nothing(run: Any) -> None: ...


def release(*names: str, source: str = "shop", function: Any = nothing, **more: Any) -> Scheduler:
    scheduler = Scheduler(source=source, **more)
    for name in names:
        scheduler.register(name, "0 9 * * *", function)
    return scheduler


def days(hourbell: Rehearsal, job: str) -> list[int]:
    return [run.scheduled_at.day for run in hourbell.runs(job)]


def test_a_job_that_a_release_leaves_out_is_paused_until_another_defines_it(hourbell: Rehearsal) -> None:
    hourbell.load(release("kept", "left-out"))
    hourbell.advance("1d")
    hourbell.load(release("kept"))
    hourbell.advance("1d")
    hourbell.load(release("kept", "left-out"))
    hourbell.advance("1d")

    assert days(hourbell, "kept") == [1, 2, 3]
    assert days(hourbell, "left-out") == [1, 3]
    assert [(skip.count, skip.reason) for skip in hourbell.skips("left-out")] == [(1, "paused")]


def test_a_job_that_is_left_out_can_be_deleted_and_made_again(hourbell: Rehearsal) -> None:
    hourbell.load(release("kept", "left-out", undefined_jobs="delete"))
    hourbell.advance("1d")
    hourbell.load(release("kept", undefined_jobs="delete"))
    hourbell.advance("1d")
    assert days(hourbell, "left-out") == [1]
    with pytest.raises(LookupError, match="'left-out' was deleted"):
        hourbell.trigger("left-out")

    hourbell.load(release("left-out"))
    hourbell.advance("1d")
    assert days(hourbell, "left-out") == [3]


def test_a_job_that_is_left_out_can_be_kept(hourbell: Rehearsal) -> None:
    hourbell.load(release("left-out", undefined_jobs="keep"))
    hourbell.load(release(undefined_jobs="keep"))
    hourbell.advance("1d")

    assert days(hourbell, "left-out") == [1]


def test_a_program_of_another_source_leaves_out_nothing(hourbell: Rehearsal) -> None:
    hourbell.load(release("ours"))
    hourbell.load(release("theirs", source="other"))
    hourbell.advance("1d")

    assert (days(hourbell, "ours"), days(hourbell, "theirs")) == ([1], [1])


def test_a_job_that_another_program_has_taken_over_is_not_retired(hourbell: Rehearsal) -> None:
    hourbell.load(release("moved"))
    hourbell.load(release("moved", source="other"))
    hourbell.load(release())
    hourbell.advance("1d")

    assert days(hourbell, "moved") == [1]


def test_a_paused_job_does_not_fire_until_it_is_resumed_whatever_is_released(hourbell: Rehearsal) -> None:
    hourbell.load(release("job"))
    hourbell.pause("job")
    hourbell.load(release("job"))
    hourbell.advance("1d")
    assert hourbell.runs("job") == []

    hourbell.resume("job")
    hourbell.advance("1d")
    assert days(hourbell, "job") == [2]
    assert [(skip.count, skip.reason) for skip in hourbell.skips("job")] == [(1, "paused")]


def test_a_pause_can_have_an_end_and_what_it_swallowed_can_be_caught_up(hourbell: Rehearsal) -> None:
    hourbell.load(release("ends", "caught-up"))
    hourbell.pause("ends", until="2026-01-02T12:00")
    hourbell.pause("caught-up")
    hourbell.advance("3d")
    hourbell.resume("caught-up", catch_up=True)

    assert days(hourbell, "ends") == [3]
    assert days(hourbell, "caught-up") == [3]


def test_a_running_run_is_stopped_within_seconds(hourbell: Rehearsal) -> None:
    async def endless(_: Any) -> None:
        await asyncio.Event().wait()

    hourbell.load(release("job", function=endless))
    hourbell.cancel(hourbell.trigger("job"))
    hourbell.advance("15s")

    [run] = hourbell.runs("job")
    assert (run.state, len(run.attempts)) == ("cancelled", 1)
    with pytest.raises(ValueError, match="ended"):
        hourbell.cancel(run)


def test_a_waiting_run_that_is_cancelled_never_begins(hourbell: Rehearsal) -> None:
    hourbell.load(release("job"))
    with hourbell.outage("2026-01-01T01:00", "2026-01-01T02:00"):
        run = hourbell.cancel(hourbell.trigger("job").id)

    assert (run.state, run.attempts) == ("cancelled", ())
    assert hourbell.runs("job") == [run]


@pytest.mark.parametrize("wrong", [None, 7, Scheduler, [Path("jobs.toml")]], ids=repr)
def test_an_argument_that_is_no_program_and_no_file_is_refused(hourbell: Rehearsal, wrong: Any) -> None:
    with pytest.raises(TypeError, match="give it a Scheduler or the path of a jobs file"):
        hourbell.load(wrong)
