"""`hourbell alert-policy`: when to alert, and whom."""

from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.output import Output, View, note, output_options, pairs
from hourbell.cli.shared.parameters import take_over_option, zone_option
from hourbell.cli.shared.remote import confirm, server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.answers.alerts import AlertPolicy
    from hourbell.client import Client

_UNSET = ("name", "managed_by", "source", "updated_at", "updated_by")


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell alert-policy set default --notify ops --repeat 4h
    hourbell alert-policy set billing --on failed,late --after 1 --notify ops --escalate 30m=pager
    hourbell alert-policy list
    """,
)
def command() -> None:
    """Alert policies: when to alert, and whom. Needs a server (HOURBELL_URL).

    `default` applies to every job that names no other one. A job names one by --alert-policy; `none` is for no alerts.
    """


@command.command(
    "set",
    cls=ExampleCommand,
    examples="""
    hourbell alert-policy set default --notify ops --repeat 4h
    hourbell alert-policy set reports --on failed,no_success --no-success-for 26h --notify ops
    hourbell alert-policy set night --notify ops --quiet-hours 22:00-07:00 --quiet-timezone Europe/Berlin
    """,
)
@click.argument("name")
@click.option("--on", metavar="KINDS", help="What opens an incident, with commas: failed,missed,late,unserved,slow,…")
@click.option("--after", type=int, help="Consecutive failures that open an incident.")
@click.option("--rate", metavar="RATE", help="Or failures among the last runs, as in '3 of 10'.")
@click.option("--notify", metavar="CHANNELS", help="With commas; without it every channel. '' is nobody.")
@click.option("--repeat", metavar="TIME", help="Say it again after this time, until it is over or acknowledged.")
@click.option("--escalate", multiple=True, metavar="TIME=CHANNELS", help="Whom to notify too after a time. Repeat it.")
@click.option("--no-resolve", is_flag=True, help="Do not tell the end of incidents.")
@click.option("--quiet-hours", metavar="FROM-UNTIL", help="Hours without messages, as in 22:00-07:00.")
@click.option("--quiet-timezone", metavar="ZONE", default="UTC", help="Of --quiet-hours.  [default: UTC]")
@click.option("--group", type=click.Choice(["host", "none"]), help="One incident for all jobs of a host, or for each.")
@click.option("--slow-after", metavar="TIME", help="How long a run may take (slow).")
@click.option("--no-success-for", metavar="TIME", help="How long a job may be without a success (no_success).")
@click.option("--paused-for", metavar="TIME", help="How long a job may be paused (paused_too_long).")
@click.option("--losing-share", type=float, help="Share of skipped runs, from 0 to 1 (losing_runs).")
@take_over_option
@zone_option
@output_options
@server_options
def set_(client: "Client", name: str, zone: str, output: Output, *, take_over: bool, **given: Any) -> None:
    """Create an alert policy, or replace all of it."""
    policy = client.alert_policies.put(name, _body(given), take_over=take_over)
    output.one(policy, _view(zone), _lines(policy, zone))


@command.command("list", cls=ExampleCommand, examples="hourbell alert-policy list")
@zone_option
@output_options
@server_options
def list_(client: "Client", zone: str, output: Output) -> None:
    """List the alert policies; the built-in `default` too, if there is no other one."""
    found = client.alert_policies.list()
    output.items(found, _view(zone), found.raw)


@command.command(cls=ExampleCommand, examples="hourbell alert-policy get default")
@click.argument("name")
@zone_option
@output_options
@server_options
def get(client: "Client", name: str, zone: str, output: Output) -> None:
    """Show an alert policy."""
    policy = client.alert_policies.get(name)
    output.one(policy, _view(zone), _lines(policy, zone))


@command.command(cls=ExampleCommand, examples="hourbell alert-policy delete billing --yes")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if jobs name it: `default` applies to them.")
@take_over_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_options
def delete(client: "Client", name: str, *, force: bool, take_over: bool, yes: bool) -> None:
    """Delete an alert policy."""
    confirm(f"delete the alert policy {name}", yes=yes)
    client.alert_policies.delete(name, force=force, take_over=take_over)
    note(f"deleted {name}")


def _body(given: dict[str, Any]) -> dict[str, Any]:
    """Build the body of the API from the options that were given."""
    quiet, zone = given.pop("quiet_hours"), given.pop("quiet_timezone")
    escalate, no_resolve = given.pop("escalate"), given.pop("no_resolve")
    body = {name: value for name, value in given.items() if value is not None}
    for name in ("on", "notify"):
        if name in body:
            body[name] = _names(body[name])
    if escalate:
        steps = [each.partition("=") for each in escalate]
        body["escalate"] = [{"after": after, "notify": _names(names)} for after, _, names in steps]
    if quiet is not None:
        start, _, until = quiet.partition("-")
        body["quiet_hours"] = {"from": start, "until": until, "timezone": zone}
    return body | ({"resolve": False} if no_resolve else {})


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _view(zone: str) -> View:
    return View(
        ("NAME", "ON", "NOTIFY", "REPEAT", f"CHANGED ({zone})", "BY"),
        lambda policy: (
            policy.name,
            ", ".join(policy.on),
            "every channel" if policy.notify is None else ", ".join(policy.notify) or "nobody",
            policy.repeat or "",
            shown(policy.updated_at, zone),
            policy.updated_by,
        ),
        lambda policy: policy.name,
        lambda policy: policy.name,
    )


def _lines(policy: "AlertPolicy", zone: str) -> list[str]:
    rows: list[tuple[str, object]] = [("name", policy.name)]
    for name, value in policy.raw.items():
        if name not in _UNSET and value not in (None, []):
            rows.append((name.replace("_", " "), _shown(value)))
    return pairs(*rows, ("changed", f"{shown(policy.updated_at, zone)} by {policy.updated_by}"))


def _shown(value: Any) -> object:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, (str, int, float)) else str(value)
