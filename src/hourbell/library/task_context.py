"""Tasks wrapped in the context of a framework, such as Flask's application context."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from hourbell.targets.task import Task

TaskContext = Callable[[], AbstractContextManager[Any]]


class TasksInContext(Mapping[str, Task]):
    """A live view of the tasks, in which each call runs inside a context manager; isolated tasks are not wrapped.

    Another thread may register tasks meanwhile.
    """

    def __init__(self, tasks: Mapping[str, Task], enter: TaskContext | None) -> None:
        self._tasks = tasks
        self._enter = enter
        self._made: dict[str, Task] = {}

    def __getitem__(self, name: str) -> Task:
        task = self._tasks[name]
        if self._enter is None or task.isolate:
            return task
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = replace(task, function=_inside(task.function, self._enter))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)


def _inside(function: Callable[..., Any], enter: TaskContext) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **arguments: Any) -> Any:
            with enter():
                return await function(*args, **arguments)

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **arguments: Any) -> Any:
        with enter():
            return function(*args, **arguments)

    return call
