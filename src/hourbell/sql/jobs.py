"""Create jobs inside the caller's transaction. An invalid job is refused before anything reaches the database."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from hourbell.core.job.body import ParsedJob, job_to_body, parse_job
from hourbell.core.job.definition import Definition
from hourbell.core.job.fields import JobField
from hourbell.core.schedule.forms import Instant
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.sql import postgresql, sqlite
from hourbell.sql.columns import COLUMNS
from hourbell.sql.statement import Dialect, ParamStyle, Statement, Value, check_choice, check_choices, rendered

IfExists = Literal["error", "ignore", "replace"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# A one-shot job for right now is due a moment before its statement runs, perhaps by another clock.
_GRACE = timedelta(minutes=1)


def insert_job(
    job: Mapping[str, Any] | Definition,
    *,
    dialect: Dialect = "postgresql",
    paramstyle: ParamStyle | None = None,
    if_exists: IfExists = "error",
) -> Statement:
    """Return the statement that creates a job; raise a BodyError with every error in the definition.

    Scheduled times count from the moment the statement runs: those before the commit fire after it. A one-shot job may
    be due up to a minute before that moment. `if_exists` decides for a job of that name: the database's error, nothing,
    or a change. A pause by a user stays; a job that is managed elsewhere is an error. With `error`, so is a job that
    would never fire because its time is over.

    >>> text, parameters = insert_job(
    ...     {"name": "report", "schedule": "@daily", "target": {"type": "task", "name": "report"}}
    ... )
    >>> parameters["schedule"]
    '@daily'
    """
    check_choices(dialect, paramstyle)
    check_choice("if_exists", if_exists, get_args(IfExists))
    definition = _checked(job).definition
    is_postgresql = dialect == "postgresql"
    statements = postgresql.INSERT_JOB if is_postgresql else sqlite.INSERT_JOB
    values = _text_values(definition) if is_postgresql else _plain_values(definition)
    return rendered(statements[if_exists], values, dialect, paramstyle)


def _checked(job: Mapping[str, Any] | Definition) -> ParsedJob:
    body = job_to_body(job) if isinstance(job, Definition) else job
    try:
        parsed = parse_job(dict(body) if isinstance(body, Mapping) else body)
    except BodyError as error:
        raise BodyError([_hinted(each) for each in error.errors]) from None
    if parsed.secret is not None:
        message = "a secret is not written by SQL, where it could not be sealed"
        hint = "leave it out, and make one with `hourbell secret create JOB` when the job is there"
        raise BodyError([FieldError("/target/secret", message, hint)])
    return replace(parsed, definition=replace(parsed.definition, managed_by="sql"))


def _hinted(error: FieldError) -> FieldError:
    return replace(error, hint="write them as args inside the target") if error.pointer == "/args" else error


def _plain_values(definition: Definition) -> dict[str, Value]:
    """Return the columns as SQLite stores them: durations and times are microseconds."""
    return _values(definition, lambda duration: duration // _MICROSECOND, lambda at: (at - _EPOCH) // _MICROSECOND, int)


def _text_values(definition: Definition) -> dict[str, Value]:
    """Return the columns as text, which every driver of PostgreSQL passes on and the statement casts."""
    return _values(
        definition,
        lambda duration: f"{duration // _MICROSECOND} microseconds",
        datetime.isoformat,
        lambda flag: "true" if flag else "false",
    )


def _values(
    definition: Definition,
    duration: Callable[[timedelta], Value],
    instant: Callable[[datetime], Value],
    flag: Callable[[bool], Value],
) -> dict[str, Value]:
    """Return the values of a statement's placeholders."""
    forms: dict[str, Callable[[Any], Value]] = {"interval": duration, "timestamptz": instant, "boolean": flag}
    last_at = _last_at(definition)
    values = {
        field.name: _value(field, getattr(definition, field.name), forms.get(field.kind.column)) for field in COLUMNS
    }
    return values | {"last_at": None if last_at is None else instant(last_at), "grace": duration(_grace(definition))}


def _value(field: JobField, value: Any, form: Callable[[Any], Value] | None) -> Value:
    if value is None:
        return None
    if form is not None:
        return form(value)
    kept = field.kind.to_column(value)
    return json.dumps(kept) if isinstance(kept, list) else str(kept)


def _grace(definition: Definition) -> timedelta:
    return _GRACE if isinstance(definition.parsed().form, Instant) else timedelta(0)


def _last_at(definition: Definition) -> datetime | None:
    """Return the last scheduled time; None if there is none."""
    schedule = definition.parsed()
    only = schedule.next(_EPOCH) if isinstance(schedule.form, Instant) else None
    return min((end for end in (only, definition.ends_at) if end is not None), default=None)
