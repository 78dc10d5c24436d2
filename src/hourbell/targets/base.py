"""The target interface: one `Call` in, one `Outcome` out."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

from hourbell.core.job.definition import Definition
from hourbell.core.run.notes import Notes
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Outcome
from hourbell.sealing import Sealed
from hourbell.targets.pool import Pool


class Transaction(Protocol):
    """A transaction of Hourbell's own database in which an attempt does its work and is settled, atomically."""

    @property
    def connection(self) -> Any:
        """The database driver's connection object, inside the transaction."""

    async def settle(self, outcome: Outcome) -> bool:
        """Write the outcome as the last statement of the transaction.

        Return False if this node no longer owns the attempt. The caller must then roll everything back by leaving the
        transaction with an exception.
        """


class Call:
    """One attempt to make.

    `now` is the claim time, and after `begin` the start time, in the database's time; `secrets` are sealed. The default
    methods let the attempt start, provide no transaction and discard its notes, which is enough to test a target alone.
    """

    __slots__ = ("definition", "now", "run", "secrets")

    def __init__(self, run: Run, definition: Definition, now: datetime, secrets: tuple[Sealed, ...] = ()) -> None:
        self.run = run
        self.definition = definition
        self.now = now
        self.secrets = secrets

    async def begin(self) -> bool:
        """Ask for permission to start; await it just before the first irreversible action.

        Return False if this node no longer owns the attempt: then the target must do nothing and return `Unstarted`.
        """
        return True

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction that commits at the end of the block; an exception rolls it back.

        An outcome settled in the transaction is written there, and `deliver` must return that same outcome.
        """
        raise RuntimeError("this node's database gives its targets no transactions")

    async def note(self, notes: Notes) -> None:
        """Store the log lines and progress of the running attempt."""

    async def last_success(self) -> datetime | None:
        """Return the scheduled time of the job's newest successful run before this one; None if there is none."""
        return None

    async def command_seal(self) -> str | None:
        """Return the seal of the command of the run's job version; None if it has none."""
        return None

    def is_stopped(self) -> bool:
        """Return True once the node has asked the attempt to stop. Safe to call from any thread."""
        return False

    def is_interrupted(self) -> bool:
        """Return True if the attempt is stopped because another node may make it soon, so that it must end quickly."""
        return False

    @property
    def payload(self) -> object:
        has_own = self.run.has_payload or self.run.payload is not None
        return self.run.payload if has_own else self.definition.payload

    @property
    def lateness(self) -> timedelta:
        return self.now - self.run.scheduled_at


class Target(Protocol):
    reads_secrets: bool  # whether its calls need the secrets of their jobs
    pools: tuple[Pool, ...]  # the limited resources that its lanes share

    def lanes(self) -> tuple[str, ...]:
        """Return the lanes that the target serves: names, or prefixes that end in `*`."""

    def slots(self, lane: str) -> int | None:
        """Return the max concurrent attempts of a node in a lane; None if only the node's slots limit it."""

    def pool(self, lane: str) -> Pool | None:
        """Return the one of `pools` that each attempt of a lane takes a unit of; None if it needs none.

        For the lanes of a pool, the runner claims no more runs than the pool has free units.
        """

    async def deliver(self, call: Call) -> Outcome:
        """Make one attempt. Cancellation stops the attempt as far as possible."""

    async def close(self) -> None:
        """Release all resources of the target."""
