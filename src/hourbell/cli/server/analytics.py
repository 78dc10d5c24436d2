"""`hourbell analytics`: how many runs ended on each of the last days, as counted in Redis."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, View, note, output_options
from hourbell.cli.shared.remote import server_options

if TYPE_CHECKING:
    from hourbell.client import Client

MAX_DAYS = 366


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell analytics
    hourbell analytics nightly-report --days 30
    hourbell analytics --json | jq '.days[].failed'
    """,
)
@click.argument("job", required=False)
@click.option("--days", type=click.IntRange(1, MAX_DAYS), default=7, help="How many, up to today.  [default: 7]")
@output_options
@server_options
def command(client: "Client", job: str | None, days: int, output: Output) -> None:
    """Show how many runs ended on each of the last days (UTC), of one job or of all.

    The counts are in Redis, for servers with REDIS_URL. They can be too low: runs that ended while Redis could not be
    reached are missing. `hourbell job stats` has exact figures.
    """
    found = client.analytics(job, days=days)
    view = View(
        ("DAY (UTC)", "SUCCEEDED", "FAILED", "CANCELLED"),
        lambda each: (each.day, each.succeeded, each.failed, each.cancelled),
        lambda each: each.day,
        lambda each: each.day,
    )
    output.items(found.days, view, found.raw)
    if output.is_for_people and found.note:
        note(found.note)
