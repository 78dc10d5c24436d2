"""Sessions: transactions that run named statements, on either database.

A verb of the control side is a coroutine over a `Session` and is written once. PostgreSQL awaits it on a connection.
SQLite runs it to its end in one call on the writer thread, so a verb awaits nothing but its session.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from hourbell.core.access.audit_chain import Link
from hourbell.core.job.definition import Definition
from hourbell.sealing import CommandSeals
from hourbell.store.base import Wake
from hourbell.store.control.bundles import Bundle
from hourbell.store.control.changes import ChangedJob, NewJob
from hourbell.store.engine.batch import Batch, RunRow
from hourbell.store.rows import Progress, Row

T = TypeVar("T")


class Session(Protocol):
    """One transaction. Statements and parameters are identified by name (`statements.py`)."""

    seals: CommandSeals | None

    async def fetch(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""

    async def fetch_one(self, statement: str, /, **values: Any) -> Row | None:
        """Run a statement and return its first row."""

    async def execute(self, statement: str, /, **values: Any) -> int:
        """Run a statement and return the number of rows it changed."""

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run a statement once per row of values."""

    async def wake(self, wake: Wake) -> None:
        """Send a hint to every node once this transaction is committed."""

    # Operations that each database implements in its own way.

    async def refuse_taken_name(self, name: str, job_id: UUID) -> None:
        """Raise NameTaken if another job has the name and the write itself would not raise it."""

    async def lock_jobs_of_bundle(self, bundle: Bundle) -> Sequence[Row]:
        """Lock the jobs with the bundle's names and, if it prunes, all jobs of its owner."""

    async def progress_of(self, rows: Sequence[Row]) -> Mapping[UUID, Progress]:
        """Read the progress of these jobs from their runs and skips."""

    async def insert_jobs(self, jobs: Sequence[NewJob], now: datetime) -> frozenset[UUID]:
        """Insert jobs without their versions; return the ids that are new."""

    async def update_jobs(self, changed: Sequence[ChangedJob], now: datetime) -> None:
        """Write the new versions of jobs to their rows."""

    async def insert_versions(self, versions: Sequence[tuple[UUID, int, str, datetime]], by: str) -> None:
        """Insert versions: job, number, definition and start of validity."""

    async def write_batch(self, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime, by: str) -> None:
        """Write the plans of jobs, as the planner does."""

    async def insert_runs(self, rows: Sequence[RunRow], now: datetime) -> int:
        """Insert runs that do not exist yet, and send a hint; return how many were inserted."""

    async def cancel_waiting(self, job_ids: Sequence[UUID], now: datetime, *, every_kind: bool) -> None:
        """Cancel the waiting runs of jobs, of every kind or only scheduled ones, and update the statistics."""

    async def cancel_waiting_run(self, run_id: UUID, now: datetime) -> bool:
        """Cancel a run if it is waiting, and update the statistics. Return True if it was cancelled."""

    async def delete_runs(self, run_ids: Sequence[UUID]) -> None:
        """Delete runs with their attempts and cancellation requests."""

    async def delete_job(self, job_id: UUID) -> None:
        """Delete a job for good. Foreign keys delete everything that belongs to it."""

    async def append_links(self, links: Sequence[Link]) -> None:
        """Append links to the audit chain. Raises ChainExtended if another node was faster; the caller must then roll
        back.
        """


Verb = Callable[[Session], Coroutine[Any, Any, T]]


class Sessions(Protocol):
    """Opens sessions on one database. `seals` seals the commands that their verbs write; None without a key."""

    seals: CommandSeals | None

    def check_target(self, definition: Definition) -> Definition:
        """Return the definition; raise a TargetError if this database cannot run its target."""

    async def fetch(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run one statement that changes nothing, and return its rows."""

    async def write(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run one statement as a transaction of its own, and return its rows."""

    async def transact(self, verb: Verb[T]) -> T:
        """Run a verb as one transaction."""

    async def snapshot(self, verb: Verb[T]) -> T:
        """Run a verb that changes nothing and reads everything as of one moment."""
