"""Demo jobs: three harmless jobs for an hour, of which one succeeds, one fails and one is skipped by overlap."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from hourbell.control.jobs import Jobs, refuse_owned
from hourbell.control.user import JobOwner, User
from hourbell.core.access.roles import Role
from hourbell.core.schedule.preview import rfc3339
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import JobView

TASK = "hourbell.demo"
TAG = "demo"
LASTS = timedelta(hours=1)
_JOBS: dict[str, dict[str, Any]] = {
    "demo-succeeds": {"schedule": "every 5s", "args": {"seconds": 1}, "description": "A demo job that succeeds."},
    "demo-fails": {
        "schedule": "every 10s",
        "args": {"seconds": 1, "fails": True},
        "retry": "none",
        "description": "A demo job that always fails.",
    },
    "demo-skips": {
        "schedule": "every 5s",
        "args": {"seconds": 12},
        "overlap": "skip",
        "description": "A demo job that takes longer than its interval, so that two of three times are skipped.",
    },
}


class Demo:
    def __init__(self, jobs: Jobs, *, now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._now = now

    async def start(self, user: User) -> list[JobView]:
        """Create the demo jobs, or let them run for another hour. Raise Conflict if another job has such a name."""
        user.must_be(Role.ADMIN, "to create the demo jobs")
        await self._find()  # refuses before anything is created
        ends_at = rfc3339(self._now() + LASTS)
        return [(await self._jobs.replace(name, _body(name, ends_at), user)).view for name in _JOBS]

    async def stop(self, user: User) -> list[JobView]:
        """Delete the demo jobs that exist; return them. Their history stays."""
        user.must_be(Role.ADMIN, "to delete the demo jobs")
        found = await self._find()
        for view in found:
            await self._jobs.delete(str(view.job.id), user)
        return found

    async def _find(self) -> list[JobView]:
        """Return the demo jobs that exist."""
        found = []
        for name in _JOBS:
            try:
                view = await self._jobs.get(name)
            except Conflict:
                continue
            refuse_owned(view.job, JobOwner())
            if view.job.definition.target.get("name") != TASK:
                raise Conflict("name_taken", f"the job {name} is not a demo job; rename it first")
            found.append(view)
        return found


def _body(name: str, ends_at: str) -> dict[str, Any]:
    fields = {**_JOBS[name]}
    target = {"type": "task", "name": TASK, "args": fields.pop("args"), "timeout": "1m"}
    return {"name": name, "target": target, "tags": [TAG], "ends_at": ends_at, **fields}
