"""`hourbell nodes`: list the engine processes, live and stale."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, View, note, output_options
from hourbell.cli.shared.parameters import zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import Client


@click.command(cls=ExampleCommand, examples="hourbell nodes\nhourbell nodes --json | jq '.items[].lanes'")
@zone_option
@output_options
@server_options
def command(client: "Client", zone: str, output: Output) -> None:
    """List nodes: their state, the number of their running runs, and their last heartbeat.

    A node that shuts down cleanly leaves the list. One that died stays for a day and is stale.
    """
    found = client.nodes()
    view = View(
        ("NODE", "HOST", "STATE", "RUNNING", f"STARTED ({zone})", f"LAST HEARTBEAT ({zone})", "TZDATA", "LANES"),
        lambda node: (
            node.id,
            node.host,
            "stale" if node.stale else "live",
            node.running,
            shown(node.started_at, zone),
            shown(node.beat_at, zone),
            node.tzdata,
            ", ".join(node.lanes),
        ),
        lambda node: node.id,
        lambda node: node.host,
    )
    output.items(found, view, found.raw)
    if all(node.stale for node in found) and output.is_for_people:
        note("no node runs; `hourbell serve` starts one")
