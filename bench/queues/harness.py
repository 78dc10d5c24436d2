"""Drain of a peer's queue: its workers wait at an empty queue, and then all jobs are added at once.

The clock runs from the moment they are there to the one at which the queue is seen empty; every peer is woken or looks
within 10 ms. Workers note their calls, so that a queue which empties without any does not pass for fast.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from bench.limits.processes import Parts, cpu_of, cpu_of_family, cpu_of_machine, spent

NOTES = "HOURBELL_BENCH_NOTES"  # the file in which workers note the calls that come after a silence
_SILENCE = 0.3  # seconds
_WARM_UP = 20  # jobs for each process
_LIMIT = 600.0
_STEP = 0.02

Measured = tuple[float, dict[str, float]]


class Queue(Protocol):
    name: str
    storage: str
    how: str  # its configuration, in words

    def command(self) -> tuple[list[str], dict[str, str]]:
        """The command of a worker process, and its additional environment."""

    def hold(self, count: int) -> None:
        """Insert this many jobs that no worker sees yet."""

    def release(self) -> None:
        """Commit the jobs, so that workers see all of them at once."""

    def is_empty(self) -> bool:
        """Return True if no job is waiting or running."""

    def cpu(self) -> float | None:
        """The CPU seconds of its server; None if there is none of our own."""


class Notes:
    """The worker's side: a call that comes after a silence leaves its time in a file."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._last = 0.0

    def call(self) -> None:
        now = time.time()
        if now - self._last > _SILENCE:
            os.write(self._file, f"{now}\n".encode())
        self._last = now


def drain(queue: Queue, count: int, processes: int, folder: Path) -> Measured:
    """Drain so many jobs by so many processes: the seconds, and the CPU seconds of each part meanwhile."""
    notes = folder / f"{token_hex(4)}.notes"
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(queue, notes, folder)) for _ in range(processes)]
        queue.hold(_WARM_UP * processes)
        queue.release()
        _wait(queue, workers)
        queue.hold(count)
        time.sleep(2 * _SILENCE)

        def work() -> float:
            queue.release()
            released = time.time()
            _wait(queue, workers)
            end = time.time()
            if not any(float(at) >= released - _SILENCE for at in notes.read_text().split()):
                raise RuntimeError(f"{queue.name} emptied its queue and called nothing")
            return end - released

        return spent(_parts([worker.pid for worker in workers], queue.cpu), work)


def _wait(queue: Queue, workers: Sequence["subprocess.Popen[bytes]"]) -> None:
    end = time.monotonic() + _LIMIT
    while not queue.is_empty():
        if any(worker.poll() is not None for worker in workers):
            raise RuntimeError(f"a worker of {queue.name} ended")
        if time.monotonic() > end:
            raise RuntimeError(f"{queue.name} did not get there in {_LIMIT:g} s")
        time.sleep(_STEP)


@contextmanager
def _worker(queue: Queue, notes: Path, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    arguments, environment = queue.command()
    path = folder / f"{token_hex(4)}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            arguments,
            env={**os.environ, **environment, NOTES: str(notes)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    except BaseException:
        print(path.read_text(errors="replace")[-2_000:], file=sys.stderr)
        raise
    finally:
        end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _parts(pids: Sequence[int], server: Callable[[], float | None]) -> Parts:
    parts: dict[str, Callable[[], float]] = {
        "process": lambda: sum(map(cpu_of_family, pids)),
        "here": lambda: cpu_of(os.getpid()),
        "machine": cpu_of_machine,
        "wall": time.monotonic,
    }
    if server() is not None:
        parts["database"] = lambda: server() or 0.0
    return parts
