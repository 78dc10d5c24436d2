"""`hourbell status`: show server health, load and your identity."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, View, json_line, output_options, pairs
from hourbell.cli.shared.parameters import instant, zone_option
from hourbell.cli.shared.remote import FAILED, server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import Client, Identity, Overview, Readiness


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell status
    hourbell status --since 7d --json | jq .stats.ended
    hourbell status -q || echo 'call somebody'
    """,
)
@click.option(
    "--since", metavar="TIME", help="Count runs that ended since this time: 7d, 2026-11-01, RFC 3339.  [default: 24h]"
)
@zone_option
@output_options
@server_options
def command(client: "Client", since: str | None, zone: str, output: Output) -> None:
    """Show server health, load and your identity.

    The exit code is 1 if the server is not ready, or if a job of a program is left out because somebody else owns its
    name.
    """
    start = instant(since, zone, "--since", "ago")
    ready = client.ready()
    found = _Found(ready) if ready.database_problem else _Found(ready, client.whoami(), client.overview(since=start))
    view = View((), tuple, lambda each: each.ready.status, lambda each: each.ready.status)
    output.one(found, view, _lines(client.url, found, zone))
    has_conflicts = found.stats is not None and bool(found.stats.conflicts)
    sys.exit(0 if found.ready.is_ready and not has_conflicts else FAILED)


@dataclass(frozen=True, slots=True)
class _Found:
    """The answers of a server. Without its database, the server can report neither sessions nor jobs."""

    ready: "Readiness"
    session: "Identity | None" = None
    stats: "Overview | None" = None

    @property
    def raw(self) -> dict[str, Any]:
        return {
            "ready": self.ready.raw,
            "session": self.session and self.session.raw,
            "stats": self.stats and self.stats.raw,
        }


def _lines(url: str, found: _Found, zone: str) -> list[str]:
    ready, session, stats = found.ready, found.session, found.stats
    if session is None or stats is None:
        return pairs(("server", url), ("ready", "no"), ("because", "; ".join(ready.reasons)))
    ended = ", ".join(f"{count} {state}" for state, count in stats.ended.items() if count) or "nothing"
    until = f" until {shown(session.expires_at, zone)} ({zone})" if session.expires_at else ""
    return pairs(
        ("server", url),
        ("ready", "yes" if ready.is_ready else "no"),
        ("because", "; ".join(ready.reasons)),
        ("database", None if ready.is_ready else json_line(dict(ready.database))),
        ("loops", None if ready.is_ready else json_line(dict(ready.loops))),
        ("warning", "; ".join(ready.warnings)),
        ("you", f"{session.name}, {session.role}{until}"),
        ("jobs", f"{stats.jobs}, {stats.paused} paused, {stats.in_error} in error"),
        ("runs", f"{stats.running} running, {stats.waiting} waiting, {stats.dead_letters} dead letters"),
        *(
            ("error", f"{each.program} defines {each.job}, {each.owner} has it; {each.hint}")
            for each in stats.conflicts
        ),
        ("ended", f"{ended}, since {shown(stats.since, zone)} ({zone})"),
    )
