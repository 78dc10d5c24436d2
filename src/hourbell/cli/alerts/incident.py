"""`hourbell incident`: what is wrong, and who takes care of it."""

from typing import TYPE_CHECKING

import click

from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.lists import number_option, show_list
from hourbell.cli.shared.output import Output, View, note, output_options, pairs
from hourbell.cli.shared.parameters import JOB, instant, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.answers.alerts import Incident
    from hourbell.client import Client

_UNRESOLVED = ("open", "acknowledged")


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell incident list
    hourbell incident ack 01890a5d-ac96-774b-bcce-b302099a8057
    hourbell incident mute 01890a5d-ac96-774b-bcce-b302099a8057 --until 2h
    """,
)
def command() -> None:
    """Incidents: what is wrong, and who takes care of it. Needs a server (HOURBELL_URL)."""


@command.command(
    "list",
    cls=ExampleCommand,
    examples="""
    hourbell incident list
    hourbell incident list --state resolved -n 10
    hourbell incident list --all --job nightly-report --json
    """,
)
@click.option(
    "--state",
    type=click.Choice(["open", "acknowledged", "resolved"]),
    multiple=True,
    help="In this state; without it those that are not resolved.",
)
@click.option("--all", "every", is_flag=True, help="In any state.")
@click.option("--job", type=JOB, metavar="JOB", help="Of this job.")
@number_option
@zone_option
@output_options
@server_options
def list_(
    client: "Client", state: tuple[str, ...], job: str | None, number: int, zone: str, output: Output, *, every: bool
) -> None:
    """List incidents, the newest first."""
    states = None if every else list(state or _UNRESOLVED)
    show_list(client.incidents.list(state=states, job=job), number, output, _view(zone), "there is no such incident")


@command.command(cls=ExampleCommand, examples="hourbell incident get 01890a5d-ac96-774b-bcce-b302099a8057")
@click.argument("incident")
@zone_option
@output_options
@server_options
def get(client: "Client", incident: str, zone: str, output: Output) -> None:
    """Show an incident with its jobs and its messages: who was notified when."""
    found = client.incidents.get(incident)
    output.one(found, _view(zone), _lines(found, zone))


@command.command(cls=ExampleCommand, examples="hourbell incident ack 01890a5d-ac96-774b-bcce-b302099a8057")
@click.argument("incident")
@server_options
def ack(client: "Client", incident: str) -> None:
    """Say that you take care of it: no repeats and no escalation from now on."""
    found = client.incidents.acknowledge(incident)
    note(f"acknowledged by {found.acknowledged_by}")


@command.command(cls=ExampleCommand, examples="hourbell incident mute 01890a5d-ac96-774b-bcce-b302099a8057 --until 2h")
@click.argument("incident")
@click.option("--until", required=True, metavar="TIME", help="2h, tomorrow 09:00, RFC 3339.")
@zone_option
@server_options
def mute(client: "Client", incident: str, until: str, zone: str) -> None:
    """Send no messages of this incident until a time."""
    end = instant(until, zone, "--until", "ahead")
    assert end is not None  # it is required
    found = client.incidents.mute(incident, end)
    note(f"muted until {shown(found.muted_until, zone)}")


@command.command(cls=ExampleCommand, examples="hourbell incident resolve 01890a5d-ac96-774b-bcce-b302099a8057")
@click.argument("incident")
@server_options
def resolve(client: "Client", incident: str) -> None:
    """End an incident by hand. If the trouble goes on, the next failure opens another one."""
    client.incidents.resolve(incident)
    note("resolved")


def _view(zone: str) -> View:
    return View(
        ("INCIDENT", "STATE", "KIND", "JOB", f"SINCE ({zone})", "COUNT", "ERROR"),
        lambda incident: (
            incident.id,
            incident.state,
            incident.kind,
            _about(incident),
            shown(incident.opened_at, zone),
            incident.count,
            incident.error,
        ),
        lambda incident: incident.id,
        lambda incident: incident.id,
    )


def _about(incident: "Incident") -> str:
    if incident.group_size > 1:
        return f"{incident.group_size} jobs of {incident.lane}" if incident.lane else f"{incident.group_size} jobs"
    return incident.job_name or incident.lane or ""


def _lines(incident: "Incident", zone: str) -> list[str]:
    by = incident.acknowledged_by
    rows: list[tuple[str, object]] = [
        ("incident", incident.id),
        ("kind", incident.kind),
        ("state", incident.state if by is None else f"{incident.state}, acknowledged by {by}"),
        ("about", _about(incident)),
        ("since", shown(incident.opened_at, zone)),
        ("count", incident.count),
        ("error", incident.error),
        ("run", incident.run_id),
        ("policy", incident.policy),
        ("muted until", shown(incident.muted_until, zone) if incident.muted_until else None),
        ("resolved", shown(incident.resolved_at, zone) if incident.resolved_at else None),
    ]
    if len(incident.jobs) > 1:
        rows.append(("jobs", ", ".join(incident.jobs)))
    results = [
        f"{shown(each.planned_at, zone)}  {each.event} to {each.channel}: {each.state or 'pruned'}"
        + (f", {each.error}" if each.error else "")
        for each in incident.notifications
    ]
    return [
        *pairs(*((name, value) for name, value in rows if value not in (None, ""))),
        *(["", *results] if results else []),
    ]
