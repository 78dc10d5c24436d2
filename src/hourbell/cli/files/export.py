"""`hourbell export`: write jobs, channels and alert policies as a jobs file without secrets, which changes nothing."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.job.pauses import describe_pause, is_by_definition
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import note, plain
from hourbell.cli.shared.progress import Progress
from hourbell.cli.shared.remote import FAILED, USAGE, complain, fail, server_options
from hourbell.core.alerts.channel import SECRET_FIELDS, SYSTEM
from hourbell.core.alerts.policy import FIELDS as POLICY_FIELDS
from hourbell.core.alerts.policy import AlertPolicy, parse_policy
from hourbell.core.formats.jobs_file import FORMATS, Format, can_be_source
from hourbell.core.formats.jobs_file_export import export_jobs
from hourbell.core.formats.jobs_file_format import format_of_name
from hourbell.core.job.body import FIELDS, parse_job
from hourbell.core.job.definition import Definition
from hourbell.core.values.field_errors import BodyError

if TYPE_CHECKING:
    from hourbell.answers.alerts import AlertPolicy as AlertPolicyAnswer
    from hourbell.answers.alerts import Channel
    from hourbell.client import Client, Job

_HEADER = "header:"


@dataclass(slots=True)
class Export:
    """The jobs collected for a jobs file, with the comments and errors about them."""

    definitions: list[Definition] = field(default_factory=list)
    owners: set[tuple[str, str]] = field(default_factory=set)
    pauses: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)
    channels: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    policies: dict[str, AlertPolicy] = field(default_factory=dict)
    channel_secrets: list[str] = field(default_factory=list)

    def add(self, job: "Job") -> None:
        # The server shows a job in error only in part, so the exported job might be a different one.
        if job.state == "error":
            self.unwritten.append(f"{job.name}: it is in error: {job.error}")
            return
        try:
            definition = parse_job({name: job.raw[name] for name in FIELDS if name in job.raw}).definition
        except BodyError as error:
            self.unwritten.append(f"{job.name}: {error.errors[0]}")
            return
        if job.paused is not None and not is_by_definition(job):
            # The server keeps a person's pause. In the file it would become part of the definition and last until the
            # file changes.
            self.pauses[job.name] = describe_pause(job.paused)
            definition = replace(definition, enabled=True)
        self.definitions.append(definition)
        self.owners.add((job.managed_by, job.source))
        self.secrets += [
            f"{job.name}: {_secret_text(secret)}" for secret in dict.fromkeys(s.field for s in job.secrets)
        ]

    def add_channel(self, channel: "Channel") -> None:
        self.channels[channel.name] = channel.config
        self.owners.add((channel.managed_by, channel.source))
        self.channel_secrets += [f'{channel.name}: {name} = "env:NAME"' for name in SECRET_FIELDS.get(channel.type, ())]

    def add_policy(self, policy: "AlertPolicyAnswer") -> None:
        try:
            self.policies[policy.name] = parse_policy(
                {name: policy.raw[name] for name in POLICY_FIELDS if name in policy.raw}
            )
        except BodyError as error:
            self.unwritten.append(f"alert policy {policy.name}: {error.errors[0]}")
            return
        self.owners.add((policy.managed_by, policy.source))

    @property
    def is_empty(self) -> bool:
        return not (self.definitions or self.channels or self.policies)

    @property
    def source(self) -> str | None:
        """The source of all of it if one file owns them and its label is valid, else None."""
        if len(self.owners) != 1:
            return None
        [(managed_by, source)] = self.owners
        return source if managed_by == "file" and can_be_source(source) else None

    @property
    def whose(self) -> str:
        return ", ".join(sorted(f"{managed_by}:{source}".removesuffix(":") for managed_by, source in self.owners))

    def text(self, form: Format) -> str:
        notes = {name: [text] for name, text in self.pauses.items()}
        return export_jobs(
            self.definitions,
            form,
            source=self.source,
            comments=self.comments(),
            notes=notes,
            channels=self.channels,
            policies=self.policies,
        )

    def comments(self) -> Iterator[str]:
        """Yield comments on what the entries themselves do not contain: owners and secrets."""
        if any(managed_by != "file" for managed_by, _ in self.owners) or len(self.owners) > 1:
            yield f"{self.what} belong to {self.whose}; apply --take-over --source LABEL makes them this file's."
        if self.secrets:
            yield "Secrets are not in this file. The server keeps those of jobs that it has; elsewhere, add them:"
            yield from self.secrets
        if self.channel_secrets:
            yield "Secrets of channels are not in this file. The server keeps those it has; elsewhere, add them:"
            yield from self.channel_secrets

    @property
    def what(self) -> str:
        return "These" if self.channels or self.policies else "These jobs"


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell export --managed-by file --source billing > billing.toml
    hourbell export --source billing --format yaml
    hourbell export --tag reports -f reports.toml
    """,
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="The format.  [default: by FILE, or toml]")
@click.option("-f", "--file", "name", metavar="FILE", help="A new file to write, instead of stdout.")
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.")
@click.option("--managed-by", metavar="OWNER", help="Only those of this owner: api, app, code, file or sql.")
@click.option("--source", metavar="LABEL", help="Only those from this source.")
@server_options
def command(
    client: "Client",
    form: Format | None,
    name: str | None,
    tag: str | None,
    managed_by: str | None,
    source: str | None,
) -> None:
    """Write jobs, channels and alert policies as a jobs file, without default values.

    With --tag, only jobs are written. Applying what was exported of one source changes nothing. Secrets are not
    exported: a comment names each job and channel that has one. Pauses by users are not exported either: the server
    stores them, and a comment mentions them. A job in error is reported instead of exported, and the exit code is 1.
    """
    if name is not None and Path(name).exists():
        fail(f"{name} already exists", "name a new file, or redirect stdout: > FILE", exit_code=USAGE)
    found = Export()
    with Progress("reading", unit="jobs") as progress:
        for job in client.jobs.list(tag=tag, managed_by=managed_by, source=source, secrets=True):
            found.add(client.jobs.get(job.id) if job.omitted else job)  # a list omits long payloads
            progress.add(1)
    if tag is None:
        _add_alerts(found, client, managed_by, source)
    form = form or format_of_name(name or "") or "toml"
    _write(found.text(form), name)
    pauses = (f"{job}: {text}" for job, text in found.pauses.items())
    for comment in (*found.comments(), *pauses) if form == "json" else ():
        note(f"not in the file: {comment}")
    if len(found.owners) > 1:
        choose = "--source or --managed-by chooses those of one"
        take_over = "`apply --take-over --source LABEL` makes all a file's"
        note(f"{found.what.lower()} belong to {found.whose}; {choose}, and {take_over}")
    if found.is_empty and not found.unwritten:
        note("there is no such job; the file has none")
    if found.unwritten:
        complain("these could not be written", *map(plain, found.unwritten))
        sys.exit(FAILED)


def _add_alerts(found: Export, client: "Client", managed_by: str | None, source: str | None) -> None:
    """Add the channels and alert policies of an owner, but not the policy that is built in."""

    def is_wanted(each: "Channel | AlertPolicyAnswer") -> bool:
        is_owned = managed_by in (None, each.managed_by) and source in (None, each.source)
        return is_owned and each.managed_by != SYSTEM

    for channel in filter(is_wanted, client.channels.list()):
        found.add_channel(channel)
    for policy in filter(is_wanted, client.alert_policies.list()):
        found.add_policy(policy)


def _secret_text(secret: str) -> str:
    if secret.startswith(_HEADER):
        return f'headers = {{ {secret.removeprefix(_HEADER)} = "env:NAME" }} in its target'
    return 'secret = "env:NAME" in its target'


def _write(text: str, name: str | None) -> None:
    if name is None:
        click.echo(text, nl=False)
        return
    try:
        with Path(name).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        fail(f"{name} cannot be written: {error.strerror}", "name another with -f FILE", exit_code=USAGE)
