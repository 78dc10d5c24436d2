"""`Rehearsal`: a Hourbell service under virtual time, in which a test passes days in milliseconds.

The engine, its store and its targets are the real ones, on in-memory SQLite. Time, randomness and ids are injected, so
tests are deterministic. All methods are synchronous and return when the work is done, in sync and async tests alike.
"""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from hourbell.core.job.body import parse_job
from hourbell.library.run_time import RunTimeJobs
from hourbell.library.scheduler import Scheduler
from hourbell.store.control.actor import Actor
from hourbell.store.control.secrets import SecretStore
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from hourbell.store.lists.query import RunList, RunQuery, RunView
from hourbell.store.sqlite.lists import SqliteListStore
from hourbell.store.sqlite.session import SqliteSessions
from hourbell.targets.base import Target
from hourbell.targets.http.target import HttpTarget
from hourbell.targets.task import Task, TaskTarget
from hourbell.testing.calling import IsolatedTarget, Unserved, as_rehearsed
from hourbell.testing.deploying import BY, Jobs
from hourbell.testing.inline import answer_of
from hourbell.testing.jobs_files import jobs_of
from hourbell.testing.listening import RehearsedListeners
from hourbell.testing.loop import VirtualLoop
from hourbell.testing.notes import said_by
from hourbell.testing.records import RunRecord, SkipRecord, run_record, skip_record
from hourbell.testing.service import Outage, Service
from hourbell.testing.times import Duration, Moment, duration, moment, zone_of
from hourbell.testing.webhooks import Receivers, Script, WebhookRecord

_MAX_REHEARSED_RUNS = 1_000_000
_LANE_SLOTS = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RehearsedJobs:
    """The rehearsal as a Scheduler sees it."""

    run_time: RunTimeJobs

    def wait_for(self, asking: Coroutine[Any, Any, T]) -> T:
        return answer_of(asking)


class Rehearsal:
    def __init__(self) -> None:
        self._listeners = RehearsedListeners()
        self._service = Service(self._targets, self._listeners)
        self._control = ControlStore(SqliteSessions(self._service.database))
        self._lists = SqliteListStore(self._service.database)
        self._receivers = Receivers(self._service.now)
        self._zone = ZoneInfo("UTC")
        self._has_begun = False
        self._jobs = Jobs(self._control, self._lists, self._service.now)
        self._given: dict[str, Task] = {}
        self._tasks: dict[str, Task] = {}  # as the node runs them
        self._takes: dict[str, float] = {}
        self._triggered = 0
        self._schedulers: list[Scheduler] = []

    def __enter__(self) -> "Rehearsal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the service; runs in progress are cut off."""
        for scheduler in self._schedulers:
            scheduler.rehearsed = None
        self._service.close()

    def at(self, time: Moment, timezone: str = "UTC") -> None:
        """Set the start time and the time zone for times without an offset.

        Raises RuntimeError once the clock runs: call it before anything else.
        """
        if self._has_begun:
            raise RuntimeError("the clock runs already; call at() before anything else, and advance_to() later")
        self._zone = zone_of(timezone)
        self._service.begin_at(moment(time, self._zone))

    def now(self) -> datetime:
        """Return the virtual time in UTC. Functions under test can call it, too."""
        return self._service.shown_now()

    def load(self, jobs: Scheduler | str | PathLike[str]) -> None:
        """Deploy the tasks and jobs of a Scheduler, or the jobs of a jobs file. A second load edits the jobs.

        From then on, until the rehearsal is closed, the calls of the Scheduler such as `create` act on this rehearsal.

        A job of an earlier Scheduler with the same source that this one does not define is paused, deleted or kept,
        depending on `undefined_jobs` of this Scheduler.
        """
        if isinstance(jobs, (str, PathLike)):
            definitions = jobs_of(Path(jobs))
            self._has_begun = True
            for definition in definitions:
                self._jobs.deploy(definition)
        elif isinstance(jobs, Scheduler):
            self._has_begun = True
            self._given |= jobs.tasks
            self._rehearse_tasks()
            self._jobs.release(jobs)
            self._listeners.add(jobs.listeners)
            self._schedulers.append(jobs)
            jobs.rehearsed = RehearsedJobs(
                RunTimeJobs(
                    jobs,
                    self._control,
                    self._lists,
                    SecretStore(SqliteSessions(self._service.database)),
                    now=self._service.now,
                    new_id=self._jobs.new_id,
                )
            )
        else:
            raise TypeError(f"load got {jobs!r}; give it a Scheduler or the path of a jobs file")

    def add(self, **body: object) -> None:
        """Deploy one job with the fields of the API: name=, schedule=, target= and so on."""
        definition = parse_job(body).definition
        self._has_begun = True
        self._jobs.deploy(definition)

    def advance(self, by: Duration) -> None:
        """Advance the time by a duration, and run everything that is due until then and at its end."""
        self._has_begun = True
        self._service.advance_to(self._service.reached + duration(by))

    def advance_to(self, time: Moment) -> None:
        """Advance the time to a moment; raise ValueError if it is in the past."""
        until = moment(time, self._zone)
        if until < self._service.reached:
            raise ValueError(f"it is {self._service.reached.isoformat()} already; time does not go back")
        self._has_begun = True
        self._service.advance_to(until)

    def outage(self, start: Moment, end: Moment) -> Outage:
        """Let the service crash at `start` and start again at `end`, as time advances.

        As a context manager, it advances to `start` at the beginning of the block and to `end` after it.
        """
        self._has_begun = True
        return self._service.outage(moment(start, self._zone), moment(end, self._zone))

    def takes(self, job: str, time: Duration) -> None:
        """Make each attempt of a task's job last this long after its function has returned or raised."""
        self._jobs.in_use(job)
        self._takes[job] = duration(time).total_seconds()
        self._rehearse_tasks()

    def trigger(self, job: str, payload: object = None) -> RunRecord:
        """Trigger a job and return the run; work that takes no virtual time is done by then."""
        job_id = self._jobs.in_use(job)
        self._triggered += 1
        run_id = uuid5(job_id, f"{BY} {self._triggered}")
        answer_of(self._control.trigger_job(job_id, run_id, Actor(BY, self._service.now()), payload))
        self._service.advance_to(self._service.reached)
        return self._run(run_id)

    def pause(self, job: str, *, until: Moment | None = None) -> None:
        """Pause a job as an operator, until a moment if given. Planned runs still run."""
        end = None if until is None else moment(until, self._zone)
        job_id, now = self._jobs.in_use(job), self._service.now()
        answer_of(self._control.pause_job(job_id, Actor(BY, now), note="", until=end, cancel_waiting=False))

    def resume(self, job: str, *, catch_up: bool = False) -> None:
        """Resume a job; with `catch_up`, times missed during the pause get the job's catch-up policy."""
        answer_of(self._control.resume_job(self._jobs.in_use(job), Actor(BY, self._service.now()), catch_up=catch_up))
        self._service.advance_to(self._service.reached)

    def cancel(self, run: RunRecord | UUID) -> RunRecord:
        """Cancel a waiting run, or request the cancel of a running one, which its node sees within seconds.

        Raises ValueError if the run cannot be cancelled.
        """
        run_id = run.id if isinstance(run, RunRecord) else run
        try:
            answer_of(self._control.cancel_run(run_id, Actor(BY, self._service.now())))
        except Conflict as refusal:
            raise ValueError(str(refusal)) from None
        self._service.advance_to(self._service.reached)
        return self._run(run_id)

    def runs(self, job: str | None = None) -> list[RunRecord]:
        """Return the runs of a job, or of all jobs, oldest first."""
        ids = self._jobs.ids if job is None else [self._jobs.id_of(job)]
        pages = [
            answer_of(self._lists.runs(RunQuery(RunList.OF_JOB, job_id=job_id), _MAX_REHEARSED_RUNS)) for job_id in ids
        ]
        views = sorted(
            (view for page in pages for view in page),
            key=lambda view: (view.scheduled_at, view.planned_at, view.job_name or "", view.id),
        )
        return [self._run(view.id) if view.omitted else self._record(view) for view in views]

    def skips(self, job: str) -> list[SkipRecord]:
        """Return the skips of a job, oldest first."""
        found = answer_of(self._lists.skips(self._jobs.id_of(job), _MAX_REHEARSED_RUNS))
        return sorted((skip_record(skip) for skip in found), key=lambda skip: skip.first_at)

    @property
    def webhooks(self) -> list[WebhookRecord]:
        """All webhook requests that would have been sent, oldest first."""
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
        """Set the answer to requests to a URL: from now on, or for the next `times` requests, before later answers.

        `takes` is how long the receiver needs. With `error` the connection breaks instead. The default answer is 200.
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
        return [IsolatedTarget(TaskTarget(self._tasks)), IsolatedTarget(http), Unserved()]

    def _run(self, run_id: UUID) -> RunRecord:
        view = answer_of(self._lists.run(run_id))
        if view is None:
            raise LookupError(f"there is no run {run_id}")
        return self._record(view)

    def _record(self, view: RunView) -> RunRecord:
        said = answer_of(self._service.database.read(lambda session: said_by(session, view.id)))
        return run_record(view, answer_of(self._lists.attempts(view.id)), said)

    def _rehearse_tasks(self) -> None:
        self._tasks.update({name: as_rehearsed(task, self._takes) for name, task in self._given.items()})
