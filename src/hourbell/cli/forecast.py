"""`hourbell forecast`: how many runs will be planned, by spans of time."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from hourbell.cli.command import ExampleCommand
from hourbell.cli.output import Output, View, is_terminal, note, output_options
from hourbell.cli.parameters import LENGTH, instant, zone_option
from hourbell.cli.remote import server_options
from hourbell.cli.times import shown

if TYPE_CHECKING:
    from hourbell.client import Client

_BAR = 40


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell forecast
    hourbell forecast --bucket 1d -n 7 --timezone Europe/Paris
    hourbell forecast --from 'tomorrow 00:00' --bucket 15m -n 96 --json | jq '.buckets[].count'
    """,
)
@click.option("--from", "start", metavar="TIME", help="From when on: +1d, 'tomorrow 09:00', RFC 3339.  [default: now]")
@click.option("--bucket", type=LENGTH, default="1h", metavar="DURATION", help="How long a span is.  [default: 1h]")
@click.option("-n", "--number", type=click.IntRange(1), default=24, help="How many spans.  [default: 24]")
@zone_option
@output_options
@server_options
def command(client: "Client", start: str | None, bucket: timedelta, number: int, zone: str, output: Output) -> None:
    """Count the runs that will be planned in each span of time, if no job is changed."""
    found = client.forecast(start=instant(start, zone, "--from", "ahead"), bucket=bucket, buckets=number)
    most = max((each.count for each in found.buckets), default=0)
    heads = (f"FROM ({zone})", "RUNS", "") if is_terminal() else (f"FROM ({zone})", "RUNS")
    view = View(
        heads,
        lambda each: (shown(each.at, zone), each.count, _bar(each.count, most))[: len(heads)],
        lambda each: each.raw["at"],
        lambda each: each.raw["at"],
    )
    output.items(found.buckets, view, found.raw)
    if found.jobs_left_out:
        note(f"{found.jobs_left_out} jobs are left out, because their schedules cannot be read")


def _bar(count: int, most: int) -> str:
    return "#" * max(1, count * _BAR // most) if count else " "
