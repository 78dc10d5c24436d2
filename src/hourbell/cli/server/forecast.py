"""`hourbell forecast`: count the runs that will be planned in each time bucket."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from hourbell import clock
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, View, is_terminal, note, output_options
from hourbell.cli.shared.parameters import LENGTH, instant, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import parse_time, shown
from hourbell.core.schedule.zones import local_time_at

if TYPE_CHECKING:
    from hourbell.client import Client

_BAR = 40
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell forecast
    hourbell forecast --bucket 1d -n 7 --timezone Europe/Paris
    hourbell forecast --from 'tomorrow 00:00' --bucket 15m -n 96 --json | jq '.buckets[].count'
    """,
)
@click.option("--from", "start", metavar="TIME", help="The start: +1d, 'tomorrow 09:00', RFC 3339.")
@click.option("--bucket", type=LENGTH, default="1h", metavar="DURATION", help="The length of a bucket.  [default: 1h]")
@click.option("-n", "--number", type=click.IntRange(1), default=24, help="The number of buckets.  [default: 24]")
@zone_option
@output_options
@server_options
def command(client: "Client", start: str | None, bucket: timedelta, number: int, zone: str, output: Output) -> None:
    """Count the runs that will be planned in each time bucket, if no job changes.

    Without --from, the first bucket contains the current time, such as 09:00 to 10:00, with the rest of its runs; past
    times are never counted.
    """
    first = instant(start, zone, "--from", "ahead") or whole(clock.now(), bucket, zone)
    found = client.forecast(start=first, bucket=bucket, buckets=number)
    limit = max((each.count for each in found.buckets), default=0)
    heads = (f"FROM ({zone})", "RUNS", "") if is_terminal() else (f"FROM ({zone})", "RUNS")
    view = View(
        heads,
        lambda each: (shown(each.at, zone), each.count, _bar(each.count, limit))[: len(heads)],
        lambda each: each.raw["at"],
        lambda each: each.raw["at"],
    )
    output.items(found.buckets, view, found.raw)
    if found.jobs_left_out:
        note(f"{found.jobs_left_out} jobs are left out, because their schedules cannot be read")


def whole(now: datetime, span: timedelta, zone: str) -> datetime:
    """Round down to the start of the current bucket: midnight for buckets of days, else multiples counted from
    midnight.
    """
    if span >= _DAY:
        return parse_time("today", now, zone)
    reading, _, _ = local_time_at(zone, now)
    since_midnight = timedelta(hours=reading.hour, minutes=reading.minute, seconds=reading.second)
    return now.replace(microsecond=0) - since_midnight % (_MINUTE if _DAY % span else span)


def _bar(count: int, limit: int) -> str:
    return "#" * max(1, count * _BAR // limit) if count else " "
