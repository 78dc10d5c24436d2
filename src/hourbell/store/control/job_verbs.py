"""Create, edit, pause, resume, delete and purge single jobs."""

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from hourbell.core.job.change import created, paused, resumed
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.core.run.run import first_run_id
from hourbell.sealing import Sealed
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import audit
from hourbell.store.control.bundles import STAY, NewSecret
from hourbell.store.control.changes import ChangedJob, NewJob, edited_job, refuse_purge, with_lane
from hourbell.store.control.changing import add_manual_run, delete_jobs, insert_jobs, lock_job, view_of, write_change
from hourbell.store.control.commands import approve_unchanged, refuse_unsealed
from hourbell.store.control.policy_names import refuse_unknown_policy
from hourbell.store.control.secrets import current_headers, insert_secrets, put_secrets, refuse_other_origin
from hourbell.store.control.session import Session
from hourbell.store.control.verbs import Verbs
from hourbell.store.lists.query import JobView
from hourbell.store.rows import job_of


class JobVerbs(Verbs):
    async def create_job(
        self,
        definition: Definition,
        job_id: UUID,
        actor: Actor,
        *,
        secrets: Sequence[Sealed] = (),
        run_on_create: bool = False,
    ) -> JobView:
        """Store a new job, with its secrets, that fires from now on; return the existing job if it has the same id.

        With `run_on_create` a new job also gets a manual run that is ready now. Raises `Conflict` if the name is taken,
        and `BodyError` if it names an alert policy that does not exist.
        """
        new = NewJob(job_id, created(self._sessions.check_target(with_lane(definition)), actor.at))

        async def create(session: Session) -> JobView:
            await session.refuse_taken_name(definition.name, job_id)
            await refuse_unknown_policy(session, definition)
            if await insert_jobs(session, [new], actor):  # else it exists: a response was lost
                await insert_secrets(session, secrets, actor.at)
                await audit(session, actor, "job.create", job_id, after=new.change.definition)
                if run_on_create:
                    await add_manual_run(session, new.after, first_run_id(job_id), actor)
            return await view_of(session, job_id)

        return await self._act(create, actor)

    async def get_job(self, ref: str | UUID) -> Job | None:
        """Return a job that is not deleted, by id or name; it may be one that cannot be planned."""
        if isinstance(ref, UUID):
            rows = await self._sessions.fetch("job_by_id", id=ref)
        else:
            rows = await self._sessions.fetch("job_by_name", name=ref)
        return next(map(job_of, rows), None)

    async def edit_job(
        self,
        ref: UUID | str,
        edit: Callable[[Job], Definition],
        actor: Actor,
        *,
        expect_version: int | None = None,
        drop_backlog: bool = False,
        secrets: Sequence[NewSecret] = (),
        moving: OriginChange = STAY,
        approve_command: bool = False,
    ) -> JobView:
        """Replace the definition with the result of `edit`, as a new version. An equal definition makes no new version.

        The job is found by id or name. `secrets` are stored with the new version. A job with secret headers may change
        its origin only as `moving` allows. A job whose command is not sealed may get a command only with
        `approve_command`, which also seals one that does not change.

        Due times belong to the old version and are planned first. If more is due than one pass plans, an edit of
        planning columns is refused as `job_catching_up`, or with `drop_backlog` skips the rest; any other edit leaves
        the rest to the new version. Raises `Conflict` if the version is not the expected one, the new name is taken, or
        a secret is bound to another origin than the new definition's; and `BodyError` if it comes to name an alert
        policy that does not exist.
        """

        async def change(session: Session) -> JobView:
            job, row = await lock_job(session, ref, expect_version)
            definition = self._sessions.check_target(with_lane(edit(job)))
            refuse_other_origin(secrets, definition)
            if definition is not job.definition:
                await refuse_unknown_policy(session, definition, job.definition)
                headers = (await current_headers(session, [job.id])).get(job.id, ())
                if not approve_command:
                    await refuse_unsealed(session, job, definition)
                changed = edited_job(
                    row,
                    job,
                    definition,
                    actor.at,
                    headers,
                    moving,
                    drop_backlog=drop_backlog,
                    is_approved=approve_command,
                )
                await session.refuse_taken_name(definition.name, job.id)
                await write_change(session, changed, actor, "job.edit")
            elif approve_command:
                await approve_unchanged(session, job, actor)
            await put_secrets(session, secrets, actor)
            return await view_of(session, job.id)

        return await self._act(change, actor)

    async def refuse_unknown_policy(self, definition: Definition, before: Definition | None = None) -> None:
        """Raise the `BodyError` that `create_job` or `edit_job` would raise, without changing anything."""
        await self._sessions.snapshot(lambda session: refuse_unknown_policy(session, definition, before))

    async def check_command(self, job: Job, definition: Definition) -> None:
        """Raise the Conflict of an edit that would give a command to a job whose command is not sealed."""

        async def check(session: Session) -> None:
            await refuse_unsealed(session, job, definition)

        await self._sessions.snapshot(check)

    async def pause_job(
        self,
        job_id: UUID,
        actor: Actor,
        *,
        note: str,
        until: datetime | None,
        cancel_waiting: bool,
        expect_version: int | None = None,
    ) -> JobView:
        """Stop planning. Due times are planned first; waiting runs stay unless they are cancelled too.

        Raises `Conflict` if the version is not the expected one.
        """

        async def pause(session: Session) -> JobView:
            job, row = await lock_job(session, job_id, expect_version)
            changed = ChangedJob(row, job, paused(job, actor.at, until), note, actor.by)
            await write_change(session, changed, actor, "job.pause")
            if cancel_waiting:
                await session.cancel_waiting([job_id], actor.at, every_kind=True)
            return await view_of(session, job_id)

        return await self._act(pause, actor)

    async def resume_job(
        self, job_id: UUID, actor: Actor, *, catch_up: bool, expect_version: int | None = None
    ) -> JobView:
        """Plan again from now on. The paused range becomes one skip, or with `catch_up` is planned as missed."""

        async def resume(session: Session) -> JobView:
            job, row = await lock_job(session, job_id, expect_version)
            changed = ChangedJob(row, job, resumed(job, actor.at, catch_up=catch_up))
            await write_change(session, changed, actor, "job.resume")
            return await view_of(session, job_id)

        return await self._act(resume, actor)

    async def delete_job(self, job_id: UUID, actor: Actor, *, expect_version: int | None = None) -> None:
        """Mark a job as deleted and cancel its waiting runs; its history stays."""

        async def delete(session: Session) -> None:
            job, _ = await lock_job(session, job_id, expect_version)
            await delete_jobs(session, [job_id], actor.at)
            await audit(session, actor, "job.delete", job_id, before=job.definition)

        await self._act(delete, actor)

    async def purge_job(self, job_id: UUID, actor: Actor, *, limit: int) -> bool:
        """Remove up to `limit` runs of a deleted job; with the last of them, remove the job and its whole history.

        Return True if the job is gone. Waiting runs are cancelled first. Raises `Conflict` if the job does not exist,
        is not deleted, or has a running run.
        """

        async def purge(session: Session) -> bool:
            found = await session.fetch_one("lock_any_job", id=job_id)
            [running] = await session.fetch("running_of_job", job_id=job_id)
            job = refuse_purge(found, job_id, running["count"])
            await session.cancel_waiting([job_id], actor.at, every_kind=True)
            runs = [row["id"] for row in await session.fetch("some_runs_of_job", job_id=job_id, limit=limit)]
            await session.delete_runs(runs)
            if len(runs) == limit:
                return False
            await session.delete_job(job_id)
            await audit(session, actor, "job.purge", job_id, before={"name": job["name"]})
            return True

        return await self._act(purge, actor)
