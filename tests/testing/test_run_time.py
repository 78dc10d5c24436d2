"""In a rehearsal, a program's own calls create and change jobs in virtual time."""

import threading
from typing import Any

import pytest

from hourbell import Run, RunEvent, Scheduler
from hourbell.testing import Rehearsal

scheduler = Scheduler("shop")


@scheduler.task(name="remind")
def remind(_: Run, user: int) -> int:
    return user


def sign_up(user: int, schedule: str) -> None:
    """A request handler of the application under test."""
    scheduler.blocking.create(
        f"remind-{user}", schedule, remind, args={"user": user}, timezone="Europe/Paris", on_conflict="update"
    )


def test_a_job_that_the_application_creates_fires_in_virtual_time(hourbell: Rehearsal) -> None:
    hourbell.at("2026-03-02T00:00", "Europe/Paris")
    hourbell.load(scheduler)

    sign_up(7, "0 9 * * *")
    hourbell.advance("1d")
    sign_up(7, "0 18 * * *")
    hourbell.advance("1d")
    scheduler.blocking.delete("remind-7")
    hourbell.advance("1d")

    assert [run.local for run in hourbell.runs("remind-7")] == ["2026-03-02T09:00+01:00", "2026-03-03T18:00+01:00"]
    assert {run.result for run in hourbell.runs()} == {7}
    assert threading.active_count() == 1


async def async_sign_up() -> None:
    await scheduler.create("remind-8", "0 9 * * *", "remind", args={"user": 8}, run_on_create=True)


@pytest.mark.anyio
async def test_async_code_may_call_it_too(hourbell: Rehearsal) -> None:
    hourbell.load(scheduler)

    await async_sign_up()
    hourbell.advance("1s")

    [run] = hourbell.runs("remind-8")
    assert (run.kind, run.state, run.result) == ("manual", "succeeded", 8)
    [listed] = await scheduler.list()
    assert (await scheduler.runs(listed.id))[0].id == run.id


def test_a_task_may_create_the_next_job(hourbell: Rehearsal) -> None:
    program = Scheduler("shop")
    program.task(remind, name="remind")

    @program.job("0 9 * * *")
    async def invite(run: Run) -> None:
        await program.create(f"for-{run.scheduled_at:%d}", "0 12 * * *", "remind", args={"user": run.scheduled_at.day})

    hourbell.load(program)
    hourbell.advance("2d")

    assert [run.result for run in hourbell.runs("for-01")] == [1, 1]
    assert [run.result for run in hourbell.runs("for-02")] == [2]


def test_callbacks_are_called_in_virtual_time(hourbell: Rehearsal) -> None:
    program, seen = Scheduler("shop"), list[Any]()

    @program.job("0 9 * * *", retry="none")
    def fails(_: Run) -> None:
        raise RuntimeError("no answer")

    async def note(event: RunEvent) -> None:
        seen.append((event.name, hourbell.now().hour))

    program.on("run_failed", note)
    program.on("run_failed", lambda event: seen.append(event.attempt))
    hourbell.load(program)
    hourbell.advance("1d")

    assert sorted(map(str, seen)) == ["('run_failed', 9)", "1"]


def test_after_the_rehearsal_the_calls_reach_the_database_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with Rehearsal() as hourbell:
        hourbell.load(scheduler)
        sign_up(9, "@daily")
        assert not (tmp_path / "hourbell.db").exists()

    assert scheduler.blocking.list() == ()
    assert (tmp_path / "hourbell.db").exists()


def test_a_release_that_defines_the_name_of_such_a_job_is_refused(hourbell: Rehearsal) -> None:
    hourbell.load(scheduler)
    sign_up(7, "@daily")
    program = Scheduler("shop")
    program.register("remind-7", "@daily", lambda _: None)

    with pytest.raises(ValueError, match="the job 'remind-7' belongs to app:shop; give one of them another name"):
        hourbell.load(program)
