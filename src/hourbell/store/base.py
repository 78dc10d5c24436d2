"""What the engine asks of a store. Each method is one verb, one transaction and one promise.

The docstrings are the contract, and `tests/contract` holds every backend to each sentence. Losing a race is normal and
never an error: a write says what it expects, and the answer tells whether it was so. Every verb takes `now`; a store
never reads a clock except in `sample_time`. A verb that reads, decides and writes takes the pure function that decides
and runs it inside its own transaction, or before it, and then writes only if what it stands on is still so.

A database that is out of reach raises `StoreUnavailable`; whether the last commit took place is then unknown, and the
verb may be repeated.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.notes import Notes
from hourbell.core.run.plan import Plan
from hourbell.core.run.run import Run
from hourbell.core.run.settle import SUSPECT_AFTER, Settlement
from hourbell.sealing import Sealed

LIVE_FOR = timedelta(minutes=1)


class Wake(StrEnum):
    """A hint that there is something to do; never the only way to learn it."""

    JOBS = "jobs"  # a job was made or changed
    RUNS = "runs"  # runs are waiting


@dataclass(frozen=True, slots=True)
class Node:
    """A running engine process. It has a new id each time it starts."""

    id: UUID
    host: str
    started_at: datetime
    lanes: tuple[str, ...]  # what it can serve: names, or prefixes that end in `*`
    tzdata: str


class Held(NamedTuple):
    """A run a node holds, fenced by its attempt."""

    run_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat learned."""

    lost: tuple[Held, ...]  # held no longer: superseded, or ended by somebody else
    cancels: tuple[UUID, ...]  # runs somebody wants stopped
    handed_back: tuple[Held, ...] = ()  # leases in the node's name that it did not hold


@dataclass(frozen=True, slots=True)
class Planned:
    """What a planning pass did."""

    jobs: int
    runs: int
    skipped: Mapping[str, int]  # instants by reason
    errors: tuple[tuple[str, str], ...]  # (job name, what is wrong), for jobs that cannot be planned
    lanes: frozenset[str]  # where runs were added
    next_plan_at: datetime | None  # when the next job is due: at once, as far as a full pass knows


class Tzdata(StrEnum):
    """How a node's time-zone data stands to the database's."""

    CURRENT = "current"
    OUTDATED = "outdated"  # another node has newer data
    NEWER = "newer"  # jobs were planned by older data


@dataclass(frozen=True, slots=True)
class Refreshed:
    moved: tuple[tuple[str, datetime | None, datetime | None], ...]  # job name, next instant before and after
    after: UUID | None  # where to go on; None when no job is left


@dataclass(frozen=True, slots=True)
class Want:
    """How many runs a node can take from a lane; `oldest` of them by age, whatever their rank."""

    lane: str
    free: int
    oldest: int = 0


@dataclass(frozen=True, slots=True)
class LaneWork:
    """A lane with runs waiting, and when the first of them is ready."""

    lane: str
    ready_at: datetime


class Saved(StrEnum):
    """What became of a settlement."""

    SAVED = "saved"
    REPEATED = "repeated"  # our own attempt was settled already: a commit whose answer was lost
    SUPERSEDED = "superseded"  # another attempt has the run; the outcome is kept as late_outcome


class Settled(NamedTuple):
    """A settlement, with what it does not say of the attempt that is written down with it."""

    settlement: Settlement
    node: UUID | None = None  # None if nothing left the process: then there was no attempt
    started_at: datetime | None = None  # None where nobody knows: its node died, and the run had been attempted before
    error: str | None = None  # where the outcome has none


@dataclass(frozen=True, slots=True)
class Mark:
    """How far pruning has looked."""

    finished_at: datetime
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Pruned:
    removed: int
    mark: Mark | None  # None when there is nothing older left to look at


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much waits, for people and metrics."""

    waiting: int
    oldest_ready_at: datetime | None  # since when the oldest of them could have been taken: planned, and ready
    unserved: tuple[str, ...]  # lanes with work that no live node serves


class OpenTransaction(Protocol):
    """A transaction in which somebody's work and the settlement of its attempt are written, both or neither."""

    @property
    def connection(self) -> Any:
        """What the driver calls a connection."""

    async def settle(self, settled: Settled) -> bool:
        """Write the settlement with its attempt. False if the attempt is no longer the run's: nothing was written,
        and the caller must leave the transaction with an exception."""


class TransactionStore(Protocol):
    """Lends transactions of the engine's own database to targets that work in it."""

    def transaction(self, held: Held) -> AbstractAsyncContextManager[OpenTransaction]:
        """Commits at the end of the block; an exception rolls everything back."""

    async def check(self) -> None:
        """See that it can settle what it lends transactions for.

        Raises FunctionsOutOfReach or FunctionLoginRefused if it is the login of functions that could not.
        """

    async def close(self) -> None:
        """Give back every connection."""


class EngineStore(Protocol):
    """What plans, claims and settles. Who wants to understand Hourbell reads this."""

    async def sample_time(self) -> datetime:
        """The database's own time."""

    async def heartbeat(
        self,
        node: Node,
        now: datetime,
        lease_until: datetime,
        held: Sequence[Held],
        *,
        orphaned_until: datetime | None = None,
        given_up: Collection[Held] = (),
    ) -> Beat:
        """Announce the node as alive and renew the leases it still holds.

        A lease is renewed only where owner and attempt are still the node's, and never after it was lost.

        A lease in the node's name that is not among `held` and ends before `orphaned_until` is an orphan: the answer to
        its claim was lost, so nothing has begun. Its run is handed back uncharged to where it waited, and is cancelled
        if somebody wants it stopped. A run that may happen at most once and has begun is left to the reaper, and so are
        those `given_up`, whose outcome the node could not write.
        """

    async def retire(self, node: UUID) -> None:
        """Take a node that stops off the list. Its leases are not touched."""

    async def plan_due(self, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
        """Lock due jobs, let `decide` plan each, save runs, skips and cursors, all in one transaction.

        Jobs are taken by `plan_at`, the longest due first; those another node has locked are passed over. A run that
        exists is left alone. A cursor never moves back. A skip that continues the last one of its reason extends it.
        A job that cannot be planned gets its error and is not looked at again; the others are planned. A version
        nobody wrote down yet is written. Of a job that plain SQL changed, a pass plans the version before the oldest
        change that is left; when nothing of it remains the change is dropped, and the next pass plans the next version.
        """

    async def lanes(self, now: datetime) -> list[LaneWork]:
        """Every lane with runs waiting, with the moment the first of them is ready."""

    async def claim(
        self,
        node: UUID,
        now: datetime,
        lease_until: datetime,
        wants: Sequence[Want],
        *,
        suspects: bool = False,
        suspect_after: int = SUSPECT_AFTER,
    ) -> list[Run]:
        """Take leases on ready runs, at most as many as wanted in each lane.

        A claimed run is running, its attempt one higher, its lease the node's; it names no start if this is its first
        attempt. Lower ranks come first, then the longest ready. No run is claimed twice for one attempt, however many
        nodes ask. Unless its job allows overlap, a run is claimed only if no run of its job is running and none older
        is unfinished. With `suspects`, just one run under which `suspect_after` nodes died, or more, is taken; without,
        none such.
        """

    async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
        """The definitions of job versions."""

    async def secrets(self, jobs: Collection[UUID], now: datetime) -> dict[UUID, tuple[Sealed, ...]]:
        """The sealed secrets of jobs that are valid now, the newest of each field first."""

    async def last_success(self, job_id: UUID, before: datetime) -> datetime | None:
        """The scheduled time of the job's newest successful run, of any kind, scheduled strictly before then."""

    async def pause_gone(self, job_id: UUID, version: int, now: datetime, note: str) -> bool:
        """Pause a job whose receiver is gone, if it is still at that version. What is due is planned first."""

    async def begin(self, held: Held) -> bool:
        """Note that the effect of an `at_most_once` attempt begins. False if the attempt is no longer the run's."""

    async def write_notes(self, notes: Sequence[Notes], now: datetime) -> None:
        """Keep what attempts have said, in the place of what the same ones said before.

        What comes later than newer notes of its attempt changes nothing, and a run that is gone keeps none. Notes go
        with their run.
        """

    async def settle(self, settled: Sequence[Settled]) -> list[Saved]:
        """Write outcomes that arrived together, each only where its attempt is still the run's and the run is running.

        The attempt is written down with it; the first attempt's start is the run's. Repeating a settlement changes
        nothing. One that was superseded changes no run and is kept as the late outcome of its attempt. The statistics
        of the jobs follow.
        """

    async def reap(
        self, now: datetime, limit: int, decide: Callable[[Run, datetime, int], Settlement]
    ) -> list[Settlement]:
        """Settle runs whose lease ran out by what `decide` says, writing the attempt as lost.

        `decide` is handed the number of the run's earlier attempts whose nodes are gone: lost, without a late outcome,
        and with no heartbeat of their node since.
        """

    async def expire(self, now: datetime, limit: int, live_for: timedelta = LIVE_FOR) -> list[UUID]:
        """Fail waiting runs older than their max_age, but only while no live node serves their lane.

        Those that are served get the attempt they wait for: it was the downtime that made them old. A node lives for
        so long after its last heartbeat.
        """

    async def prune(self, now: datetime, age: timedelta, keep: int, limit: int, after: Mark | None = None) -> Pruned:
        """Look at up to `limit` ended runs older than `age`, past the mark, and remove those that may go.

        Each job's last `keep` runs stay, and unfinished runs always. A job that was deleted or never fires again keeps
        none, and goes with its last run. Planning does not change.
        """

    async def backlog(self, now: datetime, live_for: timedelta = LIVE_FOR) -> Backlog:
        """How much waits. A node lives for so long after its last heartbeat."""

    async def check_tzdata(self, version: str) -> Tzdata:
        """Record the node's time-zone data, which only rises, and tell how it stands to what jobs are planned by."""

    async def refresh(
        self,
        version: str,
        now: datetime,
        limit: int,
        decide: Callable[[Job, datetime | None], Plan | None],
        after: UUID | None = None,
    ) -> Refreshed:
        """Let `decide` put up to `limit` jobs, past the one given, in their place by newer time-zone data.

        It is handed the local time of each job's newest scheduled run, and answers None where nothing moves. When no
        job is left, the version is recorded as the one that jobs are planned by.
        """

    @property
    def hears_others(self) -> bool:
        """Whether hints from other processes arrive at this moment."""

    def wakes(self) -> AsyncIterator[Wake]:
        """Hints from this and other processes that there is something to do. After a silence, all of them.

        Of runs that its own verbs made there may be none: their answers tell, and sooner.
        """

    async def close(self) -> None:
        """Give back every connection."""
