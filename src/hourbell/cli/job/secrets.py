"""Signing secrets of jobs through the API: read from a file or a pipe, never from an argument, and shown once."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import json_text, note, plain
from hourbell.cli.shared.parameters import JOB, source_text, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import Client

GENERATE = "generate"


def given_secret(text: str) -> str:
    """Read the secret that `--secret` refers to."""
    if text == GENERATE:
        return text
    if text != "-" and not text.startswith("@"):
        raise click.BadParameter(
            "write generate, @FILE or -; other users can read the command line.", param_hint="--secret"
        )
    secret = source_text(text, "--secret").strip()
    if not secret or secret == GENERATE:
        raise click.BadParameter("it contains no secret.", param_hint="--secret")
    return secret


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell job rotate-secret nightly-report
    hourbell job rotate-secret nightly-report --keep-old 7d > new-secret
    """,
)
@click.argument("job", type=JOB)
@click.option("--keep-old", metavar="DURATION", help="How long the old secret stays valid.  [default: 24h]")
@click.option("--json", "as_json", is_flag=True, help="Print the API's response.")
@zone_option
@server_options
def rotate_secret(client: "Client", job: str, keep_old: str | None, as_json: bool, zone: str) -> None:
    """Create or rotate the signing secret of a job. The new secret is printed only once."""
    made = client.jobs.rotate_secret(job, keep_old=keep_old)
    click.echo(json_text(made.raw) if as_json else plain(made.secret))
    if made.old_valid_until is not None:
        note(f"the old one is valid until {shown(made.old_valid_until, zone)} ({zone})")
    else:
        note("it is the first one of this job, whose webhooks were not signed so far")


COMMANDS = (rotate_secret,)
