"""The registry of a program's tasks and jobs. It is thread-safe and starts nothing."""

import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo

from hourbell import clock
from hourbell.core.job.definition import Definition
from hourbell.core.schedule import Schedule
from hourbell.library.declaring import JobOptions, check_function, declare, own_name, task_name
from hourbell.library.options import check_options
from hourbell.targets.task import Task

Function = TypeVar("Function", bound=Callable[..., Any])


class Registry:
    def __init__(self, source: str) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        self._jobs: dict[str, Definition] = {}
        self._frozen_in: int | None = None  # pid of the process that synced the jobs; a fork of it is not frozen

    @property
    def tasks(self) -> Mapping[str, Task]:
        return MappingProxyType(self._tasks)

    @property
    def jobs(self) -> Mapping[str, Definition]:
        """The jobs that the program defines, by name, in the order of their definition."""
        return MappingProxyType(self._jobs)

    @overload
    def task(self, function: Function, *, name: str | None = None, isolate: bool = False) -> Function: ...
    @overload
    def task(
        self, function: None = None, *, name: str | None = None, isolate: bool = False
    ) -> Callable[[Function], Function]: ...
    def task(
        self, function: Function | None = None, *, name: str | None = None, isolate: bool = False
    ) -> Function | Callable[[Function], Function]:
        """Register a function as a task, under its dotted name or `name`. Its first parameter is the run.

        Raises ValueError if the function cannot be called like that, or another task has the name.
        """

        def register(function: Function) -> Function:
            check_function(name or task_name(function), function, None)
            with self._lock:
                self._add_task(Task(name or task_name(function), function, isolate))
            return function

        if isinstance(function, str):
            raise ValueError(f"a task's name is an option; write @scheduler.task(name={function!r})")
        return register if function is None else register(function)

    def job(
        self, schedule: str | Schedule, *, name: str | None = None, isolate: bool = False, **options: Unpack[JobOptions]
    ) -> Callable[[Function], Function]:
        """Decorate a function to run on a schedule. The job gets the name of the function, or `name`.

        Raises ValueError at this line if the job is invalid.
        """
        check_options(options)
        if callable(schedule):
            raise ValueError("@scheduler.job needs a schedule; write @scheduler.job('0 9 * * 1-5')")

        def decorate(function: Function) -> Function:
            self.register(name or own_name(function), schedule, function, isolate=isolate, **options)
            return function

        return decorate

    def register(
        self,
        name: str,
        schedule: str | Schedule,
        function: Callable[..., Any],
        *,
        isolate: bool = False,
        **options: Unpack[JobOptions],
    ) -> Definition:
        """Define a job by a call; one function may have several jobs. Returns the definition.

        Raises ValueError if the job is invalid or its name is taken. Jobs are stored when the scheduler starts; while
        it runs, defining another one raises RuntimeError.
        """
        check_options(options)
        if not isinstance(name, str):
            raise ValueError(f"a job's name comes first, not {name!r}; write register('five', '*/5 * * * *', f)")
        task = Task(self.name_of(function), function, isolate)
        definition = declare(name, schedule, task, self.source, options)
        with self._lock:
            if self._frozen_in == os.getpid():
                raise RuntimeError(
                    f"the scheduler runs already, and would not run {name!r}; define jobs before it starts, "
                    "or make one with create() or once()"
                )
            if name in self._jobs:
                raise ValueError(f"a job named {name!r} is registered already")
            self._add_task(task)
            self._jobs[name] = definition
        return definition

    def freeze(self) -> None:
        """Refuse new jobs in this process, because the jobs are about to be stored."""
        with self._lock:
            self._frozen_in = os.getpid()

    def thaw(self) -> None:
        """Accept new jobs again; the next start stores them."""
        with self._lock:
            self._frozen_in = None

    def name_of(self, function: Callable[..., Any]) -> str:
        """Return the name under which jobs call a function: the name of its task, else its dotted name."""
        named = (task.name for task in list(self._tasks.values()) if task.function is function)
        return next(named, None) or task_name(function)

    def job_name(self, job: str | Callable[..., Any]) -> str:
        """Return the name of a job, given as a name or as its function.

        Raises LookupError if the function has no job, or more than one.
        """
        if isinstance(job, str):
            return job
        task = self.name_of(job)
        names = [each.name for each in list(self._jobs.values()) if each.target.get("name") == task]
        if len(names) == 1:
            return names[0]
        if names:
            raise LookupError(f"{task} has the jobs {', '.join(names)}; write the name of one of them")
        raise LookupError(f"{task} has no job; write its name, or call it by scheduler.once")

    def next_run(self, name: str, after: datetime | None = None) -> datetime | None:
        """Return the next time of a job of the program after `after` (default: now), in the job's time zone.

        Returns None if there is none; raises KeyError if the program does not define the job.
        """
        if name not in self._jobs:
            raise KeyError(f"no job named {name!r} is registered")
        job = self._jobs[name]
        after = after or clock.now()
        if job.starts_at is not None and job.starts_at > after:
            found = job.starts_at if job.parsed().matches(job.starts_at) else job.parsed().next(job.starts_at)
        else:
            found = job.parsed().next(after)
        if found is None or (job.ends_at is not None and found > job.ends_at):
            return None
        return found.astimezone(ZoneInfo(job.timezone))

    def _add_task(self, task: Task) -> None:
        """Store a task, which several jobs may share; raise ValueError if another function or option has its name."""
        known = self._tasks.setdefault(task.name, task)
        if known.function is not task.function:
            raise ValueError(f"a task named {task.name!r} is registered already")
        if known.isolate != task.isolate:
            raise ValueError(
                f"the task {task.name!r} is isolated here and not there; use the same value in both places"
            )
