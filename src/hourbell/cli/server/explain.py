"""`hourbell explain`: say what happened at a scheduled time of a job."""

from typing import TYPE_CHECKING

import click

from hourbell import clock
from hourbell.cli.shared.command import TimeCommand
from hourbell.cli.shared.output import Output, View, note, output_options, plain
from hourbell.cli.shared.parameters import JOB, ZONE, instant
from hourbell.cli.shared.remote import as_flags, server_options
from hourbell.cli.shared.times import is_local

if TYPE_CHECKING:
    from hourbell.client import Client


@click.command(
    cls=TimeCommand,
    examples="""
    hourbell explain nightly-report 2026-11-01T08:00:00Z
    hourbell explain nightly-report -2h
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
    help="The time zone of TIME.  [default: the job's]",
)
@output_options
@server_options
def command(client: "Client", job: str, time: str, zone: str | None, output: Output) -> None:
    """Explain a scheduled time: it ran and how it ended, it waits, it was skipped and why, or it is not in the
    schedule.
    """
    time = time.strip()
    own = client.jobs.get(job).timezone if zone is None else zone
    at = instant(time, own, "TIME")
    assert at is not None
    if zone is None and output.is_for_people and is_local(time, clock.now()):
        note(f"TIME is read in {own}, the job's own zone; use --timezone for another")
    found = client.explain(job, at.replace(microsecond=0))
    view = View((), tuple, lambda each: each.data.get("run_id") or each.verdict, lambda each: each.verdict)
    output.one(found, view, [plain(as_flags(found.sentence))])
