"""Functions in processes of their own: whatever they do, they can be ended, and harm nobody else."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.targets.task import Task
from tests.targets.task import functions
from tests.targets.task.steps import NOW, RUN, SECOND, Attempt

pytestmark = pytest.mark.anyio


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def pids_in(folder: Path) -> list[int]:
    """The processes at work, once they have said so."""
    while not (folder.exists() and folder.read_text().endswith("\n")):
        await asyncio.sleep(0.02)
    return [int(pid) for pid in folder.read_text().split()]


async def gone(pids: list[int]) -> bool:
    for _ in range(500):
        if not any(map(is_alive, pids)):
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.filterwarnings("ignore:coroutine")
async def test_a_coroutine_that_a_function_returns_is_no_result() -> None:
    error = await Attempt(functions.answer_coroutine, isolate=True).error()

    assert error.endswith("which is not awaited here; leave out isolate=True")


async def test_a_function_runs_elsewhere_and_speaks_json() -> None:
    attempt = Attempt(functions.report, {"number": 5}, isolate=True)
    outcome = await attempt.make()

    assert isinstance(outcome, Succeeded)
    assert isinstance(outcome.result, dict)
    assert outcome.result.pop("pid") != os.getpid()
    assert outcome.result == {
        "number": 5,
        "payload": {"days": 3},
        "id": str(RUN.id),
        "at": (NOW - SECOND).isoformat(),
        "late": 1.0,
        "timezone": "UTC",
    }
    assert attempt.lines == ["job 2"]
    assert (attempt.written[-1].fraction, attempt.written[-1].message) == (0.25, "a quarter")


async def test_an_answer_that_is_not_json_is_its_text() -> None:
    assert await Attempt(functions.answer_object, isolate=True).make() == Succeeded("/not/json")


async def test_an_exception_is_a_failed_attempt_with_its_message() -> None:
    assert "KeyError: 'gone'" in await Attempt(functions.fail, isolate=True).error()
    assert "SystemExit: 3" in await Attempt(functions.leave, isolate=True).error()
    assert "is for async functions" in await Attempt(functions.open_transaction, isolate=True).error()


async def test_a_process_that_dies_is_a_failed_attempt() -> None:
    attempt = Attempt(functions.vanish, isolate=True)

    assert await attempt.make() == Failed("the process ended with exit code 7")
    assert attempt.lines == ["before the end"]
    killed = await Attempt(functions.kill_itself, isolate=True).make()
    assert killed == Failed("the process ended with signal SIGKILL")


async def test_a_loop_that_never_ends_is_ended_at_its_timeout(tmp_path: Path) -> None:
    attempt = Attempt(functions.never_end, {"pids": str(tmp_path / "pids")}, timeout="3s", isolate=True)

    assert await attempt.make() == Failed("timed out after 3s")
    assert await gone(await pids_in(tmp_path / "pids"))
    assert attempt.lines == ["at work"]


async def test_a_function_that_is_cancelled_may_clean_up(tmp_path: Path) -> None:
    attempt = Attempt(functions.clean_up, {"pids": str(tmp_path / "pids")}, isolate=True)
    making = attempt.begun()
    pids = await pids_in(tmp_path / "pids")
    making.cancel()

    with pytest.raises(asyncio.CancelledError):
        await making
    assert await gone(pids)
    assert attempt.lines == ["cleaned up, cancelled: True"]


async def test_a_function_that_refuses_to_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    making = Attempt(functions.refuse_to_end, {"pids": str(tmp_path / "pids")}, isolate=True).begun()
    pids = await pids_in(tmp_path / "pids")
    making.cancel()

    with pytest.raises(asyncio.CancelledError):
        await making
    assert len(pids) == 2
    assert await gone(pids)


async def test_half_a_message_delays_no_timeout(tmp_path: Path) -> None:
    attempt = Attempt(functions.send_half_a_message, {"pids": str(tmp_path / "pids")}, timeout="2s", isolate=True)

    async with asyncio.timeout(20):
        assert await attempt.make() == Failed("timed out after 2s")
    assert await gone(await pids_in(tmp_path / "pids"))


async def test_a_process_that_dies_within_a_message_is_a_failed_attempt() -> None:
    killed = await Attempt(functions.die_within_a_message, isolate=True).make()

    assert killed == Failed("the process ended with signal SIGKILL")


@pytest.mark.parametrize(
    "message", ["no JSON", "[" * 2_000, '{"progress": ["x", ""]}', '{"progress": [7, ""]}', "\x00"]
)
async def test_a_process_that_sends_nonsense_is_ended(tmp_path: Path, message: str) -> None:
    args: dict[str, object] = {"pids": str(tmp_path / "pids"), "message": message}

    outcome = await Attempt(functions.send_nonsense, args, isolate=True).make()
    assert outcome == Failed("the process sent what is no message; leave its pipe alone")
    assert await gone(await pids_in(tmp_path / "pids"))


async def test_a_message_that_is_too_large_is_not_waited_for(tmp_path: Path) -> None:
    outcome = await Attempt(functions.announce_too_much, {"pids": str(tmp_path / "pids")}, isolate=True).make()

    assert outcome == Failed("the process sent what is no message; leave its pipe alone")
    assert await gone(await pids_in(tmp_path / "pids"))


async def test_a_pipe_that_stays_open_delays_nobody_for_long(tmp_path: Path) -> None:
    attempt = Attempt(functions.leave_a_writer_behind, {"pids": str(tmp_path / "pids")}, timeout="2s", isolate=True)

    async with asyncio.timeout(15):
        assert await attempt.make() == Failed("timed out after 2s")
    [left] = await pids_in(tmp_path / "pids")
    os.kill(left, signal.SIGKILL)


async def test_long_texts_are_cut_before_they_cross_the_pipe() -> None:
    attempt = Attempt(functions.log_much, isolate=True)

    assert await attempt.make() == Succeeded()
    assert attempt.lines == ["x" * 2_000]
    assert attempt.written[-1].message == "y" * 2_000


async def test_several_processes_at_once_answer_each_their_own() -> None:
    attempts = [Attempt(functions.report, {"number": number}, isolate=True) for number in range(4)]
    outcomes: list[Outcome] = await asyncio.gather(*(attempt.make() for attempt in attempts))

    assert [outcome.result["number"] for outcome in outcomes] == [0, 1, 2, 3]  # type: ignore[union-attr, index]


async def _async_function(_: object) -> None: ...


def test_a_task_that_cannot_be_isolated_is_refused_at_once() -> None:
    def local(_: object) -> None: ...

    with pytest.raises(ValueError, match="not at the top of a module"):
        Task("local", local, isolate=True)
    with pytest.raises(ValueError, match="not at the top of a module"):
        Task("lambda", lambda _: None, isolate=True)
    with pytest.raises(ValueError, match="isolate=True is for ordinary functions"):
        Task("async", _async_function, isolate=True)


SCRIPT = """
import asyncio, os, sys
from tests.targets.task.steps import Attempt

print("imported as", __name__, flush=True)

def work(run, mode):
    run.log("at work")
    print("pid", os.getpid(), flush=True)
    if mode == "forever":
        while True:
            pass
    return "done"

if __name__ == "__main__":
    print(asyncio.run(Attempt(work, {"mode": sys.argv[1]}, isolate=True).make()), flush=True)
"""


def start(folder: Path, mode: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "script.py", mode]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_function_of_the_main_file_can_be_isolated(tmp_path: Path) -> None:
    with start(tmp_path, "once") as process:
        output = process.communicate(timeout=60)[0].splitlines()

    assert output[:2] == ["imported as __main__", "imported as __mp_main__"]
    assert output[-1] == "Succeeded(result='done', answer=None)"


@pytest.mark.full
def test_a_program_without_a_guard_runs_once(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from hourbell import Scheduler\n"
        "scheduler = Scheduler()\n"
        "@scheduler.job('every 1s', isolate=True)\n"
        "def tick(run): print('tick', flush=True)\n"
        "scheduler.run()\n"
    )
    environment = {**os.environ, "HTTP_ADDR": "127.0.0.1:0", "HOURBELL_LOG_LEVEL": "error"}
    command = [sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "tick\n"
        program.send_signal(signal.SIGINT)
        assert set(program.communicate(timeout=60)[0].split()) <= {"tick"}

    assert program.returncode == 0


async def test_a_process_ends_with_the_node_that_started_it(tmp_path: Path) -> None:
    with start(tmp_path, "forever") as node:
        assert node.stdout is not None
        pid = next(int(line.split()[1]) for line in node.stdout if line.startswith("pid"))
        node.send_signal(signal.SIGKILL)
        node.wait(10)

        assert await gone([pid])
