"""`Run`, the first argument of a task: it identifies the run and accepts log lines, progress and a transaction."""

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
from hourbell.core.values.sanitize import sanitize_json, sanitize_text
from hourbell.targets.base import Transaction

ISOLATED = "hourbell-isolated:"  # prefix of the names of processes that are started for one call
MAX_ERROR_CHARACTERS = 4_000  # characters
MAX_RESULT_BYTES = 65_536  # bytes of JSON

LastSuccess = datetime | None | EllipsisType  # `...` if it was not read


class Superseded(Exception):
    """Raised when another node has taken over the run: its transaction is rolled back."""


class AttemptContext(Protocol):
    """The run's connection to its node."""

    @property
    def last_success(self) -> LastSuccess:
        """The scheduled time of the job's newest successful run before this one."""

    @property
    def is_cancelled(self) -> bool:
        """True if the attempt must end: its timeout has passed, somebody cancelled it, or the node shuts down."""

    def log(self, text: object) -> None:
        """Store a log line. Safe to call from any thread."""

    def progress(self, fraction: float | None, message: object) -> None:
        """Store the progress. Safe to call from any thread."""

    def open_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open the transaction that settles the run; raise RuntimeError with the reason if there is none."""


@dataclass(slots=True, eq=False)
class Run:
    """One attempt at a run of a job.

    `scheduled_at` is the time that the schedule names, `lateness` how long after it this attempt began, `attempt` its
    number from 1, `kind` why the run exists. `transaction` settles the run with `result`.
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
    _context: AttemptContext = field(repr=False)
    result: object = field(default=None, repr=False)

    @property
    def trigger(self) -> str:
        """The readable reason for the run: `schedule:0 3 * * *`, `catch_up:0 3 * * *` if planned late, or its kind."""
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

        The node reads it just before the call, and only for functions whose own code contains the name: a query for
        every run would cost too much for a value that few tasks need. In other functions it raises RuntimeError.
        """
        if isinstance(last_success := self._context.last_success, EllipsisType):
            raise RuntimeError(
                "run.previous_success_at is read only for functions that name it; name it in the task's own function "
                "and pass the value on"
            )
        return last_success

    def log(self, text: object) -> None:
        """Add a log line to this attempt. Safe to call from any thread; it never waits for the database.

        The newest 1,000 lines and 64 KiB of them are stored, each line with at most 2,000 characters.
        """
        self._context.log(text)

    def progress(self, fraction: float | None, message: object = "") -> None:
        """Report the progress as a fraction from 0 to 1; raise ValueError for any other number.

        The progress is shown while the run is running, and written at most once a second.
        """
        self._context.progress(fraction, message)

    @property
    def is_cancelled(self) -> bool:
        """True if the function should return by itself, because a thread cannot be stopped."""
        return self._context.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if the attempt is cancelled."""
        if self.is_cancelled:
            raise asyncio.CancelledError

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a connection in the transaction that also settles this run, so that its writes happen exactly once.

        The end of the block settles the run as succeeded, with `result`, and commits; the function's return value comes
        too late to be stored. An exception rolls back, and the attempt fails as usual. Raises Superseded, and rolls
        back, if another node has taken over the run.
        """
        async with self._context.open_transaction() as transaction:
            yield transaction.connection
            if not await transaction.settle(Succeeded(stored_result(self.result))):
                raise Superseded("another node has taken over this run")


def stored_result(result: object) -> object:
    """Return the result to store for a run: JSON, else its text; too large a result is truncated, with a note."""
    if result is None:
        return None
    try:
        text = json.dumps(result, allow_nan=False)
        if r"\u" in text:  # characters that a database may reject are escaped, and few results have an escape
            result = sanitize_json(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return sanitize_text(_text_of(result)[:MAX_ERROR_CHARACTERS])
    if len(text) > MAX_RESULT_BYTES:
        size = f"{len(text):,} bytes of JSON; a run keeps a result of at most {MAX_RESULT_BYTES:,}"
        return f"{text[:MAX_ERROR_CHARACTERS]} … ({size})"
    return result


def _text_of(result: object) -> str:
    """Return the result's text. The task has succeeded, so an error in `__str__` must not fail it."""
    try:
        return str(result)
    except Exception:
        return f"<{type(result).__name__}, which has no text>"
