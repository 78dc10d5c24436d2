"""Definitions as JSON: how a job's version is stored, read and shown. Durations are seconds."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from hourbell.core.job.definition import Definition
from hourbell.core.job.field_kinds import Kind
from hourbell.core.job.fields import JOB_FIELDS

_NAMES = tuple(field.name for field in JOB_FIELDS)
_values = attrgetter(*_NAMES)
# Only fields that need a conversion, because every new version and every claimed run passes through here.
_DUMPS = [(field.name, field.kind.dump) for field in JOB_FIELDS if field.kind.dump is not Kind.dump]
_LOADS = [(field, field.kind.load) for field in JOB_FIELDS if field.kind.restore is not Kind.restore]
_REQUIRED = [field.name for field in JOB_FIELDS if field.is_required]


def definition_to_json(definition: Definition) -> dict[str, Any]:
    body = dict(zip(_NAMES, _values(definition), strict=True))
    for name, dump in _DUMPS:
        if body[name] is not None:
            body[name] = dump(body[name])
    return body


def definition_from_json(body: Mapping[str, Any]) -> Definition:
    """Read a definition, or raise a ValueError that names the invalid field. Absent fields get their default."""
    if missing := [name for name in _REQUIRED if name not in body]:
        raise ValueError(f"a definition needs {', '.join(missing)}")
    values = {name: body[name] for name in _NAMES if name in body}
    for field, load in _LOADS:
        if (value := values.get(field.name)) is not None or (field.name in values and field.default is not None):
            values[field.name] = load(field.name, value)
    return Definition(**values)
