"""A process that forks after `start`: only one of the two processes works."""

from pathlib import Path

import pytest

from tests.library.scripts import Script

WAITING = """
import multiprocessing, os, sys, threading, time
from hourbell import Scheduler

scheduler = Scheduler()
ticked = threading.Event()

@scheduler.job("* * * * * *")
def tick(run):
    print("tick", os.getpid(), flush=True)
    ticked.set()

def wait_for_a_tick():
    global ticked
    ticked = threading.Event()  # the one before may have been in use when a process was forked
    assert ticked.wait(30)
"""
FORK_LATER = f"""{WAITING}
scheduler.start()
wait_for_a_tick()
if child := os.fork():
    scheduler.stop()
    print("stopped", os.getpid(), flush=True)
    sys.exit(os.waitpid(child, 0)[1])
wait_for_a_tick()
wait_for_a_tick()
"""
FORK_AT_ONCE = f"""{WAITING}
scheduler.start()
if child := os.fork():
    time.sleep(2)
    print("threads", *(thread.name for thread in threading.enumerate()), flush=True)
    sys.exit(os.waitpid(child, 0)[1])
wait_for_a_tick()
print("child", os.getpid(), flush=True)
"""
MULTIPROCESSING = f"""{WAITING}
def helper():
    time.sleep(2)
    print("helper", *(thread.name for thread in threading.enumerate()), flush=True)

if __name__ == "__main__":
    scheduler.start()
    if sys.argv[1] == "later":
        wait_for_a_tick()
    process = multiprocessing.get_context("fork").Process(target=helper)
    process.start()
    process.join()
    wait_for_a_tick()
    print("parent", os.getpid(), flush=True)
"""
ISOLATED = """
import threading, time
from flask import Flask
from hourbell import Scheduler
from hourbell.flask import Hourbell

scheduler = Scheduler()
Hourbell(Flask(__name__), scheduler)

@scheduler.job("* * * * * *", overlap="skip", isolate=True)
def alone(run):
    time.sleep(2)
    print("threads", *sorted({thread.name for thread in threading.enumerate()}), flush=True)
"""
SERVING = """
import time

if __name__ == "__main__":
    import web
    time.sleep(20)
"""


def ticks(script: Script) -> set[str]:
    return {line.split()[1] for line in script.lines if line.startswith("tick")}


def test_a_child_works_with_connections_of_its_own(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=FORK_LATER) as script:
        assert script.wait() == 0

    [stopped] = [line for line in script.lines if line.startswith("stopped")]
    parent = stopped.split()[1]
    after = {line.split()[1] for line in script.lines[script.lines.index(stopped) + 1 :]}
    assert script.lines[0] == f"tick {parent}"
    assert after <= ticks(script) - {parent}  # and its end is not the child's
    assert len(ticks(script)) == 2


def test_a_program_that_forks_at_once_leaves_the_work_to_its_child(tmp_path: Path) -> None:
    with Script(tmp_path, "program.py", text=FORK_AT_ONCE) as script:
        assert script.wait() == 0

    [child] = [line.split()[1] for line in script.lines if line.startswith("child")]
    assert ticks(script) == {child}
    assert "threads MainThread" in script.lines


@pytest.mark.parametrize("when", ["at_once", pytest.param("later", marks=pytest.mark.full)])
def test_a_child_of_multiprocessing_does_not_work_and_its_parent_does(tmp_path: Path, when: str) -> None:
    with Script(tmp_path, "program.py", when, text=MULTIPROCESSING) as script:
        assert script.wait() == 0

    [parent] = [line.split()[1] for line in script.lines if line.startswith("parent")]
    assert ticks(script) == {parent}
    assert "helper MainThread" in script.lines


@pytest.mark.full
def test_the_process_of_an_isolated_call_does_not_work(tmp_path: Path) -> None:
    (tmp_path / "web.py").write_text(ISOLATED)
    with Script(tmp_path, "program.py", text=SERVING) as script:
        script.wait_for("threads")

    assert script.lines == ["threads MainThread hourbell-parent"]
