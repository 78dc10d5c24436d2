"""Waiting for runs to end, and what that means for the exit code."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING
from uuid import UUID

from hourbell import clock
from hourbell.cli.remote import RUN_FAILED

if TYPE_CHECKING:
    from hourbell.client import Client, Run


_POLL = 0.5  # seconds


def wait_for(client: "Client", runs: Sequence[UUID], timeout: timedelta | None) -> "list[Run]":
    """The runs once all have ended; TimeoutError if they have not in that time."""
    began, ended = clock.elapsed(), []
    for run in runs:
        left = None if timeout is None else max(0.0, timeout.total_seconds() - (clock.elapsed() - began))
        ended.append(client.runs.wait(run, timeout=left))
    return ended


def exit_code_of(runs: "Iterable[Run]") -> int:
    return 0 if all(run.state == "succeeded" for run in runs) else RUN_FAILED


def changes_of(client: "Client", run: UUID, timeout: timedelta | None) -> "Iterator[Run]":
    """The run now and after each change, until it has ended; TimeoutError if it has not in that time."""
    began, before, pause = clock.elapsed(), None, Event()
    while True:
        found = client.runs.get(run)
        if found.raw != before:
            yield found
        if found.has_ended:
            return
        before = found.raw
        if timeout is not None and clock.elapsed() - began > timeout.total_seconds():
            raise TimeoutError(f"The run {run} has not ended in that time; it is {found.state}.")
        pause.wait(_POLL)
