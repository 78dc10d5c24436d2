"""`hourbell serve`."""

import click

from hourbell.cli.command import ExampleCommand


@click.command(cls=ExampleCommand, examples="hourbell serve")
def command() -> None:
    """Start the server. Not there yet: this release holds the schedule language."""
    raise click.ClickException(
        "there is no server in this release yet, only the schedule language; try: hourbell cron next '0 9 * * 1-5'"
    )
