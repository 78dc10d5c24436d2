"""`hourbell apply`: apply a jobs file atomically, after a plan that must still hold when it is executed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from hourbell.cli.files.file_plan import FilePlan, file_options
from hourbell.cli.files.plan_view import deleted, done_lines, plan_lines, taken_over
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import json_text
from hourbell.cli.shared.remote import confirm, server_options

if TYPE_CHECKING:
    from hourbell.client import Client, Plan


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell apply -f jobs.toml
    hourbell apply -f jobs.toml --dry-run
    hourbell apply -f jobs.toml --prune --yes
    crontab -l | hourbell import crontab - | hourbell apply -f - --source crontab
    """,
)
@file_options()
@click.option("--dry-run", is_flag=True, help="Show the plan without changing anything.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation before anything is deleted or taken over.")
@click.option("--json", "as_json", is_flag=True, help="Print the API's response.")
@server_options
def command(client: "Client", wanted: FilePlan, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Apply a jobs file atomically.

    The plan is shown first: jobs, channels and alert policies. If any of them changes between the plan and its
    execution, nothing is applied, and the exit code is 5. A job that somebody paused stays paused. Only what belongs to
    the same source is touched.
    """
    plan = wanted.ask(client)
    question = _question(plan)
    if not as_json:
        _print(plan_lines(plan, wanted.definitions))
    if not (dry_run or plan.is_empty):
        if question:
            if as_json and not yes:
                _print(plan_lines(plan, wanted.definitions), to_stderr=True)
            confirm(question, yes=yes)
        plan = wanted.apply(client, plan.state)
        if not as_json:
            _print(done_lines(plan))
    if as_json:
        click.echo(json_text(plan.raw))


def _question(plan: "Plan") -> str:
    """Return the question to confirm if the plan deletes or takes over anything, else an empty text."""
    parts = [(deleted(plan), "delete"), (taken_over(plan), "take over")]
    return " and ".join(f"{verb} {', '.join(counted)}" for counted, verb in parts if counted)


def _print(lines: Iterable[str], *, to_stderr: bool = False) -> None:
    for line in lines:
        click.echo(line, err=to_stderr)
