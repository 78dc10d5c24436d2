"""Mapping of PostgreSQL errors to failed attempts: which are retried, and which details are stored."""

from collections.abc import Mapping

import asyncpg

from hourbell.core.run.settle import Failed
from hourbell.targets.sql.answer import MAX_ERROR_CHARACTERS

_MAX_DETAIL_CHARACTERS = 2_000  # characters of each
# A retry would fail in the same way. Errors that may be gone in a minute (a lock, a deadlock, a constraint violation, a
# table that a deployment is about to create) are retried.
PERMANENT: Mapping[str, str] = {
    "0A000": "feature not supported",
    "42501": "permission denied",
    "42601": "syntax error",
    "42725": "ambiguous function call",
    "42804": "type mismatch",
    "42846": "no such type conversion",
    "42883": "no such function",
}
_DETAILS = {
    "sqlstate": "sqlstate",
    "context": "context",
    "detail": "detail",
    "hint": "hint",
    "constraint": "constraint_name",
    "schema": "schema_name",
    "table": "table_name",
    "column": "column_name",
}


def failure_of(error: asyncpg.PostgresError) -> Failed:
    """Return the failure of an attempt that ended with a server error, with its details."""
    message = str(error.args[0] if error.args else error)[:MAX_ERROR_CHARACTERS]
    said = {name: getattr(error, attribute, None) for name, attribute in _DETAILS.items()}
    details = {name: str(value)[:_MAX_DETAIL_CHARACTERS] for name, value in said.items() if value}
    retryable = error.sqlstate not in PERMANENT
    return Failed(message, retryable, result={"success": False, "message": message, "details": details})
