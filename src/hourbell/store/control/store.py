"""The users' part of the store: all verbs that change something."""

from datetime import datetime
from uuid import UUID

from hourbell.store.control.actor import Actor
from hourbell.store.control.bulk_verbs import BulkVerbs
from hourbell.store.control.job_verbs import JobVerbs
from hourbell.store.control.program_verbs import ProgramVerbs
from hourbell.store.control.run_verbs import RunVerbs
from hourbell.store.control.session import Session
from hourbell.store.errors import Conflict


class ControlStore(JobVerbs, RunVerbs, BulkVerbs, ProgramVerbs):
    """Changes by users. Each is one transaction that writes the audit.

    A request with a key acts once: if a committed change already has the key, AlreadyAsked is raised and nothing is
    changed. Two requests with one key at the same time are serialized. A verb returns the state that it wrote.
    """

    async def take_key(self, actor: Actor) -> None:
        """Take the key of a call that makes many separate changes. Raises AlreadyAsked if it is taken."""

        async def change_nothing(session: Session) -> None:
            del session

        await self._act(change_nothing, actor)


async def pause_if_unchanged(control: ControlStore, job_id: UUID, version: int, now: datetime, note: str) -> bool:
    """Pause a job for the engine; return False if it was changed, paused or deleted since `version`."""
    actor = Actor("engine", now)
    try:
        await control.pause_job(job_id, actor, note=note, until=None, cancel_waiting=False, expect_version=version)
    except Conflict:
        return False
    return True
