"""The control side of the store: changes that users make."""

from datetime import datetime
from uuid import UUID

from hourbell.store.actor import Actor
from hourbell.store.bulk_verbs import BulkVerbs
from hourbell.store.errors import Conflict
from hourbell.store.job_verbs import JobVerbs
from hourbell.store.program_verbs import ProgramVerbs
from hourbell.store.run_verbs import RunVerbs
from hourbell.store.session import Session


class ControlStore(JobVerbs, RunVerbs, BulkVerbs, ProgramVerbs):
    """Changes that users make. Each is one transaction, with one row in the audit.

    A request with a key acts once: where a committed change has the key already, AlreadyAsked is raised and nothing
    is changed. Two at the same time are one after the other. A verb returns what it wrote, as it stands then.
    """

    async def take_key(self, actor: Actor) -> None:
        """Take the key of a call that makes many changes, each by itself. AlreadyAsked if it is taken."""

        async def change_nothing(session: Session) -> None:
            del session

        await self._act(change_nothing, actor)


async def pause_if_unchanged(control: ControlStore, job_id: UUID, version: int, now: datetime, note: str) -> bool:
    """Pause a job for the engine, unless somebody changed, paused or deleted it since."""
    actor = Actor("engine", now)
    try:
        await control.pause_job(job_id, actor, note=note, until=None, cancel_waiting=False, expect_version=version)
    except Conflict:
        return False
    return True
