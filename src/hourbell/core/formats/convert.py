"""Conversion of a crontab or a jobs file to definitions that can be applied, without access to files or variables."""

from dataclasses import dataclass, field
from typing import Any

from hourbell.core.alerts.policy import policy_to_body
from hourbell.core.formats.crontab import parse_crontab
from hourbell.core.formats.crontab_jobs import AsCommands, crontab_to_jobs
from hourbell.core.formats.jobs_file import JobsFileError, read_jobs_file
from hourbell.core.formats.jobs_file_format import format_of_text
from hourbell.core.job.body import job_to_body
from hourbell.core.values.readers import InvalidValue, read_zone


@dataclass(frozen=True, slots=True)
class ConversionProblem:
    """A line that could not be converted; `line` is None if it is unknown."""

    line: int | None
    text: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Converted:
    """The jobs of a text, as `apply` takes them, the lines that could not be converted, and notes for the user.

    `channels` and `alert_policies` are those of a jobs file, by name.
    """

    jobs: list[dict[str, Any]]
    problems: list[ConversionProblem]
    notes: list[str]
    source: str | None = None  # that the text gives itself
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    alert_policies: dict[str, dict[str, Any]] = field(default_factory=dict)


def convert_crontab(text: str, timezone: str | None = None, *, commands: bool = False) -> Converted:
    """Convert each entry of a crontab to a disabled job of a task, or to a job of its command."""
    read = parse_crontab(text)
    as_commands = AsCommands() if commands else None
    jobs, notes = crontab_to_jobs(read, timezone, advice="set a time zone to choose another", commands=as_commands)
    if read.guess is not None:
        notes.insert(0, f"read as a system crontab, because {read.guess}")
    if not read.entries and not read.problems:
        notes.append("the crontab has no entry, so there is no job")
    problems = [ConversionProblem(each.line, each.text, each.message, each.hint) for each in read.problems]
    return Converted([job_to_body(job) for job in jobs], problems, notes)


def convert_jobs_file(text: str) -> Converted:
    """Convert a jobs file. References to secrets are left out: only the machine of the file can resolve them."""
    left_out: list[str] = []

    def leave_out(reference: str) -> None:
        left_out.append(reference)

    try:
        file = read_jobs_file(text, format_of_text(text), leave_out)
    except JobsFileError as refused:
        return Converted([], [_problem(text, each.location, each.line, each.error) for each in refused.errors], [])
    notes = [
        f"{reference} was left out: it is resolved where the file is, by `hourbell apply -f`"
        for reference in dict.fromkeys(left_out)
    ]
    if file.incomplete is not None:
        notes.append(f"the file is incomplete: {file.incomplete}")
    jobs = []
    for each in file.jobs:
        body = job_to_body(each.definition)
        if each.secret is not None:
            body["target"] = {**body["target"], "secret": each.secret}
        jobs.append(body)
    channels = {each.name: dict(each.body) for each in file.channels}
    policies = {each.name: policy_to_body(each.policy) for each in file.alert_policies}
    return Converted(jobs, [], [*file.warnings, *notes], file.source_label, channels, policies)


def check_timezone(timezone: str | None) -> str | None:
    """Return what is wrong with a time zone, or None."""
    if timezone is None:
        return None
    try:
        read_zone(timezone)
    except InvalidValue as error:
        return str(error)
    return None


def _problem(text: str, location: str, line: int | None, error: Any) -> ConversionProblem:
    lines = text.splitlines()
    shown = lines[line - 1] if line is not None and line <= len(lines) else ""
    message = f"{location}: {error.pointer.removeprefix('/')}: {error.message}" if location else str(error.message)
    return ConversionProblem(line, shown[:200], message, error.hint)
