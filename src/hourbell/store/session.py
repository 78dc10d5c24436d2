"""Sessions: transactions that run named statements, on whichever database.

A verb of the control side is a coroutine over a `Session` and is written once. PostgreSQL awaits it on a connection.
SQLite runs it to its end inside one hand-over to the writer thread, so a verb awaits nothing but its session.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from hourbell.core.access.audit_chain import Link
from hourbell.core.job.definition import Definition
from hourbell.store.base import Wake
from hourbell.store.batch import Batch, RunRow
from hourbell.store.bundles import Bundle
from hourbell.store.changes import ChangedJob, NewJob
from hourbell.store.rows import Progress, Row

T = TypeVar("T")


class Session(Protocol):
    """One transaction. Statements go by their names (`statements.py`), and the values of their parameters too."""

    async def fetch(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run a statement; the rows that it returns."""

    async def fetch_one(self, statement: str, /, **values: Any) -> Row | None:
        """Run a statement; the first row that it returns."""

    async def execute(self, statement: str, /, **values: Any) -> int:
        """Run a statement; how many rows it changed."""

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run a statement for each of the rows of values."""

    async def wake(self, wake: Wake) -> None:
        """Give a hint to every node, once this is committed."""

    # What each database does in a way of its own.

    async def refuse_taken_name(self, name: str, job_id: UUID) -> None:
        """Raise NameTaken if another job has the name, where writing it would not."""

    async def lock_jobs_of_bundle(self, bundle: Bundle) -> Sequence[Row]:
        """Lock the jobs of the bundle's names, and if it prunes those of its owner."""

    async def progress_of(self, rows: Sequence[Row]) -> Mapping[UUID, Progress]:
        """Read how far the runs and skips of these jobs have got."""

    async def insert_jobs(self, jobs: Sequence[NewJob], now: datetime) -> frozenset[UUID]:
        """Insert jobs without their versions; those whose id is new."""

    async def update_jobs(self, changed: Sequence[ChangedJob], now: datetime) -> None:
        """Write the new versions of jobs into their rows."""

    async def insert_versions(self, versions: Sequence[tuple[UUID, int, str, datetime]], by: str) -> None:
        """Write down versions: job, number, definition and since when each is valid."""

    async def write_batch(self, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime, by: str) -> None:
        """Write what jobs get by their plans, as the planner does."""

    async def insert_runs(self, rows: Sequence[RunRow], now: datetime) -> int:
        """Insert runs that do not exist yet, and give the hint that there are some; how many."""

    async def cancel_waiting(self, job_ids: Sequence[UUID], now: datetime, *, every_kind: bool) -> None:
        """Cancel the waiting runs of jobs, of every kind or only what their schedules made, and count them."""

    async def cancel_waiting_run(self, run_id: UUID, now: datetime) -> bool:
        """Cancel a run if it waits, and count it. True if it has ended by that."""

    async def delete_runs(self, run_ids: Sequence[UUID]) -> None:
        """Delete runs with their attempts and wishes to stop them."""

    async def delete_job(self, job_id: UUID) -> None:
        """Delete a job for good. What else there is of it goes with it, by the tables' own rules."""

    async def append_links(self, links: Sequence[Link]) -> None:
        """Append links to the audit chain. ChainExtended if another node was faster; then this must be rolled back."""


Verb = Callable[[Session], Coroutine[Any, Any, T]]


class Sessions(Protocol):
    """Opens sessions on one database."""

    def check_target(self, definition: Definition) -> Definition:
        """Return the definition; raise a TargetError if it wants what this database cannot do."""

    async def fetch(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run one statement that changes nothing; the rows that it returns."""

    async def write(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run one statement as a transaction of its own; the rows that it returns."""

    async def transact(self, verb: Verb[T]) -> T:
        """Run a verb as one transaction."""

    async def look(self, verb: Verb[T]) -> T:
        """Run a verb that changes nothing, and sees everything as it is at one time."""
