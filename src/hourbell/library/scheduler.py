"""`Scheduler`: the tasks and jobs of a program, and the ways to run them.

The server, the database driver and the engine are imported only when the scheduler starts.
"""

import asyncio
import concurrent.futures
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, Unpack
from uuid import UUID

from hourbell.control.programs import UndefinedAction
from hourbell.core.schedule import Schedule
from hourbell.engine.run_events import EventName
from hourbell.library.background import Background
from hourbell.library.declaring import (
    Duration,
    JobOptions,
    ListOptions,
    OnceOptions,
    OnConflict,
    RunsOptions,
    arguments_of,
    module_name,
)
from hourbell.library.helpers import is_isolated_call, may_start
from hourbell.library.listeners import Listener, Listeners
from hourbell.library.registry import Registry
from hourbell.library.task_context import TaskContext, TasksInContext
from hourbell.targets.task import Task

if TYPE_CHECKING:
    from hourbell.answers.jobs import Job
    from hourbell.answers.runs import Run
    from hourbell.library.embedded import Embedded
    from hourbell.library.run_time import RunTimeJobs

T = TypeVar("T")


class Scheduler(Registry):
    """The tasks and jobs of a program, run in this process or by others on the same database.

    `source` separates the jobs of this program from those of others: set it, as in `Scheduler("shop")`. The default is
    the name of the top-level module that creates the scheduler, so it changes if you rename the module.
    With `engine=False` this process only defines and triggers jobs, and other processes run them. `undefined_jobs`
    decides what happens to a job that the program no longer defines.
    """

    def __init__(
        self,
        source: str | None = None,
        *,
        database_url: str | None = None,
        engine: bool = True,
        undefined_jobs: Literal["pause", "delete", "keep"] = "pause",
    ) -> None:
        super().__init__(source or _module_of_caller())
        try:
            self.undefined_jobs = UndefinedAction(undefined_jobs)
        except ValueError:
            raise ValueError(f"undefined_jobs is {undefined_jobs!r}; use one of {', '.join(UndefinedAction)}") from None
        self.task_context: TaskContext | None = None  # context manager of a framework around each task call
        self._database_url = database_url
        self._has_engine = engine
        self.listeners = Listeners()
        self.rehearsed: Rehearsed | None = None  # set by hourbell.testing while it has loaded this scheduler
        self._embedded: Embedded | None = None
        self._background: Background | None = None

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks by name, each wrapped in the context of the framework, if there is one.

        The mapping also shows tasks that are registered later.
        """
        return TasksInContext(self._tasks, self.task_context)

    async def __aenter__(self) -> Self:
        if self._embedded is not None and self._embedded.is_of_this_process:
            raise RuntimeError("this scheduler runs already; it runs once in a process")
        from hourbell.library.embedded import Embedded

        embedded = Embedded(self, database_url=self._database_url, has_engine=self._has_engine)
        self.freeze()
        try:
            await embedded.start()
        except BaseException:
            self.thaw()
            raise
        self._embedded = embedded
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        embedded, self._embedded = self._embedded, None
        self.thaw()
        if embedded is not None:
            await embedded.stop()

    def run(self) -> None:
        """Run as a standalone server with the API and the page until SIGINT or SIGTERM, as `hourbell serve --app` does.

        It exits the process at the end. In a process for one isolated task call, which only imports the file, it does
        nothing.
        """
        if is_isolated_call():
            return
        from hourbell.library.program import run

        run(self, database_url=self._database_url)

    def start(self) -> None:
        """Run in a background thread, for programs without an event loop. A server may fork its workers afterwards.

        With HOURBELL_START=0 in the environment it does nothing.
        """
        if not may_start():
            return
        if self._background is None:
            self._background = Background(self)
        self._background.start()

    def stop(self) -> None:
        """Stop the thread of `start` and wait for it; runs in progress may finish within the drain limit."""
        if self._background is not None:
            self._background.stop()

    @property
    def blocking(self) -> "Blocking":
        """The same calls for code without an event loop."""
        return Blocking(self)

    def on(self, event: EventName, callback: Listener) -> Listener:
        """Call `callback` with a `RunEvent` when a run of this process has the event; return the callback.

        Calls are hints: they happen at most once, only in the process that ended the attempt, and none happens after a
        crash. They wait for each other and never delay a run; an exception is logged.
        """
        self.listeners.add(event, callback)
        return callback

    async def create(
        self,
        name: str,
        schedule: str | Schedule,
        task: Callable[..., Any] | str,
        *,
        on_conflict: OnConflict = "error",
        run_on_create: bool = False,
        **options: Unpack[JobOptions],
    ) -> "Job":
        """Create a job that calls a task, given as its function or its name, from now on.

        If this scheduler created a job of that name before, `on_conflict` says what happens: an error, an update to
        this definition, or nothing (`keep`). With `run_on_create` a job that is new also runs once at once. Raises
        ValueError if an argument is invalid, and its subclass `Refused` if the name is taken.
        """
        return await self._ask(
            lambda jobs: jobs.create(
                name, schedule, task, on_conflict=on_conflict, run_on_create=run_on_create, options=options
            )
        )

    async def update(
        self,
        job: str | UUID,
        *,
        schedule: str | Schedule | None = None,
        task: Callable[..., Any] | str | None = None,
        name: str | None = None,
        expect_version: int | None = None,
        take_over: bool = False,
        **options: Unpack[JobOptions],
    ) -> "Job":
        """Change a job that `create` made; what is absent stays as it is, and None restores the default of an option.

        Raises LookupError if there is no such job, and Refused if it has another owner and you do not pass
        `take_over`, or if its version is not the expected one.
        """
        return await self._ask(
            lambda jobs: jobs.update(
                job,
                schedule=schedule,
                task=task,
                name=name,
                expect_version=expect_version,
                take_over=take_over,
                options=options,
            )
        )

    async def pause(
        self, job: str | UUID, *, note: str = "", until: datetime | None = None, cancel_waiting: bool = False
    ) -> "Job":
        """Pause a job of any owner, until a time if given. Planned runs still run, unless you pass `cancel_waiting`."""
        return await self._ask(lambda jobs: jobs.pause(job, note=note, until=until, cancel_waiting=cancel_waiting))

    async def resume(self, job: str | UUID, *, catch_up: bool = False) -> "Job":
        """Resume a job from now on; with `catch_up`, times missed during the pause get the job's catch-up policy."""
        return await self._ask(lambda jobs: jobs.resume(job, catch_up=catch_up))

    async def delete(self, job: str | UUID, *, take_over: bool = False) -> None:
        """Delete a job that `create` or `once` made, and cancel its waiting runs; its history stays.

        Raises LookupError if there is no such job, and Refused if it has another owner and you do not pass `take_over`.
        """
        await self._ask(lambda jobs: jobs.delete(job, take_over=take_over))

    async def cancel(self, run: str | UUID) -> bool:
        """Cancel a waiting run, or ask the node of a running one to stop it; return True if the run has ended.

        Raises LookupError if there is no such run, and Refused if it ended before.
        """
        return await self._ask(lambda jobs: jobs.cancel(run))

    async def get(self, job: str | UUID) -> "Job":
        """Return a job of any owner from the database, with its state; raise LookupError if there is none."""
        return await self._ask(lambda jobs: jobs.get(job))

    async def list(self, **options: Unpack[ListOptions]) -> "tuple[Job, ...]":
        """Return up to `limit` (100) jobs that this scheduler created, or with `all_owners` of everybody, by name.

        A value over 4 KiB is omitted; `get` returns it. For the next page, pass the last name as `after`.
        """
        return await self._ask(lambda jobs: jobs.list(**options))

    async def runs(self, job: str | UUID, **options: Unpack[RunsOptions]) -> "tuple[Run, ...]":
        """Return up to `limit` (100) runs of a job by scheduled time, newest first."""
        return await self._ask(lambda jobs: jobs.runs(job, **options))

    async def trigger(self, job: str | Callable[..., Any], payload: object = None, *, key: str | None = None) -> UUID:
        """Trigger a job now and return the id of the run. `payload` replaces the job's payload.

        Instead of its name you can pass its function, if that has exactly one job. Calls with the same key trigger one
        run, as long as retention keeps that run. Raises LookupError if the job does not exist or cannot run.
        """
        name = self.job_name(job)
        return await self._ask(lambda jobs: jobs.trigger(name, payload, key))

    async def once(
        self,
        task: Callable[..., Any] | str,
        *,
        at: datetime | None = None,
        delay: Duration | None = None,
        args: Mapping[str, object] | None = None,
        payload: object = None,
        timeout: Duration = "10m",
        name: str | None = None,
        key: str | None = None,
    ) -> str:
        """Schedule one call of a task, at a time or after a delay, and return the name of its job.

        The job is stored, so it survives this process. Calls with the same key create one job, as long as that job is
        kept. Raises ValueError if an argument is invalid.
        """
        arguments = arguments_of("args", args)
        return await self._ask(
            lambda jobs: jobs.once(
                task, at=at, delay=delay, args=arguments, payload=payload, timeout=timeout, name=name, key=key
            )
        )

    async def _ask(self, ask: Callable[["RunTimeJobs"], Awaitable[T]]) -> T:
        """Call the jobs at run time where the scheduler runs, or else in a database that is opened for this call."""
        if self.rehearsed is not None:
            return await ask(self.rehearsed.run_time)
        background = self._background
        if background is not None and background.is_elsewhere:
            return await asyncio.to_thread(background.wait_for, self._ask(ask))
        if (embedded := self._running()) is None:
            from hourbell.library.run_time import open_run_time

            async with open_run_time(self, self._database_url) as jobs:
                return await ask(jobs)
        if embedded.loop is asyncio.get_running_loop():
            return await ask(embedded.run_time)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask(ask), embedded.loop))

    def _ask_and_wait(self, asking: Coroutine[Any, Any, T]) -> T:
        """Wait for a call of this class in a thread without an event loop."""
        if self.rehearsed is not None:
            return self.rehearsed.wait_for(asking)
        if self._background is not None and self._background.has_thread:
            return self._background.wait_for(asking)
        if _has_event_loop():
            asking.close()
            raise RuntimeError("async code would wait for itself; write await scheduler.create(…), without blocking")
        if (embedded := self._running()) is not None:
            try:
                return asyncio.run_coroutine_threadsafe(asking, embedded.loop).result()
            except concurrent.futures.CancelledError:
                raise RuntimeError("the scheduler was stopped meanwhile; call again") from None
        return asyncio.run(asking)

    def _running(self) -> "Embedded | None":
        """Return the scheduler that runs in this process; None if it does not run, or this is a fork of its process."""
        embedded = self._embedded
        if embedded is None or not embedded.is_of_this_process or embedded.loop.is_closed():
            return None
        return embedded


class Rehearsed(Protocol):
    """A rehearsal of `hourbell.testing`, which takes the place of the database."""

    @property
    def run_time(self) -> "RunTimeJobs": ...
    def wait_for(self, asking: Coroutine[Any, Any, T]) -> T: ...


class Blocking:
    """The calls of `Scheduler` for code without an event loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def create(
        self,
        name: str,
        schedule: str | Schedule,
        task: Callable[..., Any] | str,
        *,
        on_conflict: OnConflict = "error",
        run_on_create: bool = False,
        **options: Unpack[JobOptions],
    ) -> "Job":
        """Create a job; see `Scheduler.create`."""
        return self._wait(
            self._scheduler.create(
                name, schedule, task, on_conflict=on_conflict, run_on_create=run_on_create, **options
            )
        )

    def update(
        self,
        job: str | UUID,
        *,
        schedule: str | Schedule | None = None,
        task: Callable[..., Any] | str | None = None,
        name: str | None = None,
        expect_version: int | None = None,
        take_over: bool = False,
        **options: Unpack[JobOptions],
    ) -> "Job":
        """Change a job; see `Scheduler.update`."""
        return self._wait(
            self._scheduler.update(
                job,
                schedule=schedule,
                task=task,
                name=name,
                expect_version=expect_version,
                take_over=take_over,
                **options,
            )
        )

    def pause(
        self, job: str | UUID, *, note: str = "", until: datetime | None = None, cancel_waiting: bool = False
    ) -> "Job":
        """Pause a job; see `Scheduler.pause`."""
        return self._wait(self._scheduler.pause(job, note=note, until=until, cancel_waiting=cancel_waiting))

    def resume(self, job: str | UUID, *, catch_up: bool = False) -> "Job":
        """Resume a job; see `Scheduler.resume`."""
        return self._wait(self._scheduler.resume(job, catch_up=catch_up))

    def delete(self, job: str | UUID, *, take_over: bool = False) -> None:
        """Delete a job; see `Scheduler.delete`."""
        self._wait(self._scheduler.delete(job, take_over=take_over))

    def cancel(self, run: str | UUID) -> bool:
        """Cancel a run; see `Scheduler.cancel`."""
        return self._wait(self._scheduler.cancel(run))

    def get(self, job: str | UUID) -> "Job":
        """Return a job; see `Scheduler.get`."""
        return self._wait(self._scheduler.get(job))

    def list(self, **options: Unpack[ListOptions]) -> "tuple[Job, ...]":
        """Return jobs; see `Scheduler.list`."""
        return self._wait(self._scheduler.list(**options))

    def runs(self, job: str | UUID, **options: Unpack[RunsOptions]) -> "tuple[Run, ...]":
        """Return runs of a job; see `Scheduler.runs`."""
        return self._wait(self._scheduler.runs(job, **options))

    def trigger(self, job: str | Callable[..., Any], payload: object = None, *, key: str | None = None) -> UUID:
        """Trigger a job now; see `Scheduler.trigger`."""
        return self._wait(self._scheduler.trigger(job, payload, key=key))

    def once(self, task: Callable[..., Any] | str, **options: Unpack[OnceOptions]) -> str:
        """Schedule one call of a task; see `Scheduler.once`."""
        return self._wait(self._scheduler.once(task, **options))

    def _wait(self, asking: Coroutine[Any, Any, T]) -> T:
        return self._scheduler._ask_and_wait(asking)


def _has_event_loop() -> bool:
    """Return True in code that an event loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _module_of_caller() -> str:
    """Return the top-level module that creates the scheduler; else the name of the current directory."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("hourbell.library"):
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return module_name(name).partition(".")[0] or os.path.basename(os.getcwd())
