"""The JSON Schema of the jobs file, for editors: it completes and marks, and the reader decides.

There is one entry for each field of a job, in the order of FIELDS.
"""

from enum import StrEnum
from typing import Any

from hourbell.core.job_body import FIELDS, LONGEST_DESCRIPTION, MOST_WAITS
from hourbell.core.jobs_file import AS_JSON, LONGEST_SOURCE
from hourbell.core.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority
from hourbell.core.tags import LONGEST_TAG, MOST_TAGS
from hourbell.core.target import METHODS

Schema = dict[str, Any]

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
                "description": "What tells this file from others: applying it touches only jobs of this source.",
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_SOURCE,
            },
            "incomplete": {
                "description": "What is missing in this file. While it is there, nothing is pruned.",
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_SOURCE,
            },
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
            "timeout": {"description": "Such as 30s.", "type": "string"},
            "targets": {"oneOf": [_http(), _sql(), _task(), _queue()]},
        },
    }


def _fields() -> Schema:
    table: Schema = {
        "name": _text("Letters, digits, _ and -; the only one of its name.", pattern="^[A-Za-z0-9_-]{1,100}$"),
        "schedule": _text("Cron such as 0 9 * * 1-5, @daily, every 15m, at …, yearly … or RRULE:…", minLength=1),
        "timezone": _text("An IANA name such as Europe/Paris.", default="UTC"),
        "dst": {"description": "What to do when clocks change.", "enum": ["once", "wall", "skip"], "default": "once"},
        "target": {"description": "What is called.", "$ref": "#/$defs/targets"},
        "payload": {"description": "What the target gets with each run: any value."},
        "description": _text("For people.", maxLength=LONGEST_DESCRIPTION),
        "catch_up": {
            **_choice(CatchUp, None, "What becomes of instants that were missed."),
            "type": ["string", "null"],
        },
        "catch_up_window": _nullable("How old a missed instant may be."),
        "overlap": _choice(Overlap, Overlap.ALLOW, "What to do while an earlier run has not ended."),
        "retry": _retry(),
        "delivery": _choice(Delivery, Delivery.AT_LEAST_ONCE, "What to do when nobody knows whether a run happened."),
        "max_age": _duration("How long after its instant a run may still begin.", "24h"),
        "late_after": _duration("When a run counts as late.", "5m"),
        "priority": _choice(Priority, Priority.NORMAL, "Who goes first when there is too much to do."),
        "jitter": _duration("Spreads runs over this long after their instants.", "0s"),
        "starts_at": {"description": "Nothing fires before; with an offset.", "type": ["string", "null"]},
        "ends_at": {"description": "Nothing fires from then on; with an offset.", "type": ["string", "null"]},
        "enabled": {
            "description": "Whether a new job fires. Of a job that exists it changes nothing.",
            "type": "boolean",
            "default": True,
        },
        "tags": {
            "type": "array",
            "maxItems": MOST_TAGS,
            "uniqueItems": True,
            "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_TAG, "pattern": "^[^,]*$"},
        },
    }
    return {name: table[name] for name in FIELDS}


def _as_json() -> Schema:
    return {name: _text(f"{meant} as JSON in a text, which can hold null.") for name, meant in AS_JSON.items()}


def _text(description: str, **more: object) -> Schema:
    return {"description": description, "type": "string", **more}


def _duration(description: str, default: str) -> Schema:
    return {"description": description, "$ref": "#/$defs/duration", "default": default}


def _nullable(description: str) -> Schema:
    return {"description": description, "anyOf": [{"$ref": "#/$defs/duration"}, {"type": "null"}]}


def _choice(kind: type[StrEnum], default: StrEnum | None, description: str) -> Schema:
    made: Schema = {"description": description, "enum": [each.value for each in kind]}
    return {**made, "enum": [*made["enum"], None]} if default is None else {**made, "default": default.value}


def _retry() -> Schema:
    waits = {"type": "array", "minItems": 1, "maxItems": MOST_WAITS, "items": {"$ref": "#/$defs/duration"}}
    own = _object(
        {
            "attempts": {"type": "integer", "minimum": 1, "maximum": 100},
            "backoff": waits,
            "spread": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
        },
        required=["attempts", "backoff"],
    )
    presets = {"enum": list(RETRY_PRESETS)}
    return {"description": "How often to try, and the waits between.", "anyOf": [presets, own], "default": "default"}


def _http() -> Schema:
    headers = {"description": _REFERENCE, "type": "object", "additionalProperties": {"type": "string"}}
    return _target(
        "http",
        {
            "url": _text("Begins with https:// or http://", pattern="^[hH][tT][tT][pP][sS]?://"),
            "method": {"enum": list(METHODS), "default": "POST"},
            "headers": headers,
            "body": {"description": "A text, or JSON with placeholders such as {{payload.name}}."},
            "timeout": {"$ref": "#/$defs/timeout"},
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
            "timeout": {"$ref": "#/$defs/timeout"},
            "lock_timeout": {"$ref": "#/$defs/timeout"},
            "search_path": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        },
        required=["function"],
    )


def _task() -> Schema:
    fields = {
        "name": _text("The name of a Python function.", minLength=1),
        "args": {"type": "object"},
        "timeout": {"$ref": "#/$defs/timeout"},
    }
    return _target("task", fields, required=["name"])


def _queue() -> Schema:
    made = _target("queue", {"queue": _text("The queue's name.", minLength=1)}, required=["queue"])
    del made["additionalProperties"]
    return made


def _target(kind: str, fields: Schema, required: list[str]) -> Schema:
    return _object({"type": {"const": kind}, **fields}, required=["type", *required])


def _object(fields: Schema, required: list[str]) -> Schema:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": fields}
