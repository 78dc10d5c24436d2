"""`Scheduler`: the tasks and jobs of a program, and the ways to run them.

The server, the database driver and the engine are imported only when the scheduler starts.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack
from uuid import UUID

from hourbell.control.programs import UndefinedAction
from hourbell.library.background import Background
from hourbell.library.declaring import Duration, OnceOptions, arguments_of, module_name
from hourbell.library.helpers import is_isolated_call, may_start
from hourbell.library.registry import Registry
from hourbell.library.task_context import TaskContext, TasksInContext
from hourbell.targets.task import Task

if TYPE_CHECKING:
    from hourbell.library.embedded import Embedded


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
        """`trigger` and `once` for code without an event loop, after `start`."""
        return Blocking(self)

    async def trigger(self, job: str | Callable[..., Any], payload: object = None, *, key: str | None = None) -> UUID:
        """Trigger a job now and return the id of the run. `payload` replaces the job's payload.

        Instead of its name you can pass its function, if that has exactly one job. Calls with the same key trigger one
        run, as long as retention keeps that run. Raises LookupError if the job does not exist or cannot run.
        """
        if (background := self._elsewhere()) is not None:
            return await asyncio.to_thread(background.wait_for, self.trigger(job, payload, key=key))
        return await self._running().trigger(self.job_name(job), payload, key)

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
        if (background := self._elsewhere()) is not None:
            there = self.once(task, at=at, delay=delay, args=args, payload=payload, timeout=timeout, name=name, key=key)
            return await asyncio.to_thread(background.wait_for, there)
        return await self._running().once(
            task,
            at=at,
            delay=delay,
            args=arguments_of("args", args),
            payload=payload,
            timeout=timeout,
            name=name,
            key=key,
        )

    def _elsewhere(self) -> Background | None:
        """Return the background thread in which the scheduler runs; None if it has none or this is the thread."""
        background = self._background
        return background if background is not None and background.is_elsewhere else None

    def _running(self) -> "Embedded":
        embedded = self._embedded
        if embedded is None or not embedded.is_of_this_process:
            why = "this process was forked from it" if embedded is not None else "nobody has started it"
            raise RuntimeError(f"the scheduler does not run here, {why}; write `async with scheduler`, or call start()")
        return embedded


class Blocking:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def trigger(self, job: str | Callable[..., Any], payload: object = None, *, key: str | None = None) -> UUID:
        """Trigger a job now; see `Scheduler.trigger`."""
        return self._background().wait_for(self._scheduler.trigger(job, payload, key=key))

    def once(self, task: Callable[..., Any] | str, **options: Unpack[OnceOptions]) -> str:
        """Schedule one call of a task; see `Scheduler.once`."""
        return self._background().wait_for(self._scheduler.once(task, **options))

    def _background(self) -> Background:
        background = self._scheduler._background
        if background is None:
            why = "call scheduler.start() first" if may_start() else "HOURBELL_START forbids it"
            raise RuntimeError(f"the scheduler was not started; {why}")
        return background


def _module_of_caller() -> str:
    """Return the top-level module that creates the scheduler; else the name of the current directory."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("hourbell.library"):
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return module_name(name).partition(".")[0] or os.path.basename(os.getcwd())
