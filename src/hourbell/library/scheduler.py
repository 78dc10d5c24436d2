"""`Scheduler`: the tasks and jobs of a program, and the ways to run them.

A program that only defines jobs loads no server, no database driver and no engine: they come when it runs.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack
from uuid import UUID

from hourbell.control.programs import Gone
from hourbell.library.background import Background
from hourbell.library.declaring import Duration, OnceOptions, arguments_of, module_name
from hourbell.library.helpers import is_isolated_call, may_start
from hourbell.library.registry import Registry
from hourbell.library.surroundings import Surrounded, Surroundings
from hourbell.targets.task import Task

if TYPE_CHECKING:
    from hourbell.library.embedded import Embedded


class Scheduler(Registry):
    """Tasks and jobs of a program, run in this process or by others on the same database.

    `source` tells the jobs of this program from those of others: name it, as in `Scheduler("shop")`. Without a name it
    is the top-level module that makes the scheduler, which is another one when the module is renamed.
    With `engine=False` this process defines and triggers jobs, and others run them. `gone` says what becomes of a job
    that the program does not define any more.
    """

    def __init__(
        self,
        source: str | None = None,
        *,
        database_url: str | None = None,
        engine: bool = True,
        gone: Literal["pause", "delete", "keep"] = "pause",
    ) -> None:
        super().__init__(source or _module_of_caller())
        try:
            self.gone = Gone(gone)
        except ValueError:
            raise ValueError(f"gone is {gone!r}; write one of {', '.join(Gone)}") from None
        self.surroundings: Surroundings | None = None  # what a framework puts around each call
        self._database_url = database_url
        self._has_engine = engine
        self._embedded: Embedded | None = None
        self._background: Background | None = None

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The functions by the names under which jobs call them, inside what a framework puts around its requests.

        Those that are defined later are among them, too.
        """
        return Surrounded(self._tasks, self.surroundings)

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
        """Run by itself, with the API and the page, until SIGINT or SIGTERM: the same as `hourbell serve --app`.

        In a process that was made for one call of a task it does nothing: its file is only imported there.
        """
        if is_isolated_call():
            return
        from hourbell.library.program import run

        run(self, database_url=self._database_url)

    def start(self) -> None:
        """Run in a thread of its own, for programs without an event loop. A server that forks may do so afterwards.

        With HOURBELL_START=0 in the environment it does nothing.
        """
        if not may_start():
            return
        if self._background is None:
            self._background = Background(self)
        self._background.start()

    def stop(self) -> None:
        """End what `start` began; runs that have begun may finish within the drain limit."""
        if self._background is not None:
            self._background.stop()

    @property
    def blocking(self) -> "Blocking":
        """`trigger` and `once` for code without an event loop, after `start`."""
        return Blocking(self)

    async def trigger(self, job: str | Callable[..., Any], payload: object = None, *, key: str | None = None) -> UUID:
        """Run a job now, with a payload of its own if one is given; the id of the run.

        A function stands for the one job that the program has for it. The same key runs it once, however often it is
        asked for, while that run is kept.
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
        """Call a task once, at a time or after a delay, whatever happens to this process; the name of the job.

        The same key makes one job, however often it is asked for, while that job is kept.
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
        """The thread of its own in which it runs, if that is not this one."""
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
        """Run a job now; see `Scheduler.trigger`."""
        return self._background().wait_for(self._scheduler.trigger(job, payload, key=key))

    def once(self, task: Callable[..., Any] | str, **options: Unpack[OnceOptions]) -> str:
        """Call a task once; see `Scheduler.once`."""
        return self._background().wait_for(self._scheduler.once(task, **options))

    def _background(self) -> Background:
        background = self._scheduler._background
        if background is None:
            why = "call scheduler.start() first" if may_start() else "HOURBELL_START forbids it"
            raise RuntimeError(f"the scheduler was not started; {why}")
        return background


def _module_of_caller() -> str:
    """The top-level module that makes the scheduler."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("hourbell.library"):
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return module_name(name).partition(".")[0] or os.path.basename(os.getcwd())
