"""Nothing of a command is left, whatever it does: after its timeout, a cancel, a stop, or its own end."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hourbell.core.run.settle import Failed, Succeeded
from tests.targets.command.steps import Attempt, marked

pytestmark = pytest.mark.anyio

DOUBLE_FORK = "(setsid sh -c '(trap \"\" TERM HUP; sleep 60; sleep 60) &' &)"
HOSTILE = {
    "sleeps": "sleep 60",
    "ignores TERM": "trap '' TERM HUP INT; while :; do sleep 60; done",
    "closes its pipes": "exec >&- 2>&- <&-; trap '' TERM; sleep 60; sleep 60",
    "double-forks": f"{DOUBLE_FORK}; sleep 60",
    "changes its session": "exec setsid -f sh -c 'trap \"\" TERM; sleep 60; sleep 60'",
    "stops itself": "kill -STOP $$",
    "hides its environment": "env -i setsid sh -c 'trap \"\" TERM; sleep 60; sleep 60'",
}


def a_command(text: str, timeout: str = "1s", kill_after: str = "1s", **more: Any) -> Attempt:
    return Attempt({"command": text, "timeout": timeout, "kill_after": kill_after, **more})


def below(pid: int) -> list[int]:
    """Return the processes below one, as the kernel sees them now."""
    found, parents = [], {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            parents[int(path.parent.name)] = int(fields[1])
    wanted = {pid}
    for _ in range(20):
        more = {child for child, parent in parents.items() if parent in wanted} - wanted
        found += more
        wanted |= more
    return found


@pytest.mark.parametrize("what", HOSTILE)
async def test_after_its_timeout_nothing_is_left(what: str) -> None:
    attempt, before = a_command(HOSTILE[what]), set(below(os.getpid()))
    began = time.monotonic()
    outcome = await attempt.make()

    assert time.monotonic() - began < 15
    assert attempt.survivors() == []
    assert set(below(os.getpid())) <= before
    if what != "changes its session":  # the command itself has ended at once
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith("timed out after 1s")


async def test_processes_left_behind_are_stopped_and_counted() -> None:
    attempt = a_command(f"{DOUBLE_FORK}; echo done", timeout="60s")
    outcome = await attempt.make()

    assert isinstance(outcome, Succeeded)
    assert attempt.survivors() == []
    assert attempt.lines[0] == "done"
    assert attempt.lines[1].endswith("left behind by the command, and stopped")
    assert attempt.lines[2] == "SIGTERM did not end everything, so it was killed 1s later"


async def test_a_command_may_end_in_order_after_sigterm() -> None:
    attempt = a_command("trap 'echo cleaned up; exit 0' TERM; sleep 60 & wait", kill_after="10s")

    assert (await attempt.error()).startswith("timed out after 1s: cleaned up")


@pytest.mark.parametrize("what", ["sleeps", "ignores TERM", "double-forks"])
async def test_a_cancelled_attempt_ends_when_nothing_is_left(what: str) -> None:
    attempt = a_command(f"echo begun; {HOSTILE[what]}", timeout="60s")
    making = asyncio.create_task(attempt.node.deliver(attempt.call()))
    await attempt.until_line("begun")
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making

    assert attempt.survivors() == []
    await attempt.node.close()


@pytest.mark.full
async def test_an_interrupted_attempt_ends_before_another_node_starts_it() -> None:
    attempt = a_command(f"echo begun; {HOSTILE['ignores TERM']}", timeout="60s", kill_after="10m")
    attempt.is_interrupted = True
    making = asyncio.create_task(attempt.node.deliver(attempt.call()))
    await attempt.until_line("begun")
    began = time.monotonic()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making

    assert time.monotonic() - began < 15
    assert attempt.survivors() == []
    await attempt.node.close()


async def test_a_node_that_stops_kills_its_commands() -> None:
    attempt = a_command(f"echo begun; {HOSTILE['ignores TERM']}", timeout="60s", kill_after="10m")
    making = asyncio.create_task(attempt.node.deliver(attempt.call()))
    await attempt.until_line("begun")
    await attempt.node.close()

    assert attempt.survivors() == []
    assert isinstance(await making, Failed)


@pytest.mark.parametrize("number", ["KILL", "TERM"])
async def test_a_command_that_ends_its_supervisor_ends_itself(number: str) -> None:
    attempt = a_command(f"kill -{number} $PPID; {DOUBLE_FORK}; sleep 60", timeout="30s")
    error = await attempt.error()

    assert ("its supervisor was killed" if number == "KILL" else "it was stopped") in error
    assert attempt.survivors() == []


@pytest.mark.parametrize(
    "what",
    [
        "sleeps",
        *(
            pytest.param(what, marks=pytest.mark.full)
            for what in ("ignores TERM", "double-forks", "closes its pipes", "hides its environment")
        ),
    ],
)
async def test_a_command_does_not_outlive_its_node(what: str, tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from tests.targets.command.steps import Attempt\n"
        f"asyncio.run(Attempt({{'command': {'echo $PPID >pid; ' + HOSTILE[what]!r}, 'cwd': {str(tmp_path)!r}}}).make())"
    )
    node = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[3])
    try:
        async with asyncio.timeout(20):
            while not ((file := tmp_path / "pid").exists() and file.read_text()):
                await asyncio.sleep(0.05)
        supervisor = int(file.read_text())
        started = [supervisor, *below(supervisor)]
    finally:
        os.kill(node.pid, signal.SIGKILL)
        node.wait()

    assert len(started) >= 2
    for _ in range(600):
        if not any(map(is_alive, started)):
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"{[pid for pid in started if is_alive(pid)]} outlived their node")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_flood_of_output_is_read_in_bounded_memory() -> None:
    attempt = a_command(
        "echo first; head -c 60000000 /dev/zero | tr '\\0' 'x'; echo; yes | head -n 200000; echo last", "60s"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await attempt.make()

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 5 * 1024
    assert (attempt.lines[0], attempt.lines[-1]) == ("first", "last")
    assert any("bytes left out" in line for line in attempt.lines)
    assert sum(map(len, attempt.lines)) <= 2 * 65_536


@pytest.mark.full
async def test_a_gibibyte_of_output_is_read_in_bounded_memory() -> None:
    attempt = a_command("head -c 1073741824 /dev/urandom", "5m")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert isinstance(await attempt.make(), Succeeded)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 5 * 1024


@pytest.mark.full
async def test_a_thousand_children_in_sessions_of_their_own_are_killed() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); (trap '' TERM; setsid sleep 300 &); done; echo forked; sleep 300"
    attempt = a_command(text, "20s")
    await attempt.make()

    assert "forked" in attempt.lines
    assert attempt.survivors() == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 5 * 1024


@pytest.mark.full
async def test_a_process_that_forks_without_end_is_killed() -> None:
    program = "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nwhile os.fork() or not os.setsid(): pass"
    bomb = f"{sys.executable} -c '{program}' & sleep 300"
    attempt = (
        a_command(bomb, "1s", limits={"processes": 400}, user="nobody")
        if os.geteuid() == 0
        else a_command(bomb, "1s", limits={"processes": 3_000})
    )
    attempt.node._users = frozenset(["nobody"])
    await attempt.make()

    assert attempt.survivors() == []


@pytest.mark.full
async def test_a_supervisor_that_hangs_is_killed_with_its_command() -> None:
    attempt = a_command("kill -STOP $PPID; trap '' TERM; sleep 300; sleep 300", "1s")

    assert "its supervisor was killed or hung" in await attempt.error()
    assert attempt.survivors() == []
    assert marked(attempt.mark) == []
