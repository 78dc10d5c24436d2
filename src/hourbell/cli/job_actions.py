"""What is done to jobs that exist, one or many: pause, resume, trigger, delete."""

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.command import ExampleCommand
from hourbell.cli.output import Output, output_options, plain
from hourbell.cli.parameters import LENGTH, instant, json_value, zone_option
from hourbell.cli.remote import server_options
from hourbell.cli.selection import Selection, act_on_each, selection_options, show_each
from hourbell.cli.views import job_lines, job_view, run_lines, run_view
from hourbell.cli.waiting import exit_code_of, wait_for

if TYPE_CHECKING:
    from hourbell.client import Client, Job


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job pause nightly-report
    hourbell job pause --tag billing --until 2h --note 'database maintenance'
    hourbell job pause --all --until 'tomorrow 09:00' --timezone Europe/Paris --yes
    """,
)
@selection_options
@click.option("--until", metavar="TIME", help="When it resumes by itself: 2h, 'tomorrow 09:00', RFC 3339.")
@click.option("--note", default="", metavar="TEXT", help="Why, for whoever looks at it.")
@click.option("--cancel-waiting", is_flag=True, help="Cancel what waits already, too.")
@zone_option
@output_options
@server_options
def pause(
    client: "Client",
    selection: Selection,
    until: str | None,
    note: str,
    cancel_waiting: bool,
    zone: str,
    output: Output,
) -> None:
    """Stop planning. Runs that were planned before go on, unless they are cancelled too."""
    end = instant(until, zone, "--until", "ahead")
    jobs = selection.jobs(client, "pause", lambda job: job.state != "paused")
    done, status = act_on_each(
        client, jobs, lambda job: client.jobs.pause(job, note=note, until=end, cancel_waiting=cancel_waiting)
    )
    _show_jobs(done, selection, output, zone)
    sys.exit(status)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job resume nightly-report
    hourbell job resume --tag billing --catch-up --yes
    """,
)
@selection_options
@click.option("--catch-up", is_flag=True, help="Plan what the pause swallowed, as if it had been missed.")
@zone_option
@output_options
@server_options
def resume(client: "Client", selection: Selection, catch_up: bool, zone: str, output: Output) -> None:
    """Plan again from now on."""
    jobs = selection.jobs(client, "resume", lambda job: job.state == "paused")
    done, status = act_on_each(client, jobs, lambda job: client.jobs.resume(job, catch_up=catch_up))
    _show_jobs(done, selection, output, zone)
    sys.exit(status)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job trigger nightly-report
    hourbell job trigger nightly-report --wait --timeout 5m
    hourbell job trigger nightly-report --payload '{"days": 7}' -q
    """,
)
@selection_options
@click.option("--payload", metavar="JSON|@FILE|-", help="Instead of the job's own.")
@click.option("--key", metavar="TEXT", help="The same key runs a job once, ever.")
@click.option("--wait", is_flag=True, help="Wait until it ends; exit code 7 if it does not succeed.")
@click.option("--timeout", type=LENGTH, metavar="DURATION", help="How long to wait; exit code 8 after that.")
@zone_option
@output_options
@server_options
def trigger(
    client: "Client",
    selection: Selection,
    payload: str | None,
    key: str | None,
    wait: bool,
    timeout: timedelta | None,
    zone: str,
    output: Output,
) -> None:
    """Run jobs now, also paused ones. Their schedules are not touched."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait.")
    value = None if payload is None else json_value(payload, "--payload")
    jobs = selection.jobs(client, "trigger")
    made, status = act_on_each(client, jobs, lambda job: client.jobs.trigger(job, payload=value, key=key))
    was_one = len(selection.names) == 1
    if wait:
        runs = wait_for(client, [each.run_id for each in made], timeout)
        show_each(runs, output, run_view(zone), lambda run: run_lines(run, zone), was_one=was_one)
        sys.exit(status or exit_code_of(runs))
    view = run_view(zone)
    if output.format in ("json", "ndjson") and not output.is_quiet:
        show_each(made, output, view, lambda _: [], was_one=was_one)
    else:
        output.items([each.run for each in made], view, None)
    sys.exit(status)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job delete nightly-report
    hourbell job delete --tag trial --yes
    """,
)
@selection_options
@click.option("--take-over", is_flag=True, help="Also if a file, a program or plain SQL owns it, and may put it back.")
@server_options
def delete(client: "Client", selection: Selection, take_over: bool) -> None:
    """Remove jobs from use. Their history stays, and what waits is cancelled."""

    def remove(job: str) -> None:
        found = client.jobs.get(job)
        client.jobs.delete(found.id, take_over=take_over)
        click.echo(f"deleted {plain(found.name)}", err=True)

    _, status = act_on_each(client, selection.jobs(client, "delete"), remove)
    sys.exit(status)


COMMANDS = (pause, resume, trigger, delete)


def _show_jobs(done: "list[Job]", selection: Selection, output: Output, zone: str) -> None:
    def lines(job: Any) -> list[str]:
        return job_lines(job, zone)

    show_each(done, output, job_view(zone), lines, was_one=len(selection.names) == 1)
