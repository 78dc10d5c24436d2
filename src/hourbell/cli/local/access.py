"""`hourbell access`: open the server to callers without a token. Works on the database directly."""

import click

from hourbell.cli.local.database import ask, database_option, must_exist, settings_for
from hourbell.cli.local.token import BY
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup


@click.group(cls=ExampleGroup, examples="hourbell access open")
def command() -> None:
    """Manage open access. The first token ends it, and it stays ended when the last token expires."""


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
    """Allow calls without a token from the server's machine, until the next token is created.

    Refused while a token is valid: revoke it first. A server that listens beyond loopback still refuses calls without a
    token, and does not start again. The audit records the change.
    """
    from hourbell.wiring import open_access

    settings = settings_for(database_url)
    must_exist(settings)

    async def work() -> None:
        async with open_access(settings) as access:
            await access.open(BY)

    ask(settings, work())
    click.echo("open: everybody on the server's machine may do everything, until a token is made", err=True)
