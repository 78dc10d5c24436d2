"""What a store reads for the doctor. Values only; what they mean is decided elsewhere.

What there may be a million of is a tuple, which is made several times as fast as a dataclass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from hourbell.core.job.definition import Job


class RunFacts(NamedTuple):
    """One run, with what the other tables hold of it."""

    id: UUID
    job_id: UUID
    job_name: str | None  # None if there is no such job
    kind: str
    scheduled_at: datetime
    state: str
    reason: str | None
    attempt: int
    newest_attempt: int  # the highest number among its attempts; 0 if it has none
    has_owner: bool
    has_lease: bool
    has_finished: bool
    has_version: bool  # whether the version it was planned by is written down


class RunMark(NamedTuple):
    """What planning left of one instant."""

    scheduled_at: datetime
    local_at: datetime
    version: int
    kind: str
    planned_at: datetime
    finished_at: datetime | None


class SkipMark(NamedTuple):
    """Due instants that got no run."""

    first_at: datetime
    last_at: datetime
    total: int
    reason: str


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job with its newest runs and skips, oldest first, all seen at one moment."""

    job: Job
    adopted_at: datetime | None  # when the current version was written down; None if it was not
    adopted_by: str | None
    earlier_at: datetime | None  # the newest such moment of an earlier version
    is_by_users: bool  # no version but the first was adopted from plain SQL
    ended_ever: int  # how many runs ended, those that retention took included
    runs: tuple[RunMark, ...]
    skips: tuple[SkipMark, ...]
    is_whole: bool  # there are no older runs and skips
    created_at: datetime | None = None  # when its row was made


@dataclass(frozen=True, slots=True)
class NodeFacts:
    id: UUID
    host: str
    started_at: datetime
    beat_at: datetime
    lanes: tuple[str, ...]
    tzdata: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes on the list, and the time-zone data that the database has seen."""

    nodes: tuple[NodeFacts, ...]
    tzdata: str | None = None
    planned_by_tzdata: str | None = None

    def alive(self, since: datetime) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.nodes if node.beat_at > since)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """A lane with runs that nothing but a free slot keeps waiting."""

    lane: str
    waiting: int
    oldest_ready_at: datetime  # since when the oldest of them could have been taken


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A running run."""

    id: UUID
    job_id: UUID
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class Schema:
    """What is there of ours, as (kind, name); kinds are table, index and trigger."""

    applied: Mapping[int, str]  # checksums of the migrations that were run
    objects: frozenset[tuple[str, str]]
    invalid_indexes: tuple[str, ...] = ()
    disabled_triggers: tuple[tuple[str, str], ...] = ()  # table and name
    settings: Mapping[str, str] | None = None  # of the database, those that bear on safety
    read_only: str | None = None  # why the database refuses writes; None if it accepts them
    unwritable: str | None = None  # why this process cannot write the database
