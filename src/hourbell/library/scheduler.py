"""`Scheduler`: what a Python program says about its tasks and jobs. It starts nothing by itself."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from hourbell.core.definition_json import lane_of, retry_from_json
from hourbell.core.job import Definition, default_catch_up
from hourbell.core.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.core.schedule import Schedule
from hourbell.targets.task import Task

Function = TypeVar("Function", bound=Callable[..., Any])


class Scheduler:
    """Tasks and jobs of a program. `hourbell serve --app module:scheduler` runs them."""

    def __init__(self, *, source: str = "") -> None:
        self.source = source
        self._tasks: dict[str, Task] = {}
        self._jobs: dict[str, Definition] = {}

    @property
    def tasks(self) -> Mapping[str, Task]:
        return self._tasks

    @property
    def jobs(self) -> Mapping[str, Definition]:
        return self._jobs

    def task(self, *, name: str | None = None) -> Callable[[Function], Function]:
        """Make a function callable by jobs, under its dotted name or the one given. Its first parameter is the call."""

        def register(function: Function) -> Function:
            self._add_task(function, name)
            return function

        return register

    def job(
        self,
        schedule: str,
        *,
        name: str | None = None,
        timezone: str = "UTC",
        args: Mapping[str, object] | None = None,
        catch_up: str | None = None,
        overlap: str = "allow",
        retry: object = "default",
        delivery: str = "at_least_once",
        priority: str = "normal",
        timeout: str = "10m",
        max_age: timedelta = timedelta(hours=24),
    ) -> Callable[[Function], Function]:
        """Run a function on a schedule. The job's name is the function's, or the one given."""

        def register(function: Function) -> Function:
            job_name = name or function.__name__
            if job_name in self._jobs:
                raise ValueError(f"a job named {job_name!r} is registered already")
            try:
                parsed = Schedule.parse(schedule, timezone=timezone, name=job_name)
            except ValueError as error:
                raise ValueError(f"invalid schedule: {error}") from error
            task = self._add_task(function, None)
            target = {"type": "task", "name": task.name, "args": dict(args or {}), "timeout": timeout}
            self._jobs[job_name] = Definition(
                name=job_name,
                schedule=schedule,
                timezone=timezone,
                target=target,
                lane=lane_of(target),
                catch_up=CatchUp(catch_up) if catch_up else default_catch_up(parsed),
                overlap=Overlap(overlap),
                retry=retry_from_json(retry),
                delivery=Delivery(delivery),
                priority=Priority(priority),
                max_age=max_age,
                managed_by="code",
                source=self.source or function.__module__.partition(".")[0],
            )
            return function

        return register

    def _add_task(self, function: Callable[..., Any], name: str | None) -> Task:
        task = Task(name or f"{function.__module__}.{function.__qualname__}", function)
        known = self._tasks.setdefault(task.name, task)
        if known.function is not function:
            raise ValueError(f"a task named {task.name!r} is registered already")
        return known
