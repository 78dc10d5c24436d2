"""The jobs that programs define, and jobs that no program defines any more."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from hourbell.core.job.change import retired
from hourbell.core.job.definition import Job
from hourbell.store.control.actor import Actor
from hourbell.store.control.changes import ChangedJob
from hourbell.store.control.changing import lock_job, view_of, write_change
from hourbell.store.control.session import Session
from hourbell.store.control.verbs import Verbs
from hourbell.store.lists.query import JobView
from hourbell.store.rows import job_of


class ProgramVerbs(Verbs):
    async def note_program(self, node_id: UUID, source: str, jobs: Sequence[str]) -> None:
        """Record which jobs the program of a live node defines."""
        await self._sessions.write("note_program", id=node_id, source=source, jobs=list(jobs))

    async def undefined_jobs(self, source: str, beat_after: datetime) -> list[Job]:
        """Return the jobs of this source that no program defines on a node with a heartbeat since then."""
        return [
            job_of(row) for row in await self._sessions.fetch("undefined_jobs", source=source, beat_after=beat_after)
        ]

    async def retire_job(
        self, job_id: UUID, actor: Actor, *, note: str, cancel_waiting: bool, expect_version: int
    ) -> JobView:
        """Pause a job that its program no longer defines. Due times get no run and become one skip.

        Waiting scheduled runs stay unless they are cancelled too; manual runs stay in either case. Raises `Conflict` if
        the version is not the expected one.
        """

        async def retire(session: Session) -> JobView:
            job, row = await lock_job(session, job_id, expect_version)
            changed = ChangedJob(row, job, retired(job, actor.at), note, actor.by)
            await write_change(session, changed, actor, "job.pause")
            if cancel_waiting:
                await session.cancel_waiting([job_id], actor.at, every_kind=False)
            return await view_of(session, job_id)

        return await self._act(retire, actor)

    async def move_unserved_runs(self, source: str, heard_since: datetime) -> int:
        """Move waiting runs of this source's jobs to the task that their job names now; return the number moved.

        A run is moved only if no node with a recent heartbeat serves its own task, and if the job's schedule has not
        changed since the run was planned.
        """
        if not await self._sessions.fetch("unserved_lanes", heard_since=heard_since):
            return 0  # usually there is nothing to move, and then no lock is taken

        async def move(session: Session) -> int:
            lanes = [row["lane"] for row in await session.fetch("unserved_lanes", heard_since=heard_since)]
            return await session.execute("move_unserved_runs", source=source, lanes=lanes)

        return await self._sessions.transact(move)
