"""Processes beside this one, and the CPU seconds they have used. Linux only: the figures are those of `/proc`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")

Parts = Mapping[str, Callable[[], float]]
"""CPU seconds so far, by name."""


class Peer:
    """A module of `bench.limits`, or one by its whole name, in a process of its own: it writes a line of JSON when it
    is ready and one for each line it is sent, and ends when there are no more."""

    def __init__(self, module: str, **settings: Any) -> None:
        name = module if "." in module else f"bench.limits.{module}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", name, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.ready_message = self._line()  # the line it prints when it is ready

    def ask(self, line: str = "") -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._line()

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def end(self) -> None:
        """End a process that does not read."""
        self._process.terminate()
        self.stop()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the benchmark ended with status {self._process.wait()}")
        return json.loads(line)


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process, in all its threads."""
    return _seconds(_facts(f"/proc/{pid}/stat")[11:13])


def cpu_of_main_thread(pid: int) -> float:
    return _seconds(_facts(f"/proc/{pid}/task/{pid}/stat")[11:13])


def cpu_of_family(pid: int) -> float:
    """Return the CPU time of a process with its children, including those that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
    living = [facts[11:13] for child in children if (facts := _facts(f"/proc/{child}/stat"))]
    return _seconds([*_facts(f"/proc/{pid}/stat")[11:15], *(ticks for each in living for ticks in each)])


def cpu_of_machine() -> float:
    """Return the CPU time of all processes, on all cores."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / _TICKS


def spent(parts: Parts, work: Callable[[], float]) -> tuple[float, dict[str, float]]:
    """Run `work`; return its result and the CPU seconds of each part meanwhile."""
    before = {name: cpu() for name, cpu in parts.items()}
    answer = work()
    return answer, {name: cpu() - before[name] for name, cpu in parts.items()}


def _facts(path: str) -> list[str]:
    """The fields of a `stat` file after the command; none if the process has ended."""
    try:
        return Path(path).read_text("utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / _TICKS
