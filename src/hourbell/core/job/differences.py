"""Differences between two definitions of a job, field by field, in a form that users may see.

Header values are masked, because they may be secrets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hourbell.core.job.body import job_to_body
from hourbell.core.job.definition import Definition
from hourbell.core.job.same import same_json

HIDDEN, ANOTHER = "(hidden)", "(hidden, another)"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed field, as in `schedule` or `target.url`, with its JSON before and after; None if absent."""

    field: str
    before: object
    after: object


def field_changes(before: Definition, after: Definition) -> Iterator[FieldChange]:
    """Return all changed fields in the order of the API's fields, then the owner."""
    old, new = job_to_body(before), job_to_body(after)
    for name in old:
        if name == "target" and old[name].get("type") == new[name].get("type"):
            yield from _target_changes(old[name], new[name])
        elif name == "target":
            yield FieldChange(name, _without_headers(old[name]), _without_headers(new[name]))
        elif not same_json(old[name], new[name]):
            yield FieldChange(name, old[name], new[name])
    owners = [f"{each.managed_by}:{each.source}".removesuffix(":") for each in (before, after)]
    if owners[0] != owners[1]:
        yield FieldChange("owner", *owners)


def _target_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        if (name in old) == (name in new) and same_json(one, other):
            continue
        if name == "headers" and isinstance(one or {}, Mapping) and isinstance(other or {}, Mapping):
            yield from _header_changes(one or {}, other or {})
            if (one or {}) == (other or {}):
                yield FieldChange("target.headers", one, other)
        else:
            yield FieldChange(f"target.{name}", one, other)


def _header_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new or old[name] != new[name]:
            yield hidden_change(f"target.headers.{name}", was_there=name in old, is_there=name in new)


def hidden_change(field: str, *, was_there: bool, is_there: bool) -> FieldChange:
    """Build a change of a masked value."""
    after = (ANOTHER if was_there else HIDDEN) if is_there else None
    return FieldChange(field, HIDDEN if was_there else None, after)


def _without_headers(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target with its header values masked."""
    headers = target.get("headers")
    hidden = {"headers": dict.fromkeys(headers, HIDDEN)} if isinstance(headers, Mapping) else {}
    return {**target, **hidden}
