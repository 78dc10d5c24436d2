"""Python functions as targets: coroutines on the event loop, ordinary functions in threads."""

import asyncio
import inspect
import json
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hourbell.core.schedule.forms import parse_duration
from hourbell.core.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.targets.base import Call

_MOST_ERROR = 4_000
_TIMEOUT = "10m"


@dataclass(frozen=True, slots=True)
class Task:
    """A function under the name by which jobs call it. Its first parameter is the call."""

    name: str
    function: Callable[..., Any]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


class TaskTarget:
    """Calls the functions of this process. A node without a function never sees its runs."""

    reads_secrets = False

    def __init__(self, tasks: Mapping[str, Task], *, threads: int = 32) -> None:
        self._tasks = tasks
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="hourbell-task")
        self._free_threads = asyncio.Semaphore(threads)
        self._most_threads = threads

    def lanes(self) -> tuple[str, ...]:
        return tuple(f"task:{name}" for name in self._tasks)

    def slots(self, lane: str) -> int | None:
        """As many as there are threads for an ordinary function: more would only wait here instead of elsewhere."""
        task = self._tasks.get(lane.removeprefix("task:"))
        return None if task is None or task.is_async else self._most_threads

    async def deliver(self, call: Call) -> Outcome:
        target = call.definition.target
        task = self._tasks.get(str(target.get("name")))
        if task is None:
            return Failed(f"no task named {target.get('name')!r} in this process", begun=False)
        arguments = target.get("args") or {}
        if not isinstance(arguments, Mapping):
            return Failed("the target's args are not an object", retryable=False, begun=False)
        if parse_duration(str(target.get("timeout", _TIMEOUT))) is None:
            return Failed("the target's timeout is not a duration such as 90s", retryable=False, begun=False)
        if task.is_async:
            return await self._call(task, call, arguments)
        async with self._free_threads:  # what waits for a thread has not begun
            return await self._call(task, call, arguments)

    async def _call(self, task: Task, call: Call, arguments: Mapping[str, object]) -> Outcome:
        if not await call.begin():
            return Unstarted()
        target = call.definition.target
        try:
            async with asyncio.timeout(_timeout(target).total_seconds()) as limit:
                return Succeeded(_kept(await self._invoke(task, call, arguments)))
        except TimeoutError:
            if limit.expired():
                return Failed(f"no end within {target.get('timeout', _TIMEOUT)}")
            return Failed(_last_words())
        except (Exception, SystemExit):  # a function that calls sys.exit() ends its attempt, not the node
            return Failed(_last_words())

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _invoke(self, task: Task, call: Call, arguments: Mapping[str, object]) -> object:
        if task.is_async:
            return await task.function(call, **arguments)
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, _in_thread, task.function, call, arguments)
        stopped: asyncio.CancelledError | None = None
        while not running.done():  # a thread cannot be stopped: the attempt lasts as long as the function does
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                stopped = error
        if stopped is not None:
            raise stopped
        return running.result().value()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a function in a thread came to. Not every exception survives the way through a future."""

    result: object
    error: BaseException | None = None

    def value(self) -> object:
        if self.error is None:
            return self.result
        if isinstance(self.error, StopIteration):
            raise RuntimeError("the function raised StopIteration") from self.error
        raise self.error


def _in_thread(function: Callable[..., Any], call: Call, arguments: Mapping[str, object]) -> _Answer:
    try:
        return _Answer(function(call, **arguments))
    except BaseException as error:
        return _Answer(None, error)


def _timeout(target: Mapping[str, object]) -> timedelta:
    return timedelta(seconds=parse_duration(str(target.get("timeout", _TIMEOUT))) or 0)


def _kept(result: object) -> object:
    """What a run keeps of a task's answer: JSON, or its text."""
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(result)[:_MOST_ERROR]
    return result


def _last_words() -> str:
    return traceback.format_exc(limit=-8)[-_MOST_ERROR:]
