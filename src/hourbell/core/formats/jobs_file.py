"""The jobs file: jobs, alert policies and channels that users store beside their code, read with all errors at once.

It contains secrets only as references (`env:NAME`, `file:/path`). A function argument resolves them, and the resolved
values appear in no message and no definition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from hourbell.core.formats.jobs_file_alerts import (
    CHANNELS,
    POLICIES,
    FileChannel,
    FilePolicy,
    plain_channel_secrets,
    read_channels,
    read_policies,
)
from hourbell.core.formats.jobs_file_secrets import LITERAL, REFERENCES, Resolve, Secrets, plain_secrets
from hourbell.core.formats.jobs_file_text import FORMATS, Format, NotReadable, read_text
from hourbell.core.job.body import FIELDS, READ_ONLY, job_to_body, parse_job
from hourbell.core.job.definition import Definition
from hourbell.core.schedule.errors import echo
from hourbell.core.values.field_errors import BodyError, FieldError, pointer_to, unknown_fields
from hourbell.core.values.strict_json import NotJson, parse_json

__all__ = [
    "FORMATS",
    "LITERAL",
    "REFERENCES",
    "FileChannel",
    "FileError",
    "FileJob",
    "FilePolicy",
    "Format",
    "JobsFile",
    "JobsFileError",
    "Resolve",
    "can_be_source",
    "read_jobs_file",
]

AS_JSON = {"payload_json": "payload", "target_json": "target"}
TOP = ("source", "incomplete", CHANNELS, POLICIES, "defaults", "job")
MAX_SOURCE_CHARACTERS = 200  # also the max length of `incomplete`
_MAX_SHOWN_ERRORS = 100
_EXAMPLE = {"name": "defaults", "schedule": "@daily", "target": {"type": "task", "name": "defaults"}}


@dataclass(frozen=True, slots=True)
class FileError:
    """One error, with the job or table that has it and the line where that begins, if known."""

    error: FieldError
    location: str = ""
    line: int | None = None

    def __str__(self) -> str:
        locations = [] if self.line is None else [f"line {self.line}"]
        locations += [self.location] if self.location else []
        return f"{', '.join(locations)}: {self.error}" if locations else str(self.error)


class JobsFileError(ValueError):
    """An invalid jobs file. `errors` lists every validation error found in it."""

    def __init__(self, errors: Sequence[FileError]) -> None:
        lines = [str(error) for error in errors[:_MAX_SHOWN_ERRORS]]
        if len(errors) > _MAX_SHOWN_ERRORS:
            lines.append(f"and {len(errors) - _MAX_SHOWN_ERRORS} more")
        super().__init__("\n".join(lines))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class FileJob:
    """A job of the file.

    `references` maps the pointer of each value that was a reference, as in `/target/headers/Authorization`, to that
    reference. The resolved headers are in `secret_headers` and not in the definition. Neither they nor the secret are
    in the repr.
    """

    definition: Definition = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    references: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None

    @property
    def unresolved_headers(self) -> tuple[str, ...]:
        """The headers whose references were not resolved."""
        start = pointer_to("target", "headers", "")
        names = [pointer.removeprefix(start) for pointer in self.references if pointer.startswith(start)]
        return tuple(name for name in names if name not in self.secret_headers)

    def as_body(self) -> dict[str, Any]:
        """Return the job as an API request body, with its secrets."""
        body = job_to_body(self.definition)
        if self.secret is not None:
            body["target"] = {**body["target"], "secret": self.secret}
        return {**body, "secret_headers": dict(self.secret_headers)} if self.secret_headers else body


@dataclass(frozen=True, slots=True)
class JobsFile:
    """A jobs file that was read.

    `source_label` is the source that the file gives itself: jobs of another source are not its own. `incomplete` says
    what the file lacks; while it is set, a job that is absent from the file must not be pruned.
    """

    jobs: tuple[FileJob, ...]
    source_label: str | None = None
    warnings: tuple[str, ...] = ()
    incomplete: str | None = None
    channels: tuple[FileChannel, ...] = ()
    alert_policies: tuple[FilePolicy, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.jobs or self.channels or self.alert_policies)


def read_jobs_file(text: str, format: Format, resolve: Resolve) -> JobsFile:  # noqa: A002
    """Read the file, or raise a JobsFileError with all errors. A job's field replaces that of `defaults` as a whole."""
    try:
        read = read_text(text, format)
    except NotReadable as error:
        raise JobsFileError([FileError(FieldError("", str(error)), line=error.line)]) from None
    reader = _FileReader(read.values, resolve)
    source = reader.text("source", "write a text that identifies this file, as in billing")
    incomplete = reader.text("incomplete", "write what is missing, or leave it out")
    defaults = reader.defaults()
    jobs = read.values.get("job", [])
    if not isinstance(jobs, list):
        reader.error(FieldError("/job", "job is not a list", "write [[job]] above each job"))
        jobs = []
    lines: Sequence[int | None] = read.lines or [None] * len(jobs)
    made = [
        reader.job(body, number, line, defaults) for number, (body, line) in enumerate(zip(jobs, lines, strict=True), 1)
    ]
    channels = read_channels(read.values, read.entry_lines, resolve, reader.error)
    policies = read_policies(read.values, read.entry_lines, reader.error)
    if reader.errors:
        raise JobsFileError(reader.errors)
    warnings = (*reader.warnings, *plain_channel_secrets(channels))
    return JobsFile(tuple(job for job in made if job is not None), source, warnings, incomplete, channels, policies)


def can_be_source(text: str) -> bool:
    """Check that a text can be a file's source."""
    return 1 <= len(text) <= MAX_SOURCE_CHARACTERS and text.isprintable()


class _FileReader:
    """Reads the tables of a file and collects their errors."""

    def __init__(self, values: Mapping[str, Any], resolve: Resolve) -> None:
        self._values = values
        self._resolve = resolve
        self._lines: dict[str, str] = {}  # where each name first occurred
        self._wrong_defaults: set[str] = set()
        self.errors: list[FileError] = []
        self.warnings: list[str] = []
        for error in unknown_fields("", values, TOP, TOP):
            self.error(error)

    def error(self, error: FieldError, location: str = "", line: int | None = None) -> None:
        self.errors.append(FileError(error, location, line))

    def text(self, name: str, hint: str) -> str | None:
        """Read a top-level text field of the file."""
        text = self._values.get(name)
        if text is None:
            return None
        if not isinstance(text, str) or not can_be_source(text):
            message = f"{name} is not a text of 1 to {MAX_SOURCE_CHARACTERS} printable characters"
            self.error(FieldError(pointer_to(name), message, hint))
            return None
        return text

    def defaults(self) -> dict[str, Any]:
        """Read the fields that all jobs share by default. Their errors are reported once, and not for every job."""
        table = self._values.get("defaults", {})
        if not isinstance(table, dict):
            self.error(FieldError("/defaults", "defaults is not a table", "write [defaults] above its fields"))
            return {}
        errors: list[FieldError] = []
        body = _normal(table, errors)
        for name in [name for name in body if name not in FIELDS or name == "name"]:
            errors.append(_not_a_field(name))
            del body[name]
        try:
            parse_job(_EXAMPLE | Secrets(self._resolve, errors).taken_out(body))
        except BodyError as refused:
            errors += refused.errors
        for error in errors:
            self.error(error, "[defaults]")
        self._wrong_defaults = {_field_of(error) for error in errors}
        return body

    def job(self, body: object, number: int, line: int | None, defaults: Mapping[str, Any]) -> FileJob | None:
        if not isinstance(body, dict):
            self.error(FieldError("", "a job is a table with name, schedule and target"), f"job {number}", line)
            return None
        name = body.get("name")
        location = f"job {echo(name)}" if isinstance(name, str) and name else f"job {number}"
        errors: list[FieldError] = []
        secrets = Secrets(self._resolve, errors)
        own = _normal(body, errors)
        errors += [_not_a_field(name) for name in own if name in READ_ONLY]
        normal = {**defaults, **own}
        self._refuse_literal(normal, location, line)
        normal = secrets.taken_out(normal)
        known = {error.pointer for error in errors}
        parsed = None
        try:
            parsed = parse_job(normal)
        except BodyError as refused:
            errors += [error for error in refused.errors if error.pointer not in known]
        self._see(name, location, number, line)
        for error in errors:
            if _field_of(error) not in self._wrong_defaults - own.keys():
                self.error(error, location, line)
        if parsed is None or errors:
            return None
        return FileJob(parsed.definition, parsed.secret, secrets.headers, secrets.references, line)

    def _see(self, name: object, location: str, number: int, line: int | None) -> None:
        if not isinstance(name, str):
            return
        first = self._lines.setdefault(name, f"line {line}" if line else f"job {number}")
        if first != (f"line {line}" if line else f"job {number}"):
            self.error(FieldError("/name", f"the name is already used, at {first}", "take another"), location, line)

    def _refuse_literal(self, body: Mapping[str, Any], location: str, line: int | None) -> None:
        at = location if line is None else f"line {line}, {location}"
        self.warnings += [f"{at}: {each}" for each in plain_secrets(body.get("target"))]


def _field_of(error: FieldError) -> str:
    """Return the name of the job's field that an error is in."""
    name = error.pointer.split("/")[1] if error.pointer else ""
    return AS_JSON.get(name, name)


def _normal(table: Mapping[str, Any], errors: list[FieldError]) -> dict[str, Any]:
    """Convert a table to an API body, with fields written as JSON text parsed into their real fields."""
    body: dict[str, Any] = {}
    for name, value in table.items():
        meant = AS_JSON.get(name)
        if meant is None:
            body[name] = value
        elif meant in table:
            errors.append(FieldError(pointer_to(name), f"{meant} is given too", "write one of them"))
        else:
            try:
                body[meant] = parse_json(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b"")
            except NotJson as error:
                errors.append(FieldError(pointer_to(name), f"{name} is not JSON in a text: {error}"))
    return body


def _not_a_field(name: str) -> FieldError:
    if name == "name":  # a name in the defaults
        return FieldError("/name", "a name belongs to one job", "leave it out")
    close = get_close_matches(name[:100], FIELDS[1:], n=1)
    hint = f"did you mean {close[0]}?" if close else f"write {', '.join(FIELDS[1:])}"
    return FieldError(pointer_to(name[:100]), f"{echo(name)!r} is not a field of jobs", hint)
