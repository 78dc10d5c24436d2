"""The flags that define a job, and the request body built from them, for a new job and for a change.

Every field of a job has one flag, except the target, which has several.
"""

from collections.abc import Callable, Mapping
from typing import Any

import click

from hourbell.cli.shared.parameters import ZONE, ZONE_TEXT, instant, json_or_text, json_value, source_text
from hourbell.core.job.fields import BODY_FIELDS, JobField

Function = Callable[..., None]

DEFAULT = "default"
_FIELDS = tuple(field for field in BODY_FIELDS if field.has_option)
_SHORT = {"schedule": "-s", "timezone": "-z"}
_JSON = "JSON|@FILE|-"
_METAVARS = {"schedule": "EXPR", "timezone": "ZONE"} | {
    "text": "TEXT", "choice": "NAME", "duration": "DURATION", "instant": "TIME", "retry": "NAME|JSON", "json": _JSON,
}  # fmt: skip
_KINDS = {
    "url": ("http", "url"), "sql": ("sql", "function"), "task": ("task", "name"), "command": ("command", "command"),
}  # fmt: skip
_TARGET_OPTIONS = (
    click.option("--url", metavar="URL", help="Call a webhook."),
    click.option("--method", metavar="METHOD", help="The method of the webhook.  [default: POST]"),
    click.option(
        "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header of the webhook; may be repeated."
    ),
    click.option("--body", metavar=_JSON, help="The body of the webhook, instead of the envelope."),
    click.option("--sql", metavar="FUNCTION", help="Call a PostgreSQL function."),
    click.option("--task", metavar="NAME", help="Call a Python function."),
    click.option("--command", metavar="TEXT", help="Run a command of /bin/sh on a node; needs the role admin."),
    click.option("--label", metavar="NAME", help="Run the command only on nodes with this label.  [default: default]"),
    click.option(
        "--arg", "args", multiple=True, metavar="NAME=VALUE", help="An argument for --sql or --task; may be repeated."
    ),
    click.option("--timeout", metavar="DURATION", help="Timeout of an attempt; for webhooks 1s to 60s."),
    click.option("--target", metavar=_JSON, help="The whole target, as in the API."),
)


def definition_options(function: Function) -> Function:
    """Add the flags, in the order of `--help`."""
    options = [option for field in _FIELDS for option in _options(field)]
    for option in reversed(options):
        function = option(function)
    return function


def _options(field: JobField) -> tuple[Callable[[Function], Function], ...]:
    if field.kind.name == "target":
        return _TARGET_OPTIONS
    if field.kind.name == "tags":
        return (click.option("--tag", field.name, multiple=True, metavar="TAG", help=f"{field.help} May be repeated."),)
    names = [_option(field), *filter(None, [_SHORT.get(field.name)])]
    choices = f" One of {', '.join(field.kind.choices)}." if field.kind.choices else ""
    metavar = _METAVARS.get(field.name) or _METAVARS[field.kind.name]
    kind = ZONE_TEXT if field.name == "timezone" else None
    return (click.option(*names, type=kind, metavar=metavar, help=f"{field.help}{choices}"),)


def _option(field: JobField) -> str:
    return f"--{field.name.replace('_', '-')}"


def definition_of(given: Mapping[str, Any], zone: str = "UTC") -> dict[str, Any]:
    """Build the request body from the given flags only. `default` resets a field to its default."""
    body: dict[str, Any] = {}
    for field in _FIELDS:
        if field.kind.name == "target":
            body |= {field.name: target} if (target := target_of(given)) else {}
        elif field.kind.name == "tags":
            body |= {field.name: [tag for tag in given[field.name] if tag]} if given.get(field.name) else {}
        elif given.get(field.name) is not None:
            body[field.name] = _value(field, given[field.name], zone)
    return body


def _value(field: JobField, text: str, zone: str) -> Any:
    if field.kind.name == "json" or (field.kind.name == "retry" and text.lstrip()[:1] == "{"):
        return json_value(text, _option(field))
    if text == DEFAULT and field.kind.name != "retry":  # for retry, `default` is the name of a preset
        return None
    if field.kind.name == "instant":
        ZONE.convert(zone, None, None)  # fails here on an unknown zone, because the time is read in it
        return instant(text, zone, _option(field), "ahead")
    return text


def target_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Build the target from the given flags; empty if there are none."""
    if given.get("target") is not None:
        return _whole_target(given)
    kinds = [flag for flag in _KINDS if given.get(flag) is not None]
    if len(kinds) > 1:
        raise click.UsageError(f"A job has one target; --{kinds[0]} and --{kinds[1]} are two.")
    target: dict[str, Any] = {}
    for flag in kinds:
        type_, field = _KINDS[flag]
        target = {"type": type_, field: given[flag]}
    kind = target.get("type")
    if (given.get("method") or given.get("headers") or given.get("body") is not None) and kind in (
        "sql",
        "task",
        "command",
    ):
        raise click.UsageError("--method, --header and --body are for --url.")
    if given.get("args") and kind == "http":
        raise click.UsageError("--arg is for --sql or --task; a webhook is given a --payload.")
    if given.get("args") and kind == "command":
        raise click.UsageError("--arg is for --sql or --task; write the arguments into --command.")
    if given.get("label") and kind not in ("command", None):
        raise click.UsageError("--label is for --command.")
    target |= {name: given[name] for name in ("method", "timeout", "label") if given.get(name) is not None}
    if given.get("headers"):
        target["headers"] = dict(_split(text, ":", "--header", "'Name: value'") for text in given["headers"])
    if given.get("body") is not None:
        target["body"] = json_or_text(source_text(given["body"], "--body"))
    if given.get("args"):
        pairs = (_split(text, "=", "--arg", "name=value") for text in given["args"])
        target["args"] = {name: json_or_text(value) for name, value in pairs}
    return target


def redefined(old: Mapping[str, Any], changes: Mapping[str, Any], *, has_whole_target: bool = False) -> dict[str, Any]:
    """Build the whole job after a change: a given field replaces the old one, and None resets it to its default.

    A merge patch cannot express this: it removes nulls from a payload, and merges a payload instead of replacing it.
    """
    job = {**old, **changes}
    if "target" in changes and not has_whole_target:
        job["target"] = _retargeted(old["target"], changes["target"])
    return {name: value for name, value in job.items() if value is not None}


def _retargeted(old: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Merge single fields, headers and arguments into the old target; a target of another type replaces it entirely."""
    if said.get("type", old.get("type")) != old.get("type"):
        return dict(said)
    target = {**old, **said}
    if "headers" in said:
        target["headers"] = _with_headers(old.get("headers") or {}, said["headers"]) or None
    if "args" in said:
        target["args"] = {**(old.get("args") or {}), **said["args"]}
    return {name: value for name, value in target.items() if value is not None}


def _with_headers(old: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """Merge headers by case-insensitive name; an empty value removes the header."""
    names, known = {name.lower() for name in said}, {name.lower() for name in old}
    for name, value in said.items():
        if not value and name.lower() not in known:
            raise click.BadParameter(f"the job has no header {name} that could be taken away.", param_hint="--header")
    kept = {name: value for name, value in old.items() if name.lower() not in names}
    return kept | {name: value for name, value in said.items() if value}


def _whole_target(given: Mapping[str, Any]) -> dict[str, Any]:
    others = ("url", "method", "headers", "body", "sql", "task", "command", "label", "args", "timeout")
    if any(given.get(name) for name in others):
        raise click.UsageError("--target is the whole target; put the rest into it.")
    found = json_value(given["target"], "--target")
    if not isinstance(found, dict):
        raise click.BadParameter('write an object, as in \'{"type": "http", …}\'.', param_hint="--target")
    return found


def _split(text: str, sign: str, option: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise click.BadParameter(f"write {form}.", param_hint=option)
    return name.strip(), value.strip()
