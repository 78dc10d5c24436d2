"""`hourbell token`: manage API tokens. A token is shown once, when it is made; the database stores its digest."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hourbell.cli.local.database import USAGE, ask, database_option, fail, json_option, must_exist, settings_for
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.core.access.roles import Role
from hourbell.core.values.readers import SECOND, InvalidValue, read_duration
from hourbell.settings import Settings

if TYPE_CHECKING:
    from hourbell.control.access import Access
    from hourbell.store.control.access import Token

T = TypeVar("T")

BY = "cli"
_NEVER = "never"
_TIME = "%Y-%m-%d %H:%M:%SZ"


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell token create admin --role admin
    hourbell token create dashboard --role viewer --expires never
    hourbell token list
    hourbell token revoke dashboard
    """,
)
def command() -> None:
    """Manage API tokens. With the first one, every call needs a token, and the server may listen beyond loopback.

    Roles: viewer reads; operator also triggers, pauses and replays; editor also defines http jobs; admin may do
    everything.
    """


@command.command(cls=ExampleCommand, examples="hourbell token create deploy --role editor --expires 30d")
@click.argument("name")
@click.option("--role", required=True, type=click.Choice([role.value for role in Role]), help="The role of the token.")
@click.option(
    "--expires",
    metavar="TIME",
    default="90d",
    help="Expire after this time, such as 90d or 12h, or never.  [default: 90d]",
)
@database_option
@json_option
def create(name: str, role: str, expires: str, database_url: str | None, as_json: bool) -> None:
    """Create a token and print it. It is not shown again."""
    from hourbell.control.access import check_token

    settings, expires_in = settings_for(database_url), _read_expiry(expires)
    try:
        check_token(name, expires_in)  # validated before a new database might be created
    except ValueError as error:
        fail(str(error), exit_code=USAGE)
    is_new = settings.database.kind == "sqlite" and not Path(settings.database.location).exists()
    token, text = _do(settings, lambda access: access.create(name, Role(role), BY, expires_in=expires_in))
    if is_new:
        click.echo(f"made the database {settings.database}", err=True)
    if as_json:
        click.echo(json.dumps({**_body(token), "token": text.reveal()}, indent=2))
        return
    click.echo(text.reveal())
    click.echo(f"{token.name} is {token.role}, {_until(token)}; keep the token now, it is not shown again", err=True)


@command.command(name="list", cls=ExampleCommand, examples="hourbell token list --json")
@database_option
@json_option
def show(database_url: str | None, as_json: bool) -> None:
    """List the tokens, without their values, newest first."""
    settings = settings_for(database_url)
    must_exist(settings)
    tokens = _do(settings, lambda access: access.list())
    if as_json:
        click.echo(json.dumps([_body(token) for token in tokens], indent=2))
        return
    for token in tokens:
        used = f"last used {token.last_used_at:{_TIME}}" if token.last_used_at else "not used yet"
        click.echo(f"{token.id}  {token.name}  {token.role}  {_until(token)}, {used}")
    if not tokens:
        click.echo("there are no tokens; make one: hourbell token create admin --role admin", err=True)


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell token revoke dashboard
    hourbell token revoke 018f3c1e-7a52-7cc1-8d5b-0c6b1d2f9a10
    """,
)
@click.argument("token", metavar="ID-or-NAME")
@database_option
def revoke(token: str, database_url: str | None) -> None:
    """Revoke a token. Servers refuse it within five seconds."""
    settings = settings_for(database_url)
    must_exist(settings)

    async def work(access: "Access") -> "tuple[Token, bool]":
        found = _choose(token, [each for each in await access.list() if each.revoked_at is None])
        await access.revoke(found.id, BY)
        return found, any(each.revoked_at is None for each in await access.list())

    done, has_others = _do(settings, work)
    click.echo(f"revoked {done.name} ({done.id}); servers refuse it within five seconds", err=True)
    if not has_others:
        click.echo(
            "no token is left, and servers stay closed; `hourbell token create` makes one, and `hourbell access open` "
            "lets everybody on the server's machine in",
            err=True,
        )


def _read_expiry(text: str) -> timedelta | None:
    try:
        return None if text == _NEVER else read_duration(text, SECOND, timedelta(days=3_650))
    except InvalidValue:
        fail(f"--expires is {text[:40]!r}; write a duration of up to 3650d, as in 90d, or never", exit_code=USAGE)


def _choose(ref: str, tokens: "list[Token]") -> "Token":
    from hourbell.store.errors import Conflict

    found = [token for token in tokens if ref in (str(token.id), token.id.hex)]
    found = found or [token for token in tokens if token.name == ref]
    if not found:
        raise Conflict("no_such_token", f"there is no token {ref[:100]!r} that is not revoked; see hourbell token list")
    if len(found) > 1:
        ids = ", ".join(str(token.id) for token in found)
        raise Conflict("ambiguous_name", f"there are {len(found)} tokens named {ref!r}; write which: {ids}")
    return found[0]


def _until(token: "Token") -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:{_TIME}}"
    return f"valid until {token.expires_at:{_TIME}}" if token.expires_at else "valid until it is revoked"


def _body(token: "Token") -> dict[str, Any]:
    times = ("created_at", "expires_at", "last_used_at", "revoked_at")
    body: dict[str, Any] = {"id": str(token.id), "name": token.name, "role": token.role.value}
    for name in times:
        at = getattr(token, name)
        body[name] = at.isoformat() if at else None
    return body


def _do(settings: Settings, act: "Callable[[Access], Awaitable[T]]") -> T:
    from hourbell.wiring import open_access

    async def work() -> T:
        async with open_access(settings) as access:
            return await act(access)

    return ask(settings, work())
