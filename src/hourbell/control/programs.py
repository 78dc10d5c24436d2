"""The jobs that programs define: brought into the database when a program starts, and taken out of use when none
defines them any more. Jobs of other owners are left alone, and so is an operator's pause.

Programs of one source may differ, as while a new version is rolled out: a job is gone when no live node defines it.
A program of another source that defines it takes it over then, so that renaming a module stops nothing.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.store.actor import Actor
from hourbell.store.base import LIVE_FOR
from hourbell.store.bundles import AppliedJob, Bundle, Imported, ImportResult, JobEntry, Rights, owner_text
from hourbell.store.control import ControlStore
from hourbell.store.errors import Conflict, StoreUnavailable
from hourbell.targets.task import Task

log = logging.getLogger("hourbell.library")

CODE = "code"
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
GONE_NOTE = "the program does not define it any more"


class Gone(StrEnum):
    """What becomes of a job that no program of its source defines any more."""

    PAUSE = "pause"
    DELETE = "delete"
    KEEP = "keep"


class Program(Protocol):
    """What a program says about its tasks and jobs. The jobs have its source."""

    @property
    def source(self) -> str: ...
    @property
    def gone(self) -> Gone: ...
    @property
    def tasks(self) -> Mapping[str, Task]: ...
    @property
    def jobs(self) -> Mapping[str, Definition]: ...


class Programs:
    """`live_for` is how long after its last heartbeat a node counts as alive."""

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
        self._told: set[tuple[str, str | None, str | None]] = set()  # refusals that were logged
        self._refused: set[str] | None = None  # the jobs to bring in again; None for all
        self._watching_since: datetime | None = None  # since when other programs had the chance to be heard of
        self._missed: set[UUID] | None = None  # jobs that nobody defined at the last look; None before the first

    async def announce(self, program: Program, node_id: UUID) -> None:
        """Note what the program of a node defines. It comes before `sync`: then of two programs that start at once and
        define the same job, the one that comes second sees the other."""
        await self._store.note_program(node_id, program.source, sorted(program.jobs))

    async def sync(self, program: Program, now: datetime) -> bool:
        """Bring in the jobs of a node's program. False if one could not be brought in; the next call tries those again.

        The first time, what is gone is taken out of use before anybody plans it: nobody could run what is due.
        """
        if self._missed is None and (program.jobs or program.tasks):
            await self._look(program, now)
        return await self.bring_in(program, now)

    async def bring_in(self, program: Program, now: datetime) -> bool:
        """Create jobs that are new and change those that differ. False if one could not be brought in.

        A job of another program becomes this one's if no live node defines it any more: a module was renamed.
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
        """Bring in these jobs; the names of those that were refused, which do not keep out the others."""
        refused: set[str] = set()
        heard_since = self._heard_since(now)
        while left:
            entries = [JobEntry(definition, self._new_id()) for definition in left.values()]
            bundle = Bundle(entries, CODE, program.source, heard_since=heard_since)
            applied = await self._store.apply_jobs(
                bundle, Actor(_name(program), now), rights=Rights(moving=OriginChange(is_admin=True))
            )
            if not applied.refused:
                for job in applied.jobs:
                    self._tell(job, program)
                if any(job.result.result is Imported.CHANGED for job in applied.jobs):
                    await self._move_runs(program, now)
                break
            for refusal in applied.refused.values():
                self._tell_refusal(refusal, program)
                refused.add(refusal.name)
                del left[refusal.name]
        return refused

    def _heard_since(self, now: datetime) -> datetime:
        """Since when a node must have been heard of to count as alive.

        At first every node on the list does: after an outage not even live nodes have been heard of for a while.
        """
        if self._watching_since is None:
            self._watching_since = now
        return now - self._live_for if now - self._watching_since >= self._live_for else _EVER

    async def retire_gone(self, program: Program, node_id: UUID) -> None:
        """Say what this node's program defines, and take out of use what none does any more. Runs that wait for a
        task which no live node has, as after a module was renamed, wait for the one that their job names now.

        After an outage no node has been heard of for a while, this one included. So what it defines itself is not gone,
        and what only others might define is gone when two looks in a row say so, unless the program has just started.
        """
        await self.announce(program, node_id)
        await self._look(program, self._now())
        await self._move_runs(program, self._now())

    async def _move_runs(self, program: Program, now: datetime) -> None:
        if moved := await self._store.move_unserved_runs(program.source, now - self._live_for):
            log.info("runs_moved", extra={"runs": moved, "source": program.source})

    async def _look(self, program: Program, now: datetime) -> None:
        if program.gone is Gone.KEEP:
            return
        undefined = await self._store.undefined_jobs(program.source, now - self._live_for)
        missed = {job.id: job for job in undefined if job.definition.name not in program.jobs}
        for job_id, job in missed.items():
            is_sure = self._missed is None or job_id in self._missed
            if is_sure and (program.gone is Gone.DELETE or job.definition.enabled):
                await self._retire(job, program, now)
        self._missed = set(missed)

    async def _retire(self, job: Job, program: Program, now: datetime) -> None:
        try:
            await retire(self._store, job, program, now)
        except Conflict:  # somebody was quicker, perhaps another node of this very program
            return
        done = "deleted" if program.gone is Gone.DELETE else "paused"
        log.warning("job_gone", extra={"job": job.definition.name, "source": program.source, "done": done})

    def _tell(self, job: AppliedJob, program: Program) -> None:
        name = job.result.name
        match job.result.result:
            case Imported.CREATED:
                log.info("job_created", extra={"job": name})
            case Imported.CHANGED if job.before is not None and _owner(job.before) != _name(program):
                log.warning("job_taken_over", extra={"job": name, "owner": _owner(job.before), "by": _name(program)})
            case Imported.CHANGED:
                log.info("job_changed", extra={"job": name})

    def _tell_refusal(self, refusal: ImportResult, program: Program) -> None:
        key = (refusal.name, refusal.code, refusal.owner)
        if key in self._told:
            return
        self._told.add(key)
        if refusal.owner is None:
            log.warning("job_not_synced", extra={"job": refusal.name, "reason": refusal.message})
            return
        hint = JobConflict(refusal.name, refusal.owner, _name(program)).hint
        facts = {"job": refusal.name, "owner": refusal.owner, "program": _name(program), "hint": hint}
        log.error("job_owned_by_another", extra=facts)


async def retire(store: ControlStore, job: Job, program: Program, now: datetime) -> None:
    """Delete or pause a job that is gone. What waits is cancelled, unless the program still has the job's task."""
    actor = Actor(_name(program), now)
    if program.gone is Gone.DELETE:
        await store.delete_job(job.id, actor, expect_version=job.version)
        return
    has_task = job.definition.target.get("name") in program.tasks
    await store.retire_job(job.id, actor, note=GONE_NOTE, cancel_waiting=not has_task, expect_version=job.version)


def _owner(job: Job) -> str:
    return owner_text(job.definition.managed_by, job.definition.source)


def _name(program: Program) -> str:
    """The program in the audit, and as the owner of its jobs."""
    return owner_text(CODE, program.source)
