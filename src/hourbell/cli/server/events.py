"""`hourbell events`: stream changes of jobs and runs."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from threading import Event, Timer
from typing import TYPE_CHECKING
from uuid import UUID

import click

from hourbell import clock
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import is_terminal, json_line, plain
from hourbell.cli.shared.parameters import LENGTH, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import Change, Client


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell events
    hourbell events --timeout 1m | jq -c '.runs[] | select(.state == "failed")'
    """,
)
@click.option("-n", "--number", type=click.IntRange(1), help="Stop after this number.")
@click.option("--timeout", type=LENGTH, metavar="DURATION", help="Stop after this time.")
@zone_option
@server_options
def command(client: "Client", number: int | None, timeout: timedelta | None, zone: str) -> None:
    """Stream jobs and runs that change, at most once a second, until interrupted.

    Piped, each second with changes is a line of JSON; `reset` means that changes may have been missed.
    """
    client.health()
    click.echo(f"listening to {client.url}", err=True)
    is_over = Event()

    def end() -> None:
        is_over.set()
        client.close()

    timer = Timer(timeout.total_seconds() if timeout else 0.0, end)
    timer.daemon = True
    if timeout is not None:
        timer.start()
    try:
        _listen(client, number, zone)
    except RuntimeError:  # the timer closed the client while it waited for an event
        if not is_over.is_set():
            raise
    finally:
        timer.cancel()


def _listen(client: "Client", number: int | None, zone: str) -> None:
    names = _Names(client)
    for count, change in enumerate(client.events(), 1):
        if is_terminal():
            for line in _lines(change, names, zone):
                click.echo(line)
        else:
            click.echo(json_line({"event": "reset" if change.is_reset else "changes", **change.raw}))
        sys.stdout.flush()
        if count == number:
            return


class _Names:
    """A cache of job names by id. Each name is requested once."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._known: dict[UUID, str] = {}

    def of(self, job: UUID) -> str:
        from hourbell.client import ApiError

        if job not in self._known:
            try:
                self._known[job] = plain(self._client.jobs.get(job).name)
            except ApiError:
                self._known[job] = str(job)
        return self._known[job]

    def forget(self, job: UUID) -> None:
        """Drop a changed job from the cache, because the change may have renamed it."""
        self._known.pop(job, None)


def _lines(change: "Change", names: _Names, zone: str) -> Iterator[str]:
    at = f"{shown(clock.now(), zone)} ({zone})"
    if change.is_reset:
        yield f"{at}  events may have been missed"
    for job in change.jobs:
        name = names.of(job.id) if job.version is None else ""
        names.forget(job.id)
        became = "deleted" if job.version is None else f"version {job.version}"
        yield f"{at}  job  {name or names.of(job.id)}  {became}"
    for run in change.runs:
        yield f"{at}  run  {names.of(run.job_id)}  {plain(run.state)}  {run.id}"
