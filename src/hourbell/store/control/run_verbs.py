"""Verbs of users on runs: trigger, backfill, replay, cancel and discard."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from hourbell.core.run.run import Run
from hourbell.core.schedule import Occurrence
from hourbell.store.base import Wake
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import audit
from hourbell.store.control.changes import (
    backfill_audited,
    backfill_runs,
    before_cursor,
    check_pruned,
    refuse_cancel,
    refuse_discard,
    refuse_replay,
    replay_values,
)
from hourbell.store.control.changing import add_manual_run, lock_job, save_current
from hourbell.store.control.session import Session
from hourbell.store.control.verbs import Verbs
from hourbell.store.engine.batch import RunRow
from hourbell.store.rows import run_of


class RunVerbs(Verbs):
    async def trigger_job(self, job_id: UUID, run_id: UUID, actor: Actor, payload: object = None) -> Run:
        """Add a manual run, or return the existing run with that id. The cursor does not move."""

        async def trigger(session: Session) -> Run:
            job, row = await lock_job(session, job_id)
            await save_current(session, job, row)
            await add_manual_run(session, job, run_id, actor, payload)
            [run] = await session.fetch("run_by_id", id=run_id)
            return run_of(run)

        return await self._act(trigger, actor)

    async def backfill_job(
        self,
        job_id: UUID,
        occurrences: Sequence[Occurrence],
        actor: Actor,
        *,
        spacing: timedelta,
        pruned_until: datetime | None,
        expect_version: int | None = None,
    ) -> list[UUID]:
        """Add a run for each occurrence up to the cursor that has none; return the added runs.

        The first is ready now, each next one `spacing` later. The cursor does not move. Raises `Conflict` if the
        version is not the expected one, because its scheduled times may differ, or if runs were pruned meanwhile,
        because an occurrence may have had one of them.
        """

        async def backfill(session: Session) -> list[UUID]:
            job, row = await lock_job(session, job_id, expect_version)
            past = before_cursor(job, occurrences)
            await save_current(session, job, row)
            found = await session.fetch("planned_instants", job_id=job_id, instants=[each.at for each in past])
            check_pruned(await session.fetch_one("pruned_until", job_id=job_id), pruned_until)
            runs = backfill_runs(job, past, {row["scheduled_at"] for row in found}, actor.at, spacing)
            if runs:
                await session.insert_runs([RunRow.of(job, run) for run in runs], actor.at)
                await audit(session, actor, "job.backfill", job_id, after=backfill_audited(runs))
            return [run.id for run in runs]

        return await self._act(backfill, actor)

    async def replay_run(self, run_id: UUID, new_id: UUID, actor: Actor, *, ready_at: datetime | None = None) -> Run:
        """Run an ended or waiting run again: a new run with the original payload and the job's current target.

        A waiting run is cancelled first; a failed run stops being a dead letter. The new run is ready at once, or at
        the requested time. The same `new_id` returns the same run again. Raises `Conflict` if the run does not exist,
        is running, or its job is deleted or in error.
        """

        async def replay(session: Session) -> Run:
            if await session.fetch_one("run_by_id", id=new_id) is None:  # else a response was lost
                found = refuse_replay(await session.fetch_one("run_to_replay", id=run_id))
                job, row = await lock_job(session, found["job_id"])  # jobs are always locked before their runs
                await session.fetch("lock_run", id=run_id)
                old = refuse_replay(await session.fetch_one("run_to_replay", id=run_id))
                await save_current(session, job, row)
                if await session.fetch("insert_replay", **replay_values(job, old, run_id, new_id, actor.at, ready_at)):
                    await session.cancel_waiting_run(run_id, actor.at)
                    await session.execute("clear_run", id=run_id, now=actor.at)
                    await audit(session, actor, "run.replay", run_id, after={"run": str(new_id)})
                    await session.wake(Wake.RUNS)
            [run] = await session.fetch("run_by_id", id=new_id)
            return run_of(run)

        return await self._act(replay, actor)

    async def cancel_run(self, run_id: UUID, actor: Actor) -> bool:
        """Cancel a waiting run, or ask its node to stop it. Return True if the run has now ended.

        Raises `Conflict` if the run does not exist or ended before.
        """

        async def cancel(session: Session) -> bool:
            refuse_cancel(await session.fetch_one("lock_run", id=run_id))
            has_ended = await session.cancel_waiting_run(run_id, actor.at)
            if has_ended or await session.fetch("ask_to_stop", id=run_id, now=actor.at):
                await audit(session, actor, "run.cancel", run_id)
            return has_ended

        return await self._act(cancel, actor)

    async def discard_run(self, run_id: UUID, actor: Actor) -> None:
        """Remove a failed run from the dead letters; its history stays. Raises `Conflict` if it is not one."""

        async def discard(session: Session) -> None:
            refuse_discard(await session.fetch_one("lock_run", id=run_id))
            await session.execute("clear_run", id=run_id, now=actor.at)
            await audit(session, actor, "run.discard", run_id)

        await self._act(discard, actor)
