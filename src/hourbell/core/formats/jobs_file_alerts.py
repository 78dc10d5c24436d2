"""The alert policies and channels of a jobs file. The server checks the fields of a channel, which its type defines."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hourbell.core.alerts.channel import SECRET_FIELDS
from hourbell.core.alerts.policy import AlertPolicy, check_name, check_policy_name, parse_policy
from hourbell.core.formats.jobs_file_secrets import Resolve, is_reference
from hourbell.core.schedule.errors import echo
from hourbell.core.values.field_errors import BodyError, FieldError, pointer_to, shown

Report = Callable[[FieldError, str, int | None], None]  # takes an error, what has it, and its line
Lines = Mapping[tuple[str, str], int]  # the line of each entry, by table and name

CHANNELS, POLICIES = "channels", "alert_policies"


@dataclass(frozen=True, slots=True)
class FileChannel:
    """A channel of the file, as the API takes it, with its references resolved.

    `references` has the reference of each field that was one. A field whose reference was left out is not in the body.
    """

    name: str
    body: Mapping[str, Any] = field(repr=False)
    references: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None

    @property
    def unresolved(self) -> tuple[str, ...]:
        """The fields whose references were not resolved."""
        return tuple(name for name in self.references if name not in self.body)


@dataclass(frozen=True, slots=True)
class FilePolicy:
    name: str
    policy: AlertPolicy
    line: int | None = None


def read_channels(values: Mapping[str, Any], lines: Lines, resolve: Resolve, report: Report) -> tuple[FileChannel, ...]:
    """Read the channels; report every error."""
    found = []
    for name, table in _entries(values, CHANNELS, report):
        line, location = lines.get((CHANNELS, name)), _location("channel", name)
        errors = list(_name_errors(check_name, name, "a channel"))
        body, references = _resolved(table, resolve, errors)
        kind = body.get("type")
        if not isinstance(kind, str) or kind not in SECRET_FIELDS:
            message = "type is missing" if "type" not in body else f"type is {shown(kind)}"
            errors.append(FieldError("/type", message, f"write one of {', '.join(sorted(SECRET_FIELDS))}"))
        for error in errors:
            report(error, location, line)
        if not errors:
            found.append(FileChannel(name, body, references, line))
    return tuple(found)


def read_policies(values: Mapping[str, Any], lines: Lines, report: Report) -> tuple[FilePolicy, ...]:
    """Read the alert policies; report every error."""
    found = []
    for name, table in _entries(values, POLICIES, report):
        line, location = lines.get((POLICIES, name)), _location("alert policy", name)
        errors = list(_name_errors(check_policy_name, name))
        try:
            policy = parse_policy(table)
        except BodyError as refused:
            errors += refused.errors
        for error in errors:
            report(error, location, line)
        if not errors:
            found.append(FilePolicy(name, policy, line))
    return tuple(found)


def plain_channel_secrets(channels: tuple[FileChannel, ...]) -> Iterator[str]:
    """Warn about secrets of channels in plain text. Values are not shown."""
    for channel in channels:
        for name in SECRET_FIELDS[channel.body["type"]]:
            if name in channel.body and name not in channel.references:
                at = "" if channel.line is None else f"line {channel.line}, "
                better = f'write {name} = "env:NAME" or "file:/path"'
                yield f"{at}{_location('channel', channel.name)}: the {name} is in plain text in the file; {better}"


def _entries(values: Mapping[str, Any], kind: str, report: Report) -> Iterator[tuple[str, Mapping[str, Any]]]:
    tables = values.get(kind, {})
    if not isinstance(tables, dict):
        report(FieldError(pointer_to(kind), f"{kind} is not a table", f"write [{kind}.NAME] above each"), "", None)
        return
    for name, table in tables.items():
        if isinstance(table, dict):
            yield name, table
        else:
            error = FieldError(
                pointer_to(kind, name[:100]), "it is not a table", f"write [{kind}.NAME] above its fields"
            )
            report(error, "", None)


def _resolved(
    table: Mapping[str, Any], resolve: Resolve, errors: list[FieldError]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Resolve the fields that are references; also return these, by field."""
    body = dict(table)
    references = {name: value for name, value in table.items() if is_reference(value)}
    for name, reference in references.items():
        del body[name]
        try:
            value = resolve(reference)
        except ValueError as error:
            errors.append(FieldError(pointer_to(name), str(error)))
            continue
        if value is not None:
            body[name] = value
    return body, references


def _name_errors(check: Callable[..., None], *name: str) -> tuple[FieldError, ...]:
    try:
        check(*name)
    except BodyError as refused:
        return refused.errors
    return ()


def _location(what: str, name: str) -> str:
    return f"{what} {echo(name)}"
