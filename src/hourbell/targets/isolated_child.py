"""The child process of an isolated call: it imports the function, calls it and sends the result or the error.

The process leads its own process group, so that it ends together with its children, and it never outlives its node.
"""

import inspect
import json
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from importlib import import_module
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from operator import attrgetter
from threading import Event, Lock, Thread
from types import FrameType
from typing import Any, NoReturn
from uuid import UUID

from hourbell.core.job.version_json import definition_from_json
from hourbell.core.run.notes import MAX_TEXT_CHARACTERS, fraction_of
from hourbell.core.run.states import Kind
from hourbell.targets.base import Transaction
from hourbell.targets.task_error import error_text
from hourbell.targets.task_run import LastSuccess, Run, stored_result

_TO_END = 5.0  # seconds from SIGTERM to SIGKILL


class _ChildAttemptContext:
    """The run's connection to its node, over a pipe."""

    def __init__(self, sending: Connection) -> None:
        self.is_cancelled = False
        self.last_success: LastSuccess = ...
        self._sending = sending
        self._lock = Lock()

    def send(self, **message: object) -> None:
        with self._lock:
            self._sending.send_bytes(json.dumps(message).encode())

    def log(self, text: object) -> None:
        self.send(log=str(text)[:MAX_TEXT_CHARACTERS])

    def progress(self, fraction: float | None, message: object) -> None:
        self.send(progress=[None if fraction is None else fraction_of(fraction), str(message)[:MAX_TEXT_CHARACTERS]])

    def open_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        raise RuntimeError("run.transaction() is for async functions; make the function async, without isolate=True")


def main(sending: Connection, module: str, name: str, request: str) -> None:
    with suppress(PermissionError):
        os.setpgid(0, 0)
    context = _ChildAttemptContext(sending)
    _end_on_request(context)
    Thread(target=_end_with_parent, name="hourbell-parent", daemon=True).start()
    wanted = json.loads(request)
    if "last_success" in wanted:
        context.last_success = wanted["last_success"] and datetime.fromisoformat(wanted["last_success"])
    try:
        result = _found(module, name)(_run(wanted["run"], context), **wanted["arguments"])
        if inspect.isawaitable(result):
            raise TypeError("the function returned a coroutine, which is not awaited here; leave out isolate=True")
        context.send(result=stored_result(result))
    except BaseException as error:
        if context.is_cancelled:
            raise
        context.send(error=error_text(error))


def _found(module: str, name: str) -> Any:
    """Return the function of that name; for a program's main file, from the `__main__` module of this process."""
    home = sys.modules["__main__"] if module == "__main__" else import_module(module)
    return attrgetter(name)(home)


def _run(facts: dict[str, Any], context: _ChildAttemptContext) -> Run:
    read = {
        "id": UUID(facts["id"]),
        "job_id": UUID(facts["job_id"]),
        "scheduled_at": datetime.fromisoformat(facts["scheduled_at"]),
        "kind": Kind(facts["kind"]),
        "expires_at": datetime.fromisoformat(facts["expires_at"]),
        "lateness": timedelta(seconds=facts["lateness"]),
        "definition": definition_from_json(facts["definition"]),
    }
    return Run(**{**facts, **read}, _context=context)


def _end_on_request(context: _ChildAttemptContext) -> None:
    """Raise `SystemExit` on SIGTERM, so that the function can clean up; ignore Ctrl-C, which the node handles."""

    def leave(*_: int | FrameType | None) -> NoReturn:
        context.is_cancelled = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent() -> None:
    """End this process and its children when the node's process has died: nobody is left to receive the result."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    signal_all = os.killpg if os.getpgid(0) == os.getpid() else os.kill
    signal_all(os.getpid(), signal.SIGTERM)
    Event().wait(_TO_END)
    signal_all(os.getpid(), signal.SIGKILL)
