"""Waiting for runs to end: reports progress on stderr and derives the exit code from the results."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING
from uuid import UUID

import click

from hourbell import clock
from hourbell.cli.shared.output import plain, plain_lines
from hourbell.cli.shared.remote import RUN_FAILED
from hourbell.cli.shared.times import shown
from hourbell.core.run.notes import lines_after

if TYPE_CHECKING:
    from hourbell.client import Attempt, Client, LogLine, Run


_POLL = 0.5  # seconds
_MAX_NAMED_RUNS = 20


class Story:
    """A reporter of what changed in a run since the last poll, one line per change."""

    def __init__(self, zone: str, start: str = "") -> None:
        self._zone = zone
        self._start = start
        self._state = ""
        self._attempt = 0

    def report(self, run: "Run") -> None:
        for line in self.news(run):
            click.echo(f"{self._start}{line}", err=True)

    def news(self, run: "Run") -> list[str]:
        """Return lines for new failed attempts, and for a new state unless the attempts already imply it."""
        new = [each for each in run.attempts if each.number > self._attempt]
        lines = [line for each in new if each.outcome != "succeeded" for line in self._failure(each, run)]
        self._attempt = max([self._attempt, *(each.number for each in new)])
        if lines and run.state in ("running", "retrying"):  # the attempt may have ended after the state was read
            self._state = run.state
            return lines
        if run.state != self._state:
            lines.append(plain(f"{run.state}: {run.waits_for}" if is_unserved(run) else run.state))
        self._state = run.state
        return lines

    def _failure(self, attempt: "Attempt", run: "Run") -> list[str]:
        """Format a failed attempt; a traceback gets lines of its own."""
        what, error = plain(f"attempt {attempt.number} {attempt.outcome}"), plain_lines(attempt.error)
        if len(error) == 1:
            what = f"{what}: {error.pop()}"
        if run.state == "retrying" and run.ready_at is not None and attempt is run.attempts[-1]:
            what = f"{what}; tried again at {self._moment(run.ready_at)}"
        return [what, *(f"  {line}" for line in error)]

    def _moment(self, at: datetime) -> str:
        date, time = shown(at, self._zone)[:19].split()
        is_today = date == shown(clock.now(), self._zone)[:10]
        return f"{time if is_today else f'{date} {time}'} {self._zone}"


class LogPrinter:
    """A printer of the log of a run: of one attempt, by default the newest and those after it."""

    def __init__(self, zone: str, attempt: int | None, *, with_times: bool) -> None:
        self._zone = zone
        self._attempt = attempt
        self._with_times = with_times
        self._first: int | None = None
        self._seen: dict[int, Sequence[LogLine]] = {}

    def print_new(self, run: "Run") -> None:
        """Print the lines that came since the last call."""
        logs: dict[int, Sequence[LogLine]] = {each.number: each.log for each in run.attempts if each.log}
        if run.log and run.attempt is not None:
            logs.setdefault(run.attempt, run.log)
        if self._first is None and logs:
            self._first = max(logs)
        for number in sorted(logs):
            if number == self._attempt or (self._attempt is None and number >= (self._first or 0)):
                for line in lines_after(self._seen.get(number, ()), logs[number]):
                    at = f"{shown(line.at, self._zone)}  " if self._with_times else ""
                    click.echo(f"{at}{plain(line.text)}")
        self._seen = logs


def follow(client: "Client", runs: Sequence[UUID], timeout: timedelta | None, zone: str) -> "list[Run]":
    """Wait until all runs have ended and return them. Raises TimeoutError after the timeout."""
    began, ended = clock.elapsed(), []
    for line in _few([f"run {run}" for run in runs]):
        click.echo(line, err=True)
    for number, run in enumerate(runs):
        left = None if timeout is None else max(timedelta(), timeout - timedelta(seconds=clock.elapsed() - began))
        story = Story(zone, f"{run}: " if len(runs) > 1 else "")
        with reporting_progress(runs[number:]):
            for found in changes_of(client, run, left):
                story.report(found)
        ended.append(found)
    return ended


@contextmanager
def reporting_progress(runs: Sequence[UUID]) -> Iterator[None]:
    """Print on Ctrl-C that the runs continue, and how to watch them."""
    try:
        yield
    except KeyboardInterrupt:
        for line in _few([f"run {run} continues; hourbell run watch {run}" for run in runs]):
            click.echo(line, err=True)
        raise


def _few(lines: list[str]) -> list[str]:
    return (
        lines
        if len(lines) <= _MAX_NAMED_RUNS
        else [*lines[:_MAX_NAMED_RUNS], f"and {len(lines) - _MAX_NAMED_RUNS:,} more"]
    )


def exit_code_of(runs: "Iterable[Run]") -> int:
    return 0 if all(run.state == "succeeded" for run in runs) else RUN_FAILED


def is_unserved(run: "Run") -> bool:
    """Return whether the run waits for a node that can run it, and no such node is live."""
    return (run.waits_for or "").startswith("no ")


def changes_of(client: "Client", run: UUID, timeout: timedelta | None) -> "Iterator[Run]":
    """Yield the run now and after each change until it ends. Raises TimeoutError after the timeout."""
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
