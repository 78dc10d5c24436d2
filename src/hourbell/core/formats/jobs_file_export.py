"""Export of definitions as a jobs file: in the order of the API's fields, without default values.

`read_jobs_file` reads the output of `export_jobs` as the same definitions.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hourbell.core.alerts.policy import BUILT_IN, AlertPolicy, policy_to_body
from hourbell.core.formats.jobs_file import LITERAL, REFERENCES
from hourbell.core.formats.jobs_file_alerts import CHANNELS, POLICIES
from hourbell.core.formats.jobs_file_text import Format
from hourbell.core.formats.jobs_file_writing import (
    can_be_toml,
    json_text,
    toml_json,
    toml_key,
    toml_text,
    toml_value,
    yaml_text,
    yaml_value,
)
from hourbell.core.job.body import job_to_body
from hourbell.core.job.definition import Definition, default_catch_up
from hourbell.core.job.fields import BODY_FIELDS
from hourbell.core.schedule import ScheduleError

_DEFAULTS = {field.name: field.shown_default for field in BODY_FIELDS if not field.is_required}
_WIDEST = 120


def export_jobs(
    definitions: Iterable[Definition],
    format: Format = "toml",  # noqa: A002
    *,
    source: str | None = None,
    incomplete: str | None = None,
    comments: Iterable[str] = (),
    notes: Mapping[str, Iterable[str]] = MappingProxyType({}),
    channels: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    policies: Mapping[str, AlertPolicy] = MappingProxyType({}),
) -> str:
    """Write a jobs file of the definitions, in their order, below the channels and alert policies.

    `comments` go above all jobs, and `notes` above the jobs of these names; JSON has neither. `incomplete` says what is
    missing.
    """
    bodies = [_body(definition) for definition in definitions]
    tables = {CHANNELS: _channels(channels), POLICIES: _policies(policies)}
    above = _comments(comments)
    said = {name: text for name, text in (("source", source), ("incomplete", incomplete)) if text is not None}
    match format:
        case "toml":
            head = above + "".join(f"{name} = {toml_text(text)}\n" for name, text in said.items())
            jobs = [_comments(notes.get(body["name"], ())) + _toml_job(body) for body in bodies]
            return "\n".join(filter(None, [head, *_toml_entries(tables), *jobs]))
        case "yaml":
            head = above + "".join(f"{name}: {yaml_text(text)}\n" for name, text in said.items())
            jobs = [_comments(notes.get(body["name"], ()), "  ") + _yaml_job(body) for body in bodies]
            entries = "".join(_yaml_entries(tables))
            return head + entries + ("job:\n" + "".join(jobs) if jobs else "" if entries else "job: []\n")
        case "json":
            given = {kind: entries for kind, entries in tables.items() if entries}
            return json_text({**said, **given, "job": bodies}) + "\n"


def _channels(channels: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: _without_null({"type": None, **config}) for name, config in channels.items()}


def _policies(policies: Mapping[str, AlertPolicy]) -> dict[str, dict[str, Any]]:
    """Return the fields of each policy that differ from the defaults."""
    usual = policy_to_body(BUILT_IN)
    return {
        name: {field: value for field, value in policy_to_body(policy).items() if value != usual[field]}
        for name, policy in policies.items()
    }


def _without_null(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _toml_entries(tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    for kind, entries in tables.items():
        for name, body in entries.items():
            lines = [f"{toml_key(field)} = {toml_value(value)}" for field, value in body.items()]
            yield "\n".join([f"[{kind}.{toml_key(name)}]", *lines]) + "\n"


def _yaml_entries(tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    for kind, entries in tables.items():
        if entries:
            yield f"{kind}:\n"
        for name, body in entries.items():
            yield f"  {yaml_text(name)}: {yaml_value(body)}\n"


def _body(definition: Definition) -> dict[str, Any]:
    body = {name: value for name, value in job_to_body(definition).items() if not _is_default(name, value, definition)}
    headers = definition.target.get("headers") if definition.target.get("type") == "http" else None
    if isinstance(headers, Mapping):
        written = {name: _header(value) for name, value in headers.items()}
        body["target"] = {**definition.target, "headers": written}
    return body


def _is_default(name: str, value: object, definition: Definition) -> bool:
    if name == "catch_up":
        try:
            return definition.catch_up == default_catch_up(definition.parsed())
        except ScheduleError:
            return False
    return name in _DEFAULTS and type(value) is type(_DEFAULTS[name]) and value == _DEFAULTS[name]


def _header(value: object) -> object:
    needs_mark = isinstance(value, str) and value.startswith((*REFERENCES, LITERAL))
    return f"{LITERAL}{value}" if needs_mark else value


def _toml_job(body: Mapping[str, Any]) -> str:
    """Write a job's table. A target or payload too wide for one line becomes a separate table at the end."""
    lines, tables = ["[[job]]"], []
    for name, value in body.items():
        if not can_be_toml(value):
            lines.append(f"{name}_json = {toml_json(value)}")
            continue
        line = f"{name} = {toml_value(value)}"
        if len(line) > _WIDEST and isinstance(value, Mapping) and value:
            tables.append(f"\n[job.{name}]")
            tables += [f"{toml_key(key)} = {toml_value(each)}" for key, each in value.items()]
        else:
            lines.append(line)
    return "\n".join(lines + tables) + "\n"


def _yaml_job(body: Mapping[str, Any]) -> str:
    lines = [f"{name}: {yaml_value(value, block=True)}" for name, value in body.items()]
    return "  - " + "\n".join(lines).replace("\n", "\n    ").replace("\n    \n", "\n\n") + "\n"


def _comments(lines: Iterable[str], margin: str = "") -> str:
    return "".join(f"{margin}# {_printable(line)}".rstrip() + "\n" for line in lines)


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line)
