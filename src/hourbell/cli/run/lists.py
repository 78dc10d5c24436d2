"""Lists of problem runs, normally empty: late, stuck, orphans, and groups of failed ones."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, View, note, output_options, plain_lines
from hourbell.cli.shared.parameters import JOB, instant, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import shown
from hourbell.cli.shared.views import milliseconds, run_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from hourbell.client import Client, Page, Run

_number_option = click.option(
    "-n", "--number", type=click.IntRange(1, 500), default=50, help="The maximum number.  [default: 50]"
)


@click.command(cls=ExampleCommand, examples="hourbell run late\nhourbell run late -n 5 --timezone Europe/Paris")
@_number_option
@zone_option
@output_options
@server_options
def late(client: "Client", number: int, zone: str, output: Output) -> None:
    """List runs that started later than their job's --late-after, worst first."""
    found = _show(client.runs.late, number, zone, output)
    if found and output.is_for_people:
        note(f"the worst began {milliseconds(found[0].lateness_ms)} after its scheduled time")


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
    """List runs without an attempt 15 minutes after they were planned and ready."""
    _show(client.runs.orphans, number, zone, output)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell run groups
    hourbell run groups --since 24h -n 5
    hourbell run replay --fingerprint 0123456789abcdef --per-minute 60
    """,
)
@click.option("--job", type=JOB, metavar="JOB", help="Of this job.")
@click.option("--since", metavar="TIME", help="That ended since: 24h, 2026-11-01, RFC 3339.")
@click.option("--until", metavar="TIME", help="Before: -1h, now, RFC 3339.")
@_number_option
@zone_option
@output_options
@server_options
def groups(
    client: "Client", job: str | None, since: str | None, until: str | None, number: int, zone: str, output: Output
) -> None:
    """Group failed runs that nobody replayed or discarded by their cause, the most common first."""
    found = client.runs.groups(
        job=job,
        since=instant(since, zone, "--since", "ago"),
        until=instant(until, zone, "--until", "ago"),
        limit=number,
    )
    view = View(
        ("FINGERPRINT", "RUNS", f"FIRST ({zone})", f"LAST ({zone})", "JOBS", "LANE", "ERROR"),
        lambda group: (
            group.fingerprint,
            group.count,
            shown(group.first_at, zone),
            shown(group.last_at, zone),
            ",".join(group.jobs),
            group.lane,
            (plain_lines(group.error) or [group.reason])[0],
        ),
        lambda group: group.fingerprint,
        lambda group: group.fingerprint,
    )
    output.items(found.items, view, found.raw)
    if not found.items and output.is_for_people:
        note("no run has failed, or all were replayed or discarded")
    if found.is_sampled and output.is_for_people:
        note("only the newest 5,000 failed runs are counted")


COMMANDS = (late, stuck, orphans, groups)


def _show(fetch: "Callable[..., Page[Run]]", number: int, zone: str, output: Output) -> "list[Run]":
    page = fetch(limit=number)
    runs, body = list(page), page.raw
    while page.next_cursor is not None and len(runs) < number:  # the server shortened the page because of its size
        page = fetch(limit=number - len(runs), cursor=page.next_cursor)
        runs += page
        body = {**body, "items": [*body["items"], *page.raw["items"]], "next_cursor": page.next_cursor}
    output.items(runs, run_view(zone), body)
    if not runs and output.is_for_people:
        note("none (expected)")
    return runs
