"""`Rehearsal`: a service of Hourbell that a test runs through days and nights in milliseconds.

The engine, its store and its targets are the real ones, on SQLite in memory; time, randomness and ids are handed in, so
that the same test always sees the same. Every method is an ordinary one that returns when it is done, in tests with and
without an event loop of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from hourbell.core.job import Definition
from hourbell.core.job_body import parse_job
from hourbell.store.lists import RunList, RunQuery
from hourbell.store.sqlite.control import SqliteControlStore
from hourbell.store.sqlite.lists import SqliteListStore
from hourbell.targets.base import Target
from hourbell.targets.http.target import HttpTarget
from hourbell.targets.task import Task, TaskTarget
from hourbell.testing.calling import Apart, Unserved, as_rehearsed
from hourbell.testing.inline import answer_of
from hourbell.testing.jobs_files import jobs_of
from hourbell.testing.loop import VirtualLoop
from hourbell.testing.records import RunRecord, SkipRecord, run_record, skip_record
from hourbell.testing.service import Outage, Service
from hourbell.testing.times import Duration, Moment, duration, moment, zone_of
from hourbell.testing.webhooks import Receivers, Script, WebhookRecord

if TYPE_CHECKING:
    from hourbell.library.scheduler import Scheduler

_IDS = UUID("6f7c1b0e-6a52-4f0e-9a4f-0f4a9d1c7b11")
_MOST = 1_000_000
_LANE_SLOTS = 100
_BY = "rehearsal"


class Rehearsal:
    def __init__(self) -> None:
        self._service = Service(self._targets)
        self._control = SqliteControlStore(self._service.database)
        self._lists = SqliteListStore(self._service.database)
        self._receivers = Receivers(self._service.now)
        self._zone = ZoneInfo("UTC")
        self._has_begun = False
        self._jobs: dict[str, UUID] = {}
        self._given: dict[str, Task] = {}
        self._tasks: dict[str, Task] = {}  # as the node calls them
        self._takes: dict[str, float] = {}
        self._triggered = 0

    def __enter__(self) -> "Rehearsal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it all; what still runs is cut off."""
        self._service.close()

    def at(self, time: Moment, timezone: str = "UTC") -> None:
        """Say what time it is at the beginning, and where: times without an offset are read in that zone."""
        if self._has_begun:
            raise RuntimeError("the clock runs already; say at() before anything else, and advance_to() later on")
        self._zone = zone_of(timezone)
        self._service.begin_at(moment(time, self._zone))

    def now(self) -> datetime:
        """The virtual time, in UTC; also for the functions under test."""
        return self._service.shown_now()

    def load(self, jobs: "Scheduler | str | PathLike[str]") -> None:
        """Deploy the tasks and jobs of a Scheduler, or the jobs of a jobs file. Loaded again, they are edited."""
        if isinstance(jobs, (str, PathLike)):
            definitions: Sequence[Definition] = jobs_of(Path(jobs))
        else:
            definitions = list(jobs.jobs.values())
            self._given |= jobs.tasks
            self._rehearse_tasks()
        for definition in definitions:
            self._deploy(definition)

    def add(self, **body: object) -> None:
        """Deploy one job, written as in the API and the jobs file: name=, schedule=, target= and whatever else."""
        self._deploy(parse_job(body).definition)

    def advance(self, by: Duration) -> None:
        """Let time pass, and everything happen that is due on the way and at its end."""
        self._has_begun = True
        self._service.advance_to(self._service.reached + duration(by))

    def advance_to(self, time: Moment) -> None:
        """The same, until a moment."""
        until = moment(time, self._zone)
        if until < self._service.reached:
            raise ValueError(f"it is {self._service.reached.isoformat()} already; time does not go back")
        self._has_begun = True
        self._service.advance_to(until)

    def outage(self, start: Moment, end: Moment) -> Outage:
        """The service is down from one moment, cut off in whatever it does, until another, when it starts again.

        It happens as time advances; as a context manager it is down inside of the block.
        """
        self._has_begun = True
        return self._service.outage(moment(start, self._zone), moment(end, self._zone))

    def takes(self, job: str, time: Duration) -> None:
        """Let every attempt of a task's job last so long after its function has returned or raised."""
        self._id_of(job)
        self._takes[job] = duration(time).total_seconds()
        self._rehearse_tasks()

    def trigger(self, job: str, payload: object = None) -> RunRecord:
        """Start a run by hand; what takes no time is done when this returns."""
        job_id = self._id_of(job)
        self._triggered += 1
        run_id = uuid5(job_id, f"{_BY} {self._triggered}")
        answer_of(self._control.trigger_job(job_id, run_id, self._service.now(), payload, _BY))
        self._service.advance_to(self._service.reached)
        return next(run for run in self.runs(job) if run.id == run_id)

    def runs(self, job: str | None = None) -> list[RunRecord]:
        """The runs of a job, or of all of them, the oldest first."""
        ids = self._jobs.values() if job is None else [self._id_of(job)]
        pages = [answer_of(self._lists.runs(RunQuery(RunList.OF_JOB, job_id=job_id), _MOST)) for job_id in ids]
        views = sorted(
            (view for page in pages for view in page),
            key=lambda view: (view.scheduled_at, view.planned_at, view.job_name or "", view.id),
        )
        return [run_record(view, answer_of(self._lists.attempts(view.id))) for view in views]

    def skips(self, job: str) -> list[SkipRecord]:
        """What a job left out, the oldest first."""
        found = answer_of(self._lists.skips(self._id_of(job), _MOST))
        return sorted((skip_record(skip) for skip in found), key=lambda skip: skip.first_at)

    @property
    def webhooks(self) -> list[WebhookRecord]:
        """Every request that would have left, the oldest first."""
        return list(self._receivers.records)

    def answer(
        self,
        url: str,
        *,
        status: int = 200,
        body: bytes | str = b"",
        headers: Mapping[str, str] | None = None,
        takes: Duration = "0s",
        error: str | None = None,
        times: int | None = None,
    ) -> None:
        """Answer requests to a URL like this: from now on, or so many `times` and then as the next answer says.

        With `error` there is no answer, but a connection that breaks. Without a word every receiver answers 200.
        """
        if times is not None and times < 1:
            raise ValueError(f"times is {times}; write 1 or more, or leave it out")
        content = body.encode() if isinstance(body, str) else body
        pairs = tuple((headers or {}).items())
        seconds = duration(takes).total_seconds()
        self._receivers.add(url, Script(status, content, pairs, seconds, error, times))

    def _targets(self, loop: VirtualLoop) -> list[Target]:
        http = HttpTarget(
            self._receivers, keys=None, user_agent="Hourbell/rehearsal", slots=_LANE_SLOTS, elapsed=loop.time
        )
        return [Apart(TaskTarget(self._tasks)), Apart(http), Unserved()]

    def _rehearse_tasks(self) -> None:
        self._tasks.update({name: as_rehearsed(task, self._takes) for name, task in self._given.items()})

    def _deploy(self, definition: Definition) -> None:
        self._has_begun = True
        if definition.target.get("type") == "sql":  # SQLite refuses functions of its own, of which it has none
            definition = replace(definition, target={**definition.target, "database": _BY}, lane=f"sql:{_BY}")
        now, known = self._service.now(), self._jobs.get(definition.name)
        if known is None:
            job_id = uuid5(_IDS, definition.name)
            answer_of(self._control.create_job(definition, job_id, now, _BY))
            self._jobs[definition.name] = job_id
        else:
            answer_of(self._control.edit_job(known, lambda _: definition, now, _BY, drop_backlog=True))

    def _id_of(self, job: str) -> UUID:
        if job not in self._jobs:
            raise LookupError(f"no job named {job!r} is loaded; there is {', '.join(sorted(self._jobs)) or 'none'}")
        return self._jobs[job]
