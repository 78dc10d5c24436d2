"""The jobs that programs define: brought into the database when a program starts, and taken out of use when none
defines them any more. Jobs of other owners are left alone, and so is an operator's pause.

Programs of one source may differ, as while a new version is rolled out: a job is gone when no live node defines it.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from hourbell.core.job import Definition, Job
from hourbell.store.base import LIVE_FOR, Conflict
from hourbell.store.bundles import Bundle, Imported, ImportResult, JobEntry, owner_text
from hourbell.store.control import ControlStore
from hourbell.targets.task import Task

log = logging.getLogger("hourbell.library")

CODE = "code"
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
    def __init__(self, store: ControlStore, *, now: Callable[[], datetime], new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._now = now
        self._new_id = new_id
        self._told: set[tuple[str, str | None]] = set()  # refusals that were logged
        self._missed: set[UUID] | None = None  # jobs that nobody defined at the last look; None before the first

    async def sync(self, program: Program, now: datetime) -> bool:
        """Bring in the jobs of a node's program. False if one could not be brought in.

        The first time, what is gone is taken out of use before anybody plans it: nobody could run what is due.
        """
        if self._missed is None and (program.jobs or program.tasks):
            await self._look(program, now)
        return await self.bring_in(program, now)

    async def bring_in(self, program: Program, now: datetime) -> bool:
        """Create jobs that are new and change those that differ. False if one could not be brought in."""
        left = dict(program.jobs)
        while left:
            entries = [JobEntry(definition, self._new_id()) for definition in left.values()]
            applied = await self._store.apply_jobs(Bundle(entries, CODE, program.source), now, _name(program))
            if not applied.refused:
                for job in applied.jobs:
                    self._tell(job.result)
                break
            for refusal in applied.refused.values():  # those that are refused do not keep out the others
                self._tell(refusal)
                del left[refusal.name]
        return len(left) == len(program.jobs)

    async def retire_gone(self, program: Program, node_id: UUID) -> None:
        """Say what this node's program defines, and take out of use what none does any more.

        After an outage no node has been heard of for a while, this one included. So what it defines itself is not gone,
        and what only others might define is gone when two looks in a row say so, unless the program has just started.
        """
        await self._store.note_program(node_id, program.source, sorted(program.jobs))
        await self._look(program, self._now())

    async def _look(self, program: Program, now: datetime) -> None:
        if program.gone is Gone.KEEP:
            return
        undefined = await self._store.undefined_jobs(program.source, now - LIVE_FOR)
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

    def _tell(self, result: ImportResult) -> None:
        match result.result:
            case Imported.CREATED:
                log.info("job_created", extra={"job": result.name})
            case Imported.CHANGED:
                log.info("job_changed", extra={"job": result.name})
            case Imported.REFUSED if (result.name, result.code) not in self._told:
                self._told.add((result.name, result.code))
                log.warning("job_not_synced", extra={"job": result.name, "reason": result.message})


async def retire(store: ControlStore, job: Job, program: Program, now: datetime) -> None:
    """Delete or pause a job that is gone. What waits is cancelled, unless the program still has the job's task."""
    by = _name(program)
    if program.gone is Gone.DELETE:
        await store.delete_job(job.id, now, by, expect_version=job.version)
        return
    has_task = job.definition.target.get("name") in program.tasks
    await store.retire_job(job.id, now, by, note=GONE_NOTE, cancel_waiting=not has_task, expect_version=job.version)


def _name(program: Program) -> str:
    """The program in the audit, and as the owner of its jobs."""
    return owner_text(CODE, program.source)
