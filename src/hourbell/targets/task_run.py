"""`Run`: what a task gets as its first parameter. It tells which run this is and takes what the task says about it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Protocol
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import trigger_of
from hourbell.core.run.settle import Succeeded
from hourbell.core.run.states import Kind
from hourbell.core.values.storable import storable, storable_json
from hourbell.targets.base import Transaction

ISOLATED = "hourbell-isolated:"  # how the names of processes begin that are made for one call
MOST_ERROR = 4_000  # characters
MOST_RESULT = 65_536  # bytes of JSON

LastSuccess = datetime | None | EllipsisType  # `...` if nobody has read it


class Superseded(Exception):
    """Another node has taken over the run: what was done in its transaction is undone."""


class Desk(Protocol):
    """The side of a run that faces its node."""

    @property
    def last_success(self) -> LastSuccess:
        """The scheduled time of the job's newest successful run before this one."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the attempt is to end: its time is over, somebody cancelled it, or the node stops."""

    def log(self, text: object) -> None:
        """Keep a line. May be called from any thread."""

    def progress(self, fraction: float | None, message: object) -> None:
        """Keep how far it is. May be called from any thread."""

    def open_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """The transaction that settles the run; a RuntimeError that says why if there is none to be had."""


@dataclass(slots=True, eq=False)
class Run:
    """One attempt at a run of a job.

    `scheduled_at` is the instant the schedule names, `lateness` how long after it this attempt began, `attempt` its
    number from 1, `kind` why the run exists. `result` is what a transaction settles the run with.
    """

    id: UUID
    job: str
    job_id: UUID
    job_version: int
    scheduled_at: datetime
    attempt: int
    lateness: timedelta
    payload: Any
    kind: Kind
    expires_at: datetime
    definition: Definition = field(repr=False)
    _desk: Desk = field(repr=False)
    result: object = field(default=None, repr=False)

    @property
    def trigger(self) -> str:
        """Why the run exists, for people: `schedule:0 3 * * *`, `catch_up:0 3 * * *` if planned late, or its kind."""
        return trigger_of(self, self.definition)

    @property
    def previous_at(self) -> datetime | None:
        """The time before `scheduled_at` that the schedule names, whether or not there was a run for it.

        None if the schedule names none within the job's `starts_at` and `ends_at`.
        """
        return self.definition.previous_instant(self.scheduled_at)

    @property
    def previous_success_at(self) -> datetime | None:
        """The scheduled time of the job's newest successful run before this one; None if there is none on record.

        It is read just before the call, and only for functions in whose own code the name occurs: a query for every
        run would be a high price for what few tasks need. A RuntimeError says so in others.
        """
        if isinstance(last_success := self._desk.last_success, EllipsisType):
            raise RuntimeError(
                "run.previous_success_at is read only for functions that name it; name it in the task's own function "
                "and pass the value on"
            )
        return last_success

    def log(self, text: object) -> None:
        """Keep a line with this attempt: at most 1,000 lines and 64 KiB of them, the newest, each of 2,000 characters.

        It may be called from any thread, and costs nobody a wait.
        """
        self._desk.log(text)

    def progress(self, fraction: float | None, message: object = "") -> None:
        """Tell how far it is, from 0 to 1; a ValueError if it is no such number.

        It is shown while the run is running, and written at most once a second.
        """
        self._desk.progress(fraction, message)

    @property
    def is_cancelled(self) -> bool:
        """Whether a function that cannot be stopped should return by itself."""
        return self._desk.is_cancelled

    def raise_if_cancelled(self) -> None:
        """End the function here if it should return by itself."""
        if self.is_cancelled:
            raise asyncio.CancelledError

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A connection in the transaction that also settles this run: what is written there happens exactly once.

        The end of the block settles the run as succeeded, with `result`, and commits; what the function returns comes
        too late for that. An exception rolls back, and the attempt fails as usual. Raises Superseded, and rolls back,
        if another node has taken over the run.
        """
        async with self._desk.open_transaction() as transaction:
            yield transaction.connection
            if not await transaction.settle(Succeeded(kept(self.result))):
                raise Superseded("another node has taken over this run")


def kept(result: object) -> object:
    """What a run keeps of a task's answer: JSON, or its text; of what is too large the beginning, and that it is."""
    if result is None:
        return None
    try:
        text = json.dumps(result, allow_nan=False)
        if r"\u" in text:  # what a database may not take is escaped, and few results have an escape
            result = storable_json(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return storable(_text_of(result)[:MOST_ERROR])
    if len(text) > MOST_RESULT:
        size = f"{len(text):,} bytes of JSON; a run keeps a result of at most {MOST_RESULT:,}"
        return f"{text[:MOST_ERROR]} … ({size})"
    return result


def _text_of(result: object) -> str:
    """Its text. The function has done its work, whatever its answer makes of being asked."""
    try:
        return str(result)
    except Exception:
        return f"<{type(result).__name__}, which has no text>"
