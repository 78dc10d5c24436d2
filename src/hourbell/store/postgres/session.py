"""Sessions on PostgreSQL: a verb is awaited on a connection, in a transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from hourbell.core.access.audit_chain import Link
from hourbell.core.job.definition import Definition
from hourbell.sealing import CommandSeals
from hourbell.store.base import Wake
from hourbell.store.control.bundles import Bundle
from hourbell.store.control.changes import ChangedJob, NewJob
from hourbell.store.control.session import T, Verb
from hourbell.store.engine.batch import Batch, RunRow
from hourbell.store.errors import ChainExtended, NameTaken
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.lists import SQL as LISTS
from hourbell.store.postgres.planning import SQL as ENGINE
from hourbell.store.postgres.planning import insert_runs, progress_of, write_batch
from hourbell.store.rows import Progress, Row, columns
from hourbell.store.sql.job_columns import TAGS, WIDTH
from hourbell.store.sql.queries import load_queries
from hourbell.store.sql.statements import load_statements

_OWN = load_queries("hourbell.store.postgres", "control.sql") | {"job_view": LISTS["job_by_id"]}
STATEMENTS = load_statements(_OWN, "$")
_RUNS_AT_ONCE = 1_000  # in one statement


class PostgresSession:
    """A session in the transaction of a connection."""

    def __init__(self, connection: Any, seals: CommandSeals | None = None) -> None:
        self._connection = connection
        self.seals = seals

    async def fetch(self, statement: str, /, **values: Any) -> list[Row]:
        found = STATEMENTS[statement]
        rows: list[Row] = await self._connection.fetch(found.text, *found.bind(values))
        return rows

    async def fetch_one(self, statement: str, /, **values: Any) -> Row | None:
        found = STATEMENTS[statement]
        row: Row | None = await self._connection.fetchrow(found.text, *found.bind(values))
        return row

    async def execute(self, statement: str, /, **values: Any) -> int:
        found = STATEMENTS[statement]
        status: str = await self._connection.execute(found.text, *found.bind(values))
        return int(status.rpartition(" ")[2])  # as in DELETE 3, or INSERT 0 1

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        found = STATEMENTS[statement]
        await self._connection.executemany(found.text, [found.bind(values) for values in rows])

    async def wake(self, wake: Wake) -> None:
        await self._connection.execute(ENGINE["wake"], wake)

    async def refuse_taken_name(self, name: str, job_id: UUID) -> None:
        """Do nothing: the index over names refuses the insert, even if another transaction is about to commit it."""

    async def lock_jobs_of_bundle(self, bundle: Bundle) -> list[Row]:
        if not bundle.prune:
            return await self.fetch("lock_jobs_by_name", names=bundle.names)
        owner = {"managed_by": bundle.managed_by, "source": bundle.source}
        return await self.fetch("lock_jobs_of_bundle", names=bundle.names, **owner)

    async def progress_of(self, rows: Sequence[Row]) -> Mapping[UUID, Progress]:
        return await progress_of(self._connection, rows)

    async def insert_jobs(self, jobs: Sequence[NewJob], now: datetime) -> frozenset[UUID]:
        # In one order, so that transactions that insert the same names cannot deadlock.
        in_order = sorted(jobs, key=lambda job: job.change.definition.name)
        values = columns((job.values() for job in in_order), WIDTH)
        values[TAGS] = [_array_text(tags) for tags in values[TAGS]]
        return frozenset(
            row["id"] for row in await self._connection.fetch(STATEMENTS["insert_jobs"].text, *values, now)
        )

    async def update_jobs(self, changed: Sequence[ChangedJob], now: datetime) -> None:
        for statement, is_renamed in (("update_job", True), ("update_job_under_its_name", False)):
            if values := [each.values(now) for each in changed if each.is_renamed is is_renamed]:
                await self._connection.executemany(STATEMENTS[statement].text, values)

    async def insert_versions(self, versions: Sequence[tuple[UUID, int, str, datetime]], by: str) -> None:
        await self._connection.execute(ENGINE["insert_versions"], *columns(versions, 4), by)

    async def write_batch(self, batch: Batch, unsaved: Mapping[UUID, datetime], now: datetime, by: str) -> None:
        await write_batch(self._connection, batch, unsaved, now, by=by)

    async def insert_runs(self, rows: Sequence[RunRow], now: datetime) -> int:
        made = 0
        for first in range(0, len(rows), _RUNS_AT_ONCE):
            made += (await insert_runs(self._connection, rows[first : first + _RUNS_AT_ONCE], now)).total()
        return made

    async def cancel_waiting(self, job_ids: Sequence[UUID], now: datetime, *, every_kind: bool) -> None:
        await self._connection.execute(ENGINE["cancel_waiting_of_jobs"], job_ids, now, every_kind, [])

    async def cancel_waiting_run(self, run_id: UUID, now: datetime) -> bool:
        return await self.fetch_one("cancel_waiting_run", id=run_id, now=now) is not None

    async def delete_runs(self, run_ids: Sequence[UUID]) -> None:
        for statement in ("delete_attempts", "delete_cancels", "delete_runs"):
            await self._connection.execute(ENGINE[statement], run_ids)

    async def delete_job(self, job_id: UUID) -> None:
        await self._connection.execute("set local hourbell.prunes = 'on'")
        await self.execute("delete_job", id=job_id)

    async def append_links(self, links: Sequence[Link]) -> None:
        arrays = dict(zip(Link._fields, columns(links, len(Link._fields)), strict=True))
        if len(await self.fetch("append_links", **arrays)) < len(links):
            raise ChainExtended


class PostgresSessions:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.seals: CommandSeals | None = None

    def check_target(self, definition: Definition) -> Definition:
        return definition

    async def fetch(self, statement: str, /, **values: Any) -> list[Row]:
        async with self._connections.connection() as connection:
            return await PostgresSession(connection).fetch(statement, **values)

    async def write(self, statement: str, /, **values: Any) -> list[Row]:
        return await self.fetch(statement, **values)

    async def transact(self, verb: Verb[T]) -> T:
        try:
            async with self._connections.transaction() as connection:
                return await verb(PostgresSession(connection, self.seals))
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name != "jobs_name":
                raise
            raise NameTaken from error

    async def snapshot(self, verb: Verb[T]) -> T:
        return await self.transact(verb)


def _array_text(tags: Sequence[str]) -> str:
    """Format tags as a PostgreSQL array: a batch of rows cannot bind one array per row."""
    quoted = (tag.replace("\\", "\\\\").replace('"', '\\"') for tag in tags)
    return "{" + ",".join(f'"{tag}"' for tag in quoted) + "}"
