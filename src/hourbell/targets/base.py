"""The one method of a target."""

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
    """A transaction of our own database in which an attempt does its work and is settled, both or neither."""

    @property
    def connection(self) -> Any:
        """What the database's driver calls a connection, inside the transaction."""

    async def settle(self, outcome: Outcome) -> bool:
        """Write the outcome as the last statement. False if the attempt is no longer this node's: then everything
        must be rolled back, by leaving the transaction with an exception."""


class Call:
    """One attempt to make.

    `now` is when it was claimed, and once it has begun when that was, as the database's time; `secrets` are sealed.
    What is not overridden here lets an attempt happen, lends it no transaction and keeps nothing of what it says:
    enough for a target that is tried by itself.
    """

    __slots__ = ("definition", "now", "run", "secrets")

    def __init__(self, run: Run, definition: Definition, now: datetime, secrets: tuple[Sealed, ...] = ()) -> None:
        self.run = run
        self.definition = definition
        self.now = now
        self.secrets = secrets

    async def begin(self) -> bool:
        """Awaited just before the first thing happens that cannot be taken back. False if the attempt is no longer
        this node's: then nothing may happen, and the outcome is `Unstarted`."""
        return True

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction; it commits at the end of the block, and an exception rolls it back. What is settled in it
        is written there; the outcome returned afterwards must be the same."""
        raise RuntimeError("this node's database gives its targets no transactions")

    async def note(self, notes: Notes) -> None:
        """Keep what the attempt says on its way."""

    async def last_success(self) -> datetime | None:
        """The scheduled time of the newest successful run of the job before this one."""
        return None

    def is_stopped(self) -> bool:
        """Whether its node has asked it to end. May be asked from any thread."""
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
        """The lanes it serves: names, or prefixes that end in `*`."""

    def slots(self, lane: str) -> int | None:
        """How many attempts a node may make at once in a lane; None for as many as it has slots."""

    def pool(self, lane: str) -> Pool | None:
        """The one of `pools` in which each attempt of a lane takes a place; None if it needs none.

        No more runs are claimed for the lanes of a pool than it has free places.
        """

    async def deliver(self, call: Call) -> Outcome:
        """Make one attempt. Cancelling it stops the attempt as far as that is possible."""

    async def close(self) -> None:
        """Give back what it holds."""
