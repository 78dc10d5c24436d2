"""The JSON Schema of the jobs file, for completion and checks in editors. The reader stays authoritative.

The fields of a job come from the table of job fields.
"""

from hourbell.core.alerts.channel import SECRET_FIELDS
from hourbell.core.alerts.kinds import JOB_KINDS
from hourbell.core.alerts.policy import GROUPS, MAX_CHANNEL_NAMES, MAX_ESCALATION_ITEMS, NAME_PATTERN
from hourbell.core.formats.jobs_file import AS_JSON, MAX_SOURCE_CHARACTERS
from hourbell.core.formats.jobs_file_alerts import CHANNELS, POLICIES
from hourbell.core.job.field_kinds import Schema
from hourbell.core.job.fields import BODY_FIELDS, JobField
from hourbell.core.job.target import METHODS

_REFERENCE = "env:NAME and file:/path stand for what is there when the file is applied."


def jobs_file_schema() -> Schema:
    fields = {**_fields(), **_as_json()}
    shared = {name: field for name, field in fields.items() if name != "name"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hourbell jobs file",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "source": {
                "description": "Identifies the jobs of this file: applying it changes only jobs of this source.",
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_SOURCE_CHARACTERS,
            },
            "incomplete": {
                "description": "What is missing in this file. While it is there, nothing is pruned.",
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_SOURCE_CHARACTERS,
            },
            CHANNELS: _by_name(
                "Where alert messages go, by name. The server checks the fields of each type.", _channel()
            ),
            POLICIES: _by_name("When to alert, and whom, by name.", _policy()),
            "defaults": {
                "description": "What every job has unless it says otherwise.",
                "type": "object",
                "additionalProperties": False,
                "properties": shared,
            },
            "job": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "additionalProperties": False,
                    "properties": fields,
                },
            },
        },
        "$defs": {
            "duration": {
                "description": "Such as 90s, 15m, 2h30m or 1d, or a number of seconds.",
                "anyOf": [
                    {"type": "string", "pattern": "^(?=[0-9])([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"},
                    {"type": "number", "minimum": 0},
                ],
            },
            "targets": {"oneOf": [_http(), _sql(), _task(), _command(), _queue()]},
        },
    }


def _by_name(description: str, entry: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": entry,
    }


def _channel() -> Schema:
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": sorted(SECRET_FIELDS)}},
        "additionalProperties": {"description": _REFERENCE, "type": ["string", "integer", "array"]},
    }


def _policy() -> Schema:
    names = {"type": "array", "items": {"type": "string", "pattern": NAME_PATTERN}, "maxItems": MAX_CHANNEL_NAMES}
    duration = {"$ref": "#/$defs/duration"}
    share = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    clock = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}
    hours = {"from": clock, "until": clock, "timezone": {"type": "string"}}
    step = _object({"after": duration, "notify": names}, required=["after", "notify"])
    fields = {
        "on": {"type": "array", "items": {"enum": sorted(JOB_KINDS)}},
        "after": {"type": "integer", "minimum": 1, "maximum": 100},
        "rate": _text("Failures among the last runs, as in 3 of 10.", pattern="^[1-9][0-9]{0,2} of [1-9][0-9]{0,2}$"),
        "notify": names,
        "repeat": duration,
        "escalate": {"type": "array", "items": step, "maxItems": MAX_ESCALATION_ITEMS},
        "resolve": {"type": "boolean"},
        "quiet_hours": _object(hours, required=["from", "until"]),
        "group": {"enum": list(GROUPS)},
        "slow_after": duration,
        "no_success_for": duration,
        "paused_for": duration,
        "losing_share": share,
    }
    return _object(fields, required=[])


def _fields() -> Schema:
    return {field.name: _field(field) for field in BODY_FIELDS}


def _field(field: JobField) -> Schema:
    made = {"description": field.help, **field.kind.schema}
    if field.is_required or not field.kind.schema:
        return made
    if not field.is_nullable:
        return {**made, "default": field.shown_default}
    if "enum" in made:
        return {**made, "enum": [*made["enum"], None]}
    if "type" in made:
        return {**made, "type": [made["type"], "null"]}
    return {"description": field.help, "anyOf": [field.kind.schema, {"type": "null"}]}


def _as_json() -> Schema:
    return {name: _text(f"{meant} as JSON in a text, which can hold null.") for name, meant in AS_JSON.items()}


def _text(description: str, **more: object) -> Schema:
    return {"description": description, "type": "string", **more}


def _http() -> Schema:
    headers = {"description": _REFERENCE, "type": "object", "additionalProperties": {"type": "string"}}
    return _target(
        "http",
        {
            "url": _text("Begins with https:// or http://", pattern="^[hH][tT][tT][pP][sS]?://"),
            "method": {"enum": list(METHODS), "default": "POST"},
            "headers": headers,
            "body": {"description": "A text, or JSON with placeholders such as {{payload.name}}."},
            "timeout": {"$ref": "#/$defs/duration"},
            "secret": _text(f"generate, or a reference: {_REFERENCE}"),
        },
        required=["url"],
    )


def _sql() -> Schema:
    return _target(
        "sql",
        {
            "function": _text("Such as public.run_daily_cleanup.", minLength=1),
            "args": {"type": "object"},
            "database": _text("A name from the settings."),
            "timeout": {"$ref": "#/$defs/duration"},
            "lock_timeout": {"$ref": "#/$defs/duration"},
            "search_path": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        },
        required=["function"],
    )


def _task() -> Schema:
    fields = {
        "name": _text("The name of a Python function.", minLength=1),
        "args": {"type": "object"},
        "timeout": {"$ref": "#/$defs/duration"},
    }
    return _target("task", fields, required=["name"])


def _command() -> Schema:
    text, number, codes = {"type": "string"}, {"type": "integer"}, {"type": "integer", "minimum": 0, "maximum": 255}
    size = {"anyOf": [{"type": "string", "pattern": "^[0-9]+[KMGT]?$"}, {"type": "integer", "minimum": 1}]}
    one_or_more = {"anyOf": [codes, {"type": "array", "items": codes}]}
    limits = {
        "memory": size,
        "cpu": {"$ref": "#/$defs/duration"},
        "processes": {**number, "minimum": 1},
        "open_files": {**number, "minimum": 8},
        "file_size": size,
    }
    fields: Schema = {
        "command": {
            "description": "The program and its arguments, or a text for /bin/sh.",
            "anyOf": [{**text, "minLength": 1}, {"type": "array", "items": text, "minItems": 1}],
        },
        "label": _text("Run only on nodes with this label.", pattern="^[A-Za-z0-9_.-]{1,63}$"),
        "cwd": _text("The folder to start in.", pattern="^/"),
        "env": {"type": "object", "additionalProperties": text},
        "inherit_env": {"description": "Variables of the node.", "type": "array", "items": text},
        "env_file": _text("A file of the node's machine with lines NAME=value.", pattern="^/"),
        "user": _text("The user to run as."),
        "umask": _text("Such as 027.", pattern="^0?[0-7]{3}$"),
        "nice": {**number, "minimum": 0, "maximum": 19},
        "stdin": _text("The input; the payload as JSON if it is left out."),
        "timeout": {"$ref": "#/$defs/duration"},
        "kill_after": {"$ref": "#/$defs/duration"},
        "limits": _object(limits, required=[]),
        "exit_codes": _object(dict.fromkeys(("ok", "nothing", "retry"), one_or_more), required=[]),
    }
    return _target("command", fields, required=["command"])


def _queue() -> Schema:
    made = _target("queue", {"queue": _text("The queue's name.", minLength=1)}, required=["queue"])
    del made["additionalProperties"]
    return made


def _target(kind: str, fields: Schema, required: list[str]) -> Schema:
    return _object({"type": {"const": kind}, **fields}, required=["type", *required])


def _object(fields: Schema, required: list[str]) -> Schema:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": fields}
