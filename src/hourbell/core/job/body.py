"""Jobs as request bodies, for the REST API, the jobs file and the client. Parsing reports all errors at once.

`parse_job` reads the output of `job_to_body` as the same definition.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hourbell.core.access.signing import secret_bytes
from hourbell.core.job.definition import Definition, default_catch_up
from hourbell.core.job.fields import BODY_FIELDS, DST, FIELDS, MAX_NAME_CHARACTERS
from hourbell.core.job.target import ChannelCall, TargetCall, TargetError, parse_target
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.values.field_errors import BodyError, FieldError, shown, unknown_fields
from hourbell.core.values.readers import schedule_errors, show_duration
from hourbell.core.values.strict_json import json_problem

__all__ = ["FIELDS", "GENERATE", "READ_ONLY", "ParsedJob", "job_to_body", "merge_patch", "parse_job"]

# Fields of an answer that are ignored in a request, so that a client can send back what it received.
READ_ONLY = frozenset(
    {
        "id", "version", "managed_by", "source", "next_at", "state", "error", "paused", "totals", "created_at",
        "updated_at", "words", "secrets", "links", "warnings", "generated_secret", "recent", "median_duration_ms",
        "p95_duration_ms", "streak",
    }
)  # fmt: skip
GENERATE = "generate"
_KNOWN = READ_ONLY.union(FIELDS, ["secret"])
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARACTERS}}}", re.ASCII)
_TOGETHER = ("name", "schedule", "timezone", "dst", "target")
_ALONE = tuple((each.name, each.kind.read, each.is_nullable) for each in BODY_FIELDS if each.name not in _TOGETHER)
_SHOWN = tuple((each.name, each.kind.show) for each in BODY_FIELDS)
_TIMEOUTS = ("timeout", "lock_timeout", "kill_after")


@dataclass(frozen=True, slots=True)
class ParsedJob:
    """A parsed body.

    `call` is what its target calls. `secret` is `generate` or a secret's text, and is never part of the definition.
    """

    definition: Definition
    call: TargetCall
    secret: str | None = field(default=None, repr=False)


def parse_job(body: object) -> ParsedJob:
    """Parse a job, or raise a BodyError with all errors.

    An absent field gets its default; null is an error unless the field is nullable.
    """
    if not isinstance(body, dict):
        raise BodyError([FieldError("", "a job is an object with name, schedule and target")])
    errors: list[FieldError] = []
    name = _read_name(body.get("name"), errors)
    schedule = _read_schedule(body, name, errors)
    target, call, secret = _read_target(body.get("target"), errors)
    values: dict[str, Any] = {}
    for each, read, is_nullable in _ALONE:
        value = body.get(each)
        if value is not None or (each in body and not is_nullable):
            values[each] = read(each, value, errors)
    starts_at, ends_at = values.get("starts_at"), values.get("ends_at")
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        errors.append(FieldError("/ends_at", "ends_at is not after starts_at"))
    if "secret" in body:
        errors.append(FieldError("/secret", "a job has no secret of its own", "write it inside an http target"))
    errors += unknown_fields("", body, _KNOWN, FIELDS)
    if errors or name is None or schedule is None or call is None:
        raise BodyError(errors)
    values.setdefault("catch_up", default_catch_up(schedule))
    definition = Definition(
        name, schedule.expression, target, schedule.timezone, schedule.dst, lane=call.lane, **values
    )
    return ParsedJob(definition, call, secret)


def job_to_body(definition: Definition) -> dict[str, Any]:
    """Return all fields that a user may set, in the order of FIELDS, in the form that `parse_job` reads."""
    body: dict[str, Any] = {}
    for name, show in _SHOWN:
        value = getattr(definition, name)
        body[name] = None if value is None else show(value)
    return body


def merge_patch(document: object, patch: object) -> object:
    """Apply a JSON Merge Patch (RFC 7396) to a copy of the document."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _read_name(name: object, errors: list[FieldError]) -> str | None:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    message = "a job needs a name" if name is None else f"{shown(name)} cannot be a job's name"
    hint = f"write letters, digits, _ and -, at most {MAX_NAME_CHARACTERS} of them"
    errors.append(FieldError("/name", message, hint))
    return None


def _read_schedule(body: Mapping[str, Any], name: str | None, errors: list[FieldError]) -> Schedule | None:
    """Read schedule, timezone and dst; each is checked even if another one is invalid."""
    text, zone, dst = body.get("schedule"), body.get("timezone", "UTC"), body.get("dst", "once")
    count = len(errors)
    if not isinstance(text, str):
        message = "a job needs a schedule" if text is None else "schedule is not a text"
        errors.append(FieldError("/schedule", message, "write a cron expression such as 0 9 * * 1-5"))
    if not isinstance(zone, str):
        errors.append(FieldError("/timezone", "timezone is not a text", "write an IANA name such as Europe/Paris"))
    if dst not in DST:
        errors.append(FieldError("/dst", f"dst is {shown(dst)}", f"write one of {', '.join(DST)}"))
    try:
        schedule = Schedule.parse(
            text if isinstance(text, str) else "@daily",
            zone if isinstance(zone, str) else "UTC",
            dst if dst in DST else "once",
            name or "job",
        )
    except ScheduleError as error:
        errors += schedule_errors(error)
        return None
    return schedule if len(errors) == count else None


def _read_target(target: object, errors: list[FieldError]) -> tuple[Mapping[str, Any], TargetCall | None, str | None]:
    """Return the target without its secret, its call (None if the target is invalid) and the secret."""
    if not isinstance(target, dict):
        what = "a job needs a target" if target is None else "target is not an object"
        hint = 'write one such as {"type": "http", "url": "https://example.com/hook"}'
        errors.append(FieldError("/target", what, hint))
        return {}, None, None
    if (wrong := json_problem(target)) is not None:
        errors.append(FieldError("/target", wrong))
        return {}, None, None
    secret = _read_secret(target, errors)
    kept = dict(target)
    kept.pop("secret", None)
    try:
        call = parse_target(kept)
    except TargetError as error:
        errors += [replace(each, pointer=f"/target{each.pointer}") for each in error.errors]
        return kept, None, secret
    if isinstance(call, ChannelCall):
        hint = "policies send to channels: set alert_policy"
        errors.append(FieldError("/target/type", "no job of yours can send to a channel by itself", hint))
        return kept, None, secret
    for name in _TIMEOUTS:
        if isinstance(kept.get(name), (int, float)):
            kept[name] = show_duration(getattr(call, name))
    return kept, call, secret


def _read_secret(target: Mapping[str, Any], errors: list[FieldError]) -> str | None:
    secret = target.get("secret")
    if secret is None or (secret == GENERATE and target.get("type") == "http"):
        return secret
    if target.get("type") != "http":
        errors.append(FieldError("/target/secret", "only http targets have a secret", "leave it out"))
        return None
    try:
        secret_bytes(secret if isinstance(secret, str) else "")
    except ValueError as error:
        errors.append(FieldError("/target/secret", str(error), f'write "{GENERATE}" to have one made'))
        return None
    return str(secret)
