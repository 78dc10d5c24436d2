"""What users may ask to be changed: each change is one transaction with an audit row, and acts once by its key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from hourbell.core.job import Definition, Job
from hourbell.core.run import Run
from hourbell.core.schedule import Occurrence
from hourbell.core.secret_headers import OriginChange
from hourbell.sealing import Sealed
from hourbell.store.base import Mark, Request
from hourbell.store.bundles import Applied, Bundle, ImportResult, JobEntry, NewSecret


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A dead letter: what failed, why, and what was said last."""

    id: UUID
    job_id: UUID
    job_name: str | None  # None if the job is gone
    scheduled_at: datetime
    finished_at: datetime
    reason: str | None
    attempt: int
    error: str | None


STAY = OriginChange()  # a job with secret headers keeps its origin


def any_job(definition: Definition) -> bool:
    """Nothing is asked of a job: whoever asks may change all of them."""
    del definition
    return True


class ControlStore(Protocol):
    """What users may change. Each change is one transaction, with one row in the audit.

    A `request` with a key acts once: where a committed change has the key already, AlreadyAsked is raised and nothing
    is changed. Two at the same time are one after the other.
    """

    async def take_key(self, request: Request, now: datetime) -> None:
        """Take the key of a call that makes many changes, each by itself. AlreadyAsked if it is taken."""

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
        """Store a job that fires from now on, never for the past, with its secrets, or return the one of that id.

        `Conflict` if the name is taken.
        """

    async def get_job(self, ref: str | UUID) -> Job | None:
        """A job that is not deleted, by id or by name, also if it cannot be planned."""

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
        """Replace the definition by what `edit` makes of it, as a new version. The same one makes no new version.

        `secrets` come with it. A job with secret headers goes to another origin only as `moving` allows.

        What is due belongs to the old version and is planned first. If more is due than one pass plans, an edit of
        planning columns is refused as `job_catching_up`, or with `drop_backlog` makes a skip of the rest; any other
        edit leaves the rest to the new version. `Conflict` if the version is not the expected one, the new name is
        taken, or a secret is bound to another origin than that of the new definition.
        """

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
        """Stop planning. Due instants are planned first; runs already planned go on unless they are cancelled too.

        `Conflict` if the version is not the expected one.
        """

    async def retire_job(
        self, job_id: UUID, now: datetime, by: str, *, note: str, cancel_waiting: bool, expect_version: int
    ) -> Job:
        """Pause a job that its program does not define any more. What is due gets no run and is one skip.

        Its scheduled runs that wait go on unless they are cancelled too; what somebody asked for stays in either case.
        `Conflict` if the version is not the expected one.
        """

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
        """Plan again from now on: what the pause swallowed is one skip, or with `catch_up` is planned as missed."""

    async def delete_job(
        self,
        job_id: UUID,
        now: datetime,
        by: str,
        *,
        expect_version: int | None = None,
        request: Request | None = None,
    ) -> None:
        """Remove a job from use; its history stays and its waiting runs are cancelled."""

    async def purge_job(
        self, job_id: UUID, now: datetime, by: str, *, limit: int, request: Request | None = None
    ) -> bool:
        """Remove up to `limit` runs of a deleted job, and with the last of them the job and its whole history.

        True if the job is gone. What still waits is cancelled first. `Conflict` if there is no such job, it is not
        deleted, or one of its runs is running.
        """

    async def trigger_job(
        self, job_id: UUID, run_id: UUID, now: datetime, payload: object, by: str, *, request: Request | None = None
    ) -> Run:
        """Add a manual run, or return the one of that id. The cursor does not move."""

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
        """Add a run for each occurrence up to the cursor that has none yet; the runs that were added.

        The first is ready now, each of the others so much later than the one before. The cursor does not move.
        `Conflict` if the version is not the expected one: its instants may be others. Likewise if retention has gone
        on from where it was: some of them may have had a run.
        """

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
        """Create jobs that are new, edit those that differ, and leave the others; what was done with each, in order.

        Jobs are told apart by name. One that another owner has (`managed_by` and `source`), unless it is taken over,
        that it may not change, or whose secret headers would be left behind is refused, and so is the second of two
        with one name; none of that keeps the others. A paused job stays paused.
        All of it is one transaction with one row in the audit. With an `import_id`, the jobs are noted as seen by that
        import, also those it could not change. A dry run changes no job, and notes those that are there.
        """

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
        """Delete up to `limit` jobs of an owner that the import has not seen; their names.

        `Conflict` if it may not change one of them, and none is deleted.
        When none is left, what the import had noted is forgotten. In a dry run nothing is deleted.
        """

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
        """Make the jobs of an owner those of the bundle, in one transaction, with a row in the audit for each change.

        Jobs are told apart by name, and refused, as in an import; if one is refused, nothing is changed. With
        `heard_since`, a job of another program becomes the owner's if no node defines it that was heard of since then,
        which is decided in the same transaction. An operator's pause stays, and the owner's own ends when it says so.
        `secrets` are of jobs in the bundle. `Conflict` if the state is not the expected one, or a job may not be
        deleted. In a dry run nothing is changed.
        """

    async def note_program(self, node_id: UUID, source: str, jobs: Sequence[str]) -> None:
        """Note which jobs the program of a live node defines."""

    async def undefined_jobs(self, source: str, beat_after: datetime) -> list[Job]:
        """The jobs that programs of this source own and that none defines whose node was heard of since then."""

    async def move_unserved_runs(self, source: str, heard_since: datetime) -> int:
        """Let waiting runs of this source's jobs wait for the task that their job names now; how many.

        Those are moved whose own task no node has that was heard of since then, and only if the job's schedule has
        been the same since they were planned.
        """

    async def failed_runs(self, limit: int, before: Mark | None = None) -> list[FailedRun]:
        """The dead letters that nobody has replayed or discarded, newest first, past the mark."""

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
        """Run again what has ended or waits: a new run with the original payload and the job's current target.

        One that waits is cancelled first; one that failed is a dead letter no longer. It is ready at once, or when it
        is said to be. The same `new_id` again returns the run it made. `Conflict` if there is no such run, it is
        running, or its job is gone or in error.
        """

    async def cancel_run(self, run_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> bool:
        """Cancel a waiting run, or ask the node that runs it to stop. True if it has ended by that.

        `Conflict` if there is no such run, or it ended before.
        """

    async def discard_run(self, run_id: UUID, now: datetime, by: str, *, request: Request | None = None) -> None:
        """Take a failed run off the dead letters; its history stays. `Conflict` if it is none."""
