"""`hourbell explain`: what became of an instant of a job."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.command import ExampleCommand
from hourbell.cli.output import Output, View, note, output_options, plain
from hourbell.cli.parameters import JOB, ZONE, instant
from hourbell.cli.remote import as_flags, server_options

if TYPE_CHECKING:
    from hourbell.client import Client


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell explain nightly-report 2026-11-01T08:00:00Z
    hourbell explain nightly-report 'yesterday 03:00'
    hourbell explain nightly-report 'yesterday 03:00' --timezone America/New_York
    """,
)
@click.argument("job", type=JOB)
@click.argument("time")
@click.option(
    "--timezone",
    "-z",
    "zone",
    type=ZONE,
    metavar="ZONE",
    help="The zone in which TIME is read.  [default: the job's own]",
)
@output_options
@server_options
def command(client: "Client", job: str, time: str, zone: str | None, output: Output) -> None:
    """Say what became of an instant: it ran and how that ended, it waits, it was skipped and why, or it is none."""
    if zone is None:
        zone = client.jobs.get(job).timezone
        if output.is_for_people:
            note(f"TIME is read in {zone}, the job's own zone; --timezone says another")
    at = instant(time, zone, "TIME")
    assert at is not None
    found = client.explain(job, at.replace(microsecond=0))
    view = View((), tuple, lambda each: each.data.get("run_id") or each.verdict, lambda each: each.verdict)
    output.one(found, view, [plain(as_flags(found.sentence))])
