"""`Scheduler`: what a Python program says about its tasks and jobs. It starts nothing by itself."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from hourbell.core.definition_json import retry_from_json
from hourbell.core.job import Definition, default_catch_up
from hourbell.core.policies import CatchUp, Delivery, Overlap, Priority
from hourbell.core.schedule import Schedule
from hourbell.core.schedule.forms import parse_duration
from hourbell.core.target import lane_of
from hourbell.targets.task import Task

Function = TypeVar("Function", bound=Callable[..., Any])
Choice = TypeVar("Choice", bound=StrEnum)
Duration = timedelta | str

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)


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
            self._add_task(function, name, None)
            return function

        return register

    def job(
        self,
        schedule: str,
        *,
        name: str | None = None,
        timezone: str = "UTC",
        dst: str = "once",
        args: Mapping[str, object] | None = None,
        catch_up: str | None = None,
        catch_up_window: Duration | None = None,
        overlap: str = "allow",
        retry: object = "default",
        delivery: str = "at_least_once",
        priority: str = "normal",
        timeout: Duration = "10m",
        max_age: Duration = "24h",
        late_after: Duration = "5m",
        jitter: Duration = "0s",
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> Callable[[Function], Function]:
        """Run a function on a schedule. The job's name is the function's, or the one given.

        What cannot work is refused here, where it is written, with a ValueError.
        """
        if callable(schedule):
            raise ValueError("@scheduler.job needs a schedule; write @scheduler.job('0 9 * * 1-5')")

        def register(function: Function) -> Function:
            job_name = name or function.__name__
            if not _NAME.fullmatch(job_name):
                raise ValueError(f"a job cannot be named {job_name!r}; write name= with letters, digits, _ and -")
            if job_name in self._jobs:
                raise ValueError(f"a job named {job_name!r} is registered already")
            try:
                parsed = Schedule.parse(schedule, timezone, dst, job_name)  # type: ignore[arg-type]
            except ValueError as error:
                raise ValueError(f"invalid schedule: {error}") from None
            arguments = _json_arguments(job_name, args or {})
            task = self._add_task(function, None, arguments)
            seconds = _duration("timeout", timeout).total_seconds()
            target = {"type": "task", "name": task.name, "args": arguments, "timeout": f"{int(seconds)}s"}
            self._jobs[job_name] = Definition(
                name=job_name,
                schedule=schedule,
                timezone=timezone,
                dst=dst,
                target=target,
                lane=lane_of(target),
                catch_up=_choice("catch_up", CatchUp, catch_up) if catch_up else default_catch_up(parsed),
                catch_up_window=None if catch_up_window is None else _duration("catch_up_window", catch_up_window),
                overlap=_choice("overlap", Overlap, overlap),
                retry=retry_from_json(retry),
                delivery=_choice("delivery", Delivery, delivery),
                priority=_choice("priority", Priority, priority),
                max_age=_duration("max_age", max_age),
                late_after=_duration("late_after", late_after),
                jitter=_duration("jitter", jitter, least=0),
                starts_at=starts_at,
                ends_at=ends_at,
                managed_by="code",
                source=self.source or function.__module__.partition(".")[0],
            )
            return function

        return register

    def _add_task(self, function: Callable[..., Any], name: str | None, arguments: Mapping[str, object] | None) -> Task:
        task = Task(name or f"{function.__module__}.{function.__qualname__}", function)
        _check_function(task.name, function, arguments)
        known = self._tasks.setdefault(task.name, task)
        if known.function is not function:
            raise ValueError(f"a task named {task.name!r} is registered already")
        return known


def _check_function(name: str, function: Callable[..., Any], arguments: Mapping[str, object] | None) -> None:
    """Refuse what could never be called: a generator, or a function that does not take the call and the args."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(f"{name} is a generator; a task returns, it does not yield")
    signature = inspect.signature(function)
    try:
        if arguments is None:
            signature.bind_partial(object())
        else:
            signature.bind(object(), **arguments)
    except TypeError as error:
        hint = "its first parameter is the call, the others come from args"
        raise ValueError(f"{name}{signature} cannot be called: {error}; {hint}") from None


def _json_arguments(job_name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    try:
        json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the args of {job_name!r} must be JSON: {error}") from None
    return dict(arguments)


def _duration(what: str, given: Duration, least: int = 1) -> timedelta:
    seconds = parse_duration(given) if isinstance(given, str) else None
    duration = timedelta(seconds=seconds) if seconds is not None else given
    if not isinstance(duration, timedelta) or duration < timedelta(seconds=least):
        raise ValueError(f"{what} is {given!r}; write a timedelta or text such as 90s, 15m or 1d, at least {least}s")
    return duration


def _choice(what: str, kind: type[Choice], given: str) -> Choice:
    try:
        return kind(given)
    except ValueError:
        raise ValueError(f"{what} is {given!r}; write one of {', '.join(kind)}") from None
