"""Facts that a store reads for the doctor. Plain values; other modules interpret them.

A kind that may have a million rows is a named tuple, which is several times faster to create than a dataclass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from hourbell.core.job.definition import Job


class RunFacts(NamedTuple):
    """One run, with what other tables store about it."""

    id: UUID
    job_id: UUID
    job_name: str | None  # None if the job does not exist
    kind: str
    scheduled_at: datetime
    state: str
    reason: str | None
    attempt: int
    newest_attempt: int  # the highest number among its stored attempts; 0 if it has none
    has_owner: bool
    has_lease: bool
    has_finished: bool
    has_version: bool  # the version it was planned by is stored


class RunMark(NamedTuple):
    """A planned run of one instant."""

    scheduled_at: datetime
    local_at: datetime
    version: int
    kind: str
    planned_at: datetime
    finished_at: datetime | None


class SkipMark(NamedTuple):
    """A range of due instants that got no run."""

    first_at: datetime
    last_at: datetime
    total: int
    reason: str


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job with its newest runs and skips, oldest first, all read in one snapshot."""

    job: Job
    adopted_at: datetime | None  # when the current version was stored; None if it was not
    adopted_by: str | None
    earlier_at: datetime | None  # the newest such time of an earlier version
    is_by_users: bool  # no version after the first was adopted from plain SQL
    ended_ever: int  # number of runs that ended, including those removed by retention
    runs: tuple[RunMark, ...]
    skips: tuple[SkipMark, ...]
    is_whole: bool  # there are no older runs or skips than these
    created_at: datetime | None = None  # when its row was created


@dataclass(frozen=True, slots=True)
class AlertNames:
    """The names by which jobs, alert policies and channels refer to each other."""

    unknown_policies: tuple[tuple[str, str, int], ...] = ()  # named by jobs: the policy, the first job and their number
    policies: tuple[tuple[str, str], ...] = ()  # names and definitions
    channels: frozenset[str] = frozenset()


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
    """The registered nodes, and the time-zone data that the database has seen."""

    nodes: tuple[NodeFacts, ...]
    tzdata: str | None = None
    planned_by_tzdata: str | None = None

    def alive(self, since: datetime) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.nodes if node.beat_at > since)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """A lane with ready runs that wait only for a free slot."""

    lane: str
    waiting: int
    oldest_ready_at: datetime  # when the oldest of them could have been claimed


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run in state running."""

    id: UUID
    job_id: UUID
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class Schema:
    """Hourbell's objects in the database, as (kind, name); kinds are table, index and trigger."""

    applied: Mapping[int, str]  # checksums of the applied migrations
    objects: frozenset[tuple[str, str]]
    invalid_indexes: tuple[str, ...] = ()
    disabled_triggers: tuple[tuple[str, str], ...] = ()  # table and name
    settings: Mapping[str, str] | None = None  # the database's settings that affect safety
    read_only: str | None = None  # why the database refuses writes; None if it accepts them
    unwritable: str | None = None  # why this process cannot write the database
