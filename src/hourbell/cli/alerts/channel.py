"""`hourbell channel`: create, test, list and delete the channels that alerts go to."""

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hourbell import clock
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.output import Output, View, json_line, note, output_options, pairs
from hourbell.cli.shared.parameters import LENGTH, json_or_text, take_over_option, zone_option
from hourbell.cli.shared.references import resolver
from hourbell.cli.shared.remote import FAILED, confirm, fail, server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from datetime import timedelta

    from hourbell.answers.alerts import Channel
    from hourbell.client import Client

_ENDED = ("succeeded", "failed", "cancelled")
_POLL_SECONDS = 0.5
_REFERENCES = ("env:", "file:")


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell channel create ops --type webhook --url https://example.com/alerts
    hourbell channel test ops
    hourbell channel list
    """,
)
def command() -> None:
    """Channels: where alert messages go. Needs a server (HOURBELL_URL)."""


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell channel create ops --type webhook --url https://example.com/alerts
    hourbell channel create mail --type email --set to=ops@example.com
    hourbell channel create chat --type slack --url https://hooks.slack.com/services/T0/B0/x
    """,
)
@click.argument("name")
@click.option(
    "--type",
    "kind",
    required=True,
    help="webhook, email, slack, mattermost, rocketchat, discord, ntfy, telegram, pagerduty or alertmanager.",
)
@click.option("--url", metavar="URL", help="The same as --set url=URL.")
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="A field of the type: text, JSON, or env:NAME or file:PATH for what is secret. Repeat it.",
)
@take_over_option
@zone_option
@output_options
@server_options
def create(
    client: "Client",
    name: str,
    kind: str,
    url: str | None,
    fields: tuple[str, ...],
    zone: str,
    output: Output,
    *,
    take_over: bool,
) -> None:
    """Create a channel, or replace all of it: give its secrets again.

    A webhook without a secret gets a generated one, which is shown only once.
    """
    config: dict[str, Any] = {"type": kind} | ({} if url is None else {"url": url}) | _fields(fields)
    channel = client.channels.put(name, config, take_over=take_over)
    output.one(channel, _view(zone), _lines(channel, zone))
    if channel.generated_secret is not None and output.is_for_people:
        note("the secret is shown only once; check signatures with it (docs/receiving.md)")


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell channel edit mail --set to=ops@example.com,night@example.com
    hourbell channel edit phone --set priority=5 --unset token
    hourbell channel edit am --url https://alertmanager.example.com --set token=env:AM_TOKEN
    """,
)
@click.argument("name")
@click.option("--url", metavar="URL", help="The same as --set url=URL.")
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="A field to change: text, JSON, or env:NAME or file:PATH for what is secret. Repeat it.",
)
@click.option("--unset", "unset", multiple=True, metavar="FIELD", help="A field to set to its default. Repeat it.")
@take_over_option
@zone_option
@output_options
@server_options
def edit(
    client: "Client",
    name: str,
    url: str | None,
    fields: tuple[str, ...],
    unset: tuple[str, ...],
    zone: str,
    output: Output,
    *,
    take_over: bool,
) -> None:
    """Change fields of a channel. Secrets stay, unless another origin needs them again."""
    changes = ({} if url is None else {"url": url}) | _fields(fields) | dict.fromkeys(unset)
    if not changes:
        raise click.UsageError("nothing to change; give --set FIELD=VALUE, --url or --unset")
    channel = client.channels.patch(name, changes, take_over=take_over)
    output.one(channel, _view(zone), _lines(channel, zone))
    if channel.generated_secret is not None and output.is_for_people:
        note("the secret is shown only once; check signatures with it (docs/receiving.md)")


@command.command("list", cls=ExampleCommand, examples="hourbell channel list\nhourbell channel list -q")
@zone_option
@output_options
@server_options
def list_(client: "Client", zone: str, output: Output) -> None:
    """List the channels, without their secrets."""
    found = client.channels.list()
    output.items(found, _view(zone), found.raw)
    if not found and output.is_for_people:
        note("there is no channel; `hourbell channel create` makes one")


@command.command(cls=ExampleCommand, examples="hourbell channel get ops")
@click.argument("name")
@zone_option
@output_options
@server_options
def get(client: "Client", name: str, zone: str, output: Output) -> None:
    """Show a channel, without its secrets."""
    channel = client.channels.get(name)
    output.one(channel, _view(zone), _lines(channel, zone))


@command.command(cls=ExampleCommand, examples="hourbell channel test ops\nhourbell channel test ops --timeout 2m")
@click.argument("name")
@click.option("--timeout", type=LENGTH, default="30s", help="How long to wait for the delivery.  [default: 30s]")
@server_options
def test(client: "Client", name: str, timeout: "timedelta") -> None:
    """Send a test message, and say whether it was delivered."""
    run_id = client.channels.test(name).run_id
    ends_at, pause = clock.elapsed() + timeout.total_seconds(), threading.Event()
    while True:
        run = client.runs.get(run_id)
        if run.state in _ENDED or (run.attempt and run.state == "retrying") or clock.elapsed() >= ends_at:
            break
        pause.wait(_POLL_SECONDS)
    if run.state == "succeeded":
        click.echo(f"delivered to {name}")
        return
    errors = [attempt.error for attempt in run.attempts if attempt.error]
    if errors:
        fail(f"not delivered to {name}: {errors[-1]}", f"hourbell run get {run_id}")
    note(f"not delivered yet; hourbell run get {run_id}")
    sys.exit(FAILED)


@command.command(cls=ExampleCommand, examples="hourbell channel delete ops\nhourbell channel delete ops --force --yes")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if alert policies name it.")
@take_over_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_options
def delete(client: "Client", name: str, *, force: bool, take_over: bool, yes: bool) -> None:
    """Delete a channel with its secrets. Its messages that wait are cancelled."""
    confirm(f"delete the channel {name}", yes=yes)
    client.channels.delete(name, force=force, take_over=take_over)
    note(f"deleted {name}")


def _fields(given: tuple[str, ...]) -> dict[str, Any]:
    """Parse FIELD=VALUE pairs."""
    resolve = resolver(Path())
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{each!r} is not FIELD=VALUE, as in to=ops@example.com", param_hint="--set")
        try:
            found[name] = resolve(text) if text.startswith(_REFERENCES) else json_or_text(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--set") from None
    return found


def _view(zone: str) -> View:
    return View(
        ("NAME", "TYPE", "ORIGIN", f"CHANGED ({zone})", "BY"),
        lambda channel: (
            channel.name,
            channel.type,
            channel.origin or "",
            shown(channel.updated_at, zone),
            channel.updated_by,
        ),
        lambda channel: channel.name,
        lambda channel: channel.name,
    )


def _lines(channel: "Channel", zone: str) -> list[str]:
    rows: list[tuple[str, object]] = [
        ("name", channel.name),
        ("type", channel.type),
        ("origin", channel.origin),
        ("config", json_line(dict(channel.config))),
        ("changed", f"{shown(channel.updated_at, zone)} by {channel.updated_by}"),
    ]
    if channel.generated_secret is not None:
        rows.append(("secret", channel.generated_secret))
    return pairs(*rows)
