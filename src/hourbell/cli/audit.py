"""`hourbell audit`: who changed what, and from where."""

from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.command import ExampleCommand
from hourbell.cli.lists import number_option, show_list
from hourbell.cli.output import Output, View, json_line, output_options
from hourbell.cli.parameters import JOB, zone_option
from hourbell.cli.remote import server_options
from hourbell.cli.times import shown

if TYPE_CHECKING:
    from hourbell.client import AuditEntry, Client


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell audit -n 20
    hourbell audit --job nightly-report --timezone Europe/Paris
    hourbell audit --subject 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e --json | jq '.items[0].after'
    """,
)
@click.option("--job", type=JOB, metavar="JOB", help="Of this job.")
@click.option("--subject", metavar="ID", help="Of the job, run or token with this id; also if it is gone.")
@number_option
@zone_option
@output_options
@server_options
def command(client: "Client", job: str | None, subject: str | None, number: int, zone: str, output: Output) -> None:
    """List every change with who made it, newest first. It needs the role admin."""
    if job is not None and subject is not None:
        raise click.UsageError("--job and --subject say two things; leave one out.")
    if job is not None:
        subject = str(client.jobs.get(job).id)
    view = View(
        (f"WHEN ({zone})", "WHO", "WHAT", "SUBJECT", "CHANGES"),
        lambda entry: (shown(entry.at, zone), _who(entry), entry.action, entry.subject, _changes(entry)),
        lambda entry: entry.id,
        lambda entry: entry.action,
    )
    show_list(client.audit(subject=subject), number, output, view, "nothing was changed")


def _who(entry: "AuditEntry") -> str:
    return f"{entry.actor} from {entry.ip}" if entry.ip else entry.actor


def _changes(entry: "AuditEntry") -> str:
    """What differs afterwards; the whole, if there was nothing before or after."""
    before: Any = entry.before
    after: Any = entry.after
    if isinstance(before, dict) and isinstance(after, dict):
        return json_line({name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)})
    return "" if after is None else json_line(after)
