"""What users may change, on PostgreSQL."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from hourbell.core.change import created, paused, resumed, retired
from hourbell.core.job import Definition, Job
from hourbell.core.run import Run
from hourbell.core.schedule import Occurrence
from hourbell.core.secret_headers import OriginChange
from hourbell.sealing import Sealed
from hourbell.store.base import Conflict, Mark, Request, Wake
from hourbell.store.batch import RunRow
from hourbell.store.bundles import Applied, Bundle, ImportResult, JobEntry, NewSecret
from hourbell.store.changes import (
    ChangedJob,
    NewJob,
    backfill_runs,
    backfill_text,
    before_cursor,
    check_pruned,
    edited_job,
    manual_run,
    refuse_cancel,
    refuse_discard,
    refuse_purge,
    refuse_replay,
    replay_values,
    with_lane,
)
from hourbell.store.control import STAY, FailedRun, any_job
from hourbell.store.postgres.applying import apply_jobs
from hourbell.store.postgres.auditing import act_once, audit
from hourbell.store.postgres.changing import (
    SQL,
    audit_job,
    delete_jobs,
    insert_jobs,
    lock_job,
    save_current,
    write_changes,
)
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.importing import import_jobs, prune_jobs
from hourbell.store.postgres.planning import SQL as ENGINE_SQL
from hourbell.store.postgres.planning import insert_runs
from hourbell.store.postgres.secrets import current_headers, insert_secrets, write_secrets
from hourbell.store.records import NEWEST, failed_run_of
from hourbell.store.rows import job_of, run_of
from hourbell.store.secrets import refuse_other_origin, secret_text

_CHUNK = 1_000  # runs in one statement


class NameTaken(Conflict):
    def __init__(self) -> None:
        super().__init__("name_taken", "another job has this name")


class PostgresControlStore:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def take_key(self, request: Request, now: datetime) -> None:
        async with self._writing(request, now):
            pass

    async def create_job(
        self,
        definition: Definition,
        job_id: UUID,
        now: datetime,
        by: str,
        *,
        secrets: Sequence[Sealed] = (),
        request: Request | None = None,
    ) -> Job:
        new = NewJob(job_id, created(with_lane(definition), now))
        async with self._writing(request, now) as connection:
            if not await insert_jobs(connection, [new], now, by):
                return (await lock_job(connection, job_id))[0]  # made before, by a commit whose answer was lost
            await insert_secrets(connection, secrets, now)
            await audit_job(connection, now, by, "job.create", job_id, None, new.change.definition, request)
        return new.after

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
        secrets: Sequence[NewSecret] = (),
        moving: OriginChange = STAY,
        request: Request | None = None,
    ) -> Job:
        async with self._writing(request, now) as connection:
            job, row = await lock_job(connection, job_id, expect_version)
            definition = with_lane(edit(job))
            refuse_other_origin(secrets, definition)
            if definition is not job.definition:
                headers = (await current_headers(connection, [job_id])).get(job_id, ())
                changed = edited_job(row, job, definition, now, headers, moving, drop_backlog=drop_backlog)
                job = await self._change(connection, changed, now, by, "job.edit", request)
            await write_secrets(connection, secrets, now)
            for each in secrets:
                await audit(connection, now, by, "secret.put", str(job_id), None, secret_text(each), request)
            return job

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
        request: Request | None = None,
    ) -> Job:
        async with self._writing(request, now) as connection:
            job, row = await lock_job(connection, job_id, expect_version)
            changed = ChangedJob(row, job, paused(job, now, until), note, by)
            after = await self._change(connection, changed, now, by, "job.pause", request)
            if cancel_waiting:
                await connection.execute(ENGINE_SQL["cancel_waiting_of_jobs"], [job_id], now, True, [])
            return after

    async def retire_job(
        self, job_id: UUID, now: datetime, by: str, *, note: str, cancel_waiting: bool, expect_version: int
    ) -> Job:
        async with self._writing(None, now) as connection:
            job, row = await lock_job(connection, job_id, expect_version)
            changed = ChangedJob(row, job, retired(job, now), note, by)
            after = await self._change(connection, changed, now, by, "job.pause", None)
            if cancel_waiting:
                await connection.execute(ENGINE_SQL["cancel_waiting_of_jobs"], [job_id], now, False, [])
            return after

    async def resume_job(
        self,
        job_id: UUID,
        now: datetime,
        by: str,
        *,
        catch_up: bool,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> Job:
        async with self._writing(request, now) as connection:
            job, row = await lock_job(connection, job_id, expect_version)
            changed = ChangedJob(row, job, resumed(job, now, catch_up=catch_up))
            return await self._change(connection, changed, now, by, "job.resume", request)

    async def delete_job(
        self,
        job_id: UUID,
        now: datetime,
        by: str,
        *,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> None:
        async with self._writing(request, now) as connection:
            job, _ = await lock_job(connection, job_id, expect_version)
            await delete_jobs(connection, [job_id], now)
            await audit_job(connection, now, by, "job.delete", job_id, job.definition, None, request)

    async def purge_job(
        self, job_id: UUID, now: datetime, by: str, *, limit: int, request: Request | None = None
    ) -> bool:
        async with self._writing(request, now) as connection:
            found = await connection.fetchrow(SQL["lock_any_job"], job_id)
            job = refuse_purge(found, job_id, await connection.fetchval(SQL["running_of_job"], job_id))
            await connection.execute(ENGINE_SQL["cancel_waiting_of_jobs"], [job_id], now, True, [])
            runs = [row["id"] for row in await connection.fetch(SQL["some_runs_of_job"], job_id, limit)]
            for statement in ("delete_attempts", "delete_cancels", "delete_runs"):
                await connection.execute(ENGINE_SQL[statement], runs)
            if len(runs) == limit:
                return False
            await connection.execute("set local hourbell.prunes = 'on'")
            await connection.execute(SQL["delete_job"], job_id)
            name = json.dumps({"name": job["name"]})
            await audit(connection, now, by, "job.purge", str(job_id), name, None, request)
            return True

    async def trigger_job(
        self, job_id: UUID, run_id: UUID, now: datetime, payload: object, by: str, *, request: Request | None = None
    ) -> Run:
        async with self._writing(request, now) as connection:
            job, row = await lock_job(connection, job_id)
            await save_current(connection, job, row)
            new = manual_run(job, run_id, now)
            if await insert_runs(connection, [RunRow.of(job, new, payload)], now):
                made = json.dumps({"run": str(run_id)})
                await audit(connection, now, by, "job.trigger", str(job_id), None, made, request)
            return run_of(await connection.fetchrow(SQL["run_by_id"], run_id))

    async def backfill_job(
        self,
        job_id: UUID,
        occurrences: Sequence[Occurrence],
        now: datetime,
        by: str,
        *,
        spacing: timedelta,
        pruned_until: datetime | None,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> list[UUID]:
        async with self._writing(request, now) as connection:
            job, row = await lock_job(connection, job_id, expect_version)
            past = before_cursor(job, occurrences)
            await save_current(connection, job, row)
            found = await connection.fetch(SQL["planned_instants"], job_id, [each.at for each in past])
            check_pruned(await connection.fetchrow(SQL["pruned_until"], job_id), pruned_until)
            runs = backfill_runs(job, past, {row["scheduled_at"] for row in found}, now, spacing)
            if runs:
                for first in range(0, len(runs), _CHUNK):
                    some = runs[first : first + _CHUNK]
                    await insert_runs(connection, [RunRow.of(job, run) for run in some], now)
                await audit(connection, now, by, "job.backfill", str(job_id), None, backfill_text(runs), request)
            return [run.id for run in runs]

    async def import_jobs(
        self,
        entries: Sequence[JobEntry],
        now: datetime,
        by: str,
        *,
        may_change: Callable[[Definition], bool] = any_job,
        moving: OriginChange = STAY,
        take_over: bool = False,
        import_id: UUID | None = None,
        dry_run: bool = False,
        request: Request | None = None,
    ) -> list[ImportResult]:
        async def attempt() -> list[ImportResult]:
            async with self._writing(None if dry_run else request, now) as connection:
                return await import_jobs(
                    connection,
                    entries,
                    now,
                    by,
                    may_change=may_change,
                    moving=moving,
                    take_over=take_over,
                    import_id=import_id,
                    dry_run=dry_run,
                    request=request,
                )

        try:
            return await attempt()
        except NameTaken:  # by another transaction, after this one had looked; its job is there now
            return await attempt()

    async def prune_jobs(
        self,
        import_id: UUID,
        managed_by: str,
        source: str,
        now: datetime,
        by: str,
        *,
        limit: int,
        may_change: Callable[[Definition], bool] = any_job,
        dry_run: bool = False,
        request: Request | None = None,
    ) -> list[str]:
        async with self._writing(None if dry_run else request, now) as connection:
            return await prune_jobs(
                connection,
                import_id,
                managed_by,
                source,
                now,
                by,
                limit=limit,
                may_change=may_change,
                dry_run=dry_run,
                request=request,
            )

    async def apply_jobs(
        self,
        bundle: Bundle,
        now: datetime,
        by: str,
        *,
        secrets: Sequence[NewSecret] = (),
        expect: str | None = None,
        may_change: Callable[[Definition], bool] = any_job,
        moving: OriginChange = STAY,
        dry_run: bool = False,
        request: Request | None = None,
    ) -> Applied:
        async def attempt() -> Applied:
            async with self._writing(None if dry_run else request, now) as connection:
                return await apply_jobs(
                    connection,
                    bundle,
                    now,
                    by,
                    secrets=secrets,
                    expect=expect,
                    may_change=may_change,
                    moving=moving,
                    dry_run=dry_run,
                    request=request,
                )

        try:
            return await attempt()
        except NameTaken:  # by another transaction, after this one had looked; its job is there now
            return await attempt()

    async def note_program(self, node_id: UUID, source: str, jobs: Sequence[str]) -> None:
        async with self._connections.connection() as connection:
            await connection.execute(SQL["note_program"], node_id, source, list(jobs))

    async def undefined_jobs(self, source: str, beat_after: datetime) -> list[Job]:
        async with self._connections.connection() as connection:
            return [job_of(row) for row in await connection.fetch(SQL["undefined_jobs"], source, beat_after)]

    async def move_unserved_runs(self, source: str, heard_since: datetime) -> int:
        async with self._connections.connection() as connection:
            moved: int = await connection.fetchval(SQL["move_unserved_runs"], source, heard_since)
        return moved

    async def failed_runs(self, limit: int, before: Mark | None = None) -> list[FailedRun]:
        mark = before or NEWEST
        async with self._connections.connection() as connection:
            rows = await connection.fetch(SQL["failed_runs"], limit, mark.finished_at, mark.run_id)
        return [failed_run_of(row) for row in rows]

    async def replay_run(
        self,
        run_id: UUID,
        new_id: UUID,
        now: datetime,
        by: str,
        *,
        ready_at: datetime | None = None,
        request: Request | None = None,
    ) -> Run:
        async with self._writing(request, now) as connection:
            if await connection.fetchrow(SQL["run_by_id"], new_id) is None:  # else it was made before, by a lost answer
                found = refuse_replay(await connection.fetchrow(SQL["run_to_replay"], run_id))
                job, row = await lock_job(connection, found["job_id"])  # jobs are locked before their runs, always
                await connection.execute(SQL["lock_run"], run_id)
                old = refuse_replay(await connection.fetchrow(SQL["run_to_replay"], run_id))
                await save_current(connection, job, row)
                values = replay_values(job, old, run_id, new_id, now, ready_at)
                if await connection.fetchval(SQL["insert_replay"], *values) is not None:
                    await connection.fetchval(SQL["cancel_waiting_run"], run_id, now)
                    await connection.execute(SQL["clear_run"], run_id, now)
                    made = json.dumps({"run": str(new_id)})
                    await audit(connection, now, by, "run.replay", str(run_id), None, made, request)
                    await connection.execute(ENGINE_SQL["wake"], Wake.RUNS)
            return run_of(await connection.fetchrow(SQL["run_by_id"], new_id))

    async def cancel_run(self, run_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> bool:
        async with self._writing(request, now) as connection:
            refuse_cancel(await connection.fetchrow(SQL["lock_run"], run_id))
            has_ended = await connection.fetchval(SQL["cancel_waiting_run"], run_id, now) is not None
            if has_ended or await connection.fetchval(SQL["ask_to_stop"], run_id, now) is not None:
                await audit(connection, now, by, "run.cancel", str(run_id), None, None, request)
            return has_ended

    async def discard_run(self, run_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> None:
        async with self._writing(request, now) as connection:
            refuse_discard(await connection.fetchrow(SQL["lock_run"], run_id))
            await connection.execute(SQL["clear_run"], run_id, now)
            await audit(connection, now, by, "run.discard", str(run_id), None, None, request)

    @asynccontextmanager
    async def _writing(self, request: Request | None, now: datetime) -> AsyncIterator[Any]:
        """A transaction that acts once for the request's key."""
        try:
            async with self._connections.transaction() as connection:
                await act_once(connection, request, now)
                yield connection
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name != "jobs_name":
                raise
            raise NameTaken from error

    async def _change(
        self, connection: Any, changed: ChangedJob, now: datetime, by: str, action: str, request: Request | None
    ) -> Job:
        await write_changes(connection, [changed], now, by)
        before, after = changed.job.definition, changed.change.definition
        await audit_job(connection, now, by, action, changed.job.id, before, after, request)
        return changed.after
