"""What users may change, on PostgreSQL."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from hourbell.core.change import Change, StillCatchingUp, created, edited, paused, resumed
from hourbell.core.definition_json import definition_to_json
from hourbell.core.job import Definition, Job
from hourbell.core.run import Run
from hourbell.store.base import Conflict, FailedRun, Mark, Wake
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.planning import SQL as ENGINE_SQL
from hourbell.store.postgres.planning import insert_runs, progress_of, write_batch
from hourbell.store.queries import load_queries
from hourbell.store.records import (
    NEWEST,
    check_version,
    failed_run_of,
    job_values,
    manual_run,
    new_version,
    old_version,
    refuse_replay,
    replay_values,
    with_lane,
)
from hourbell.store.rows import Batch, RunRow, definition_text, job_of, run_of

SQL = load_queries("hourbell.store.postgres", "control.sql")


class PostgresControlStore:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def create_job(self, definition: Definition, job_id: UUID, now: datetime, by: str) -> Job:
        change = created(with_lane(definition), now)
        async with self._writing() as connection:
            if await connection.fetchval(SQL["insert_job"], job_id, *job_values(change), now) is None:
                return (await self._lock(connection, job_id))[0]  # made before, by a commit whose answer was lost
            await self._save_version(connection, job_id, 1, change.definition, now, by)
            await self._audit(connection, now, by, "job.create", job_id, None, change.definition)
        return Job(job_id, 1, change.definition, change.cursor_at, change.next_at, change.plan_at)

    async def get_job(self, ref: str | UUID) -> Job | None:
        query = SQL["job_by_id"] if isinstance(ref, UUID) else SQL["job_by_name"]
        async with self._connections.connection() as connection:
            row = await connection.fetchrow(query, ref)
        return None if row is None else job_of(row)

    async def edit_job(
        self,
        job_id: UUID,
        edit: Callable[[Job], Definition],
        now: datetime,
        by: str,
        *,
        expect_version: int | None = None,
        drop_backlog: bool = False,
    ) -> Job:
        async with self._writing() as connection:
            job, row = await self._lock(connection, job_id, expect_version)
            try:
                change = edited(job, with_lane(edit(job)), now, drop_backlog=drop_backlog)
            except StillCatchingUp:
                message = "the job is still catching up; wait, or drop the backlog"
                raise Conflict("job_catching_up", message) from None
            pause = (row["paused_note"], row["paused_by"]) if not change.definition.enabled else (None, None)
            return await self._apply(connection, row, job, change, now, by, "job.edit", *pause)

    async def pause_job(
        self,
        job_id: UUID,
        now: datetime,
        by: str,
        *,
        note: str,
        until: datetime | None,
        cancel_waiting: bool,
        expect_version: int | None = None,
    ) -> Job:
        async with self._writing() as connection:
            job, row = await self._lock(connection, job_id, expect_version)
            after = await self._apply(connection, row, job, paused(job, now, until), now, by, "job.pause", note, by)
            if cancel_waiting:
                await connection.execute(ENGINE_SQL["cancel_waiting_of_jobs"], [job_id], now, True, [])
            return after

    async def resume_job(self, job_id: UUID, now: datetime, by: str, *, catch_up: bool) -> Job:
        async with self._writing() as connection:
            job, row = await self._lock(connection, job_id)
            return await self._apply(connection, row, job, resumed(job, now, catch_up=catch_up), now, by, "job.resume")

    async def delete_job(self, job_id: UUID, now: datetime, by: str) -> None:
        async with self._writing() as connection:
            job, _ = await self._lock(connection, job_id)
            await connection.execute(SQL["mark_deleted"], job_id, now)
            await connection.execute(SQL["delete_secrets"], job_id)
            await connection.execute(ENGINE_SQL["cancel_waiting_of_jobs"], [job_id], now, True, [])
            await self._audit(connection, now, by, "job.delete", job_id, job.definition, None)

    async def trigger_job(self, job_id: UUID, run_id: UUID, now: datetime, payload: object) -> Run:
        async with self._writing() as connection:
            job, row = await self._lock(connection, job_id)
            await self._save_current(connection, job, row, now)
            new = manual_run(job, run_id, now)
            await insert_runs(connection, [RunRow.of(job, new, payload)], now)
            await connection.execute(ENGINE_SQL["wake"], Wake.RUNS)
            return run_of(await connection.fetchrow(SQL["run_by_id"], run_id))

    async def failed_runs(self, limit: int, before: Mark | None = None) -> list[FailedRun]:
        mark = before or NEWEST
        async with self._connections.connection() as connection:
            rows = await connection.fetch(SQL["failed_runs"], limit, mark.finished_at, mark.run_id)
        return [failed_run_of(row) for row in rows]

    async def replay_run(self, run_id: UUID, new_id: UUID, now: datetime, by: str) -> Run:
        async with self._writing() as connection:
            if await connection.fetchrow(SQL["run_by_id"], new_id) is None:  # else it was made before, by a lost answer
                found = refuse_replay(await connection.fetchrow(SQL["run_to_replay"], run_id))
                job, row = await self._lock(connection, found["job_id"])  # jobs are locked before their runs, always
                await connection.execute(SQL["lock_run"], run_id)
                old = refuse_replay(await connection.fetchrow(SQL["run_to_replay"], run_id))
                await self._save_current(connection, job, row, now)
                values = replay_values(job, old, run_id, new_id, now)
                if await connection.fetchval(SQL["insert_replay"], *values) is not None:
                    await connection.fetchval(SQL["cancel_waiting_run"], run_id, now)
                    made = json.dumps({"run": str(new_id)})
                    await connection.execute(SQL["insert_audit"], now, by, "run.replay", str(run_id), None, made)
                    await connection.execute(ENGINE_SQL["wake"], Wake.RUNS)
            return run_of(await connection.fetchrow(SQL["run_by_id"], new_id))

    async def cancel_run(self, run_id: UUID, now: datetime) -> None:
        async with self._writing() as connection:
            await connection.execute(SQL["lock_run"], run_id)
            if await connection.fetchval(SQL["cancel_waiting_run"], run_id, now) is None:
                await connection.execute(SQL["ask_to_stop"], run_id, now)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Any]:
        try:
            async with self._connections.transaction() as connection:
                yield connection
        except asyncpg.UniqueViolationError as error:
            raise Conflict("name_taken", "another job has this name") from error

    async def _lock(self, connection: Any, job_id: UUID, expect_version: int | None = None) -> tuple[Job, Any]:
        row = await connection.fetchrow(SQL["lock_job"], job_id)
        if row is None:
            raise Conflict("no_such_job", "there is no such job")
        check_version(row, expect_version)
        return job_of(row, (await progress_of(connection, [row])).get(job_id)), row

    async def _apply(
        self,
        connection: Any,
        row: Any,
        job: Job,
        change: Change,
        now: datetime,
        by: str,
        action: str,
        note: str | None = None,
        paused_by: str | None = None,
    ) -> Job:
        """Write what the old version still gets, then the new one."""
        unsaved = {job.id} if row["saved_version"] != row["version"] else set()
        lanes = await write_batch(connection, Batch((old_version(job, change),)), unsaved, now, by=by)
        version = job.version + 1
        pause = (note, paused_by, change.paused_until)
        await connection.execute(SQL["update_job"], job.id, *job_values(change), now, version, *pause)
        await self._save_version(connection, job.id, version, change.definition, now, by)
        await self._audit(connection, now, by, action, job.id, job.definition, change.definition)
        if lanes:
            await connection.execute(ENGINE_SQL["wake"], Wake.RUNS)
        return new_version(job, change)

    async def _save_current(self, connection: Any, job: Job, row: Any, now: datetime) -> None:
        """Make sure that the job can run, and that the version it is at is written down."""
        if not job.definition.lane:
            raise Conflict("job_in_error", job.error or "the job's target makes no sense")
        if row["saved_version"] != row["version"]:
            await self._save_version(connection, job.id, job.version, job.definition, now, "sql")

    async def _save_version(
        self, connection: Any, job_id: UUID, version: int, definition: Definition, now: datetime, by: str
    ) -> None:
        await connection.execute(
            ENGINE_SQL["insert_versions"], [job_id], [version], [definition_text(definition)], now, by
        )

    async def _audit(
        self,
        connection: Any,
        now: datetime,
        by: str,
        action: str,
        job_id: UUID,
        before: Definition | None,
        after: Definition | None,
    ) -> None:
        texts = [None if each is None else json.dumps(definition_to_json(each)) for each in (before, after)]
        await connection.execute(SQL["insert_audit"], now, by, action, str(job_id), *texts)
