"""Claiming on SQLite: the selection and order of ready runs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from hourbell.core.run.policies import Rank
from hourbell.core.run.run import Run
from hourbell.core.run.states import RunState
from hourbell.core.values.ids import uuid_of
from hourbell.store.base import LaneDemand
from hourbell.store.rows import KINDS, payload_of
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.settling import SQL
from hourbell.store.sqlite.values import instant_of, job_id_of


class Waiting(NamedTuple):
    """A run as the statements return it, in column order, with the number of the attempt to make."""

    id: str  # ids are hexadecimal, times are microseconds
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
    started_at: int | None
    at_most_once: int
    payload: str | None
    rank: int
    row_id: int

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
            None if self.started_at is None else instant_of(self.started_at),
            bool(self.at_most_once),
            begun=False,
            payload=payload_of(self.payload),
            has_payload=self.payload is not None,
        )


@dataclass(frozen=True, slots=True)
class ReadyRuns:
    """Waiting runs and their rowids, as the JSON arrays that the statements return and take."""

    count: int
    text: str
    row_ids: str

    @classmethod
    def of(cls, runs: Sequence[Waiting]) -> "ReadyRuns":
        return cls(len(runs), json.dumps(runs, ensure_ascii=False), json.dumps([run.row_id for run in runs]))

    @property
    def runs(self) -> list[Waiting]:
        """The runs, by rank and ready time."""
        return sorted(map(Waiting._make, json.loads(self.text)), key=_by_rank)


def joined(parts: Iterable[ReadyRuns]) -> ReadyRuns:
    """Combine several into one."""
    some = [ready for ready in parts if ready.count]
    return ReadyRuns(
        sum(ready.count for ready in some),
        _joined(ready.text for ready in some),
        _joined(ready.row_ids for ready in some),
    )


def _joined(arrays: Iterable[str]) -> str:
    return f"[{','.join(each[1:-1] for each in arrays)}]"


def suspect_of(session: Session, lanes: Sequence[str], now: datetime, suspect_after: int) -> ReadyRuns:
    return _ready_runs(session, SQL["suspect"], lanes, now, suspect_after)


def ready_of(session: Session, demand: LaneDemand, now: datetime, suspect_after: int) -> ReadyRuns:
    """Return the ready runs to claim in a lane: `oldest` of them by age, the others by rank and then by age.

    The JSON is parsed only if more runs are found than wanted: the writer thread competes for the interpreter lock.
    """
    parts: list[ReadyRuns] = []
    found = 0
    for rank in Rank:
        enough = min(demand.free, max(0, demand.free - found) + demand.oldest)
        if enough > 0:
            parts.append(_ready_runs(session, SQL["ready_runs"], demand.lane, rank, now, enough, suspect_after))
            found += parts[-1].count
    whole = joined(parts)
    return whole if found <= demand.free else ReadyRuns.of(_first(whole.runs, demand))


def _first(ready: list[Waiting], demand: LaneDemand) -> list[Waiting]:
    by_age = sorted(ready, key=lambda run: run.ready_at)
    first = by_age[: min(demand.oldest, demand.free)]
    taken = {run.id for run in first}
    return first + [run for run in ready if run.id not in taken][: demand.free - len(first)]


def _ready_runs(session: Session, sql: str, *values: Any) -> ReadyRuns:
    row = session.fetch_one(sql, *values)
    assert row is not None
    return ReadyRuns(row["count"], row["runs"], row["row_ids"])


def _by_rank(run: Waiting) -> tuple[int, int]:
    return run.rank, run.ready_at
