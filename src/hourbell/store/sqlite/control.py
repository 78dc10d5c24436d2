"""What users may change, on SQLite. Each change is one operation, handed over to the runner as a whole."""

import json
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from hourbell.core.change import Change, StillCatchingUp, created, edited, paused, resumed
from hourbell.core.definition_json import definition_to_json
from hourbell.core.job import Definition, Job
from hourbell.core.run import Run
from hourbell.store.base import Conflict, FailedRun, Mark, Wake
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
from hourbell.store.rows import Batch, Row, RunRow, definition_text, job_of, run_of
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.planning import SQL as ENGINE_SQL
from hourbell.store.sqlite.planning import cancel_waiting as cancel_waiting_of
from hourbell.store.sqlite.planning import insert_runs, progress_of, refuse_functions, write_batch
from hourbell.store.sqlite.settling import count_cancelled
from hourbell.store.sqlite.writer import Runner

SQL = load_queries("hourbell.store.sqlite", "control.sql")


class SqliteControlStore:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def create_job(self, definition: Definition, job_id: UUID, now: datetime, by: str) -> Job:
        change = created(refuse_functions(with_lane(definition)), now)

        def create(session: Session) -> Job:
            _refuse_taken_name(session, change.definition.name, job_id)
            if not session.fetch(SQL["insert_job"], job_id, *job_values(change), now):
                return _locked(session, job_id)[0]  # made before, by a commit whose answer was lost
            _save_version(session, job_id, 1, change.definition, now, by)
            _audit(session, now, by, "job.create", job_id, None, change.definition)
            session.wakes.add(Wake.JOBS)
            return Job(job_id, 1, change.definition, change.cursor_at, change.next_at, change.plan_at)

        return await self._runner.write(create)

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
    ) -> Job:
        def apply(session: Session) -> Job:
            job, row = _locked(session, job_id, expect_version)
            try:
                change = edited(job, refuse_functions(with_lane(edit(job))), now, drop_backlog=drop_backlog)
            except StillCatchingUp:
                message = "the job is still catching up; wait, or drop the backlog"
                raise Conflict("job_catching_up", message) from None
            pause = (row["paused_note"], row["paused_by"]) if not change.definition.enabled else (None, None)
            return _apply(session, row, job, change, now, by, "job.edit", *pause)

        return await self._runner.write(apply)

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
        def pause(session: Session) -> Job:
            job, row = _locked(session, job_id, expect_version)
            after = _apply(session, row, job, paused(job, now, until), now, by, "job.pause", note, by)
            if cancel_waiting:
                cancel_waiting_of(session, [job_id], now, every_kind=True)
            return after

        return await self._runner.write(pause)

    async def resume_job(self, job_id: UUID, now: datetime, by: str, *, catch_up: bool) -> Job:
        def resume(session: Session) -> Job:
            job, row = _locked(session, job_id)
            return _apply(session, row, job, resumed(job, now, catch_up=catch_up), now, by, "job.resume")

        return await self._runner.write(resume)

    async def delete_job(self, job_id: UUID, now: datetime, by: str) -> None:
        def delete(session: Session) -> None:
            job, _ = _locked(session, job_id)
            session.execute(SQL["mark_deleted"], job_id, now)
            session.execute(SQL["delete_secrets"], job_id)
            cancel_waiting_of(session, [job_id], now, every_kind=True)
            _audit(session, now, by, "job.delete", job_id, job.definition, None)

        await self._runner.write(delete)

    async def trigger_job(self, job_id: UUID, run_id: UUID, now: datetime, payload: object) -> Run:
        def trigger(session: Session) -> Run:
            job, row = _locked(session, job_id)
            _save_current(session, job, row, now)
            insert_runs(session, [RunRow.of(job, manual_run(job, run_id, now), payload)], now)
            [run] = session.fetch(SQL["run_by_id"], run_id)
            return run_of(run)

        return await self._runner.write(trigger)

    async def failed_runs(self, limit: int, before: Mark | None = None) -> list[FailedRun]:
        mark = before or NEWEST
        rows = await self._runner.read(
            lambda session: session.fetch(SQL["failed_runs"], limit, mark.finished_at, mark.run_id)
        )
        return [failed_run_of(row) for row in rows]

    async def replay_run(self, run_id: UUID, new_id: UUID, now: datetime, by: str) -> Run:
        def replay(session: Session) -> Run:
            if not session.fetch(SQL["run_by_id"], new_id):  # else it was made before, by a lost answer
                old = refuse_replay(session.fetch_one(SQL["run_to_replay"], run_id))
                job, row = _locked(session, old["job_id"])
                _save_current(session, job, row, now)
                if cancelled := session.fetch(SQL["cancel_waiting_run"], run_id, now):
                    count_cancelled(session, [row["job_id"] for row in cancelled])
                session.execute(SQL["insert_replay"], *replay_values(job, old, run_id, new_id, now))
                _audit_run(session, now, by, "run.replay", run_id, new_id)
                session.wakes.add(Wake.RUNS)
            [run] = session.fetch(SQL["run_by_id"], new_id)
            return run_of(run)

        return await self._runner.write(replay)

    async def cancel_run(self, run_id: UUID, now: datetime) -> None:
        def cancel(session: Session) -> None:
            cancelled = session.fetch(SQL["cancel_waiting_run"], run_id, now)
            if cancelled:
                count_cancelled(session, [row["job_id"] for row in cancelled])
            else:
                session.execute(SQL["ask_to_stop"], run_id, now)

        await self._runner.write(cancel)


def _locked(session: Session, job_id: UUID, expect_version: int | None = None) -> tuple[Job, Row]:
    """A job to change. The transaction holds the only write lock there is."""
    row = session.fetch_one(SQL["job_by_id"], job_id)
    if row is None:
        raise Conflict("no_such_job", "there is no such job")
    check_version(row, expect_version)
    return job_of(row, progress_of(session, [row]).get(job_id)), row


def _refuse_taken_name(session: Session, name: str, job_id: UUID) -> None:
    row = session.fetch_one(SQL["job_by_name"], name)
    if row is not None and row["id"] != job_id:
        raise Conflict("name_taken", "another job has this name")


def _apply(
    session: Session,
    row: Row,
    job: Job,
    change: Change,
    now: datetime,
    by: str,
    action: str,
    note: str | None = None,
    paused_by: str | None = None,
) -> Job:
    """Write what the old version still gets, then the new one."""
    _refuse_taken_name(session, change.definition.name, job.id)
    unsaved = {job.id} if row["saved_version"] != row["version"] else set()
    write_batch(session, Batch((old_version(job, change),)), unsaved, now, by=by)
    after = new_version(job, change)
    pause = (note, paused_by, change.paused_until)
    session.execute(SQL["update_job"], job.id, *job_values(change), now, after.version, *pause)
    _save_version(session, job.id, after.version, change.definition, now, by)
    _audit(session, now, by, action, job.id, job.definition, change.definition)
    session.wakes.add(Wake.JOBS)
    return after


def _save_current(session: Session, job: Job, row: Row, now: datetime) -> None:
    """Make sure that the job can run, and that the version it is at is written down."""
    if not job.definition.lane:
        raise Conflict("job_in_error", job.error or "the job's target makes no sense")
    if row["saved_version"] != row["version"]:
        _save_version(session, job.id, job.version, job.definition, now, "sql")


def _save_version(session: Session, job_id: UUID, version: int, definition: Definition, now: datetime, by: str) -> None:
    session.execute(ENGINE_SQL["insert_versions"], [(job_id, version, definition_text(definition))], now, by)


def _audit_run(session: Session, now: datetime, by: str, action: str, run_id: UUID, new_id: UUID) -> None:
    session.execute(SQL["insert_audit"], now, by, action, str(run_id), None, json.dumps({"run": str(new_id)}))


def _audit(
    session: Session,
    now: datetime,
    by: str,
    action: str,
    job_id: UUID,
    before: Definition | None,
    after: Definition | None,
) -> None:
    texts = [None if each is None else json.dumps(definition_to_json(each)) for each in (before, after)]
    session.execute(SQL["insert_audit"], now, by, action, str(job_id), *texts)
