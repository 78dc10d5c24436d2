"""A call of a function in its own process, which can be killed whatever the function does.

Both sides exchange JSON, never pickled objects: the parent passes the run and the arguments; the child sends log lines,
progress and finally a result or an error over a pipe. The parent never waits for the rest of a message, so no child can
block it. To stop a child, the parent sends SIGTERM to its process group, and SIGKILL five seconds later.
"""

import json
import os
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Lock
from types import EllipsisType
from typing import Any

from hourbell.core.job.version_json import definition_to_json
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.targets.isolated_child import main
from hourbell.targets.task_run import ISOLATED, LastSuccess, Run

_SPAWN = get_context("spawn")
_TO_END = 5.0  # seconds to wait before SIGKILL
_MAX_MESSAGE_BYTES = 1_048_576  # several times the longest message that the child sends
_READ_BYTES = 65_536
_LENGTH = struct.Struct("!i")  # before each message; negative for a message of over 2 GiB
_NO_MESSAGE = Failed("the process sent what is no message; leave its pipe alone")
_STARTING = Lock()  # starting a process polls all other children, which two threads must not do at once


class Isolated:
    """One isolated call. `perform` blocks until the process ends; another thread may call `stop` meanwhile."""

    def __init__(
        self, function: Callable[..., Any], run: Run, arguments: Mapping[str, object], last_success: LastSuccess
    ) -> None:
        self._run = run
        self._function_path = (function.__module__, function.__qualname__)
        request: dict[str, object] = {"run": _facts(run), "arguments": dict(arguments)}
        if not isinstance(last_success, EllipsisType):
            request["last_success"] = None if last_success is None else last_success.isoformat()
        self._request = json.dumps(request)
        self._stopped, self._stopping = _SPAWN.Pipe(duplex=False)

    def stop(self) -> None:
        self._stopping.send_bytes(b"")

    def close(self) -> None:
        """Close the stop pipe; call it after `perform` has returned."""
        self._stopped.close()
        self._stopping.close()

    def perform(self) -> Outcome:
        """Start the process, wait for its end and return the outcome."""
        receiving, sending = _SPAWN.Pipe(duplex=False)
        name = f"{ISOLATED}{self._run.job}"
        process = _SPAWN.Process(target=main, args=(sending, *self._function_path, self._request), name=name)
        try:
            with _STARTING, _without_interrupts():
                process.start()
            sending.close()  # an open copy here would hide the end of the child's pipe
            return self._follow(process, receiving)
        finally:
            sending.close()
            receiving.close()

    def _follow(self, process: SpawnProcess, receiving: Connection) -> Outcome:
        """Read messages until the process has ended or must stop, then those it sent while it ended."""
        inbox = _Inbox(receiving)
        outcome: Outcome | None = None
        while outcome is None and self._stopped not in (ready := wait([receiving, process.sentinel, self._stopped])):
            if receiving not in ready or not inbox.read():
                break
            outcome = self._hear_all(inbox)
        if outcome is _NO_MESSAGE or (outcome is None and self._stopped in ready):
            _signal(process, signal.SIGTERM)
        end = _end(process)
        reads = _MAX_MESSAGE_BYTES // _READ_BYTES  # limited: a process that left the group may go on writing
        while outcome is None and reads > 0 and inbox.read():
            outcome = self._hear_all(inbox)
            reads -= 1
        return outcome or end

    def _hear_all(self, inbox: "_Inbox") -> Outcome | None:
        """Handle the complete messages that have arrived, up to the one that is the outcome."""
        try:
            for message in inbox.messages():
                if (outcome := self._hear(message)) is not None:
                    return outcome
        except Exception:
            return _NO_MESSAGE
        return None

    def _hear(self, message: bytes) -> Outcome | None:
        match json.loads(message):
            case {"log": text}:
                self._run.log(text)
            case {"progress": [fraction, text]}:
                self._run.progress(fraction, text)
            case {"result": result}:
                return Succeeded(result)
            case {"error": error}:
                return Failed(str(error))
        return None


class _Inbox:
    """A non-blocking reader of a process's messages."""

    def __init__(self, receiving: Connection) -> None:
        self._descriptor = receiving.fileno()
        self._bytes = bytearray()
        os.set_blocking(self._descriptor, False)

    def read(self) -> bool:
        """Read available bytes; return False if there are none or the pipe is closed."""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        self._bytes += data
        return bool(data)

    def messages(self) -> Iterator[bytes]:
        """Yield and remove the complete messages; raise ValueError for a length out of range."""
        while len(self._bytes) >= _LENGTH.size:
            [length] = _LENGTH.unpack_from(self._bytes)
            if not 0 <= length <= _MAX_MESSAGE_BYTES:
                raise ValueError(f"a message of {length} bytes")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            message = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            yield message


def _end(process: SpawnProcess) -> Failed:
    """Wait for the process, kill it if it takes too long, and return a failure with its exit code or signal."""
    process.join(_TO_END)
    while (code := process.exitcode) is None:
        _signal(process, signal.SIGKILL)
        process.join(_TO_END)
    process.close()
    if code >= 0:
        return Failed(f"the process ended with exit code {code}")
    with suppress(ValueError):
        return Failed(f"the process ended with signal {signal.Signals(-code).name}")
    return Failed(f"the process ended with signal {-code}")


def _signal(process: SpawnProcess, number: signal.Signals) -> None:
    """Signal the process group of the process; only the process itself if it does not lead a group yet."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _facts(run: Run) -> dict[str, object]:
    return {
        "id": str(run.id),
        "job": run.job,
        "job_id": str(run.job_id),
        "job_version": run.job_version,
        "scheduled_at": run.scheduled_at.isoformat(),
        "attempt": run.attempt,
        "lateness": run.lateness.total_seconds(),
        "payload": run.payload,
        "kind": run.kind,
        "expires_at": run.expires_at.isoformat(),
        "definition": definition_to_json(run.definition),
    }


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT, so that a process started here gets no Ctrl-C before it ignores it: the node handles Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
