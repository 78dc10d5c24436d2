"""One execution of a command, in a thread of the node: it starts the supervisor, reads the output, awaits the report.

The supervisor (`supervisor.py`) guarantees that nothing of the command is left when it reports. If it dies itself or
hangs, the node kills what it finds by the variables that every process of the command has inherited.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Any

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_READ_BYTES = 65_536
_LEFT_READS = 64  # what is still in the pipe when the command has ended
_SLACK = 25.0  # seconds in which the supervisor kills and reports; after that it hangs
_TO_END = 20.0
_KILL_ROUNDS, _QUIET_ROUNDS, _KILL_INTERVAL = 100, 5, 0.02


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command, as the supervisor reports it. `error` says why it could not be run."""

    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None  # why it was stopped: timeout, stopped, left_behind or node_died
    left_behind: int = 0  # processes that were still there after the command had ended
    was_killed: bool = False
    survivors: tuple[int, ...] = ()
    max_memory_kib: int = 0
    cpu_seconds: float = 0.0
    error: str | None = None
    was_lost: bool = False  # the supervisor died or hung


class Execution:
    """`run` blocks until nothing of the command is left. `stop` and `kill` may be called from any thread."""

    def __init__(
        self,
        specification: Mapping[str, Any],
        marks: Mapping[str, str],
        on_output: Callable[[bytes], None],
        elapsed: Callable[[], float],
    ) -> None:
        self._specification = specification
        self._marks = [f"{name}={value}".encode() for name, value in marks.items()]
        self._on_output = on_output
        self._elapsed = elapsed
        self._lock = Lock()
        self._control: int | None = None
        self._requested = b""
        self._hangs_at = float("inf")

    def stop(self, *, soon: bool = False) -> None:
        """Ask the command to end; it is killed if it does not, with `soon` after five seconds at most."""
        self._request(b"S" if soon else b"T")
        self._hangs_at = min(self._hangs_at, self._elapsed() + self._specification["kill_after"] + _SLACK)

    def kill(self) -> None:
        """Kill the command at once."""
        self._request(b"K")
        self._hangs_at = min(self._hangs_at, self._elapsed() + _SLACK)

    def run(self) -> Ended:
        controlled, control = os.pipe()
        output, written = os.pipe()
        reporting, reported = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SUPERVISOR, str(written), str(reported)],
                stdin=controlled,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(written, reported),
                cwd="/",
                env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            _close(controlled, control, output, written, reporting, reported)
            return Ended(error=f"its supervisor could not be started: {error.strerror}")
        _close(controlled, written, reported)
        self._hangs_at = min(self._hangs_at, self._elapsed() + self._longest)
        try:
            self._begin(control)
            report = self._follow(output, reporting)
        finally:
            with self._lock:
                self._control = None
            _close(control, output, reporting)
            self._await_end(process)
        if report is None:
            kill_marked(self._marks)
            return Ended(error="its supervisor was killed or hung, and so the command was killed", was_lost=True)
        return Ended(**{**report, "survivors": tuple(report.get("survivors", ()))})

    @property
    def _longest(self) -> float:
        return float(self._specification["timeout"] + self._specification["kill_after"] + _SLACK)

    def _begin(self, control: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            _write_all(control, json.dumps(self._specification).encode() + b"\n")
        with self._lock:
            self._control = control
            requested = self._requested
        if requested:
            self._send(requested)

    def _request(self, request: bytes) -> None:
        with self._lock:
            self._requested += request
        self._send(request)

    def _send(self, request: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):  # it has ended
            if self._control is not None:
                os.write(self._control, request)

    def _follow(self, output: int, reporting: int) -> dict[str, Any] | None:
        """Read the output until the supervisor has reported; return its report, None if there is none."""
        report = b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(reporting, selectors.EVENT_READ)
            is_reporting = True
            while is_reporting and self._elapsed() < self._hangs_at:
                for key, _ in selector.select(timeout=1.0):
                    data = os.read(key.fd, _READ_BYTES)
                    if key.fd == reporting:
                        report += data
                        is_reporting = bool(data)
                    elif data:
                        self._on_output(data)
                    else:
                        selector.unregister(output)
        os.set_blocking(output, False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LEFT_READS):
                if not (data := os.read(output, _READ_BYTES)):
                    break
                self._on_output(data)
        try:
            found: dict[str, Any] = json.loads(report)
        except ValueError:
            return None
        return found

    def _await_end(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for the end of the supervisor. It ends by itself once its control pipe is closed, unless it hangs."""
        try:
            process.wait(_TO_END if self._elapsed() < self._hangs_at else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill_marked(marks: list[bytes]) -> int:
    """Kill every process that has these variables in the environment it was started with; return how many.

    A process that is just being started has no environment yet, so this looks until there was none for several rounds.
    """
    killed: set[int] = set()
    pause, quiet_rounds = Event(), 0
    for _ in range(_KILL_ROUNDS):
        found = {pid for pid in _processes() if _has_marks(pid, marks)}
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        quiet_rounds = 0 if found else quiet_rounds + 1
        if quiet_rounds == _QUIET_ROUNDS:
            break
        pause.wait(_KILL_INTERVAL)
    return len(killed)


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return []


def _has_marks(pid: int, marks: list[bytes]) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return all(mark in variables for mark in marks)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
