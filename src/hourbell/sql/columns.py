"""The columns of jobs that a statement writes, derived from the table of job fields."""

from collections.abc import Callable

from hourbell.core.job.fields import JOB_FIELDS, JobField

_OF_THE_SERVER = ("lane", "source")
_APART = ("name", "enabled", "managed_by")  # a replaced job keeps its name; pause and owner have rules of their own
COLUMNS = tuple(field for field in JOB_FIELDS if field.name not in _OF_THE_SERVER)


def insert(table: str, value: Callable[[JobField], str]) -> str:
    """Begin the statement that inserts a job; `cursor_at` is its last column, and the caller appends the value."""
    names = ", ".join(field.name for field in COLUMNS)
    return f"insert into {table} as j ({names}, cursor_at)\nvalues ({', '.join(map(value, COLUMNS))}, "


def replaced() -> str:
    """Assign each column of an existing job, except those with rules of their own."""
    return ", ".join(f"{field.name} = excluded.{field.name}" for field in COLUMNS if field.name not in _APART)
