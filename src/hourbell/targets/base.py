"""The one method of a target."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from hourbell.core.job import Definition
from hourbell.core.notes import Notes
from hourbell.core.run import Run
from hourbell.core.settle import Outcome
from hourbell.sealing import Sealed


async def _may_begin() -> bool:
    return True


async def _forget(_: Notes) -> None: ...


def _goes_on() -> bool:
    return False


class Transaction(Protocol):
    """A transaction of our own database in which an attempt does its work and is settled, both or neither."""

    @property
    def connection(self) -> Any:
        """What the database's driver calls a connection, inside the transaction."""

    async def settle(self, outcome: Outcome) -> bool:
        """Write the outcome as the last statement. False if the attempt is no longer this node's: then everything
        must be rolled back, by leaving the transaction with an exception."""


class Transactions(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction; it commits at the end of the block, and an exception rolls it back."""


def _no_transaction() -> AbstractAsyncContextManager[Transaction]:
    raise RuntimeError("this node's database gives its targets no transactions")


@dataclass(slots=True)  # frozen ones cost three times as much to make
class Call:
    """One attempt to make.

    `begin` is awaited just before the first thing happens that cannot be taken back; if it answers False, the attempt
    is no longer this node's, nothing may happen, and the outcome is `Unstarted`. What is settled in a `transaction`
    is written there; the outcome returned afterwards must be the same. `note` keeps what the attempt says on its way.
    `is_stopped` tells, from any thread, whether its node has asked it to end.
    """

    run: Run
    definition: Definition
    now: datetime
    begin: Callable[[], Awaitable[bool]] = field(default=_may_begin)
    transaction: Transactions = field(default=_no_transaction)
    secrets: tuple[Sealed, ...] = ()
    note: Callable[[Notes], Awaitable[None]] = field(default=_forget)
    is_stopped: Callable[[], bool] = field(default=_goes_on)

    @property
    def payload(self) -> object:
        has_own = self.run.has_payload or self.run.payload is not None
        return self.run.payload if has_own else self.definition.payload

    @property
    def lateness(self) -> timedelta:
        return self.now - self.run.scheduled_at


class Target(Protocol):
    reads_secrets: bool  # whether its calls need the secrets of their jobs

    def lanes(self) -> tuple[str, ...]:
        """The lanes it serves: names, or prefixes that end in `*`."""

    def slots(self, lane: str) -> int | None:
        """How many attempts a node may make at once in a lane; None for as many as it has slots."""

    async def deliver(self, call: Call) -> Outcome:
        """Make one attempt. Cancelling it stops the attempt as far as that is possible."""

    async def close(self) -> None:
        """Give back what it holds."""
