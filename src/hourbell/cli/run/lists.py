"""Lists of problem runs, normally empty: late, stuck, orphans."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, note, output_options
from hourbell.cli.shared.parameters import zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.views import milliseconds, run_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from hourbell.client import Client, Page, Run

_number_option = click.option(
    "-n", "--number", type=click.IntRange(1, 500), default=50, help="How many at most.  [default: 50]"
)


@click.command(cls=ExampleCommand, examples="hourbell run late\nhourbell run late -n 5 --timezone Europe/Paris")
@_number_option
@zone_option
@output_options
@server_options
def late(client: "Client", number: int, zone: str, output: Output) -> None:
    """List runs that began later than their job's --late-after, worst first."""
    found = _show(client.runs.late, number, zone, output)
    if found and output.is_for_people:
        note(f"the worst began {milliseconds(found[0].lateness_ms)} after its instant")


@click.command(cls=ExampleCommand, examples="hourbell run stuck\nhourbell run stuck -q")
@_number_option
@zone_option
@output_options
@server_options
def stuck(client: "Client", number: int, zone: str, output: Output) -> None:
    """List runs that still wait an hour after they were planned and ready."""
    _show(client.runs.stuck, number, zone, output)


@click.command(cls=ExampleCommand, examples="hourbell run orphans\nhourbell run orphans --json | jq '.items[].lane'")
@_number_option
@zone_option
@output_options
@server_options
def orphans(client: "Client", number: int, zone: str, output: Output) -> None:
    """List runs without a single attempt a quarter of an hour after they were planned and ready."""
    _show(client.runs.orphans, number, zone, output)


COMMANDS = (late, stuck, orphans)


def _show(fetch: "Callable[..., Page[Run]]", number: int, zone: str, output: Output) -> "list[Run]":
    page = fetch(limit=number)
    runs, body = list(page), page.raw
    while page.next_cursor is not None and len(runs) < number:  # the server shortened the page because of its size
        page = fetch(limit=number - len(runs), cursor=page.next_cursor)
        runs += page
        body = {**body, "items": [*body["items"], *page.raw["items"]], "next_cursor": page.next_cursor}
    output.items(runs, run_view(zone), body)
    if not runs and output.is_for_people:
        note("there is none; that is as it should be")
    return runs
