"""The jobs and tasks of a program, without a database."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourbell import Run, Scheduler

NOON = datetime(2026, 3, 27, 12, tzinfo=UTC)  # a Friday; clocks in Paris go forward on Sunday


def report(run: Run, days: int = 7) -> None:
    """Mail the numbers.

    To everybody who asked for them.
    """


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler("shop")


def test_one_function_may_have_several_jobs(scheduler: Scheduler) -> None:
    scheduler.register("weekly", "0 9 * * 1", report)
    scheduler.register("monthly", "0 9 1 * *", report, args={"days": 30})

    assert list(scheduler.jobs) == ["weekly", "monthly"]
    assert list(scheduler.tasks) == [f"{__name__}.report"]
    assert scheduler.jobs["monthly"].target["args"] == {"days": 30}
    with pytest.raises(KeyError, match="no job named 'yearly' is registered"):
        scheduler.next_run("yearly")


def test_the_description_is_the_first_line_of_the_docstring(scheduler: Scheduler) -> None:
    scheduler.register("weekly", "0 9 * * 1", report)
    scheduler.register("silent", "0 9 * * 1", report, description="")

    assert (scheduler.jobs["weekly"].description, scheduler.jobs["silent"].description) == ("Mail the numbers.", "")


def test_the_next_run_is_shown_in_the_zone_of_the_job(scheduler: Scheduler) -> None:
    scheduler.register("weekly", "0 9 * * 1", report, timezone="Europe/Paris")

    following = scheduler.next_run("weekly", after=NOON)

    assert following is not None
    assert following.isoformat() == "2026-03-30T09:00:00+02:00"
    assert scheduler.next_run("weekly", after=following) == following + timedelta(days=7)


def test_a_job_has_no_run_before_its_start_or_after_its_end(scheduler: Scheduler) -> None:
    start, end = datetime(2026, 4, 6, 9, tzinfo=UTC), datetime(2026, 4, 13, 9, tzinfo=UTC)
    scheduler.register("weekly", "0 9 * * 1", report, starts_at=start, ends_at=end)

    assert scheduler.next_run("weekly", after=NOON) == start
    assert scheduler.next_run("weekly", after=start) == end
    assert scheduler.next_run("weekly", after=end) is None


def test_a_task_may_have_a_name_of_its_own(scheduler: Scheduler) -> None:
    scheduler.task(report)
    scheduler.task(name="reports.monthly")(report)

    assert list(scheduler.tasks) == [f"{__name__}.report", "reports.monthly"]


def test_two_functions_of_one_name_are_refused(scheduler: Scheduler) -> None:
    scheduler.task(report, name="report")

    with pytest.raises(ValueError, match="a task named 'report' is registered already"):
        scheduler.task(lambda _: None, name="report")
    with pytest.raises(ValueError, match="is isolated here and not there"):
        scheduler.task(report, name="report", isolate=True)


def test_the_jobs_and_tasks_cannot_be_changed_behind_its_back(scheduler: Scheduler) -> None:
    jobs: Any = scheduler.jobs

    with pytest.raises(TypeError):
        jobs["report"] = None


def test_threads_may_register_at_once(scheduler: Scheduler) -> None:
    def register(part: int) -> None:
        for number in range(50):
            scheduler.register(f"job-{part}-{number}", "@daily", report)

    threads = [threading.Thread(target=register, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(scheduler.jobs) == 200


def test_the_source_is_the_top_module_of_who_makes_it() -> None:
    assert Scheduler().source == "tests"


def test_an_unknown_action_for_undefined_jobs_is_refused() -> None:
    with pytest.raises(ValueError, match="undefined_jobs is 'forget'; use one of pause, delete, keep"):
        Scheduler(undefined_jobs="forget")  # type: ignore[arg-type]
