"""Types of the library: a decorated function keeps its type, and a wrong option is an error at its line."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from hourbell.control.programs import UndefinedAction
from hourbell.core.run.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority
from hourbell.core.run.states import RunState
from hourbell.library import declaring
from hourbell.library.declaring import ListOptions, RunsOptions
from hourbell.library.scheduler import Scheduler
from hourbell.store.lists.query import JobState

GOOD = """
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hourbell import Run, RunEvent, Schedule, Scheduler

scheduler = Scheduler("shop", undefined_jobs="delete")

@scheduler.job("@daily", overlap="skip", catch_up=None, delivery="at_most_once", priority="high", dst="wall")
async def daily(run: Run, days: int = 1) -> str:
    return f"{days}"

@scheduler.job("@daily", name="other", retry={"attempts": 2, "backoff": [timedelta(seconds=1), "2m"]}, timeout="5m")
def ordinary(run: Run) -> None: ...

@scheduler.task
async def bare(run: Run) -> int:
    return 1

@scheduler.task(name="t.two")
async def named(run: Run, whom: str) -> int:
    return 2

@scheduler.task()
def called(run: Run) -> bytes:
    return b""

async def main(args: Mapping[str, int], some: dict[str, int]) -> None:
    scheduler.register("weekly", "@weekly", daily, args=args, retry="exponential", tags=("a", "b"))
    await scheduler.once(bare, at=datetime.now(UTC), args=some)
    scheduler.blocking.once(bare, delay="1m", args={"whom": "Ada"}, key="order-17")
    job = await scheduler.create("a", Schedule.parse("@daily"), "t.two", on_conflict="keep", overlap="skip", args=some)
    await scheduler.update(job.id, schedule="@weekly", task=named, name="b", jitter="1m", expect_version=job.version)
    await scheduler.pause("b", until=datetime.now(UTC))
    for each in await scheduler.list(tag="x", state="paused", limit=3):
        reveal_type(each.next_at)
    for run in scheduler.blocking.runs(job.id, state="failed"):
        reveal_type(run.scheduled_at)
    reveal_type(await scheduler.cancel(run.id))
    reveal_type(scheduler.blocking.create("a", "@daily", named, run_on_create=True, delivery="at_most_once"))

async def failed(event: RunEvent) -> None:
    print(event.job, event.error)

scheduler.on("run_failed", failed)
scheduler.on("attempt_failed", lambda event: print(event.ready_at))

reveal_type(daily)
reveal_type(ordinary)
reveal_type(bare)
reveal_type(named)
reveal_type(called)
reveal_type(scheduler.task(bare, name="again"))
"""
REVEALED = [
    "datetime.datetime | None",
    "datetime.datetime",
    "bool",
    "Job",
    "def (run: Run, days: int =) -> Coroutine[Any, Any, str]",
    "def (run: Run)",
    "def (run: Run) -> Coroutine[Any, Any, int]",
    "def (run: Run, whom: str) -> Coroutine[Any, Any, int]",
    "def (run: Run) -> bytes",
    "def (run: Run) -> Coroutine[Any, Any, int]",
]
BAD = """
from hourbell import Run, Scheduler

scheduler = Scheduler("shop")
Scheduler("shop", undefined_jobs="forget")
def task(run: Run) -> None: ...
scheduler.register("a", "@daily", task, overlap="never")
scheduler.register("b", "@daily", task, catch_up="newest")
scheduler.register("c", "@daily", task, delivery="exactly_once")
scheduler.register("d", "@daily", task, priority="urgent")
scheduler.register("e", "@daily", task, dst="never")
scheduler.register("f", "@daily", task, retry="often")
scheduler.register("g", "@daily", task, max_instances=1)
scheduler.job("@daily", overlap="never")(task)
scheduler.task("task")
scheduler.task(name=1)
scheduler.job("@daily")(1)
scheduler.blocking.once(task, when="now")
scheduler.blocking.create("a", "@daily", task, on_conflict="replace")
scheduler.blocking.create("a", "@daily", task, overlap="never")
scheduler.blocking.update("a", schedul="@daily")
scheduler.blocking.list(managed_by="app")
scheduler.on("run_missed", print)
"""


def checked(folder: Path, program: str) -> list[str]:
    """Return mypy's output for a program, line by line."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


@pytest.mark.full
def test_a_function_stays_what_it_is(tmp_path: Path) -> None:
    said = checked(tmp_path, GOOD)

    assert [line for line in said if "error:" in line] == []
    revealed = [line.partition('Revealed type is "')[2].rstrip('"') for line in said]
    short = [
        text.replace("typing.", "").replace("hourbell.targets.task_run.", "").replace("hourbell.answers.jobs.", "")
        for text in revealed
        if text
    ]
    assert [text.replace("builtins.", "") for text in short] == REVEALED


@pytest.mark.full
def test_an_invalid_choice_is_an_error_at_its_declaration(tmp_path: Path) -> None:
    wrong = {int(line.split(":")[1]) for line in checked(tmp_path, BAD) if "error:" in line}

    lines = BAD.splitlines()
    assert wrong == {number for number, line in enumerate(lines, 1) if number > 4 and not line.startswith("def ")}


@pytest.mark.parametrize(
    ("literal", "values"),
    [
        (declaring.CatchUpLiteral, CatchUp),
        (declaring.OverlapLiteral, Overlap),
        (declaring.DeliveryLiteral, Delivery),
        (declaring.PriorityLiteral, Priority),
    ],
)
def test_the_words_are_those_of_the_policies(literal: Any, values: type[StrEnum]) -> None:
    assert get_args(literal) == tuple(values)


def test_the_states_are_those_of_jobs_and_runs() -> None:
    states = [get_args(get_args(get_type_hints(each)["state"])[0]) for each in (ListOptions, RunsOptions)]

    assert [set(each) for each in states] == [set(JobState), set(RunState)]


def test_the_other_words_are_those_that_are_taken() -> None:
    assert get_args(get_args(declaring.Retry)[0]) == tuple(RETRY_PRESETS)
    assert get_args(Scheduler.__init__.__annotations__["undefined_jobs"]) == tuple(UndefinedAction)
