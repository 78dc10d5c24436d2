"""Synchronization of jobs that programs define.

Jobs are stored when a program starts, and paused or deleted when no program defines them any more. Jobs of other owners
stay unchanged, and a job that an operator paused stays paused.

Programs of one source may differ, for example during a rolling update: a job is undefined when no live node defines it.
Then a program of another source that defines it takes it over, so that renaming a module stops no job.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.store.base import LIVE_FOR
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import AppliedJob, Bundle, Imported, ImportResult, JobEntry, Rights, owner_text
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict, StoreUnavailable
from hourbell.targets.task import Task

log = logging.getLogger("hourbell.library")

CODE = "code"
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NAMED_JOBS = 10  # in a log event
UNDEFINED_NOTE = "the program does not define it any more"


class UndefinedAction(StrEnum):
    """The action for a job that no program of its source defines any more."""

    PAUSE = "pause"
    DELETE = "delete"
    KEEP = "keep"


class Program(Protocol):
    """The tasks and jobs that a program defines. The jobs have the source of the program."""

    @property
    def source(self) -> str: ...
    @property
    def undefined_jobs(self) -> UndefinedAction: ...
    @property
    def tasks(self) -> Mapping[str, Task]: ...
    @property
    def jobs(self) -> Mapping[str, Definition]: ...


class Programs:
    """Synchronizer of program jobs. A node counts as alive for `live_for` after its last heartbeat."""

    def __init__(
        self,
        store: ControlStore,
        *,
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
        live_for: timedelta = LIVE_FOR,
    ) -> None:
        self._store = store
        self._now = now
        self._new_id = new_id
        self._live_for = live_for
        self._reported: set[tuple[str, str | None, str | None]] = set()  # refusals already logged
        self._refused: set[str] | None = None  # the jobs to sync again; None for all
        self._watching_since: datetime | None = None  # since when other nodes could send heartbeats
        self._missed: set[UUID] | None = None  # jobs undefined at the last check; None before the first

    async def announce(self, program: Program, node_id: UUID) -> None:
        """Record the jobs that a node's program defines.

        Call it before `sync`: if two programs start at once and define the same job, the second one sees the first.
        """
        await self._store.note_program(node_id, program.source, sorted(program.jobs))

    async def sync(self, program: Program, now: datetime) -> bool:
        """Store the jobs of a node's program; return False if some were refused. The next call retries those.

        The first call also retires undefined jobs before they are planned, because no node could run them.
        """
        if self._missed is None and (program.jobs or program.tasks):
            await self._check(program, now)
        return await self.store_jobs(program, now)

    async def store_jobs(self, program: Program, now: datetime) -> bool:
        """Create new jobs and change those that differ; return False if some were refused.

        The program takes over a job of another program that no live node defines any more, as after a module was
        renamed.
        """
        names = program.jobs.keys() if self._refused is None else self._refused
        try:
            refused = await self._apply({name: program.jobs[name] for name in names}, program, now)
        except StoreUnavailable:
            self._watching_since = None
            raise
        self._refused = refused
        if not refused:
            self._watching_since = None
        return not refused

    async def _apply(self, left: dict[str, Definition], program: Program, now: datetime) -> set[str]:
        """Store these jobs; return the names of refused ones, which do not affect the others."""
        refused: set[str] = set()
        heard_since = self._heard_since(now)
        while left:
            entries = [JobEntry(definition, self._new_id()) for definition in left.values()]
            bundle = Bundle(entries, CODE, program.source, heard_since=heard_since, any_policy=True)
            applied = await self._store.apply_jobs(
                bundle, Actor(_name(program), now), rights=Rights(moving=OriginChange(is_admin=True))
            )
            if not applied.refused:
                self._log_unknown_policies(applied.unknown_policies, left)
                for job in applied.jobs:
                    self._log_job(job, program)
                if any(job.result.result is Imported.CHANGED for job in applied.jobs):
                    await self._move_runs(program, now)
                break
            for refusal in applied.refused.values():
                self._log_refusal(refusal, program)
                refused.add(refusal.name)
                del left[refusal.name]
        return refused

    def _heard_since(self, now: datetime) -> datetime:
        """Return the time after which a node must have sent a heartbeat to count as alive.

        At first every listed node counts: after an outage even live nodes have sent no heartbeat for a while.
        """
        if self._watching_since is None:
            self._watching_since = now
        return now - self._live_for if now - self._watching_since >= self._live_for else _EVER

    async def retire_undefined(self, program: Program, node_id: UUID) -> None:
        """Record what this node's program defines, and pause or delete jobs that no program defines any more.

        Waiting runs of a task that no live node has, as after a module was renamed, move to the task that their job
        names now.

        After an outage no node has sent a heartbeat for a while, not even this one. So jobs of this program never count
        as undefined, and other jobs only after two checks in a row, or at the first check after the program started.
        """
        await self.announce(program, node_id)
        await self._check(program, self._now())
        await self._move_runs(program, self._now())

    async def _move_runs(self, program: Program, now: datetime) -> None:
        if moved := await self._store.move_unserved_runs(program.source, now - self._live_for):
            log.info("runs_moved", extra={"runs": moved, "source": program.source})

    async def _check(self, program: Program, now: datetime) -> None:
        if program.undefined_jobs is UndefinedAction.KEEP:
            return
        undefined = await self._store.undefined_jobs(program.source, now - self._live_for)
        missed = {job.id: job for job in undefined if job.definition.name not in program.jobs}
        for job_id, job in missed.items():
            is_sure = self._missed is None or job_id in self._missed
            if is_sure and (program.undefined_jobs is UndefinedAction.DELETE or job.definition.enabled):
                await self._retire(job, program, now)
        self._missed = set(missed)

    async def _retire(self, job: Job, program: Program, now: datetime) -> None:
        try:
            await retire(self._store, job, program, now)
        except Conflict:  # changed meanwhile, perhaps by another node of this program
            return
        done = "deleted" if program.undefined_jobs is UndefinedAction.DELETE else "paused"
        log.warning("job_undefined", extra={"job": job.definition.name, "source": program.source, "done": done})

    def _log_job(self, job: AppliedJob, program: Program) -> None:
        name = job.result.name
        match job.result.result:
            case Imported.CREATED:
                log.info("job_created", extra={"job": name})
            case Imported.CHANGED if job.before is not None and _owner(job.before) != _name(program):
                log.warning("job_taken_over", extra={"job": name, "owner": _owner(job.before), "by": _name(program)})
            case Imported.CHANGED:
                log.info("job_changed", extra={"job": name})

    def _log_unknown_policies(self, unknown: Collection[str], jobs: Mapping[str, Definition]) -> None:
        """Report alert policies that do not exist. The jobs fire all the same, and alert by the policy `default`."""
        for policy in sorted(unknown):
            names = [name for name, definition in jobs.items() if definition.alert_policy == policy]
            hint = f"the policy default applies to them; create it: hourbell alert-policy set {policy}"
            facts = {"alert_policy": policy, "jobs": ", ".join(names[:_MAX_NAMED_JOBS]), "count": len(names)}
            log.error("alert_policy_unknown", extra=facts | {"hint": hint})

    def _log_refusal(self, refusal: ImportResult, program: Program) -> None:
        key = (refusal.name, refusal.code, refusal.owner)
        if key in self._reported:
            return
        self._reported.add(key)
        if refusal.owner is None:
            log.warning("job_not_synced", extra={"job": refusal.name, "reason": refusal.message})
            return
        hint = JobConflict(refusal.name, refusal.owner, _name(program)).hint
        facts = {"job": refusal.name, "owner": refusal.owner, "program": _name(program), "hint": hint}
        log.error("job_owned_by_another", extra=facts)


async def retire(store: ControlStore, job: Job, program: Program, now: datetime) -> None:
    """Delete or pause an undefined job. Cancel its waiting runs, unless it is paused and its task still exists."""
    actor = Actor(_name(program), now)
    if program.undefined_jobs is UndefinedAction.DELETE:
        await store.delete_job(job.id, actor, expect_version=job.version)
        return
    has_task = job.definition.target.get("name") in program.tasks
    await store.retire_job(job.id, actor, note=UNDEFINED_NOTE, cancel_waiting=not has_task, expect_version=job.version)


def _owner(job: Job) -> str:
    return owner_text(job.definition.managed_by, job.definition.source)


def _name(program: Program) -> str:
    """Return the name of the program in the audit and as the owner of its jobs."""
    return owner_text(CODE, program.source)
