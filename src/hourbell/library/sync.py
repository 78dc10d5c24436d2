"""Brings the jobs a program defines into the database, and leaves everybody else's alone."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hourbell.core.job import Definition, Job
from hourbell.store.base import Conflict
from hourbell.store.control import ControlStore

log = logging.getLogger("hourbell.library")


async def sync_jobs(
    control: ControlStore, jobs: Mapping[str, Definition], now: datetime, new_id: Callable[[], UUID]
) -> None:
    """Create what is new and edit what changed. An operator's pause stays; a job of another owner is not touched."""
    for definition in jobs.values():
        try:
            await _sync(control, definition, now, new_id)
        except Conflict as conflict:
            log.warning("job_not_synced", extra={"job": definition.name, "reason": str(conflict)})


async def _sync(control: ControlStore, definition: Definition, now: datetime, new_id: Callable[[], UUID]) -> None:
    job = await control.get_job(definition.name)
    if job is None:
        try:
            await control.create_job(definition, new_id(), now, by="code")
        except Conflict:
            job = await control.get_job(definition.name)  # another process of this program was first
            if job is None:
                raise
        else:
            log.info("job_created", extra={"job": definition.name, "schedule": definition.schedule})
            return
    if (job.definition.managed_by, job.definition.source) != (definition.managed_by, definition.source):
        owner = f"{job.definition.managed_by}:{job.definition.source}"
        log.warning("job_owned_by_another", extra={"job": definition.name, "owner": owner})
    elif _as_defined(job, definition) != job.definition:
        await control.edit_job(job.id, lambda found: _as_defined(found, definition), now, by="code")
        log.info("job_changed", extra={"job": definition.name, "schedule": definition.schedule})


def _as_defined(job: Job, definition: Definition) -> Definition:
    """The program's definition, with the switch where the operator left it."""
    return replace(definition, enabled=job.definition.enabled)
