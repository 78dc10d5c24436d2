"""Definitions as JSON: how a job's version is written down, read again and shown. Durations are seconds."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from hourbell.core.job import Definition
from hourbell.core.policies import RETRY_PRESETS, CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.schedule.forms import parse_duration
from hourbell.core.tags import readable_tags

_ENUMS = {"catch_up": CatchUp, "overlap": Overlap, "delivery": Delivery, "priority": Priority}
_DURATIONS = ("catch_up_window", "max_age", "late_after", "jitter")
_INSTANTS = ("starts_at", "ends_at")
_NAMES = tuple(field.name for field in fields(Definition))
_REQUIRED = tuple(field.name for field in fields(Definition) if field.default is MISSING)


def definition_to_json(definition: Definition) -> dict[str, Any]:
    body: dict[str, Any] = {name: getattr(definition, name) for name in _NAMES}
    for name in _DURATIONS:
        body[name] = None if body[name] is None else body[name].total_seconds()
    for name in _INSTANTS:
        body[name] = None if body[name] is None else body[name].isoformat()
    body["retry"] = retry_to_json(definition.retry)
    body["target"] = dict(definition.target)
    body["tags"] = list(definition.tags)
    return body


def definition_from_json(body: Mapping[str, Any]) -> Definition:
    """The definition, or a ValueError that says what cannot be read."""
    values: dict[str, Any] = {name: body[name] for name in _NAMES if name in body}
    missing = [name for name in _REQUIRED if name not in values]
    if missing:
        raise ValueError(f"a definition needs {', '.join(missing)}")
    for name, kind in _ENUMS.items():
        if name in values:
            values[name] = kind(values[name])
    for name in _DURATIONS:
        if values.get(name) is not None:
            values[name] = _duration(name, values[name])
    for name in _INSTANTS:
        if values.get(name) is not None:
            values[name] = _instant(name, values[name])
    values["retry"] = retry_from_json(values.get("retry", "default"))
    values["tags"] = readable_tags(values.get("tags"))
    return Definition(**values)


def _duration(name: str, seconds: Any) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is a number of seconds, not {seconds!r}") from None


def _instant(name: str, text: Any) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError(f"{name} is a date and time with an offset, as in 2026-01-01T00:00:00Z, not {text!r}")
    return instant.astimezone(UTC)


def retry_to_json(retry: RetryPolicy) -> Any:
    """The name of a preset, or the policy itself."""
    for name, preset in RETRY_PRESETS.items():
        if retry == preset:
            return name
    backoff = [wait.total_seconds() for wait in retry.backoff]
    return {"attempts": retry.attempts, "backoff": backoff, "spread": retry.spread}


def retry_from_json(body: Any) -> RetryPolicy:
    """The policy, or a ValueError that says how to write one. A wait is a number of seconds, or text such as 2m."""
    if isinstance(body, str) and body in RETRY_PRESETS:
        return RETRY_PRESETS[body]
    try:
        waits = tuple(_wait(wait) for wait in body["backoff"])
        policy = RetryPolicy(body["attempts"], waits, float(body.get("spread", 0)))
    except (TypeError, KeyError, ValueError, OverflowError):
        policy = None
    if policy is None or not _makes_sense(policy):
        presets = ", ".join(RETRY_PRESETS)
        own = "attempts (1-100) and backoff, a list of waits such as 90 (seconds) or 2m"
        raise ValueError(f"retry is one of {presets}, or {own}; spread, from 0 to 1, makes the waits random")
    return policy


def _wait(value: Any) -> timedelta:
    seconds = parse_duration(value) if isinstance(value, str) else value
    if seconds is None:
        raise ValueError(f"{value!r} is not a duration")
    return timedelta(seconds=seconds)


def _makes_sense(policy: RetryPolicy) -> bool:
    is_count = type(policy.attempts) is int and 1 <= policy.attempts <= 100
    has_waits = bool(policy.backoff) and min(policy.backoff) >= timedelta(0)
    return is_count and has_waits and 0 <= policy.spread <= 1
