"""`hourbell diff`: show what applying a jobs file would change, and change nothing."""

import sys
from typing import TYPE_CHECKING

import click

from hourbell.cli.files.file_plan import FilePlan, file_options
from hourbell.cli.files.plan_view import plan_lines
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import json_text
from hourbell.cli.shared.remote import USAGE, report_error, server_options

if TYPE_CHECKING:
    from hourbell.client import Client

DIFFERS, TROUBLE = 1, USAGE


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell diff -f jobs.toml
    hourbell diff -f jobs.toml --prune --json
    crontab -l | hourbell import crontab - | hourbell diff -f - --source crontab
    """,
)
@file_options(needs_secrets=False)
@click.option("--json", "as_json", is_flag=True, help="Print the API's response.")
@server_options
def command(client: "Client", wanted: FilePlan, as_json: bool) -> None:
    """Show what `hourbell apply` would change.

    The exit code is 0 if nothing would change, 1 if something would, and 2 or more if that is unknown, such as 2 if the
    server is unreachable. Secrets that cannot be looked up here are left out of the comparison, each with a note.
    """
    from hourbell.client import ClientError

    try:
        plan = wanted.ask(client)
    except ClientError as error:
        sys.exit(
            max(TROUBLE, report_error(error, client))
        )  # an unreachable server must not exit with 1: that is a difference
    if as_json:
        click.echo(json_text(plan.raw))
    else:
        for line in plan_lines(plan, wanted.definitions):
            click.echo(line)
    sys.exit(0 if plan.is_empty else DIFFERS)
