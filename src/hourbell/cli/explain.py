"""`hourbell explain`: what became of an instant of a job."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.command import ExampleCommand
from hourbell.cli.output import Output, View, output_options, plain
from hourbell.cli.parameters import JOB, instant, zone_option
from hourbell.cli.remote import server_options

if TYPE_CHECKING:
    from hourbell.client import Client


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell explain nightly-report 2026-11-01T08:00:00Z
    hourbell explain nightly-report 'yesterday 03:00' --timezone America/New_York
    """,
)
@click.argument("job", type=JOB)
@click.argument("time")
@zone_option
@output_options
@server_options
def command(client: "Client", job: str, time: str, zone: str, output: Output) -> None:
    """Say what became of an instant: it ran and how that ended, it waits, it was skipped and why, or it is none."""
    at = instant(time, zone, "TIME")
    assert at is not None
    found = client.explain(job, at.replace(microsecond=0))
    view = View((), tuple, lambda each: each.data.get("run_id") or each.verdict, lambda each: each.verdict)
    output.one(found, view, [plain(found.sentence)])
