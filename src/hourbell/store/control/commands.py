"""Seals of commands, written in the transaction that writes the version of the job they belong to.

A new job is sealed, and so is a change of a job that can be trusted: its own command is sealed, or it has a target of
another type that can be read. Any other change to a command is refused until an admin approves it, because clients send
back what they have read: part of it would be what SQL has written. A pause of such a job is written without a seal.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import HttpCall, SqlCall, TargetError, TaskCall, command_of, parse_target
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import audit
from hourbell.store.control.bundles import Imported, ImportResult
from hourbell.store.control.changes import ChangedJob, NewJob
from hourbell.store.control.importing import Wanted
from hourbell.store.control.session import Session
from hourbell.store.errors import Conflict
from hourbell.store.rows import job_of

_UNSEALED = "command_unsealed"
_MESSAGE = (
    "the command of this job is not sealed, because SQL has changed the job or the key was replaced: check it, and "
    "approve it as an admin (`hourbell job edit --approve-command`, or PATCH with approve_command=true)"
)


async def seal_new(session: Session, jobs: Iterable[NewJob], now: datetime) -> None:
    """Seal the commands of new jobs."""
    await _write(session, [(each.job_id, 1, each.change.definition) for each in jobs], now)


async def seal_changes(session: Session, changed: Sequence[ChangedJob], now: datetime) -> None:
    """Seal the new versions of changed jobs, before the rows of the jobs are updated.

    A job that is paused until a time gets its next version from the planner, which has no key. So that one is sealed,
    too.
    """
    commands = [each for each in changed if command_of(each.change.definition) is not None]
    if not commands:
        return
    trusted = await _trusted(session, [each.job for each in commands])
    sealed = [each for each in commands if each.is_approved or each.job.id in trusted]
    versions = [(each.job.id, each.after.version, each.change.definition) for each in sealed]
    resumed = [each for each in sealed if each.change.paused_until is not None]
    versions += [(each.job.id, each.after.version + 1, each.change.definition) for each in resumed]
    await _write(session, versions, now)


async def refuse_unsealed(session: Session, job: Job, definition: Definition) -> None:
    """Raise a Conflict if a change would give a command to a job that cannot be trusted."""
    if command_of(definition) is not None and session.seals is not None and not await _trusted(session, [job]):
        raise Conflict(_UNSEALED, _MESSAGE)


async def without_unsealed(session: Session, entries: Sequence[ImportResult | Wanted]) -> list[ImportResult | Wanted]:
    """Refuse the entries of an import that would give a command to a job that cannot be trusted."""
    wanted = [each for each in entries if isinstance(each, Wanted) and command_of(each.definition) is not None]
    jobs = [job_of(each.row) for each in wanted if each.row is not None]
    if session.seals is None or not jobs:
        return list(entries)
    refused = {job.id for job in jobs} - await _trusted(session, jobs)
    return [
        ImportResult(each.definition.name, Imported.REFUSED, code=_UNSEALED, message=_MESSAGE)
        if isinstance(each, Wanted) and each.job_id in refused
        else each
        for each in entries
    ]


async def approve_unchanged(session: Session, job: Job, actor: Actor) -> None:
    """Seal the current version of a job that an admin approves as it is, unless it is sealed already."""
    if session.seals is None or command_of(job.definition) is None or await _trusted(session, [job]):
        return
    await _write(session, [(job.id, job.version, job.definition)], actor.at)
    await audit(session, actor, "job.approve", job.id, after=job.definition)


async def _trusted(session: Session, jobs: Sequence[Job]) -> set[UUID]:
    """Return the jobs from whose targets a command may be made: sealed commands, and targets without such fields."""
    return {job.id for job in jobs if _has_plain_target(job.definition)} | await _sealed(session, jobs)


def _has_plain_target(definition: Definition) -> bool:
    """Return True for a target whose fields are all checked, and of which a merge patch leaves none in a command."""
    try:
        return isinstance(parse_target(definition.target), (HttpCall, SqlCall, TaskCall))
    except TargetError:
        return False


async def _sealed(session: Session, jobs: Sequence[Job]) -> set[UUID]:
    """Return the jobs whose version has a valid seal."""
    if session.seals is None or not jobs:
        return set()
    rows = await session.fetch("seals_of_jobs", job_ids=[job.id for job in jobs])
    seals = {(row["job_id"], row["version"]): row["seal"] for row in rows}
    found = set()
    for job in jobs:
        call, seal = command_of(job.definition), seals.get((job.id, job.version))
        if call is not None and session.seals.verify(seal, job.id, job.version, call):
            found.add(job.id)
    return found


async def _write(session: Session, versions: Iterable[tuple[UUID, int, Definition]], now: datetime) -> None:
    if session.seals is None:
        return
    rows: list[dict[str, Any]] = []
    for job_id, version, definition in versions:
        if (call := command_of(definition)) is not None:
            seal = session.seals.seal(job_id, version, call)
            rows.append({"job_id": job_id, "version": version, "seal": seal, "now": now})
    if rows:
        await session.execute_many("put_seal", rows)
