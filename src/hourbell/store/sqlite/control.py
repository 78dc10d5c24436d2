"""What users may change, on SQLite. Each change is one operation, handed over to the runner as a whole."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.change import created, paused, resumed, retired
from hourbell.core.job import Definition, Job
from hourbell.core.run import Run
from hourbell.core.schedule import Occurrence
from hourbell.core.secret_headers import OriginChange
from hourbell.sealing import Sealed
from hourbell.store.base import Mark, Request, Wake
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
from hourbell.store.records import NEWEST, failed_run_of
from hourbell.store.rows import job_of, run_of
from hourbell.store.secrets import refuse_other_origin, secret_text
from hourbell.store.sqlite.applying import apply_jobs
from hourbell.store.sqlite.auditing import act_once, audit
from hourbell.store.sqlite.changing import (
    SQL,
    audit_job,
    delete_jobs,
    insert_jobs,
    lock_job,
    refuse_taken_name,
    save_current,
    write_changes,
)
from hourbell.store.sqlite.connection import Operation, Session, T
from hourbell.store.sqlite.importing import import_jobs, prune_jobs
from hourbell.store.sqlite.plan_words import SQL as ENGINE_SQL
from hourbell.store.sqlite.plan_words import cancel_waiting as cancel_waiting_of
from hourbell.store.sqlite.plan_words import insert_runs
from hourbell.store.sqlite.planning import refuse_functions
from hourbell.store.sqlite.secrets import current_headers, insert_secrets, write_secrets
from hourbell.store.sqlite.settling import count_cancelled
from hourbell.store.sqlite.writer import Runner


class SqliteControlStore:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def take_key(self, request: Request, now: datetime) -> None:
        await self._write(lambda _: None, request, now)

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
        new = NewJob(job_id, created(refuse_functions(with_lane(definition)), now))

        def create(session: Session) -> Job:
            refuse_taken_name(session, definition.name, job_id)
            if not insert_jobs(session, [new], now, by):
                return lock_job(session, job_id)[0]  # made before, by a commit whose answer was lost
            insert_secrets(session, secrets, now)
            audit_job(session, now, by, "job.create", job_id, None, new.change.definition, request)
            return new.after

        return await self._write(create, request, now)

    async def get_job(self, ref: str | UUID) -> Job | None:
        query = SQL["job_by_id"] if isinstance(ref, UUID) else SQL["job_by_name"]
        row = await self._runner.read(lambda session: session.fetch_one(query, ref))
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
        def apply(session: Session) -> Job:
            job, row = lock_job(session, job_id, expect_version)
            definition = refuse_functions(with_lane(edit(job)))
            refuse_other_origin(secrets, definition)
            if definition is not job.definition:
                headers = current_headers(session, [job_id]).get(job_id, ())
                changed = edited_job(row, job, definition, now, headers, moving, drop_backlog=drop_backlog)
                refuse_taken_name(session, definition.name, job_id)
                job = _change(session, changed, now, by, "job.edit", request)
            write_secrets(session, secrets, now)
            for each in secrets:
                audit(session, now, by, "secret.put", str(job_id), None, secret_text(each), request)
            return job

        return await self._write(apply, request, now)

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
        def pause(session: Session) -> Job:
            job, row = lock_job(session, job_id, expect_version)
            changed = ChangedJob(row, job, paused(job, now, until), note, by)
            after = _change(session, changed, now, by, "job.pause", request)
            if cancel_waiting:
                cancel_waiting_of(session, [job_id], now, every_kind=True)
            return after

        return await self._write(pause, request, now)

    async def retire_job(
        self, job_id: UUID, now: datetime, by: str, *, note: str, cancel_waiting: bool, expect_version: int
    ) -> Job:
        def retire(session: Session) -> Job:
            job, row = lock_job(session, job_id, expect_version)
            after = _change(session, ChangedJob(row, job, retired(job, now), note, by), now, by, "job.pause", None)
            if cancel_waiting:
                cancel_waiting_of(session, [job_id], now, every_kind=False)
            return after

        return await self._write(retire, None, now)

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
        def resume(session: Session) -> Job:
            job, row = lock_job(session, job_id, expect_version)
            changed = ChangedJob(row, job, resumed(job, now, catch_up=catch_up))
            return _change(session, changed, now, by, "job.resume", request)

        return await self._write(resume, request, now)

    async def delete_job(
        self,
        job_id: UUID,
        now: datetime,
        by: str,
        *,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> None:
        def delete(session: Session) -> None:
            job, _ = lock_job(session, job_id, expect_version)
            delete_jobs(session, [job_id], now)
            audit_job(session, now, by, "job.delete", job_id, job.definition, None, request)

        await self._write(delete, request, now)

    async def purge_job(
        self, job_id: UUID, now: datetime, by: str, *, limit: int, request: Request | None = None
    ) -> bool:
        def purge(session: Session) -> bool:
            [running] = session.fetch(SQL["running_of_job"], job_id)
            job = refuse_purge(session.fetch_one(SQL["lock_any_job"], job_id), job_id, running["count"])
            cancel_waiting_of(session, [job_id], now, every_kind=True)
            runs = [row["id"] for row in session.fetch(SQL["some_runs_of_job"], job_id, limit)]
            for statement in ("delete_attempts", "delete_cancels", "delete_runs"):
                session.execute(ENGINE_SQL[statement], runs)
            if len(runs) == limit:
                return False
            session.execute(ENGINE_SQL["begin_pruning"])
            session.execute(SQL["delete_job"], job_id)
            session.execute(ENGINE_SQL["end_pruning"])
            audit(session, now, by, "job.purge", str(job_id), json.dumps({"name": job["name"]}), None, request)
            return True

        return await self._write(purge, request, now)

    async def trigger_job(
        self, job_id: UUID, run_id: UUID, now: datetime, payload: object, by: str, *, request: Request | None = None
    ) -> Run:
        def trigger(session: Session) -> Run:
            job, row = lock_job(session, job_id)
            save_current(session, job, row)
            if insert_runs(session, [RunRow.of(job, manual_run(job, run_id, now), payload)], now):
                made = json.dumps({"run": str(run_id)})
                audit(session, now, by, "job.trigger", str(job_id), None, made, request)
            [run] = session.fetch(SQL["run_by_id"], run_id)
            return run_of(run)

        return await self._write(trigger, request, now)

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
        def backfill(session: Session) -> list[UUID]:
            job, row = lock_job(session, job_id, expect_version)
            past = before_cursor(job, occurrences)
            save_current(session, job, row)
            found = session.fetch(SQL["planned_instants"], job_id, [each.at for each in past])
            check_pruned(session.fetch_one(SQL["pruned_until"], job_id), pruned_until)
            runs = backfill_runs(job, past, {row["scheduled_at"] for row in found}, now, spacing)
            if runs:
                insert_runs(session, [RunRow.of(job, run) for run in runs], now)
                audit(session, now, by, "job.backfill", str(job_id), None, backfill_text(runs), request)
            return [run.id for run in runs]

        return await self._write(backfill, request, now)

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
        def bring_in(session: Session) -> list[ImportResult]:
            return import_jobs(
                session,
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

        return await self._write(bring_in, None if dry_run else request, now)

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
        def prune(session: Session) -> list[str]:
            return prune_jobs(
                session,
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

        return await (self._runner.read(prune) if dry_run else self._write(prune, request, now))

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
        def bring_in(session: Session) -> Applied:
            return apply_jobs(
                session,
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

        return await (self._runner.read(bring_in) if dry_run else self._write(bring_in, request, now))

    async def note_program(self, node_id: UUID, source: str, jobs: Sequence[str]) -> None:
        await self._runner.write(lambda session: session.execute(SQL["note_program"], node_id, source, list(jobs)))

    async def undefined_jobs(self, source: str, beat_after: datetime) -> list[Job]:
        rows = await self._runner.read(lambda session: session.fetch(SQL["undefined_jobs"], source, beat_after))
        return [job_of(row) for row in rows]

    async def move_unserved_runs(self, source: str, heard_since: datetime) -> int:
        def unserved(session: Session) -> list[str]:
            return [row["lane"] for row in session.fetch(SQL["unserved_lanes"], heard_since)]

        if not await self._runner.read(unserved):  # most of the time, and then nobody needs to wait for the writer
            return 0
        return await self._runner.write(
            lambda session: len(session.fetch(SQL["move_unserved_runs"], source, unserved(session)))
        )

    async def failed_runs(self, limit: int, before: Mark | None = None) -> list[FailedRun]:
        mark = before or NEWEST
        rows = await self._runner.read(
            lambda session: session.fetch(SQL["failed_runs"], limit, mark.finished_at, mark.run_id)
        )
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
        def replay(session: Session) -> Run:
            if not session.fetch(SQL["run_by_id"], new_id):  # else it was made before, by a lost answer
                old = refuse_replay(session.fetch_one(SQL["run_to_replay"], run_id))
                job, row = lock_job(session, old["job_id"])
                save_current(session, job, row)
                _cancel_waiting_run(session, run_id, now)
                session.execute(SQL["clear_run"], run_id, now)
                session.execute(SQL["insert_replay"], *replay_values(job, old, run_id, new_id, now, ready_at))
                made = json.dumps({"run": str(new_id)})
                audit(session, now, by, "run.replay", str(run_id), None, made, request)
                session.wakes.add(Wake.RUNS)
            [run] = session.fetch(SQL["run_by_id"], new_id)
            return run_of(run)

        return await self._write(replay, request, now)

    async def cancel_run(self, run_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> bool:
        def cancel(session: Session) -> bool:
            refuse_cancel(session.fetch_one(SQL["run_state"], run_id))
            has_ended = _cancel_waiting_run(session, run_id, now)
            if has_ended or session.fetch(SQL["ask_to_stop"], run_id, now):
                audit(session, now, by, "run.cancel", str(run_id), None, None, request)
            return has_ended

        return await self._write(cancel, request, now)

    async def discard_run(self, run_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> None:
        def discard(session: Session) -> None:
            refuse_discard(session.fetch_one(SQL["run_state"], run_id))
            session.execute(SQL["clear_run"], run_id, now)
            audit(session, now, by, "run.discard", str(run_id), None, None, request)

        await self._write(discard, request, now)

    async def _write(self, operation: Operation[T], request: Request | None, now: datetime) -> T:
        """Run an operation that acts once for the request's key."""

        def act(session: Session) -> T:
            act_once(session, request, now)
            return operation(session)

        return await self._runner.write(act)


def _change(session: Session, changed: ChangedJob, now: datetime, by: str, action: str, request: Request | None) -> Job:
    write_changes(session, [changed], now, by)
    before, after = changed.job.definition, changed.change.definition
    audit_job(session, now, by, action, changed.job.id, before, after, request)
    return changed.after


def _cancel_waiting_run(session: Session, run_id: UUID, now: datetime) -> bool:
    """Cancel a run, if it waits, and count it. True if it has ended by that."""
    cancelled = session.fetch(SQL["cancel_waiting_run"], run_id, now)
    if cancelled:
        count_cancelled(session, [row["job_id"] for row in cancelled])
    return bool(cancelled)
