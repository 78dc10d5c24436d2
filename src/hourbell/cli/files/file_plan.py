"""A jobs file to apply: reads it with all its errors, and maps errors of the server to lines of the file."""

import functools
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.shared.output import note
from hourbell.cli.shared.references import lenient, resolver
from hourbell.cli.shared.remote import CONFLICT, USAGE, as_flags, complain, exit_code, fail
from hourbell.core.alerts.policy import policy_to_body
from hourbell.core.formats.jobs_file import FORMATS, FileError, Format, JobsFile, JobsFileError, read_jobs_file
from hourbell.core.formats.jobs_file_format import format_of_name, format_of_text
from hourbell.core.values import field_errors

if TYPE_CHECKING:
    from hourbell.client import Client, FieldError, Plan
    from hourbell.client.jobs import ApplyOptions
    from hourbell.core.job.definition import Definition

Function = Callable[..., None]

STDIN = "-"
_MAX_REQUEST_BYTES = 8 << 20
_TOO_LARGE = 413
_ENTRIES = {"channels": "channel", "alert_policies": "alert policy"}
_ENTRY = re.compile(r"/(channels|alert_policies)/([^/]+)")
_JOB = re.compile(r"/jobs/(\d{1,9})(?=/|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The content of a file and the options for applying it."""

    file: JobsFile
    source: str
    prune: bool
    take_over: bool
    drop_secrets: bool = False

    @property
    def definitions(self) -> "Mapping[str, Definition]":
        """The definitions in the file, by job name."""
        return {job.definition.name: job.definition for job in self.file.jobs}

    def ask(self, client: "Client") -> "Plan":
        """Request the plan of changes without applying it."""
        plan = self._send(client)
        # What cannot be resolved is still in the file, so the server's note that it is missing does not hold.
        untrue = {_kept(f"secret header {name}") for job in self.file.jobs for name in job.unresolved_headers}
        untrue |= {_kept(name) for channel in self.file.channels for name in channel.unresolved}
        if not untrue:
            return plan
        jobs = (replace(job, notes=tuple(note for note in job.notes if note not in untrue)) for job in plan.jobs)
        channels = (replace(each, notes=tuple(n for n in each.notes if n not in untrue)) for each in plan.channels)
        return replace(plan, jobs=tuple(jobs), channels=tuple(channels))

    def apply(self, client: "Client", expect: str) -> "Plan":
        """Apply all changes, or none if the jobs have changed since the plan with this state."""
        return self._send(client, expect)

    def _send(self, client: "Client", expect: str | None = None) -> "Plan":
        """Apply the plan with the expected state or, without one, request the plan."""
        from hourbell.client import ApiError

        jobs = [job.as_body() for job in self.file.jobs]
        options: ApplyOptions = {
            "source": self.source,
            "prune": self.prune,
            "take_over": self.take_over,
            "drop_secrets": self.drop_secrets,
            "channels": {each.name: {**each.body, **dict.fromkeys(each.unresolved)} for each in self.file.channels},
            "alert_policies": {each.name: policy_to_body(each.policy) for each in self.file.alert_policies},
        }
        try:
            if expect is None:
                return client.jobs.preview_apply(jobs, **options)
            return client.jobs.apply(jobs, expect=expect, **options)
        except ApiError as error:
            if error.code == "plan_outdated":
                again = "look at the new plan: run it again"
                fail("nothing was changed: some of it was changed meanwhile", again, exit_code=CONFLICT)
            if error.status == _TOO_LARGE:
                why = "what is sent is JSON, and larger than the file"
                split = "split it into files of a source each, or use `hourbell import jobs`"
                fail(f"the file is too large for one apply: {why}", split, exit_code=USAGE)
            if not error.errors:
                raise
            what = error.detail.replace("; see errors.", ".")
            if expect is None:
                what = what.replace(", so nothing was changed", "")
            complain(what, *map(self._location, error.errors))
            sys.exit(exit_code(error))

    def _location(self, error: "FieldError") -> str:
        """Format an error with the job's name and line in the file instead of its index in the request."""
        error = error._replace(hint=error.hint and as_flags(error.hint))
        entry = _ENTRY.match(error.pointer)
        if entry is not None:
            what, entries = _ENTRIES[entry[1]], getattr(self.file, entry[1])
            line = next((each.line for each in entries if each.name == entry[2]), None)
            in_entry = field_errors.FieldError(error.pointer[entry.end() :], error.message, error.hint)
            return str(FileError(in_entry, f"{what} {entry[2]}", line))
        found = _JOB.match(error.pointer)
        if found is None or int(found[1]) >= len(self.file.jobs):
            return str(field_errors.FieldError(error.pointer, error.message, error.hint))
        job = self.file.jobs[int(found[1])]
        in_job = field_errors.FieldError(error.pointer[found.end() :], error.message, error.hint)
        return str(FileError(in_job, f"job {job.definition.name}", job.line))


def file_options(*, needs_secrets: bool = True) -> Callable[[Function], Function]:
    """Add `-f` and the options for applying the file, passed to the function as one `wanted`."""
    return functools.partial(_with_file, needs_secrets=needs_secrets)


def _with_file(function: Function, *, needs_secrets: bool) -> Function:
    @click.option("-f", "--file", "name", required=True, metavar="FILE|-", help="The jobs file; - is stdin.")
    @click.option("--format", "form", type=click.Choice(FORMATS), help="Its format.  [default: by its name or text]")
    @click.option("--source", metavar="LABEL", help="The source of the jobs, instead of the file's own.")
    @click.option("--prune", is_flag=True, help="Delete what belongs to the same source and is not in the file.")
    @click.option("--take-over", is_flag=True, help="Also change what has these names and others own.")
    @click.option(
        "--drop-secrets", is_flag=True, help="Give up secret headers set for another origin than the new one."
    )
    @functools.wraps(function)
    def call(
        *args: Any,
        name: str,
        form: Format | None,
        source: str | None,
        prune: bool,
        take_over: bool,
        drop_secrets: bool,
        **given: Any,
    ) -> None:
        file = read(name, form, needs_secrets=needs_secrets)
        label = (file.source_label or "") if source is None else source
        if prune:
            _check_pruning(file, label, _shown(name))
        function(*args, wanted=FilePlan(file, label, prune, take_over, drop_secrets), **given)

    return call


def _check_pruning(file: JobsFile, label: str, name: str) -> None:
    """Exit with an error if jobs that the file lacks cannot safely be deleted."""
    if file.incomplete is not None:
        mend = "add what is missing and remove the line incomplete = …; or omit --prune"
        fail(f"{name} is incomplete, and --prune would delete what it lacks", file.incomplete, mend, exit_code=USAGE)
    if not label:
        ways = "name their source: write source = … in the file, or use --source LABEL"
        fail("--prune deletes the jobs of a source, and there is none", ways, exit_code=USAGE)
    if file.is_empty:
        fail(f"{name} has no jobs, and --prune would delete all", "leave --prune out", exit_code=USAGE)


def read(name: str, form: Format | None, *, needs_secrets: bool = True) -> JobsFile:
    """Read the jobs of a file and resolve their references. Exits with an error if the file is invalid.

    Without `needs_secrets`, references that cannot be resolved are left out, with a note.
    """
    text = _text(name)
    folder = Path() if name == STDIN else Path(name).parent
    resolve = resolver(folder) if needs_secrets else lenient(resolver(folder), note)
    try:
        file = read_jobs_file(text, form or format_of_name(name) or format_of_text(text), resolve)
    except JobsFileError as error:
        fail(f"{_shown(name)} is invalid", *str(error).splitlines(), exit_code=USAGE)
    for warning in file.warnings:
        note(warning)
    if file.incomplete is not None:
        note(f"{_shown(name)} is incomplete: {file.incomplete}")
    return file


def _text(name: str) -> str:
    if name == STDIN and sys.stdin.isatty():
        raise click.UsageError("Pipe a jobs file, or name one with -f FILE.")
    try:
        with click.open_file(name, "rb") as file:
            data: bytes = file.read(_MAX_REQUEST_BYTES + 1)
        if len(data) <= _MAX_REQUEST_BYTES:
            return data.decode("utf-8")
        fail(
            f"{_shown(name)} is larger than 8 MiB",
            "split it into several files, each with its own source",
            exit_code=USAGE,
        )
    except OSError as error:
        fail(f"{_shown(name)} cannot be read: {error.strerror}", "name another with -f FILE", exit_code=USAGE)
    except UnicodeDecodeError:
        fail(f"{_shown(name)} is not UTF-8", "save it as UTF-8", exit_code=USAGE)


def _kept(what: str) -> str:
    return f"its {what} is not in the file, and stays"


def _shown(name: str) -> str:
    return "stdin" if name == STDIN else name
