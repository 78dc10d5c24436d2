"""A program runs the same as a file or by `serve`, and ends cleanly on Ctrl-C."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.library.scripts import TICKING, Script

RUN = f"{TICKING}\nif __name__ == '__main__':\n    scheduler.run()\n"
SLOW = """
import asyncio, os
from hourbell import Scheduler

scheduler = Scheduler()

@scheduler.job("* * * * * *", overlap="skip")
async def slow(run):
    print("begun", run.id, flush=True)
    await asyncio.sleep(float(os.environ["SLOW"]))
    print("done", run.id, flush=True)

if __name__ == "__main__":
    scheduler.run()
"""
SLOW_IN_A_THREAD = """
import threading, time
from hourbell import Scheduler

scheduler = Scheduler()
begun = threading.Event()

@scheduler.job("* * * * * *", overlap="skip")
def slow(run):
    print("begun", run.id, flush=True)
    begun.set()
    time.sleep(2)
    print("done", run.id, flush=True)

scheduler.start()
begun.wait(20)
"""
ANSWERING = """
import asyncio
from hourbell import Run, Scheduler

scheduler = Scheduler()

@scheduler.task
def greet(run: Run, whom: str):
    print("hello", whom, flush=True)

async def main():
    async with scheduler:
        await scheduler.once(greet, delay="0s", args={"whom": "Ada"})
        await asyncio.sleep(3)

asyncio.run(main())
"""


GROWING = """
from hourbell import Scheduler

scheduler = Scheduler()

def late(run): ...

@scheduler.job("* * * * * *")
def grow(run):
    try:
        scheduler.register("late", "* * * * * *", late)
    except RuntimeError as error:
        print("refused", error, flush=True)

if __name__ == "__main__":
    scheduler.run()
"""


def rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "hourbell.db", timeout=10)) as file:
        return file.execute(query).fetchall()


@pytest.mark.full
def test_a_file_that_is_run_and_one_that_is_served_are_one_program(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=RUN) as script:
        script.wait_for("tick")
        script.interrupt()
        assert script.wait() == 0
    with Script(tmp_path, "-m", "hourbell", "serve", "--app", "program:scheduler") as served:
        served.wait_for("tick")
        served.interrupt()
        assert served.wait() == 0

    jobs = rows(tmp_path, "select name, source, lane, version, enabled from hourbell_jobs")
    assert jobs == [("tick", "program", "task:program.tick", 1, 1)]
    assert "job_changed" not in served.log


@pytest.mark.full
def test_a_module_that_is_run_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "jobs.py").write_text(RUN)
    with Script(tmp_path, "-m", "shop.jobs") as script:
        script.wait_for("tick")

    assert rows(tmp_path, "select source, lane from hourbell_jobs") == [("shop", "task:shop.jobs.tick")]


def test_a_renamed_file_keeps_its_job(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=RUN) as script:
        script.wait_for("tick")
        script.interrupt()
        assert script.wait() == 0
    before = rows(tmp_path, "select id, source, created_at from hourbell_jobs")
    (tmp_path / "program.py").rename(tmp_path / "renamed.py")

    with Script(tmp_path, "renamed.py") as again:
        again.wait_for("tick")
        again.interrupt()
        assert again.wait() == 0

    [(job_id, source, created_at)] = before
    assert source == "program"
    assert rows(tmp_path, "select id, source, created_at from hourbell_jobs") == [(job_id, "renamed", created_at)]
    waiting = rows(tmp_path, "select distinct lane from hourbell_runs where state in ('pending', 'retrying')")
    assert ("task:program.tick",) not in waiting
    assert rows(tmp_path, "select actor from hourbell_audit where action = 'job.take_over'") == [("code:renamed",)]
    assert "job_taken_over" in again.log


@pytest.mark.full
def test_a_program_that_runs_takes_no_further_jobs(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=GROWING) as script:
        script.wait_for("refused the scheduler runs already, and would not run 'late'")


def test_a_program_ends_by_itself_when_its_block_does(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=ANSWERING) as script:
        assert script.wait() == 0

    assert script.lines == ["hello Ada"]
    assert script.log == ""


def test_ctrl_c_lets_a_run_finish(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=SLOW, SLOW="1.5") as script:
        script.wait_for("begun").interrupt()
        assert script.wait() == 0

    assert [line.split()[0] for line in script.lines] == ["begun", "done"]
    assert rows(tmp_path, "select state from hourbell_runs where attempt > 0") == [("succeeded",)]


def test_a_run_that_ctrl_c_cut_short_is_taken_up_by_the_next_start(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=SLOW, SLOW="60", HOURBELL_DRAIN_TIMEOUT="1s") as script:
        script.wait_for("begun").interrupt()
        assert script.wait() == 0
    [begun] = script.lines

    with Script(tmp_path, "program.py", SLOW="0") as again:
        again.wait_for(begun.replace("begun", "done"))


@pytest.mark.full
def test_the_end_of_a_program_lets_a_run_in_its_thread_finish(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=SLOW_IN_A_THREAD) as script:
        assert script.wait() == 0

    assert [line.split()[0] for line in script.lines] == ["begun", "done"]
    assert set(rows(tmp_path, "select state from hourbell_runs where attempt > 0")) == {("succeeded",)}
    assert script.log == ""
