"""`hourbell import`: convert a crontab to a jobs file on stdout, or send many jobs to a server."""

import re
import sys
from typing import IO

import click

from hourbell.cli.files.import_jobs import jobs
from hourbell.cli.shared.command import ExampleCommand, ExampleGroup
from hourbell.core.formats.crontab import Crontab, parse_crontab
from hourbell.core.formats.crontab_jobs import AsCommands, crontab_to_jobs
from hourbell.core.formats.jobs_file import can_be_source
from hourbell.core.formats.jobs_file_export import export_jobs
from hourbell.core.formats.jobs_file_text import FORMATS, Format
from hourbell.core.job.command import LABEL
from hourbell.core.run.policies import Overlap
from hourbell.core.values.readers import InvalidValue, read_zone

FAILED = 1
_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,40}", re.ASCII)


@click.group(
    cls=ExampleGroup,
    examples="""
    crontab -l | hourbell import crontab - > jobs.toml
    hourbell import crontab /etc/crontab --system --timezone Europe/Berlin
    hourbell import jobs shop.ndjson --source shop --dry-run
    """,
)
def command() -> None:
    """Convert definitions of other schedulers to a jobs file (needs no server), or import many jobs to a server."""


command.add_command(jobs)


@command.command(
    cls=ExampleCommand,
    examples="""
    crontab -l | hourbell import crontab - > jobs.toml
    crontab -l | hourbell import crontab - --commands --timezone Europe/Berlin > jobs.toml
    hourbell import crontab /etc/crontab --system --timezone Europe/Berlin
    hourbell import crontab backup.cron -o yaml
    crontab -l | hourbell import crontab - --source web1-cron --prefix web1-
    """,
)
@click.argument("file", type=click.File("rb"), required=False, metavar="[FILE|-]")
@click.option(
    "--system/--user", default=None, help="Whether entries have a user column.  [default: guessed from the file]"
)
@click.option(
    "--timezone", "-z", metavar="ZONE", help="IANA time zone for entries without CRON_TZ.  [default: TZ, or UTC]"
)
@click.option("--source", metavar="LABEL", help="The source of the jobs; written into the file.")
@click.option("--prefix", default="", metavar="TEXT", help="A prefix for all job names, such as web1-.")
@click.option("--commands", is_flag=True, help="Make jobs that run the commands, on nodes that allow it.")
@click.option("--label", metavar="NAME", help="With --commands: only on nodes with this label.")
@click.option(
    "--overlap",
    type=click.Choice([Overlap.ALLOW, Overlap.SKIP]),
    help="With --commands: what to do while an earlier run goes on.  [default: allow, as cron does]",
)
@click.option("--paused", is_flag=True, help="With --commands: create the jobs paused.")
@click.option("-o", "--output", default="toml", type=click.Choice(FORMATS), help="The format.  [default: toml]")
def crontab(
    file: IO[bytes] | None,
    system: bool | None,
    timezone: str | None,
    source: str | None,
    prefix: str,
    commands: bool,
    label: str | None,
    overlap: str | None,
    paused: bool,
    output: Format,
) -> None:
    """Print a jobs file with a job for each entry of a crontab.

    With --commands, each job runs its command as cron does, on nodes that allow commands, once you apply the file.
    Otherwise it is disabled and names a task that you write, crontab.NAME, with the command in its description.

    Entries that cannot be read are reported with their line number, and the exit code is 1; the others are still
    printed, and the file is marked as incomplete, so that it cannot prune jobs.
    """
    if source is not None and not can_be_source(source):
        raise click.BadParameter("write 1 to 200 printable characters, as in web1-cron.", param_hint="--source")
    if _PREFIX.fullmatch(prefix) is None:
        raise click.BadParameter("write at most 40 letters, digits, _ and -, as in web1-.", param_hint="--prefix")
    if timezone is not None:
        _check_zone(timezone)
    if not commands and (label or overlap or paused):
        raise click.UsageError("--label, --overlap and --paused are for --commands.")
    if label is not None and LABEL.fullmatch(label) is None:
        raise click.BadParameter("write letters, digits, _, . and -, as in db1.", param_hint="--label")
    as_commands = AsCommands(label, Overlap(overlap or Overlap.ALLOW), paused) if commands else None
    if file is None and sys.stdin.isatty():
        raise click.UsageError("Name a file, or pipe a crontab, as in: crontab -l | hourbell import crontab -")
    data = (file or sys.stdin.buffer).read()
    text, notes = _decode(data)
    read = parse_crontab(text, system=system)
    if read.guess is not None:
        notes.append(f"read as a system crontab, because {read.guess}; --user reads it as a user's")
    found, more = crontab_to_jobs(read, timezone, prefix=prefix, commands=as_commands)
    if not read.entries and not read.problems:
        notes.append("the crontab has no entry, so there is no job in the file")
    comments = _comments(read)
    text = export_jobs(found, output, source=source, incomplete=_missing(read), comments=comments)
    click.echo(text, nl=False)
    if output == "json":
        notes += [f"not in the file: {comment}" for comment in comments]
    for note in [*notes, *more]:
        click.echo(f"{click.style('note', fg='yellow')}: {note}", err=True)
    for problem in read.problems:
        click.echo(f"{click.style('error', fg='red')}: {problem}", err=True)
    sys.exit(FAILED if read.problems else 0)


def _check_zone(timezone: str) -> None:
    try:
        read_zone(timezone)
    except InvalidValue as error:
        raise click.BadParameter(str(error), param_hint="--timezone") from None


def _decode(data: bytes) -> tuple[str, list[str]]:
    try:
        return data.decode(), []
    except UnicodeDecodeError:
        return data.decode("latin-1"), ["the crontab is not UTF-8; it was read as Latin-1"]


def _missing(crontab: Crontab) -> str | None:
    lines = len(crontab.problems)
    if not lines:
        return None
    return f"{'1 line' if lines == 1 else f'{lines} lines'} of the crontab could not be read"


def _comments(crontab: Crontab) -> list[str]:
    """Return comments for the jobs file: free-standing comments and unreadable lines of the crontab."""
    kept = {comment.line: comment.text for comment in crontab.comments if comment.is_loose and comment.text}
    kept |= {problem.line: f"could not be read: {problem.text.strip()}" for problem in crontab.problems}
    return [f"crontab line {line}: {text}" for line, text in sorted(kept.items())]
