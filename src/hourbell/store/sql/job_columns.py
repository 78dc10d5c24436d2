"""The columns of jobs that hold a definition, derived from the table of job fields.

The `.sql` files contain slots for them, such as `{job_fields}`, which are filled when a file is loaded. Among the
parameters of a statement they come last.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from hourbell.core.job.definition import Definition
from hourbell.core.job.field_kinds import Kind
from hourbell.core.job.fields import JOB_FIELDS, JobField

NAMES = tuple(field.name for field in JOB_FIELDS)
DURATIONS = frozenset(field.name for field in JOB_FIELDS if field.kind.column == "interval")
_BEFORE_A_NEW_JOB = 4  # parameters: id, cursor_at, next_at, plan_at
_BEFORE_A_CHANGE = 9  # the same, then updated_at, version, paused_note, paused_by, paused_until
_CASTS = {"jsonb": "::jsonb", "text[]": "::text[]"}  # cast to text
_LONG = ("target", "payload")  # lists read them only if they are short
_CHECKED = ("target", "retry", "lane")  # read by the caller that reads the row
WIDTH = _BEFORE_A_NEW_JOB + len(NAMES)  # of a new job
TAGS = _BEFORE_A_NEW_JOB + NAMES.index("tags")  # their position in it
_values = attrgetter(*NAMES)
_WRITES = [
    (position, f.kind.to_column) for position, f in enumerate(JOB_FIELDS) if f.kind.to_column is not Kind.to_column
]
_PLAIN = [f.name for f in JOB_FIELDS if f.name not in _CHECKED and f.kind.from_column is Kind.from_column]
_READS = [(f.name, f.kind.from_column) for f in JOB_FIELDS if f.name not in (*_CHECKED, *_PLAIN)]


def column_values(definition: Definition) -> list[Any]:
    """Convert a definition to its columns, in the order of `{job_fields}`."""
    values = list(_values(definition))
    for position, write in _WRITES:
        values[position] = write(values[position])
    return values


def read_columns(row: Mapping[str, Any], **checked: Any) -> Definition:
    """Read a definition from its columns; target, retry and lane were read before."""
    values = {name: row[name] for name in _PLAIN} | {name: read(row[name]) for name, read in _READS}
    return Definition(**values, **checked)


def fill_columns(text: str, mark: str) -> str:
    """Fill the slots of a statement. `mark` is the prefix of its parameters: `?` on SQLite, `$` on PostgreSQL."""
    new, changed = _BEFORE_A_NEW_JOB + 1, _BEFORE_A_CHANGE + 1
    assigned = [f"{name} = {mark}{number}" for number, name in enumerate(NAMES, changed)]
    slots = {
        "job_fields": ", ".join(NAMES),
        "kept_fields": ", ".join(name for name in NAMES if name != "lane"),
        "listed_fields": ", ".join(f"j.{name}" for name in NAMES if name not in _LONG),
        "assigned_fields": ", ".join(assigned),
        "assigned_fields_but_name": ", ".join(assigned[1:]),
        "fields_of_json": ", ".join(f"value ->> {position}" for position in range(_BEFORE_A_NEW_JOB, WIDTH)),
        "fields_of_n": ", ".join(f"n.{f.name}{_CASTS.get(f.kind.column, '')}" for f in JOB_FIELDS),
        "arrays_of_fields": ", ".join(f"${number}::{_array(f)}" for number, f in enumerate(JOB_FIELDS, new)),
        "after_fields": f"{mark}{WIDTH + 1}",
    }
    for slot, content in slots.items():
        text = text.replace(f"{{{slot}}}", content)
    return text


def _array(field: JobField) -> str:
    return "text[]" if field.kind.column in _CASTS else f"{field.kind.column}[]"
