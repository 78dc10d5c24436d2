"""Trigger runs inside the caller's transaction. A key makes one run, whether it is used here or with the API."""

import json
from collections.abc import Iterator

from hourbell.core.values.strict_json import json_problem, text_problem
from hourbell.sql import postgresql, sqlite
from hourbell.sql.statement import Dialect, ParamStyle, Statement, Value, check_choices, rendered

MAX_KEY_CHARACTERS = 255  # as in the API
_BLOCK, _LENGTH, _JOB_ID = 64, 8, 16


def trigger_job(
    name: str,
    *,
    payload: object = None,
    key: str | None = None,
    dialect: Dialect = "postgresql",
    paramstyle: ParamStyle | None = None,
) -> Statement:
    """Return the statement that runs a job once the transaction has committed, with its own payload if one is given.

    The same key makes one run, however often it is used. A job that does not exist, is not planned yet or is in error
    is an error of the database. On PostgreSQL the statement returns one row, whose `run_id` is text.
    """
    check_choices(dialect, paramstyle)
    if (problem := json_problem(payload)) is not None:
        raise ValueError(f"payload: {problem}")
    values: dict[str, Value] = {"name": name, "payload": None if payload is None else json.dumps(payload)}
    statements = postgresql if dialect == "postgresql" else sqlite
    if key is None:
        return rendered(statements.TRIGGER_JOB, values, dialect, paramstyle)
    if not 1 <= len(key) <= MAX_KEY_CHARACTERS or (problem := text_problem(key)) is not None:
        raise ValueError(problem or f"a key has 1 to {MAX_KEY_CHARACTERS} characters")
    values["words"] = json.dumps(list(_words_after_id(f"manual:{key}".encode())))
    values["every_byte"] = bytes(range(256))
    return rendered(statements.TRIGGER_JOB_ONCE, values, dialect, paramstyle)


def _words_after_id(name: bytes) -> Iterator[int]:
    """Return the message whose SHA-1 is the run's UUIDv5, as padded 32-bit words, without the four words of the job's
    id, which only the database knows.
    """
    length = _JOB_ID + len(name)
    zeros = -(length + 1 + _LENGTH) % _BLOCK
    padded = name + b"\x80" + bytes(zeros) + (8 * length).to_bytes(_LENGTH, "big")
    for offset in range(0, len(padded), 4):
        yield int.from_bytes(padded[offset : offset + 4], "big")
