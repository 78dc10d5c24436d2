"""What a program says about its tasks and jobs. It starts nothing, and may be used by several threads."""

import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo

from hourbell import clock
from hourbell.core.job.definition import Definition
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
        self._frozen_in: int | None = None  # the process that has brought in the jobs; one forked from it begins anew

    @property
    def tasks(self) -> Mapping[str, Task]:
        return MappingProxyType(self._tasks)

    @property
    def jobs(self) -> Mapping[str, Definition]:
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
        """Make a function callable by jobs, under its dotted name or the one given. Its first parameter is the run."""

        def register(function: Function) -> Function:
            check_function(name or task_name(function), function, None)
            with self._lock:
                self._add_task(Task(name or task_name(function), function, isolate))
            return function

        if isinstance(function, str):
            raise ValueError(f"a task's name is an option; write @scheduler.task(name={function!r})")
        return register if function is None else register(function)

    def job(
        self, schedule: str, *, name: str | None = None, isolate: bool = False, **options: Unpack[JobOptions]
    ) -> Callable[[Function], Function]:
        """Run a function on a schedule. The job's name is the function's, or the one given.

        What cannot work is refused here, where it is written, with a ValueError.
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
        schedule: str,
        function: Callable[..., Any],
        *,
        isolate: bool = False,
        **options: Unpack[JobOptions],
    ) -> Definition:
        """The same as a call: one function may have several jobs. A name that is taken is a ValueError.

        The jobs are brought in when the scheduler starts. While it runs, one more is a RuntimeError.
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
                    "or make one with once() or the API"
                )
            if name in self._jobs:
                raise ValueError(f"a job named {name!r} is registered already")
            self._add_task(task)
            self._jobs[name] = definition
        return definition

    def freeze(self) -> None:
        """Refuse further jobs in this process: they are about to be brought in."""
        with self._lock:
            self._frozen_in = os.getpid()

    def thaw(self) -> None:
        """Take jobs again: the next start brings them in."""
        with self._lock:
            self._frozen_in = None

    def name_of(self, function: Callable[..., Any]) -> str:
        """The name under which jobs call a function: that of its task, if it is one already, else its dotted name."""
        named = (task.name for task in list(self._tasks.values()) if task.function is function)
        return next(named, None) or task_name(function)

    def job_name(self, job: str | Callable[..., Any]) -> str:
        """The name of a job, which may be given as the function that it alone calls."""
        if isinstance(job, str):
            return job
        task = self.name_of(job)
        names = [each.name for each in self.list() if each.target.get("name") == task]
        if len(names) == 1:
            return names[0]
        if names:
            raise LookupError(f"{task} has the jobs {', '.join(names)}; write the name of one of them")
        raise LookupError(f"{task} has no job; write its name, or call it by scheduler.once")

    def get(self, name: str) -> Definition:
        """The job of that name; a KeyError if the program defines none."""
        try:
            return self._jobs[name]
        except KeyError:
            raise KeyError(f"no job named {name!r} is registered") from None

    def list(self) -> tuple[Definition, ...]:
        """All jobs, in the order in which they were defined."""
        return tuple(self._jobs.values())

    def next_run(self, name: str, after: datetime | None = None) -> datetime | None:
        """When a job fires next after a time, by default now, in its own zone; None if it never does again."""
        job = self.get(name)
        after = after or clock.now()
        if job.starts_at is not None and job.starts_at > after:
            found = job.starts_at if job.parsed().matches(job.starts_at) else job.parsed().next(job.starts_at)
        else:
            found = job.parsed().next(after)
        if found is None or (job.ends_at is not None and found > job.ends_at):
            return None
        return found.astimezone(ZoneInfo(job.timezone))

    def _add_task(self, task: Task) -> None:
        """Keep a task, which several jobs may have. Another of its name is a ValueError."""
        known = self._tasks.setdefault(task.name, task)
        if known.function is not task.function:
            raise ValueError(f"a task named {task.name!r} is registered already")
        if known.isolate != task.isolate:
            raise ValueError(f"the task {task.name!r} is isolated here and not there; say the same in both places")
