"""A job as the REST API, the jobs file and the client speak of it: read with all its faults at once, and written again.

What `job_to_body` writes, `parse_job` reads as the same definition.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from hourbell.core.body_reader import HOW_LONG, SECOND, BodyError, BodyReader, Fault, inside, pointer_to, shown
from hourbell.core.durations import read_duration, show_duration
from hourbell.core.job import Definition, default_catch_up
from hourbell.core.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.preview import rfc3339
from hourbell.core.schedule import Schedule, ScheduleError
from hourbell.core.signing import secret_bytes
from hourbell.core.strict_json import fault_of, text_fault
from hourbell.core.tags import tag_faults
from hourbell.core.target import TargetCall, TargetError, parse_target

__all__ = [
    "FIELDS",
    "GENERATE",
    "READ_ONLY",
    "BodyError",
    "Fault",
    "ParsedJob",
    "job_to_body",
    "merge_patch",
    "parse_job",
    "pointer_to",
]

FIELDS = (
    "name", "schedule", "timezone", "dst", "target", "payload", "description", "catch_up", "catch_up_window", "overlap",
    "retry", "delivery", "max_age", "late_after", "priority", "jitter", "starts_at", "ends_at", "enabled", "tags",
)  # fmt: skip
# What an answer says besides, so that a client can send back what it got. It changes nothing.
READ_ONLY = frozenset(
    {
        "id", "version", "managed_by", "source", "next_at", "state", "error", "paused", "totals", "created_at",
        "updated_at", "words", "secrets", "links", "warnings", "generated_secret",
    }
)  # fmt: skip
GENERATE = "generate"
LONGEST_DESCRIPTION, MOST_WAITS = 10_000, 100
_KNOWN = READ_ONLY.union(FIELDS, ["secret"])
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_NEEDS = re.compile(r"the \w+ target needs (\w+)")
_DST = ("once", "wall", "skip")
_MAX_AGE, _LATE_AFTER, _NONE = timedelta(hours=24), timedelta(minutes=5), timedelta(0)
_RETRY_FIELDS = ("attempts", "backoff", "spread")


@dataclass(frozen=True, slots=True)
class ParsedJob:
    """What a body says. `call` is what its target calls. `secret` is `generate` or a secret's text, and is never part
    of the definition."""

    definition: Definition
    call: TargetCall
    secret: str | None = field(default=None, repr=False)


def parse_job(body: object) -> ParsedJob:
    """The job, or a BodyError with everything that is wrong. What is absent has its default; null mostly is a fault."""
    if not isinstance(body, dict):
        raise BodyError([Fault("", "a job is an object with name, schedule and target")])
    reader = _JobReader(body)
    name = reader.name()
    schedule = reader.schedule(name)
    target, call, secret = reader.target()
    starts_at, ends_at = reader.instant("starts_at"), reader.instant("ends_at")
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        reader.fault("/ends_at", "ends_at is not after starts_at")
    catch_up = CatchUp.LATEST if schedule is None else default_catch_up(schedule)
    definition = Definition(
        name=name or "",
        schedule="" if schedule is None else schedule.expression,
        target=target,
        timezone="" if schedule is None else schedule.timezone,
        dst="once" if schedule is None else schedule.dst,
        payload=reader.payload(),
        description=reader.description(),
        catch_up=catch_up if body.get("catch_up") is None else reader.choice("catch_up", catch_up),
        catch_up_window=None if body.get("catch_up_window") is None else reader.duration("catch_up_window", SECOND),
        overlap=reader.choice("overlap", Overlap.ALLOW),
        retry=reader.retry(),
        delivery=reader.choice("delivery", Delivery.AT_LEAST_ONCE),
        max_age=reader.duration("max_age", _MAX_AGE),
        late_after=reader.duration("late_after", _LATE_AFTER),
        priority=reader.choice("priority", Priority.NORMAL),
        jitter=reader.duration("jitter", _NONE, least=_NONE),
        starts_at=starts_at,
        ends_at=ends_at,
        enabled=reader.flag("enabled", default=True),
        tags=reader.tags(),
        lane="" if call is None else call.lane,
    )
    if "secret" in body:
        reader.fault("/secret", "a job has no secret of its own", "write it inside an http target")
    reader.refuse_others("", body, _KNOWN, FIELDS)
    if reader.faults or call is None:
        raise BodyError(reader.faults)
    return ParsedJob(definition, call, secret)


def job_to_body(definition: Definition) -> dict[str, Any]:
    """Everything a user may say about the job, in the order of FIELDS, as `parse_job` reads it."""
    body: dict[str, Any] = {name: getattr(definition, name) for name in FIELDS}
    for name in ("catch_up_window", "max_age", "late_after", "jitter"):
        body[name] = None if body[name] is None else show_duration(body[name])
    for name in ("starts_at", "ends_at"):
        body[name] = None if body[name] is None else rfc3339(body[name])
    for name in ("catch_up", "overlap", "delivery", "priority"):
        body[name] = body[name].value
    body["retry"] = _retry_to_body(definition.retry)
    body["target"] = dict(definition.target)
    body["tags"] = list(definition.tags)
    return body


def merge_patch(document: object, patch: object) -> object:
    """The document after a JSON Merge Patch (RFC 7396); neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _retry_to_body(retry: RetryPolicy) -> Any:
    for name, preset in RETRY_PRESETS.items():
        if retry == preset:
            return name
    waits = [show_duration(wait) for wait in retry.backoff]
    return {"attempts": retry.attempts, "backoff": waits, "spread": retry.spread}


class _JobReader(BodyReader):
    """Reads the fields that only jobs have."""

    def name(self) -> str | None:
        name = self.body.get("name")
        if isinstance(name, str) and _NAME.fullmatch(name):
            return name
        hint = "write letters, digits, _ and -, at most 100 of them"
        self.fault("/name", "a job needs a name" if name is None else f"{shown(name)} cannot be a job's name", hint)
        return None

    def schedule(self, name: str | None) -> Schedule | None:
        text, zone, dst = self.body.get("schedule"), self.body.get("timezone", "UTC"), self.body.get("dst", "once")
        faults = len(self.faults)
        if not isinstance(text, str):
            message = "a job needs a schedule" if text is None else "schedule is not a text"
            self.fault("/schedule", message, "write a cron expression such as 0 9 * * 1-5")
        if not isinstance(zone, str):
            self.fault("/timezone", "timezone is not a text", "write an IANA name such as Europe/Paris")
        if dst not in _DST:
            self.fault("/dst", f"dst is {shown(dst)}", f"write one of {', '.join(_DST)}")
        try:
            schedule = Schedule.parse(
                text if isinstance(text, str) else "@daily",
                zone if isinstance(zone, str) else "UTC",
                dst if dst in _DST else "once",
                name or "job",
            )
        except ScheduleError as error:
            for each in error.faults:
                if each.field == "timezone":
                    self.fault("/timezone", each.message, each.hint)
                else:
                    self.fault("/schedule", str(replace(each, hint=None)), each.hint)
            return None
        return schedule if len(self.faults) == faults else None

    def target(self) -> tuple[Mapping[str, Any], TargetCall | None, str | None]:
        """The target without its secret, what it calls unless that has a fault, and the secret."""
        target = self.body.get("target")
        if not isinstance(target, dict):
            what = "a job needs a target" if target is None else "target is not an object"
            self.fault("/target", what, 'write one such as {"type": "http", "url": "https://example.com/hook"}')
            return {}, None, None
        if (fault := fault_of(target)) is not None:
            self.fault("/target", fault)
            return {}, None, None
        secret = self._secret(target)
        kept = dict(target)
        kept.pop("secret", None)
        try:
            return kept, parse_target(kept), secret
        except TargetError as error:
            for message in error.faults:
                self.fault(_place_in_target(message, kept), message)
        return kept, None, secret

    def _secret(self, target: Mapping[str, Any]) -> str | None:
        secret = target.get("secret")
        if secret is None or (secret == GENERATE and target.get("type") == "http"):
            return secret
        if target.get("type") != "http":
            self.fault("/target/secret", "only http targets have a secret", "leave it out")
            return None
        try:
            secret_bytes(secret if isinstance(secret, str) else "")
        except ValueError as error:
            self.fault("/target/secret", str(error), f'write "{GENERATE}" to have one made')
            return None
        return str(secret)

    def payload(self) -> object:
        payload = self.body.get("payload")
        if (fault := fault_of(payload)) is not None:
            self.fault("/payload", fault)
        return payload

    def description(self) -> str:
        text = self.body.get("description", "")
        if not isinstance(text, str) or len(text) > LONGEST_DESCRIPTION:
            self.fault("/description", f"description is not a text of at most {LONGEST_DESCRIPTION} characters")
            return ""
        if (fault := text_fault(text)) is not None:
            self.fault("/description", fault)
        return text

    def retry(self) -> RetryPolicy:
        value = self.body.get("retry", "default")
        default = RETRY_PRESETS["default"]
        if isinstance(value, str) and value in RETRY_PRESETS:
            return RETRY_PRESETS[value]
        if not isinstance(value, dict):
            presets = ", ".join(RETRY_PRESETS)
            hint = 'or your own, as in {"attempts": 3, "backoff": ["30s", "5m"]}'
            self.fault("/retry", f"retry is {shown(value)}", f"write one of {presets}, {hint}")
            return default
        attempts, backoff, spread = value.get("attempts"), value.get("backoff"), value.get("spread", 0)
        faults = len(self.faults)
        if type(attempts) is not int or not 1 <= attempts <= 100:
            self.fault("/retry/attempts", f"attempts is {shown(attempts)}", "write a whole number from 1 to 100")
        if type(spread) not in (int, float) or not 0 <= spread <= 1:
            self.fault("/retry/spread", f"spread is {shown(spread)}", "write a number from 0 to 1")
        waits = self._waits(backoff)
        self.refuse_others("/retry", value, _RETRY_FIELDS, _RETRY_FIELDS)
        return RetryPolicy(attempts, waits, float(spread)) if len(self.faults) == faults else default  # type: ignore[arg-type]

    def _waits(self, backoff: object) -> tuple[timedelta, ...]:
        if not isinstance(backoff, list) or not 1 <= len(backoff) <= MOST_WAITS:
            hint = 'as in ["30s", "5m"]; the last one repeats'
            self.fault("/retry/backoff", f"backoff is not a list of 1 to {MOST_WAITS} waits", hint)
            return ()
        waits = [read_duration(wait) for wait in backoff]
        for place, wait in enumerate(waits):
            if wait is None:
                message = f"{shown(backoff[place])} is not a duration from 0s to 36500d"
                self.fault(f"/retry/backoff/{place}", message, HOW_LONG)
        return tuple(wait for wait in waits if wait is not None)

    def tags(self) -> tuple[str, ...]:
        tags = self.body.get("tags", [])
        faults = list(tag_faults(tags))
        self.faults += faults
        return () if faults else tuple(tags)


def _place_in_target(message: str, target: Mapping[str, Any]) -> str:
    """Where a fault of a target belongs, by the name it begins with or asks for."""
    if (needed := _NEEDS.match(message)) is not None:
        return pointer_to("target", needed[1])
    if message.startswith("target needs a type"):
        return "/target/type"
    for name in target:
        if message.startswith((f"{name}:", f"{name} is ", repr(name))):
            return inside("/target", name)
    if message.startswith("url:"):
        return "/target/url"
    return "/target"
