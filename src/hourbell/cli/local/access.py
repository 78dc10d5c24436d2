"""`hourbell access`: open the server to callers without a token. Works on the database directly."""

import click

from hourbell.cli.local.database import ask, database_option, must_exist, settings_for
from hourbell.cli.local.token import BY
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup


@click.group(cls=ExampleGroup, examples="hourbell access open")
def command() -> None:
    """Whether the server asks for tokens. The first token closes it, and it stays closed when the last one ends."""


@command.command(
    name="open",
    cls=ExampleCommand,
    examples="""
    hourbell access open
    hourbell access open --database-url sqlite:////var/lib/hourbell/hourbell.db
    """,
)
@database_option
def open_(database_url: str | None) -> None:
    """Let everybody on the server's machine in without a token, until the next one is made.

    Refused while a token is valid: revoke it first. A server that listens beyond loopback still lets nobody in, and
    does not start again. The audit records it.
    """
    from hourbell.wiring import open_access

    settings = settings_for(database_url)
    must_exist(settings)

    async def work() -> None:
        async with open_access(settings) as access:
            await access.open(BY)

    ask(settings, work())
    click.echo("open: everybody on the server's machine may do everything, until a token is made", err=True)
