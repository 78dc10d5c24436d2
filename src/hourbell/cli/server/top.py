"""`hourbell top`: live dashboard, refreshed every two seconds."""

import sys
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from hourbell import clock
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import is_terminal, json_line, table
from hourbell.cli.shared.parameters import LENGTH, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.screen import Screen
from hourbell.cli.shared.times import shown
from hourbell.cli.shared.views import milliseconds
from hourbell.core.schedule.preview import rfc3339

if TYPE_CHECKING:
    from hourbell.client import Client, Run

_FEW = 5
Snapshot = dict[str, Any]


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell top
    hourbell top -n 1 | jq .overview
    hourbell top --interval 10s --timezone Europe/Paris
    """,
)
@click.option("-n", "--number", type=click.IntRange(1), help="Stop after this number.")
@click.option("--interval", type=LENGTH, default="2s", metavar="DURATION", help="The refresh interval.  [default: 2s]")
@zone_option
@server_options
def command(client: "Client", number: int | None, interval: timedelta, zone: str) -> None:
    """Live dashboard: totals, problems, running runs, next jobs and nodes.

    Piped, each interval is a line of JSON.
    """
    screen, pause, drawn = Screen(), Event(), 0
    while True:
        found = _Found(client)
        if is_terminal():
            screen.draw(found.lines(zone))
        else:
            click.echo(json_line(found.body()))
            sys.stdout.flush()
        drawn += 1
        if number is not None and drawn >= number:
            return
        pause.wait(interval.total_seconds())


class _Found:
    """A snapshot of the server's state."""

    def __init__(self, client: "Client") -> None:
        self.at = clock.now().replace(microsecond=0)
        self.overview = client.overview()
        self.failed = client.runs.list(state="failed").page(limit=_FEW)
        self.in_error = client.jobs.list(state="error").page(limit=_FEW)
        self.stuck = client.runs.stuck(limit=_FEW)
        self.running = client.runs.list(state="running").page(limit=_FEW)
        self.next = client.jobs.list(sort="next_at", state="active").page(limit=_FEW)
        self.nodes = client.nodes()

    def body(self) -> Snapshot:
        lists = ("failed", "in_error", "stuck", "running", "next", "nodes")
        return {
            "at": rfc3339(self.at),
            "overview": self.overview.raw,
            **{name: getattr(self, name).raw["items"] for name in lists},
        }

    def lines(self, zone: str) -> list[str]:
        over = self.overview
        ended = ", ".join(f"{count} {state}" for state, count in over.ended.items()) or "nothing"
        lines = [
            f"{shown(self.at, zone)} ({zone})",
            f"jobs {over.jobs}, paused {over.paused}, in error {over.in_error}",
            f"runs: {over.running} running, {over.waiting} waiting, {over.dead_letters} dead letters",
            f"ended since {shown(over.since, zone)} ({zone}): {ended}",
        ]
        attention = [("job", job.name, job.error) for job in self.in_error]
        attention += [("stuck", run.job_name or "", str(run.id)) for run in self.stuck]
        attention += [("failed", run.job_name or "", f"{run.id} {run.reason or ''}") for run in self.failed]
        lines += _section("needs attention", ("PROBLEM", "JOB", "DETAIL"), attention)
        lines += _section(
            "running", ("JOB", f"SINCE ({zone})", "LATE", "RUN"), [_running(run, zone) for run in self.running]
        )
        comes = [(job.name, shown(job.next_at, zone), job.timezone) for job in self.next if job.next_at]
        lines += _section("next", ("JOB", f"NEXT ({zone})", "TIMEZONE"), comes)
        nodes = [
            (node.host, "stale" if node.stale else "live", node.running, shown(node.beat_at, zone), node.id)
            for node in self.nodes
        ]
        return lines + _section("nodes", ("HOST", "STATE", "RUNNING", f"LAST HEARTBEAT ({zone})", "NODE"), nodes)


def _running(run: "Run", zone: str) -> tuple[str, ...]:
    return (run.job_name or "(deleted)", shown(run.started_at, zone), milliseconds(run.lateness_ms), str(run.id))


def _section(title: str, heads: tuple[str, ...], rows: list[Any]) -> list[str]:
    return ["", title, *table(heads, rows, None)] if rows else []
