"""Claiming on SQLite: which waiting runs come first."""

import json
from datetime import datetime
from typing import Any, NamedTuple

from hourbell.core.policies import Rank
from hourbell.core.run import Run, uuid_of
from hourbell.core.states import RunState
from hourbell.store.base import Want
from hourbell.store.rows import KINDS, payload_of
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.settling import SQL
from hourbell.store.sqlite.values import instant_of, job_id_of


class Waiting(NamedTuple):
    """A run as the statements give it, in the order of their columns, with the attempt that is to be made."""

    id: str  # ids are hexadecimal, instants microseconds
    job_id: str
    job_version: int
    kind: str
    scheduled_at: int
    ready_at: int
    expires_at: int
    lane: str
    attempt: int
    failures: int
    crashes: int
    started_at: int
    at_most_once: int
    payload: str | None
    rank: int

    def claimed(self) -> Run:
        return Run(
            uuid_of(int(self.id, 16)),
            job_id_of(self.job_id),
            self.job_version,
            KINDS[self.kind],
            instant_of(self.scheduled_at),
            instant_of(self.ready_at),
            instant_of(self.expires_at),
            RunState.RUNNING,
            self.lane,
            self.attempt,
            self.failures,
            self.crashes,
            instant_of(self.started_at),
            bool(self.at_most_once),
            begun=False,
            payload=payload_of(self.payload),
            has_payload=self.payload is not None,
        )


def waiting(session: Session, sql: str, *values: Any) -> list[Waiting]:
    """The runs of a statement that answers them as one JSON array."""
    row = session.fetch_one(sql, *values)
    assert row is not None
    return list(map(Waiting._make, json.loads(row["runs"])))


def picked(session: Session, want: Want, now: datetime, suspect_after: int) -> list[Waiting]:
    """The ready runs of a lane that come first: `oldest` of them by age, the others by rank and then by age."""
    line: list[Waiting] = []
    for rank in Rank:
        enough = min(want.free, max(0, want.free - len(line)) + want.oldest)
        if enough > 0:
            line += waiting(session, SQL["line"], want.lane, rank, now, enough, suspect_after)
    if len(line) <= want.free:
        return line
    line.sort(key=by_rank)
    by_age = sorted(line, key=lambda run: (run.ready_at, run.id))
    first = by_age[: min(want.oldest, want.free)]
    taken = {run.id for run in first}
    return first + [run for run in line if run.id not in taken][: want.free - len(first)]


def by_rank(run: Waiting) -> tuple[int, int, str]:
    return run.rank, run.ready_at, run.id
