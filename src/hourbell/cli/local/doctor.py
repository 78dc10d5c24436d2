"""`hourbell doctor`: report problems in a database, their number and how to repair them."""

import sys
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.local.database import FAILED, ask, database_option, json_option, settings_for
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import json_text, plain, plain_lines
from hourbell.settings import Settings

if TYPE_CHECKING:
    from hourbell.core.doctor.findings import Finding
    from hourbell.store.doctor import Examined

_COLOURS = {"error": "red", "warning": "yellow"}


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell doctor
    hourbell doctor --production || echo 'fix this before others use it'
    hourbell doctor --database-url postgresql://hourbell@db.example.com/hourbell
    hourbell doctor --json | jq '.findings[] | select(.severity == "error") | .check'
    """,
)
@click.option("--production", is_flag=True, help="Also check tokens, TLS, keys, file modes, roles and limits.")
@database_option
@json_option
def command(production: bool, database_url: str | None, as_json: bool) -> None:
    """Check a database for problems: lost or duplicate runs, invalid rows, stuck work, clocks, the schema.

    It is read-only, and may be run while nodes work. The exit code is 0 if there is no error (there may be warnings), 1
    if there is one or the database is unreachable, and 2 for an invalid setting. With --production it also checks that
    the deployment is safe, and exits with 1 for warnings, too; run it as the user of the node, with its settings.
    """
    from hourbell.wiring import examine_database

    settings = settings_for(database_url)
    examined = ask(settings, examine_database(settings, production=production))
    findings = list(examined.findings)
    is_healthy = not any(finding.is_error or production for finding in findings)
    if as_json:
        click.echo(json_text(_body(examined, findings, is_healthy=is_healthy)))
    else:
        for finding in findings:
            _show(finding)
        click.echo(_summary(settings, examined, findings), err=True)
    if not is_healthy:
        sys.exit(FAILED)


def _show(finding: "Finding") -> None:
    check = finding.check
    label = click.style(check.severity, fg=_COLOURS[check.severity])
    click.echo(f"{label} {check.name} ({finding.count:,}): {check.message}")
    for row in finding.rows:
        click.echo(f"  {plain(row)}")
    if finding.count > len(finding.rows):
        click.echo("  …")
    click.echo(f"  {click.style('repair', bold=True)}: {check.repair}")
    for statement in finding.sql:
        for line in plain_lines(f"{statement};"):
            click.echo(f"    {line}")
    click.echo()


def _summary(settings: Settings, examined: "Examined", findings: "list[Finding]") -> str:
    errors = sum(finding.is_error for finding in findings)
    kinds = f"{_number(errors, 'error')}, {_number(len(findings) - errors, 'warning')}"
    summary = f"{_number(examined.jobs, 'job')} and {_number(examined.runs, 'run')}"
    return f"{kinds} in {settings.database}; looked at {summary}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _body(examined: "Examined", findings: "list[Finding]", *, is_healthy: bool) -> dict[str, Any]:
    return {
        "healthy": is_healthy,
        "jobs": examined.jobs,
        "runs": examined.runs,
        "findings": [
            {
                "check": finding.check.name,
                "severity": finding.check.severity,
                "message": finding.check.message,
                "count": finding.count,
                "rows": finding.rows,
                "repair": finding.check.repair,
                "sql": finding.sql,
            }
            for finding in findings
        ],
    }
