"""`hourbell outages`: list the times at which no node ran, or the database was unreachable."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.lists import number_option, show_list
from hourbell.cli.shared.output import Output, View, output_options
from hourbell.cli.shared.parameters import instant, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import shown
from hourbell.core.values.readers import show_duration

if TYPE_CHECKING:
    from hourbell.client import Client, Outage

_SECOND = timedelta(seconds=1)
_REASONS = {"nodes": "no node was running", "database": "the database was unreachable"}


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell outages
    hourbell outages --since 7d --timezone Europe/Paris
    hourbell outages --json | jq '.items[] | [.from, .until]'
    """,
)
@click.option("--since", metavar="TIME", help="That ended since: 24h, 2026-11-01, RFC 3339.")
@click.option("--until", metavar="TIME", help="That began before: -1h, now, RFC 3339.")
@number_option
@zone_option
@output_options
@server_options
def command(client: "Client", since: str | None, until: str | None, number: int, zone: str, output: Output) -> None:
    """List outages, newest first: times at which no node ran, or the database was unreachable.

    The first node that starts again records an outage of all nodes. They are removed with the runs of their time.
    """
    found = client.outages(start=instant(since, zone, "--since", "ago"), until=instant(until, zone, "--until", "ago"))
    view = View(
        (f"FROM ({zone})", f"UNTIL ({zone})", "DURATION", "REASON", "FOUND BY"),
        lambda outage: (
            shown(outage.start, zone),
            shown(outage.until, zone),
            _duration(outage),
            _REASONS.get(outage.of, outage.of),
            outage.found_by,
        ),
        lambda outage: outage.start.isoformat(),
        lambda outage: outage.of,
    )
    show_list(found, number, output, view, "no outage is on record")


def _duration(outage: "Outage") -> str:
    if outage.until is None:
        return ""
    span = outage.until - outage.start
    return str(show_duration(span - span % _SECOND))
