"""Functions that processes of their own are started for."""

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from hourbell.targets.task_run import Run


def report(run: Run, number: int) -> dict[str, object]:
    run.log(f"{run.job} {run.attempt}")
    run.progress(0.25, "a quarter")
    return {
        "number": number,
        "payload": run.payload,
        "id": str(run.id),
        "at": run.scheduled_at.isoformat(),
        "late": run.lateness.total_seconds(),
        "timezone": run.definition.timezone,
        "pid": os.getpid(),
    }


def facts(run: Run) -> dict[str, object]:
    assert run.previous_at is not None
    assert run.previous_success_at is not None
    return {
        "kind": run.kind,
        "trigger": run.trigger,
        "payload": run.payload,
        "expires_at": run.expires_at.isoformat(),
        "previous_at": run.previous_at.isoformat(),
        "previous_success_at": run.previous_success_at.isoformat(),
    }


def ask_helper(run: Run) -> object:
    return _helper(run)


def _helper(run: Run) -> object:
    return run.previous_success_at


def answer_object(_: Run) -> object:
    return Path("/not/json")


async def _wait() -> None: ...


def answer_coroutine(_: Run) -> object:
    return _wait()


def fail(_: Run) -> None:
    raise KeyError("gone")


def exaggerate(run: Run) -> None:
    run.progress(2)


def leave(_: Run) -> None:
    sys.exit(3)


def vanish(run: Run) -> None:
    run.log("before the end")
    os._exit(7)


def kill_itself(_: Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def open_transaction(run: Run) -> None:
    run.transaction().__aenter__().send(None)


def never_end(run: Run, pids: str) -> None:
    _note(pids, os.getpid())
    run.log("at work")
    while True:
        pass


def clean_up(run: Run, pids: str) -> None:
    _note(pids, os.getpid())
    try:
        time.sleep(60)
    finally:
        run.log(f"cleaned up, cancelled: {run.is_cancelled}")


def refuse_to_end(_: Run, pids: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["/bin/sleep", "60"])
    _note(pids, os.getpid(), child.pid)
    time.sleep(60)


def send_half_a_message(run: Run, pids: str) -> None:
    _note(pids, os.getpid())
    _send(run, struct.pack("!i", 1_000) + b'{"log"')
    time.sleep(60)


def die_within_a_message(run: Run) -> None:
    _send(run, struct.pack("!i", 1_000) + b'{"log"')
    os.kill(os.getpid(), signal.SIGKILL)


def send_nonsense(run: Run, pids: str, message: str) -> None:
    _note(pids, os.getpid())
    _send(run, struct.pack("!i", len(message)) + message.encode())
    time.sleep(60)


def announce_too_much(run: Run, pids: str) -> None:
    _note(pids, os.getpid())
    _send(run, struct.pack("!i", 2**31 - 1))
    time.sleep(60)


def leave_a_writer_behind(run: Run, pids: str) -> None:
    """A process in a session of its own keeps the pipe open, and does not end its message."""
    if os.fork() == 0:
        os.setsid()
        _note(pids, os.getpid())
        _send(run, struct.pack("!i", 1_000))
        time.sleep(20)
        os._exit(0)
    time.sleep(0.5)
    os._exit(3)


def log_much(run: Run) -> None:
    run.log("x" * 3_000_000)
    run.progress(0.5, "y" * 3_000_000)


def _send(run: Run, data: bytes) -> None:
    os.write(run._context._sending.fileno(), data)  # type: ignore[attr-defined]


def _note(path: str, *pids: int) -> None:
    Path(path).write_text(" ".join(map(str, pids)) + "\n")
