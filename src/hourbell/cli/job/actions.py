"""Actions on one or many existing jobs: pause, resume, trigger, delete."""

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.job.bulk import MAX_LISTED_ITEMS, Chosen, act_on_each, show_each
from hourbell.cli.job.pauses import is_by_definition, owner_of
from hourbell.cli.job.selection import Selection, selection_options
from hourbell.cli.run.waiting import exit_code_of, follow, is_unserved
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, note, output_options, plain
from hourbell.cli.shared.parameters import LENGTH, instant, json_value, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.views import job_lines, job_view, run_lines, run_view

if TYPE_CHECKING:
    from uuid import UUID

    from hourbell.client import Client, Job

_FEW = 5


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job pause nightly-report
    hourbell job pause --tag billing --until 2h --note 'database maintenance'
    hourbell job pause --all --until 'tomorrow 09:00' --timezone Europe/Paris --yes
    """,
)
@selection_options
@click.option("--until", metavar="TIME", help="Resume automatically at this time: 2h, 'tomorrow 09:00', RFC 3339.")
@click.option("--note", "why", default="", metavar="TEXT", help="The reason for the pause.")
@click.option("--cancel-waiting", is_flag=True, help="Also cancel waiting runs.")
@zone_option
@output_options
@server_options
def pause(
    client: "Client",
    selection: Selection,
    until: str | None,
    why: str,
    cancel_waiting: bool,
    zone: str,
    output: Output,
) -> None:
    """Stop planning jobs. Runs that are already planned continue, unless you cancel them too."""
    end = instant(until, zone, "--until", "ahead")
    jobs = selection.jobs(client, "pause", lambda job: job.state != "paused")
    done, status = act_on_each(
        client,
        jobs,
        lambda job: client.jobs.pause(job, note=why, until=end, cancel_waiting=cancel_waiting),
        "paused",
    )
    _show_jobs(done, selection, output, zone, "paused")
    sys.exit(status)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job resume nightly-report
    hourbell job resume --tag billing --catch-up --yes
    """,
)
@selection_options
@click.option("--catch-up", is_flag=True, help="Plan the times of the pause by the catch-up policy.")
@zone_option
@output_options
@server_options
def resume(client: "Client", selection: Selection, catch_up: bool, zone: str, output: Output) -> None:
    """Plan jobs again from now on.

    --tag and --all resume jobs that a user paused. A job that is disabled by its file, program or definition must be
    resumed by name.
    """
    again: list[Job] = []

    def resumed(job: str) -> "Job":
        before = client.jobs.get(job) if selection.names else None
        after = client.jobs.resume(job, catch_up=catch_up)
        if before is not None and before.managed_by not in ("api", "app") and is_by_definition(before):
            again.append(before)
        return after

    jobs = selection.jobs(client, "resume") if selection.names else _paused_by_people(client, selection)
    done, status = act_on_each(client, jobs, resumed, "resumed")
    _show_jobs(done, selection, output, zone, "resumed")
    for job in again:
        off = "if that says enabled = false, the next apply switches it off again"
        note(f"{job.name} belongs to {owner_of(job)}; {off}")
    sys.exit(status)


def _paused_by_people(client: "Client", selection: Selection) -> tuple[Chosen, ...]:
    """Return the jobs that people paused, once confirmed. Jobs that their definition disables are named and skipped."""
    paused = [job for job in selection.listed(client) if job.state == "paused"]
    own = [job.name for job in paused if is_by_definition(job)]
    if own:
        few = ", ".join(own[:3]) + (", …" if len(own) > 3 else "")
        many = "1 job is" if len(own) == 1 else f"{len(own):,} jobs are"
        how = f"`hourbell job resume {own[0]}`, or the file that defines it, switches it on"
        note(f"{many} off by definition and left so ({few}); {how}")
    return selection.confirmed([job for job in paused if not is_by_definition(job)], "resume")


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job trigger nightly-report
    hourbell job trigger nightly-report --wait --timeout 5m
    hourbell job trigger nightly-report --payload '{"days": 7}' -q
    """,
)
@selection_options
@click.option("--payload", metavar="JSON|@FILE|-", help="A payload instead of the job's own.")
@click.option("--key", metavar="TEXT", help="Idempotency key: the same key runs a job once, while that run is stored.")
@click.option("--wait", is_flag=True, help="Wait until the run ends; exit code 7 if it does not succeed.")
@click.option("--timeout", type=LENGTH, metavar="DURATION", help="Stop waiting after this time, with exit code 8.")
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
    """Run jobs now, even paused ones. Their schedules do not change."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait.")
    value = None if payload is None else json_value(payload, "--payload")
    jobs = selection.jobs(client, "trigger")
    made, status = act_on_each(client, jobs, lambda job: client.jobs.trigger(job, payload=value, key=key), "triggered")
    was_one = len(selection.names) == 1
    if wait:
        runs = follow(client, [each.run_id for each in made], timeout, zone)
        shown_runs = runs
        if len(runs) > MAX_LISTED_ITEMS and output.is_for_people:
            shown_runs = [run for run in runs if run.state != "succeeded"]
            click.echo(f"{len(runs) - len(shown_runs):,} of {len(runs):,} runs succeeded", err=True)
        if was_one and shown_runs:
            output.one(shown_runs[0], run_view(zone), run_lines(shown_runs[0], zone))
        else:
            output.items(shown_runs, run_view(zone), {"items": [run.raw for run in shown_runs]})
        sys.exit(status or exit_code_of(runs))
    view = run_view(zone)
    if output.format in ("json", "ndjson") and not output.is_quiet:
        show_each(made, output, view, lambda _: [], was_one=was_one, done="triggered")
    else:
        show_each([each.run for each in made], output, view, lambda _: [], was_one=False, done="triggered")
    unserved = [each.run for each in made if is_unserved(each.run)]
    for run in unserved[:_FEW]:
        note(f"{run.job_name}: {run.waits_for}")
    if len(unserved) > _FEW:
        note(f"and {len(unserved) - _FEW:,} more wait for a node; `hourbell run orphans` lists them after a while")
    sys.exit(status)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job delete nightly-report
    hourbell job delete --tag trial --yes
    hourbell job delete nightly-report --purge
    """,
)
@selection_options
@click.option(
    "--take-over",
    is_flag=True,
    help="Delete the job even if a file, a program or plain SQL owns it and may create it again.",
)
@click.option(
    "--purge", is_flag=True, help="Also remove the history; by id, also for deleted jobs. Requires the role admin."
)
@server_options
def delete(client: "Client", selection: Selection, take_over: bool, purge: bool) -> None:
    """Delete jobs and cancel their waiting runs. Their history stays readable by the job's id, unless you purge it."""

    jobs = selection.jobs(client, "delete")
    deleted = 0

    def remove(job: str) -> None:
        nonlocal deleted
        ref, name = _deletable(client, job, purge=purge)
        client.jobs.delete(ref, take_over=take_over, purge=purge)
        deleted += 1
        if len(jobs) <= MAX_LISTED_ITEMS:
            click.echo(f"{'purged' if purge else 'deleted'} {plain(name)}", err=True)

    try:
        _, status = act_on_each(client, jobs, remove, "deleted")
    finally:
        if len(jobs) > MAX_LISTED_ITEMS:
            click.echo(f"deleted {deleted:,} jobs", err=True)
    sys.exit(status)


COMMANDS = (pause, resume, trigger, delete)


def _deletable(client: "Client", job: str, *, purge: bool) -> "tuple[UUID | str, str]":
    """Return the id and the name of a job. A job that was deleted before can be purged by its id alone."""
    from hourbell.client import NotFound

    try:
        found = client.jobs.get(job)
    except NotFound:
        if not purge:
            raise
        return job, job
    return found.id, found.name


def _show_jobs(made: "list[Job]", selection: Selection, output: Output, zone: str, done: str) -> None:
    def lines(job: Any) -> list[str]:
        return job_lines(job, zone)

    show_each(made, output, job_view(zone), lines, was_one=len(selection.names) == 1, done=done)
