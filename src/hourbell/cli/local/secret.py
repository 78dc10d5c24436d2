"""`hourbell secret`: manage webhook secrets, stored sealed in the database. A secret is shown once, when it is made."""

import json
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import click

from hourbell.cli.local.database import USAGE, ask, database_option, fail, json_option, must_exist, settings_for
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.core.values.readers import InvalidValue, read_duration
from hourbell.settings import Settings

if TYPE_CHECKING:
    from hourbell.control.secrets import Secrets
    from hourbell.store.control.actor import Actor

T = TypeVar("T")

BY = "cli"


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell secret create daily-report
    hourbell secret rotate daily-report --keep-old 48h
    printf 'Bearer %s' "$TOKEN" | hourbell secret set daily-report header:Authorization
    """,
)
def command() -> None:
    """Manage secrets of webhooks: signing secrets and secret headers. They are sealed in the database."""


@command.command(cls=ExampleCommand, examples="hourbell secret create daily-report")
@click.argument("job")
@database_option
def create(job: str, database_url: str | None) -> None:
    """Create the signing secret of a job, and print it. It is not shown again."""
    made = _do(settings_for(database_url), lambda secrets, actor: secrets.create(job, actor))
    click.echo(made.reveal())


@command.command(cls=ExampleCommand, examples="hourbell secret rotate daily-report --keep-old 48h")
@click.argument("job")
@click.option("--keep-old", metavar="TIME", default="24h", help="How long the old secret also signs.  [default: 24h]")
@database_option
def rotate(job: str, keep_old: str, database_url: str | None) -> None:
    """Replace the signing secret of a job, and print the new one. For a while both sign, so that either verifies."""
    try:
        keep = read_duration(keep_old, maximum=timedelta(days=365))
    except InvalidValue:
        fail(f"--keep-old is {keep_old[:40]!r}; write a duration of up to 365d, as in 24h", exit_code=USAGE)
    made = _do(settings_for(database_url), lambda secrets, actor: secrets.rotate(job, actor, keep_old=keep))
    click.echo(made.reveal())


@command.command(
    name="set",
    cls=ExampleCommand,
    examples="""
    printf 'Bearer %s' "$TOKEN" | hourbell secret set daily-report header:Authorization
    hourbell secret set daily-report signing < whsec.txt
    """,
)
@click.argument("job")
@click.argument("field")
@database_option
def put(job: str, field: str, database_url: str | None) -> None:
    """Set your own secret: `signing`, or `header:NAME` for a header sent with each request. It is read from stdin."""
    from hourbell.sealing import Plain

    text = click.prompt("Secret", hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
    plain = Plain(text.rstrip("\r\n"))
    _do(settings_for(database_url), lambda secrets, actor: secrets.put(job, field, plain, actor))


@command.command(cls=ExampleCommand, examples="hourbell secret remove daily-report header:Authorization")
@click.argument("job")
@click.argument("field")
@database_option
def remove(job: str, field: str, database_url: str | None) -> None:
    """Remove a secret at once."""
    _do(settings_for(database_url), lambda secrets, actor: secrets.remove(job, field, actor))


@command.command(name="list", cls=ExampleCommand, examples="hourbell secret list daily-report")
@click.argument("job")
@database_option
@json_option
def show(job: str, database_url: str | None, as_json: bool) -> None:
    """List the secrets of a job and their age, without their values."""
    rows = _do(settings_for(database_url), lambda secrets, actor: secrets.list(job, actor.at))
    if as_json:
        body = [
            {
                "field": row.field,
                "created_at": row.created_at.isoformat(),
                "valid_until": row.valid_until.isoformat() if row.valid_until else None,
            }
            for row in rows
        ]
        click.echo(json.dumps(body, indent=2))
        return
    for row in rows:
        until = f", valid until {row.valid_until:%Y-%m-%d %H:%M:%SZ}" if row.valid_until else ""
        click.echo(f"{row.field}  since {row.created_at:%Y-%m-%d %H:%M:%SZ}{until}")
    if not rows:
        click.echo(f"{job} has no secrets; make one: hourbell secret create {job}", err=True)


def _do(settings: Settings, act: "Callable[[Secrets, Actor], Awaitable[T]]") -> T:
    from hourbell.store.control.actor import Actor
    from hourbell.wiring import open_secrets

    must_exist(settings)

    async def work() -> T:
        async with open_secrets(settings) as (secrets, now):
            return await act(secrets, Actor(BY, now))

    try:
        return ask(settings, work())
    except ValueError as error:
        fail(str(error), exit_code=USAGE)
