"""`hourbell job`: define, inspect and change jobs through the API."""

from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.job import actions as job_actions
from hourbell.cli.job import history as job_history
from hourbell.cli.job import secrets as job_secrets
from hourbell.cli.job.definition import definition_of, definition_options, redefined
from hourbell.cli.job.secrets import given_secret
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.cli.shared.lists import number_option, show_list
from hourbell.cli.shared.output import Output, View, note, output_options
from hourbell.cli.shared.parameters import JOB, instant, zone_option
from hourbell.cli.shared.remote import server_options
from hourbell.cli.shared.views import intention_lines, job_lines, job_view

if TYPE_CHECKING:
    from hourbell.client import Client, Intention, Job
    from hourbell.client.jobs import EditOptions


@click.group(
    cls=ExampleGroup,
    examples="""
    hourbell job create nightly-report --schedule '0 3 * * *' --timezone America/New_York --url https://example.com/report
    hourbell job list --tag billing
    hourbell job trigger nightly-report --wait
    hourbell job pause nightly-report --until 2h --note 'database maintenance'
    """,
)
def command() -> None:
    """Manage jobs: create, list, change, pause, run and delete. Needs a server (HOURBELL_URL)."""


for _action in (*job_actions.COMMANDS, *job_history.COMMANDS, *job_secrets.COMMANDS):
    command.add_command(_action)


@command.command(
    "list",
    cls=ExampleCommand,
    examples="""
    hourbell job list
    hourbell job list --tag billing --state paused
    hourbell job list --attention failing
    hourbell job list --sort next -n 10 --timezone Europe/Paris
    hourbell job list --json | jq -r '.items[].name'
    """,
)
@click.argument("start", required=False, metavar="[START]")
@click.option("--tag", metavar="TAG", help="Only with this tag.")
@click.option("--state", type=click.Choice(["active", "done", "paused", "error"]), help="Only in this state.")
@click.option("--target", metavar="TYPE", help="Only with a target of this type: http, sql, task, command or queue.")
@click.option(
    "--last", "last_result", metavar="STATE", help="Only with this last result: succeeded, failed, cancelled."
)
@click.option("--managed-by", metavar="OWNER", help="Only of this owner: api, app, code, file or sql.")
@click.option("--source", metavar="SOURCE", help="Only from this source.")
@click.option("--subject", metavar="TEXT", help="Only for this subject.")
@click.option(
    "--attention",
    type=click.Choice(["failing", "retrying", "losing", "late", "paused", "due"]),
    help="Only jobs that need attention for this reason.",
)
@click.option("--next-before", metavar="TIME", help="Only jobs that fire before this time.")
@click.option("--sort", type=click.Choice(["name", "next"]), help="Sort by name or by next time.")
@number_option
@zone_option
@output_options
@server_options
def list_(
    client: "Client",
    start: str | None,
    next_before: str | None,
    sort: str | None,
    number: int,
    zone: str,
    output: Output,
    **filters: Any,
) -> None:
    """List jobs; with START, only those whose names start with it."""
    pages = client.jobs.list(
        q=start,
        next_before=instant(next_before, zone, "--next-before", "ahead"),
        sort="next_at" if sort == "next" else sort,
        **filters,
    )
    is_filtered = start is not None or next_before is not None or any(each is not None for each in filters.values())
    first = "there is no job yet; create one with `hourbell job create`, or apply a file with `hourbell apply`"
    nothing = "there is no such job; `hourbell job list` without filters shows all" if is_filtered else first
    show_list(pages, number, output, job_view(zone), nothing)


@command.command(cls=ExampleCommand, examples="hourbell job get nightly-report\nhourbell job get nightly-report --json")
@click.argument("job", type=JOB)
@zone_option
@output_options
@server_options
def get(client: "Client", job: str, zone: str, output: Output) -> None:
    """Show a job: its definition, its state, its next times and its totals."""
    found = client.jobs.get(job)
    output.one(found, job_view(zone), job_lines(found, zone))


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell job create nightly-report --schedule '0 3 * * *' --timezone America/New_York --url https://example.com/report
    hourbell job create ping --schedule 'every 5m' --url https://example.com/ping --method GET --retry none --dry-run
    hourbell job create cleanup --schedule '@hourly' --sql public.run_cleanup --arg days=30
    hourbell job create digest --schedule 'H 9 * * 1' --task send_digest --payload '{"days": 7}' --tag mail --paused
    hourbell job create backup --schedule '0 3 * * *' --command 'pg_dump -Fc -f /backup/shop.dump shop' --timeout 2h
    hourbell job create signed --schedule '@daily' --url https://example.com/hook --secret generate
    hourbell job create signed --schedule '@hourly' --url https://example.com/hook --replace
    """,
)
@click.argument("name")
@definition_options
@click.option("--secret", metavar="generate|@FILE|-", help="Sign the webhooks; a generated secret is shown once.")
@click.option("--paused", is_flag=True, help="Create the job paused.")
@click.option("--replace", is_flag=True, help="Replace an existing job of that name.")
@click.option("--run-on-create", is_flag=True, help="Also run the new job once at once.")
@click.option("--dry-run", is_flag=True, help="Show the job and its next times without creating it.")
@output_options
@server_options
def create(
    client: "Client",
    name: str,
    secret: str | None,
    paused: bool,
    replace: bool,
    run_on_create: bool,
    dry_run: bool,
    output: Output,
    **given: Any,
) -> None:
    """Create a job that fires from now on, never for the past."""
    zone = given.get("timezone") or "UTC"
    body = {"name": name, **{key: value for key, value in definition_of(given, zone).items() if value is not None}}
    for field, flags in (("schedule", "--schedule"), ("target", "--url, --sql, --task, --command or --target")):
        if field not in body:
            raise click.UsageError(f"The job needs a {field}; use {flags}.")
    if secret is not None:
        body["target"] = {**body["target"], "secret": given_secret(secret)}
    if paused:
        body["enabled"] = False
    if replace and run_on_create:
        raise click.UsageError("--run-on-create is for a new job; leave out --replace.")
    made: Job | Intention
    if dry_run:
        made = client.jobs.preview_replace(name, body) if replace else client.jobs.preview_create(body)
    else:
        made = client.jobs.replace(name, body) if replace else client.jobs.create(body, run_on_create=run_on_create)
    _show(made, output, "UTC")


@command.command(
    cls=ExampleCommand,
    examples="""
    hourbell job edit nightly-report --schedule '0 4 * * *' --dry-run
    hourbell job edit nightly-report --schedule '0 4 * * *' --retry '{"attempts": 5, "backoff": [10, 60]}'
    hourbell job edit nightly-report --catch-up default --tag billing --tag reports
    hourbell job edit nightly-report --payload '{"days": 7}' --header 'X-Team: billing'
    hourbell job edit nightly-report --name morning-report
    """,
)
@click.argument("job", type=JOB)
@click.option("--name", metavar="NAME", help="A new name; planned runs and history stay.")
@definition_options
@click.option(
    "--take-over",
    is_flag=True,
    help="Change the job even if a file, a program or plain SQL owns it, and become its owner.",
)
@click.option("--drop-backlog", is_flag=True, help="Cancel waiting runs of the old definition.")
@click.option("--drop-secrets", is_flag=True, help="Give up secret headers set for another origin than the new one.")
@click.option(
    "--approve-command", is_flag=True, help="Approve a command that SQL has changed, once you have checked it."
)
@click.option("--dry-run", is_flag=True, help="Show the next times before and after, without changing anything.")
@output_options
@server_options
def edit(
    client: "Client",
    job: str,
    name: str | None,
    take_over: bool,
    drop_backlog: bool,
    drop_secrets: bool,
    approve_command: bool,
    dry_run: bool,
    output: Output,
    **given: Any,
) -> None:
    """Change the given fields; the others stay. The value `default` restores a default.

    --payload, --body, --retry and --target replace the whole value; --header and --arg add to the existing ones, or
    replace the one of that name. --header 'NAME:' removes a header, and --tag '' all tags.

    The change is refused if somebody else changes the job at the same moment.
    """
    changes = definition_of(given, given.get("timezone") or "UTC")
    if name is not None:
        changes["name"] = name
    if not changes and not take_over and not approve_command:
        raise click.UsageError("Say what to change, as in --schedule '0 4 * * *'.")
    old = client.jobs.get(job)
    body = redefined(old.raw, changes, has_whole_target=given.get("target") is not None)
    options: EditOptions = {
        "take_over": take_over,
        "drop_backlog": drop_backlog,
        "drop_secrets": drop_secrets,
        "approve_command": approve_command,
    }
    changed: Job | Intention
    if dry_run:
        changed = client.jobs.preview_replace(old.id, body, **options)
    else:
        changed = client.jobs.replace(old.id, body, expect_version=old.version, **options)
    _show(changed, output, "UTC")


def _show(made: "Job | Intention", output: Output, zone: str) -> None:
    """Show the created or changed job, or the preview of a change, with its warnings."""
    from hourbell.client import Intention

    if isinstance(made, Intention):
        view = View((), tuple, lambda each: each.job.get("id") or each.job.get("name"), lambda each: each.job["name"])
        output.one(made, view, intention_lines(made, zone))
        if made.fires_now:
            note("it fires at once")
    else:
        output.one(made, job_view(zone), job_lines(made, zone))
        if made.generated_secret and (output.is_quiet or output.format == "name"):
            note(f"the secret, which is not shown again: {made.generated_secret}")
    for warning in made.warnings:
        note(warning.message)
