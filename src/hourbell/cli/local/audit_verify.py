"""`hourbell audit verify`: detect audit rows that were changed, removed or inserted outside Hourbell."""

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.local.database import FAILED, ask, database_option, json_option, must_exist, settings_for
from hourbell.cli.shared.command import ExampleCommand

if TYPE_CHECKING:
    from hourbell.core.access.audit_chain import Break
    from hourbell.store.control.audit_chain import Verdict

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def _hash(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _HASH.fullmatch(value.lower()):
        raise click.BadParameter("write the 64 hexadecimal digits that `hourbell audit verify` printed.")
    return None if value is None else value.lower()


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell audit verify
    hourbell audit verify --json | jq -r .hash > audit-hash
    hourbell audit verify --expect "$(cat audit-hash)"
    """,
)
@click.option(
    "--expect",
    metavar="HASH",
    callback=_hash,
    help="A hash that this command printed before; it must still exist, at or after --from.",
)
@click.option("--from", "start", type=click.IntRange(1), default=1, help="Start at this position.")
@database_option
@json_option
def verify(expect: str | None, start: int, database_url: str | None, as_json: bool) -> None:
    """Verify the hash chain of the audit: no row was changed, removed or inserted later.

    It reads the database directly, and may be run while nodes work. Keep the printed hash where nobody who can write
    the database can change it: passed as --expect, it also detects that the newest rows were removed. The exit code is
    0 if the chain is intact, 1 if it is broken or the database is unreachable, and 2 for an invalid setting.
    """
    from hourbell.wiring import verify_audit

    settings = settings_for(database_url)
    must_exist(settings)
    verdict = ask(settings, verify_audit(settings, expect=expect, start=start))
    if as_json:
        click.echo(json.dumps(_body(verdict), indent=2, ensure_ascii=False))
    else:
        _show(verdict)
    if not verdict.is_intact:
        sys.exit(FAILED)


def _show(verdict: "Verdict") -> None:
    label = click.style("broken", fg="red")
    for found in verdict.breaks:
        click.echo(f"{label} {found.kind} at {_location(found)}: {found.message}")
    if verdict.break_count > len(verdict.breaks):
        click.echo(f"… and {verdict.break_count - len(verdict.breaks):,} more")
    if verdict.is_intact:
        click.echo(f"the audit chain is unbroken: {_rows(verdict.rows)}, {_sealed(verdict)}")
    if verdict.head is not None:
        click.echo(f"newest hash, at position {verdict.head.position:,}: {verdict.head.hash}")
    if verdict.chained_late:
        late = f"{_rows(verdict.chained_late)} chained more than an hour after being written"
        click.echo(f"note: {late}, as after an upgrade or while no node ran", err=True)
    if verdict.waiting_since is not None:
        since = verdict.waiting_since.isoformat()
        click.echo(f"note: {_rows(verdict.waiting)} waiting to be chained since {since}; start a node", err=True)


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _location(found: "Break") -> str:
    position = "no position" if found.position is None else f"position {found.position}"
    return position if found.at is None else f"{position}, {found.at.isoformat()}"


def _sealed(verdict: "Verdict") -> str:
    if verdict.head is None or not verdict.sealed_position:
        return "no seal was checked: it needs HOURBELL_SECRET_KEY"
    return f"sealed up to position {verdict.sealed_position:,}"


def _body(verdict: "Verdict") -> dict[str, Any]:
    return {
        "intact": verdict.is_intact,
        "rows": verdict.rows,
        "position": verdict.head and verdict.head.position,
        "hash": verdict.head and verdict.head.hash,
        "sealed_position": verdict.sealed_position or None,
        "chained_late": verdict.chained_late,
        "waiting": verdict.waiting,
        "waiting_since": verdict.waiting_since and verdict.waiting_since.isoformat(),
        "break_count": verdict.break_count,
        "breaks": [
            {
                "kind": found.kind,
                "position": found.position,
                "audit_id": found.audit_id,
                "at": found.at and found.at.isoformat(),
                "message": found.message,
            }
            for found in verdict.breaks
        ],
    }
