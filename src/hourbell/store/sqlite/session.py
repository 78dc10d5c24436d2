"""Sessions on SQLite: a verb runs from start to end as one operation of the reader or writer thread.

The transaction of a writing verb holds the only write lock, so what it reads stays true until it ends.
"""

from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.access.audit_chain import Link
from hourbell.core.job.definition import Definition
from hourbell.sealing import CommandSeals
from hourbell.store.base import Wake
from hourbell.store.control.bundles import Bundle
from hourbell.store.control.changes import ChangedJob, NewJob
from hourbell.store.control.session import T, Verb
from hourbell.store.engine.batch import Batch, RunRow
from hourbell.store.errors import ChainExtended, NameTaken
from hourbell.store.rows import Progress, Row
from hourbell.store.sql.queries import load_queries
from hourbell.store.sql.statements import load_statements
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.lists import SQL as LISTS
from hourbell.store.sqlite.planning import progress_of, refuse_functions
from hourbell.store.sqlite.settling import count_cancelled
from hourbell.store.sqlite.write_params import SQL as ENGINE
from hourbell.store.sqlite.write_params import cancel_waiting, insert_runs, write_batch
from hourbell.store.sqlite.writer import Executor

_OWN = load_queries("hourbell.store.sqlite", "control.sql") | {"job_view": LISTS["job_by_id"]}
STATEMENTS = load_statements(_OWN, "?", for_sqlite=True)


class SqliteSession:
    """A session on the transaction of an operation. Its methods never suspend."""

    def __init__(self, session: Session, seals: CommandSeals | None = None) -> None:
        self._session = session
        self.seals = seals

    async def fetch(self, statement: str, /, **values: Any) -> list[Row]:
        found = STATEMENTS[statement]
        return self._session.fetch(found.text, *found.bind(values))

    async def fetch_one(self, statement: str, /, **values: Any) -> Row | None:
        return next(iter(await self.fetch(statement, **values)), None)

    async def execute(self, statement: str, /, **values: Any) -> int:
        found = STATEMENTS[statement]
        return self._session.execute(found.text, *found.bind(values))

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        for values in rows:
            await self.execute(statement, **values)

    async def wake(self, wake: Wake) -> None:
        self._session.wakes.add(wake)

    async def refuse_taken_name(self, name: str, job_id: UUID) -> None:
        row = await self.fetch_one("job_by_name", name=name)
        if row is not None and row["id"] != job_id:
            raise NameTaken

    async def lock_jobs_of_bundle(self, bundle: Bundle) -> list[Row]:
        rows = await self.fetch("lock_jobs_by_name", names=bundle.names)
        if not bundle.prune:
            return rows
        named = {row["id"] for row in rows}
        owned = await self.fetch("owned_jobs", managed_by=bundle.managed_by, source=bundle.source)
        return rows + [row for row in owned if row["id"] not in named]

    async def progress_of(self, rows: Sequence[Row]) -> Mapping[UUID, Progress]:
        return progress_of(self._session, rows)

    async def insert_jobs(self, jobs: Sequence[NewJob], now: datetime) -> frozenset[UUID]:
        found = self._session.fetch(STATEMENTS["insert_jobs"].text, [job.values() for job in jobs], now)
        if found:
            self._session.wakes.add(Wake.JOBS)
        return frozenset(row["id"] for row in found)

    async def update_jobs(self, changed: Sequence[ChangedJob], now: datetime) -> None:
        for each in changed:
            self._session.execute(STATEMENTS["update_job"].text, *each.values(now))
        self._session.wakes.add(Wake.JOBS)

    async def insert_versions(self, versions: Sequence[tuple[UUID, int, str, datetime]], by: str) -> None:
        self._session.execute(ENGINE["insert_versions"], versions, by)

    async def write_batch(self, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime, by: str) -> None:
        write_batch(self._session, batch, unsaved, now, by=by)

    async def insert_runs(self, rows: Sequence[RunRow], now: datetime) -> int:
        return insert_runs(self._session, rows, now).total()

    async def cancel_waiting(self, job_ids: Sequence[UUID], now: datetime, *, every_kind: bool) -> None:
        cancel_waiting(self._session, list(job_ids), now, every_kind=every_kind)

    async def cancel_waiting_run(self, run_id: UUID, now: datetime) -> bool:
        cancelled = await self.fetch("cancel_waiting_run", id=run_id, now=now)
        if cancelled:
            count_cancelled(self._session, [row["job_id"] for row in cancelled])
        return bool(cancelled)

    async def delete_runs(self, run_ids: Sequence[UUID]) -> None:
        for statement in ("delete_attempts", "delete_cancels", "delete_runs"):
            self._session.execute(ENGINE[statement], run_ids)

    async def delete_job(self, job_id: UUID) -> None:
        self._session.execute(ENGINE["begin_pruning"])
        await self.execute("delete_job", id=job_id)
        self._session.execute(ENGINE["end_pruning"])

    async def append_links(self, links: Sequence[Link]) -> None:
        if await self.fetch("is_extended", position=links[0].position):
            raise ChainExtended
        await self.execute_many("append_links", [link._asdict() for link in links])


class SqliteSessions:
    def __init__(self, runner: Executor) -> None:
        self._runner = runner
        self.seals: CommandSeals | None = None

    def check_target(self, definition: Definition) -> Definition:
        return refuse_functions(definition)

    async def fetch(self, statement: str, /, **values: Any) -> list[Row]:
        found = STATEMENTS[statement]
        return await self._runner.read(lambda session: session.fetch(found.text, *found.bind(values)))

    async def write(self, statement: str, /, **values: Any) -> list[Row]:
        found = STATEMENTS[statement]
        return await self._runner.write(lambda session: session.fetch(found.text, *found.bind(values)))

    async def transact(self, verb: Verb[T]) -> T:
        return await self._runner.write(lambda session: _run_to_end(verb(SqliteSession(session, self.seals))))

    async def snapshot(self, verb: Verb[T]) -> T:
        return await self._runner.read(lambda session: _run_to_end(verb(SqliteSession(session, self.seals))))


def _run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, in one step."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    coroutine.close()
    raise RuntimeError("a verb waits for something other than its session")
