"""What the attempts of a run have said, read where their node writes it: progress outlasts the run here."""

import json
from typing import NamedTuple
from uuid import UUID

from hourbell.store.sqlite.connection import Session

_LOOK = "select attempt, fraction, message, log from hourbell_run_notes where run_id = ?"


class ProgressRecord(NamedTuple):
    """How far an attempt said it was; it compares with a pair."""

    fraction: float | None
    message: str


class Said(NamedTuple):
    log: tuple[str, ...] = ()
    progress: ProgressRecord | None = None


def said_by(session: Session, run_id: UUID) -> dict[int, Said]:
    """What each attempt has said, by its number; one that said nothing is not there."""
    return {
        row["attempt"]: Said(
            tuple(line["text"] for line in json.loads(row["log"])), _progress(row["fraction"], row["message"])
        )
        for row in session.fetch(_LOOK, run_id)
    }


def _progress(fraction: float | None, message: str) -> ProgressRecord | None:
    return None if fraction is None and not message else ProgressRecord(fraction, message)
