"""Log lines and progress of attempts, read from the notes table, where progress is still there after the run."""

import json
from typing import NamedTuple
from uuid import UUID

from hourbell.store.sqlite.connection import Session

_NOTES_SQL = "select attempt, fraction, message, log from hourbell_run_notes where run_id = ?"


class ProgressRecord(NamedTuple):
    """The last progress of an attempt. It is equal to a tuple `(fraction, message)`."""

    fraction: float | None
    message: str


class Said(NamedTuple):
    log: tuple[str, ...] = ()
    progress: ProgressRecord | None = None


def said_by(session: Session, run_id: UUID) -> dict[int, Said]:
    """Return log and progress by attempt number; attempts without either are missing."""
    return {
        row["attempt"]: Said(
            tuple(line["text"] for line in json.loads(row["log"])), _progress(row["fraction"], row["message"])
        )
        for row in session.fetch(_NOTES_SQL, run_id)
    }


def _progress(fraction: float | None, message: str) -> ProgressRecord | None:
    return None if fraction is None and not message else ProgressRecord(fraction, message)
