"""Deployment of jobs in a rehearsal: a release creates, edits and retires jobs.

As on a live node, a pause by an operator survives every release, and a pause by the program itself ends when a release
defines the job again.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from uuid import UUID, uuid5

from hourbell.control.programs import CODE, Program, UndefinedAction, retire
from hourbell.core.job.conflicts import JobConflict
from hourbell.core.job.definition import Definition, Job
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import APP, owner_text
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.reader import ListStore
from hourbell.testing.inline import answer_of

BY = "rehearsal"
_IDS = UUID("6f7c1b0e-6a52-4f0e-9a4f-0f4a9d1c7b11")


class Jobs:
    def __init__(self, control: ControlStore, lists: ListStore, now: Callable[[], datetime]) -> None:
        self._control = control
        self._lists = lists
        self._now = now
        self._made = 0
        self._ids: dict[str, UUID] = {}  # including deleted jobs, whose runs can still be read
        self._new_ids: list[UUID] = []  # given to jobs that were created at run time, and to their runs

    @property
    def ids(self) -> list[UUID]:
        self._find_new()
        return list(self._ids.values())

    def new_id(self) -> UUID:
        """Return a new id for a job or run that the program creates at run time; the same in every rehearsal."""
        self._new_ids.append(uuid5(_IDS, f"run time {self._made}"))
        self._made += 1
        return self._new_ids[-1]

    def _find_new(self) -> None:
        """Learn the names of the jobs that were created at run time."""
        for job_id in self._new_ids:
            view = answer_of(self._lists.job(job_id, deleted=True))
            if view is not None:
                self._ids[view.job.definition.name] = job_id
        self._new_ids = []

    def id_of(self, name: str) -> UUID:
        """Return the job that has the name, or had it last; raise LookupError that lists the known names."""
        self._find_new()
        if name not in self._ids:
            raise LookupError(f"no job named {name!r} is loaded; there is {', '.join(sorted(self._ids)) or 'none'}")
        return self._ids[name]

    def in_use(self, name: str) -> UUID:
        """Return the job that has the name; raise LookupError if there is none or it was deleted."""
        job_id = self.id_of(name)
        if self._job(job_id) is None:
            raise LookupError(f"the job {name!r} was deleted when a release left it out; load one that has it")
        return job_id

    def deploy(self, definition: Definition) -> None:
        """Create the job, or edit the job that has its name."""
        if definition.target.get("type") == "sql":  # SQLite has no functions, so name another database
            definition = replace(definition, target={**definition.target, "database": BY}, lane=f"sql:{BY}")
        self._find_new()
        known = self._ids.get(definition.name)
        if known is None or self._job(known) is None:
            job_id = uuid5(known or _IDS, definition.name)  # a new id if a deleted job had the name
            answer_of(self._control.create_job(definition, job_id, Actor(BY, self._now())))
            self._ids[definition.name] = job_id
            return
        self._refuse_app_job(known, definition)
        if definition.managed_by == CODE and self._is_paused_by_others(known, definition):
            definition = replace(definition, enabled=False)
        answer_of(self._control.edit_job(known, lambda _: definition, Actor(BY, self._now()), drop_backlog=True))

    def _refuse_app_job(self, job_id: UUID, definition: Definition) -> None:
        """Raise ValueError if a program made a job of this name at run time: a live node would leave this one out."""
        job = self._job(job_id)
        if definition.managed_by == CODE and job is not None and job.definition.managed_by == APP:
            theirs, ours = (owner_text(each.managed_by, each.source) for each in (job.definition, definition))
            hint = JobConflict(definition.name, theirs, ours).hint
            raise ValueError(f"the job {definition.name!r} belongs to {theirs}; {hint}")

    def release(self, program: Program) -> None:
        """Deploy the jobs of a program, and retire those that only an earlier release of it defined."""
        for definition in program.jobs.values():
            self.deploy(definition)
        if program.undefined_jobs is UndefinedAction.KEEP:
            return
        for job in [self._job(job_id) for name, job_id in self._ids.items() if name not in program.jobs]:
            if job is not None and (job.definition.managed_by, job.definition.source) == (CODE, program.source):
                self._retire(job, program)

    def _retire(self, job: Job, program: Program) -> None:
        if program.undefined_jobs is UndefinedAction.DELETE or job.definition.enabled:
            answer_of(retire(self._control, job, program, self._now()))

    def _is_paused_by_others(self, job_id: UUID, definition: Definition) -> bool:
        view = answer_of(self._lists.job(job_id))
        if view is None or view.job.definition.enabled:
            return False
        return view.paused_by not in (None, owner_text(CODE, definition.source))  # None: created as paused

    def _job(self, job_id: UUID) -> Job | None:
        return answer_of(self._control.get_job(job_id))
