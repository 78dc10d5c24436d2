"""Tasks inside what a framework puts around its requests, such as Flask's application context."""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from hourbell.targets.task import Task

Surroundings = Callable[[], AbstractContextManager[Any]]


def surrounded(tasks: Mapping[str, Task], enter: Surroundings | None) -> dict[str, Task]:
    """The same tasks, each call inside what is entered; one in a process of its own cannot be."""
    if enter is None:
        return dict(tasks)
    return {
        name: task if task.isolate else replace(task, function=_inside(task.function, enter))
        for name, task in tasks.items()
    }


def _inside(function: Callable[..., Any], enter: Surroundings) -> Callable[..., Any]:
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
