"""`hourbell run`: list, inspect, watch and act on runs through the API."""

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.run import actions as run_actions
from hourbell.cli.run import lists as run_lists
from hourbell.cli.run.actions import STATES
from hourbell.cli.run.ids import RunPart, run_id
from hourbell.cli.run.waiting import LogPrinter, Story, changes_of, exit_code_of, reporting_progress
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.lists import number_option, show_list
from hourbell.cli.shared.output import Output, is_terminal, json_line, output_options
from hourbell.cli.shared.parameters import JOB, LENGTH, RUN, instant, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.screen import Screen
from hourbell.cli.shared.views import run_lines, run_view

if TYPE_CHECKING:
    from hourbell.client import Client

Function = Callable[..., None]

_MAX_COUNTED_RUNS = 500


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell run list --state failed --since 24h
    hourbell run list --job nightly-report -n 5
    hourbell run replay --state failed --since 1h --yes
    """,
)
def command() -> None:
    """Manage runs: list, show, watch, replay, cancel and discard. Needs a server (HOURBELL_URL).

    RUN is the id of a run, or its last 6 characters or more if they are unique among the newest runs.
    """


def _list_options(function: Function) -> Function:
    """Add the options of a list of runs, except the state."""
    since_help = "That ended, or were to begin, since: 24h, 2026-11-01, RFC 3339."
    function = number_option(zone_option(output_options(server_options(function))))
    function = click.option("--until", metavar="TIME", help="Only before this time: -1h, now, RFC 3339.")(function)
    function = click.option("--since", metavar="TIME", help=since_help)(function)
    function = click.option("--subject", metavar="TEXT", help="Only of jobs for this subject.")(function)
    return click.option("--job", type=JOB, metavar="JOB", help="Only of this job.")(function)


for _action in (*run_actions.COMMANDS, *run_lists.COMMANDS):
    command.add_command(_action)


@command.command(
    "list",
    cls=ExampleCommand,
    examples="""
    hourbell run list --state failed --since 24h --json | jq '.items[].id'
    hourbell run list --job nightly-report -n 5 --timezone America/New_York
    hourbell run list --since 2026-11-01 --until 2026-11-02
    """,
)
@click.option(
    "--state",
    type=STATES,
    help="Only in this state. Without --job or --subject, `failed` lists only dead letters.",
)
@_list_options
def list_(client: "Client", state: str | None, **given: Any) -> None:
    """List runs: running, waiting, then ended ones; of one job or subject by scheduled time, newest first."""
    _list(client, state, **given)


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell run failed
    hourbell run failed --job nightly-report --since 24h
    hourbell run failed -q | xargs -r hourbell run replay
    """,
)
@_list_options
def failed(client: "Client", **given: Any) -> None:
    """The same as `run list --state failed`: the dead letters, and with --job also those replayed or discarded."""
    _list(client, "failed", **given)


def _list(
    client: "Client",
    state: str | None,
    *,
    job: str | None,
    subject: str | None,
    since: str | None,
    until: str | None,
    number: int,
    zone: str,
    output: Output,
) -> None:
    pages = client.runs.list(
        state=state,
        job=job,
        since=instant(since, zone, "--since", "ago"),
        until=instant(until, zone, "--until", "ago"),
        subject=subject,
    )
    show_list(
        pages,
        number,
        output,
        run_view(zone),
        lambda: _no_failure(client, job) if state == "failed" else "there is no such run",
    )


@command.command(cls=ExampleCommand, examples="hourbell run get 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e")
@click.argument("run", type=RUN)
@zone_option
@output_options
@server_options
def get(client: "Client", run: RunPart, zone: str, output: Output) -> None:
    """Show a run with its attempts, errors and responses."""
    found = client.runs.get(run_id(client, run))
    output.one(found, run_view(zone), run_lines(found, zone))


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell run logs 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e
    hourbell run logs -f 2a3b4d5e
    """,
)
@click.argument("run", type=RUN)
@click.option("-f", "--follow", is_flag=True, help="Print further lines until the run ends; exit code 7 if it fails.")
@click.option("--attempt", type=click.IntRange(1), metavar="NUMBER", help="The attempt.  [default: the newest]")
@click.option("--plain", "is_plain", is_flag=True, help="Without the time of each line.")
@zone_option
@server_options
def logs(client: "Client", run: RunPart, follow: bool, attempt: int | None, is_plain: bool, zone: str) -> None:
    """Print the output of a command, or the lines that a task has logged."""
    found_id = run_id(client, run)
    printer = LogPrinter(zone, attempt, with_times=not is_plain)
    found = None
    if not follow:
        printer.print_new(client.runs.get(found_id))
        return
    with reporting_progress([found_id]):
        for found in changes_of(client, found_id, None):
            printer.print_new(found)
    sys.exit(exit_code_of([found] if found else []))


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell run watch 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e
    hourbell run watch 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e --timeout 5m | jq -r .state
    """,
)
@click.argument("run", type=RUN)
@click.option("--timeout", type=LENGTH, metavar="DURATION", help="Stop watching after this time, with exit code 8.")
@zone_option
@server_options
def watch(client: "Client", run: RunPart, timeout: timedelta | None, zone: str) -> None:
    """Follow a run until it ends; exit code 7 if it does not succeed. Piped, each change is a line of JSON."""
    found_id = run_id(client, run)
    screen, story, found = Screen(), Story(zone), None
    if not is_terminal():
        click.echo(f"run {found_id}", err=True)
    with reporting_progress([found_id]):
        for found in changes_of(client, found_id, timeout):
            if is_terminal():
                screen.draw(run_lines(found, zone))
            else:
                story.report(found)
                click.echo(json_line(found.raw))
                sys.stdout.flush()
    sys.exit(exit_code_of([found] if found else []))


def _no_failure(client: "Client", job: str | None) -> str:
    """Report that there are no dead letters, and count the runs that are still being retried."""
    trying = client.runs.list(state="retrying", job=job).page(limit=_MAX_COUNTED_RUNS)
    said = "there is no such run" if job else "no run has failed, or all were replayed or discarded"
    if not trying:
        return said
    count = f"{len(trying)}{' or more' if trying.next_cursor is not None else ''}"
    of_job = f" --job {job}" if job else ""
    are = "is" if count == "1" else "are"
    return f"{said}; {count} {are} waiting for a retry: hourbell run list --state retrying{of_job}"
