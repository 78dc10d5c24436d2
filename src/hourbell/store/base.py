"""The contract between the engine and a store. Each method is one verb, one transaction and one promise.

The docstrings are the contract, and `tests/contract` checks every backend against each sentence. Losing a race is
normal and never an error: a write states the values that it expects, and the result reports whether they matched. Every
verb takes `now`; a store never reads a clock except in `sample_time`. A verb that reads, decides and writes takes the
pure function that decides and runs it inside its own transaction; or it runs the function before the transaction, and
then writes only if the rows that the decision is based on have not changed.

An unreachable database raises `StoreUnavailable`. It is then unknown whether the last commit took place, and the verb
may be repeated.
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
from hourbell.core.run.outages import Outage
from hourbell.core.run.plan import Plan
from hourbell.core.run.run import Run
from hourbell.core.run.settle import SUSPECT_AFTER, Settlement
from hourbell.sealing import Sealed

LIVE_FOR = timedelta(minutes=1)


class Wake(StrEnum):
    """A hint that there is something to do; never the only way to find out."""

    JOBS = "jobs"  # a job was created or changed
    RUNS = "runs"  # runs are waiting


@dataclass(frozen=True, slots=True)
class Node:
    """A running engine process. It has a new id each time it starts."""

    id: UUID
    host: str
    started_at: datetime
    lanes: tuple[str, ...]  # lanes it can serve: names, or prefixes that end in `*`
    tzdata: str


class LeaseKey(NamedTuple):
    """A run that a node holds, fenced by its attempt number."""

    run_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The result of a heartbeat."""

    lost: tuple[LeaseKey, ...]  # no longer held: superseded, or ended by another node or user
    cancels: tuple[UUID, ...]  # runs whose cancellation was requested
    handed_back: tuple[LeaseKey, ...] = ()  # the orphans that were still leased
    unheld: tuple[LeaseKey, ...] = ()  # its other leases: of claims in progress, or orphans


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of a planning pass."""

    jobs: int
    runs: int
    skipped: Mapping[str, int]  # number of scheduled times by reason
    errors: tuple[tuple[str, str], ...]  # (job name, error message), for jobs that cannot be planned
    lanes: frozenset[str]  # lanes that got new runs
    next_plan_at: datetime | None  # when the next job is due; now if the pass was full, because more may be due


class Tzdata(StrEnum):
    """The state of a node's time-zone data compared with the database's."""

    CURRENT = "current"
    OUTDATED = "outdated"  # another node has newer data
    NEWER = "newer"  # jobs were planned with older data


@dataclass(frozen=True, slots=True)
class Refreshed:
    moved: tuple[tuple[str, datetime | None, datetime | None], ...]  # job name, next scheduled time before and after
    after: UUID | None  # continue after this job; None when no job is left


@dataclass(frozen=True, slots=True)
class LaneDemand:
    """The number of runs a node can take from a lane; `oldest` of them are chosen by age, regardless of rank."""

    lane: str
    free: int
    oldest: int = 0


@dataclass(frozen=True, slots=True)
class LaneWork:
    """A lane with waiting runs, and the time at which the first of them is ready."""

    lane: str
    ready_at: datetime


class Saved(StrEnum):
    """The result of writing a settlement."""

    SAVED = "saved"
    REPEATED = "repeated"  # the same attempt was settled before, by a commit whose response was lost
    SUPERSEDED = "superseded"  # another attempt owns the run; the outcome is stored as late_outcome


class SettledAttempt(NamedTuple):
    """A settlement, with the further columns of the attempt that is written with it."""

    settlement: Settlement
    node: UUID | None = None  # None if nothing was sent, so that there was no attempt
    started_at: datetime | None = None  # None if unknown: its node died, and the run had an earlier attempt
    error: str | None = None  # used if the outcome has no error


@dataclass(frozen=True, slots=True)
class Mark:
    """The position up to which pruning has scanned."""

    finished_at: datetime
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Pruned:
    removed: int
    mark: Mark | None  # None when no older run is left to scan


@dataclass(frozen=True, slots=True)
class Backlog:
    """The size of the backlog, for users and metrics."""

    waiting: int
    oldest_ready_at: datetime | None  # since when the oldest could have been claimed: planned, and ready
    unserved: tuple[str, ...]  # lanes with waiting runs that no live node serves


class OpenTransaction(Protocol):
    """A transaction that writes a target's work and the settlement of its attempt, both or neither."""

    @property
    def connection(self) -> Any:
        """The connection object of the database driver."""

    async def settle(self, settled: SettledAttempt) -> bool:
        """Write the settlement with its attempt. Return False if the attempt no longer owns the run: nothing was
        written, and the caller must leave the transaction with an exception.
        """


class TransactionStore(Protocol):
    """Lends transactions on the engine's own database to targets that work in it."""

    def transaction(self, held: LeaseKey) -> AbstractAsyncContextManager[OpenTransaction]:
        """Open a transaction that commits at the end of the block; an exception rolls everything back."""

    async def check(self) -> None:
        """Check that this store can settle the attempts it lends transactions for.

        Raises FunctionsOutOfReach or FunctionLoginRefused if the separate login of functions cannot.
        """

    async def close(self) -> None:
        """Close every connection."""


class EngineStore(Protocol):
    """The verbs that plan, claim and settle runs. Start reading here to understand Hourbell."""

    async def sample_time(self) -> datetime:
        """Return the database's own current time."""

    async def heartbeat(
        self,
        node: Node,
        now: datetime,
        lease_until: datetime,
        held: Sequence[LeaseKey],
        *,
        given_up: Collection[LeaseKey] = (),
        orphans: Collection[LeaseKey] = (),
    ) -> HeartbeatReply:
        """Announce the node as alive and renew the leases it still holds.

        A lease is renewed only if owner and attempt are still the node's, and never after it was lost.

        The result names the leases in the node's name that are not in `held`. If the node has received the response to
        every claim that could have taken such a lease, or will never receive it, nothing has begun: the node names the
        lease in `orphans` of its next heartbeat. The run then returns to its former waiting state, as if it had not
        been claimed, and is cancelled if a cancellation was requested. A run that may happen at most once and has begun
        is left to the reaper, and so are the runs in `given_up`, whose outcome the node could not write.
        """

    async def retire(self, node: UUID) -> None:
        """Remove a node that stops from the list of nodes. Its leases are not touched."""

    async def last_beat(self) -> datetime | None:
        """Return the time of the newest heartbeat of any node, also of those that have retired; None if none ran."""

    async def save_outage(self, outage: Outage) -> bool:
        """Record an outage. Return False if the records cover it already, so that nothing changed.

        Records of the same kind that overlap or touch it become one record with it, found by the node that found the
        earliest. So N nodes that report one outage, each as it saw it, write one record.
        """

    async def plan_due(self, now: datetime, limit: int, decide: Callable[[Job, datetime], Plan]) -> Planned:
        """Lock due jobs, let `decide` plan each, save runs, skips and cursors, all in one transaction.

        Jobs are taken in the order of `plan_at`, longest due first; jobs that another node has locked are passed over.
        A run that exists already is left alone. A cursor never moves back. A skip that continues the job's last skip of
        the same reason extends it. A job that cannot be planned gets its error and is not planned again; the others are
        planned. A version that is not stored yet is stored. For a job that plain SQL changed, a pass plans the version
        before its oldest remaining change; when nothing of that version is left to plan, the change is dropped, and the
        next pass plans the next version.
        """

    async def lanes(self, now: datetime) -> list[LaneWork]:
        """Return every lane with waiting runs, and the time at which the first of them is ready."""

    async def claim(
        self,
        node: UUID,
        now: datetime,
        lease_until: datetime,
        demands: Sequence[LaneDemand],
        *,
        suspects: bool = False,
        suspect_after: int = SUSPECT_AFTER,
    ) -> list[Run]:
        """Take leases on ready runs, at most as many as wanted in each lane.

        A claimed run is running, its attempt is one higher, and its lease is the node's; it has no start time if this
        is its first attempt. Lower ranks come first, then the longest ready. No run is claimed twice for one attempt,
        however many nodes claim. Unless its job allows overlap, a run is claimed only if no run of its job is running
        and no older one is unfinished. With `suspects`, only one run during which `suspect_after` or more nodes died is
        claimed; without it, no such run is claimed.
        """

    async def definitions(self, versions: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Definition]:
        """Return the definitions of job versions."""

    async def secrets(self, jobs: Collection[UUID], now: datetime) -> dict[UUID, tuple[Sealed, ...]]:
        """Return the sealed secrets of jobs that are valid now, the newest of each field first."""

    async def command_seal(self, job_id: UUID, version: int) -> str | None:
        """Return the seal of the command of a job's version; None if it has none."""

    async def last_success(self, job_id: UUID, before: datetime) -> datetime | None:
        """Return the scheduled time of the job's newest successful run, of any kind, scheduled before `before`."""

    async def pause_gone(self, job_id: UUID, version: int, now: datetime, note: str) -> bool:
        """Pause a job whose receiver is gone, if it is still at `version`. Due times are planned first."""

    async def begin(self, held: LeaseKey) -> bool:
        """Record that the effect of an `at_most_once` attempt begins. Return False if the attempt no longer owns the
        run.
        """

    async def write_notes(self, notes: Sequence[Notes], now: datetime) -> None:
        """Store the notes of attempts, each replacing earlier notes of the same attempt.

        Notes that arrive after newer notes of their attempt change nothing, and none are stored for a run that no
        longer exists. Notes are deleted with their run.
        """

    async def settle(self, settled: Sequence[SettledAttempt]) -> list[Saved]:
        """Write outcomes that arrived together, each only if its attempt still owns the run and the run is running.

        The attempt is written with it; the start of the first attempt is the start of the run. Repeating a settlement
        changes nothing. A superseded settlement changes no run and is stored as the late outcome of its attempt. The
        statistics of the jobs are updated.
        """

    async def reap(
        self, now: datetime, limit: int, decide: Callable[[Run, datetime, int], Settlement]
    ) -> list[Settlement]:
        """Settle runs whose lease ran out as `decide` says, and write the attempt as lost.

        `decide` gets the number of the run's earlier attempts whose nodes are gone: attempts that were lost, have no
        late outcome, and whose node has sent no heartbeat since.
        """

    async def expire(self, now: datetime, limit: int, live_for: timedelta = LIVE_FOR) -> list[UUID]:
        """Fail waiting runs older than their max_age, but only while no live node serves their lane.

        Runs whose lane is served still get the attempt they wait for, because it was the downtime that made them old. A
        node counts as live for `live_for` after its last heartbeat.
        """

    async def prune(self, now: datetime, age: timedelta, keep: int, limit: int, after: Mark | None = None) -> Pruned:
        """Scan up to `limit` ended runs older than `age`, after the mark, and remove those that need not be kept.

        The last `keep` runs of each job stay, and so do all unfinished runs. A job that was deleted or never fires
        again keeps none, and is removed with its last run. Pruning does not change planning. Outages that ended more
        than `age` ago are removed, too.
        """

    async def backlog(self, now: datetime, live_for: timedelta = LIVE_FOR) -> Backlog:
        """Count the waiting runs. A node counts as live for `live_for` after its last heartbeat."""

    async def check_tzdata(self, version: str) -> Tzdata:
        """Record the node's time-zone data version, which only rises, and compare it with the one jobs are planned
        with.
        """

    async def refresh(
        self,
        version: str,
        now: datetime,
        limit: int,
        decide: Callable[[Job, datetime | None], Plan | None],
        after: UUID | None = None,
    ) -> Refreshed:
        """Let `decide` replan up to `limit` jobs, after the given one, with newer time-zone data.

        `decide` gets the local time of each job's newest scheduled run, and returns None if nothing moves. When no job
        is left, the version is recorded as the one that jobs are planned with.
        """

    @property
    def hears_others(self) -> bool:
        """True while hints from other processes arrive."""

    def wakes(self) -> AsyncIterator[Wake]:
        """Yield hints from this and other processes that there is something to do, and all of them after an
        interruption.

        Runs that this store's own verbs created may get no hint: the results of those verbs report them sooner.
        """

    async def close(self) -> None:
        """Close every connection."""
