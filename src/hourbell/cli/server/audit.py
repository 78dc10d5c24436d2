"""`hourbell audit`: list changes with their actor and address, and verify the audit's hash chain."""

import functools
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.local.audit_verify import verify
from hourbell.cli.shared.command import ExampleGroup
from hourbell.cli.shared.lists import number_option, show_list
from hourbell.cli.shared.output import Output, View, json_line, note, output_options, pairs
from hourbell.cli.shared.parameters import JOB, zone_option
from hourbell.cli.shared.remote import Function, server_options
from hourbell.cli.shared.times import shown

if TYPE_CHECKING:
    from hourbell.client import AuditEntry, Client

_NEWEST = 1_000


def _unless_subcommand(function: Function) -> Function:
    """Skip the list if a subcommand was named, because a subcommand needs no server."""

    @functools.wraps(function)
    def call(**given: Any) -> None:
        if click.get_current_context().invoked_subcommand is None:
            function(**given)

    return call


@click.group(
    cls=ExampleGroup,
    invoke_without_command=True,
    examples="""
    hourbell audit -n 20
    hourbell audit --job nightly-report --timezone Europe/Paris
    hourbell audit --entry 1 --json | jq .after
    hourbell audit --subject 5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e --json | jq '.items[0].after'
    hourbell audit verify
    """,
)
@click.option("--job", type=JOB, metavar="JOB", help="Only of this job, even if it was deleted.")
@click.option("--subject", metavar="ID", help="Only of the job, run or token with this id, even if it was deleted.")
@click.option(
    "--entry", type=click.IntRange(1), metavar="NUMBER", help="Show only this entry, with changes of any length."
)
@number_option
@zone_option
@output_options
@_unless_subcommand
@server_options
def command(
    client: "Client", job: str | None, subject: str | None, entry: int | None, number: int, zone: str, output: Output
) -> None:
    """List every change with who made it, newest first. Requires the role admin.

    Changes of over 4 KiB are not in the list; --entry shows them. `hourbell audit verify` checks that the audit was not
    altered.
    """
    from hourbell.client import NotFound

    if sum(each is not None for each in (job, subject, entry)) > 1:
        raise click.UsageError("--job, --subject and --entry exclude each other; use one of them.")
    view = View(
        (f"WHEN ({zone})", "WHO", "WHAT", "SUBJECT", "CHANGES"),
        lambda entry: (shown(entry.at, zone), _who(entry), entry.action, _subject(entry), _changes(entry)),
        lambda entry: entry.id,
        lambda entry: entry.action,
    )
    if entry is not None:
        found = client.audit_entry(entry)
        output.one(found, view, _entry_lines(found, zone))
        return
    if job is not None:
        try:
            subject = str(client.jobs.get(job).id)
        except NotFound:
            _show_former(client, job, number, output, view)
            return
    show_list(client.audit(subject=subject), number, output, view, "nothing was changed")


command.add_command(verify)


def _show_former(client: "Client", job: str, number: int, output: Output, view: View) -> None:
    """List the changes of former jobs of this name, among the newest changes. Raises NotFound if there are none."""
    newest = list(client.audit(limit=_NEWEST))
    ids = {entry.subject for entry in newest if job in _names(entry)}
    unnamed = {entry.subject: entry.id for entry in newest if entry.omitted and entry.action.startswith("job.")}
    ids |= {subject for subject, entry in unnamed.items() if job in _names(client.audit_entry(entry))}
    if not ids:
        client.jobs.get(job)  # raises NotFound, whose report suggests similar names
    found = [entry for entry in newest if entry.subject in ids][:number]
    output.items(found, view, {"items": [entry.raw for entry in found]})
    note(f"there is no job {job!r} any more; of the newest {_NEWEST:,} changes, these mention it")


def _names(entry: "AuditEntry") -> list[str]:
    """Return the names of a job before and after the change; an empty list if the subject is not a job."""
    names = [each.get("name") for each in (entry.before, entry.after) if isinstance(each, dict)]
    return [name for name in names if isinstance(name, str)] if entry.action.startswith("job.") else []


def _subject(entry: "AuditEntry") -> str:
    names = _names(entry)
    return f"{names[-1]} ({entry.subject})" if names else entry.subject


def _entry_lines(entry: "AuditEntry", zone: str) -> list[str]:
    return pairs(
        ("when", f"{shown(entry.at, zone)} ({zone})"),
        ("who", _who(entry)),
        ("what", entry.action),
        ("subject", _subject(entry)),
        ("before", None if entry.before is None else json_line(entry.before)),
        ("after", None if entry.after is None else json_line(entry.after)),
    )


def _who(entry: "AuditEntry") -> str:
    return f"{entry.actor} from {entry.ip}" if entry.ip else entry.actor


def _changes(entry: "AuditEntry") -> str:
    """Format the fields that changed, or the new state if there was no state before. Empty for a deletion."""
    if entry.omitted:
        return f"(too long for a list; --entry {entry.id} shows it)"
    before: Any = entry.before
    after: Any = entry.after
    if isinstance(before, dict) and isinstance(after, dict):
        return json_line({name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)})
    return "" if after is None else json_line(after)
