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

    def __init__(self, tasks: Mapping[str, Task], *, threads: int = 32) -> None:
        self._tasks = tasks
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="hourbell-task")
        self._free_threads = asyncio.Semaphore(threads)

    def lanes(self) -> tuple[str, ...]:
        return tuple(f"task:{name}" for name in self._tasks)

    def slots(self, lane: str) -> int | None:  # noqa: ARG002
        return None

    async def deliver(self, call: Call) -> Outcome:
        target = call.definition.target
        task = self._tasks.get(str(target.get("name")))
        if task is None:
            return Failed(f"no task named {target.get('name')!r} in this process", begun=False)
        arguments = target.get("args") or {}
        if not isinstance(arguments, Mapping):
            return Failed("the target's args are not an object", retryable=False, begun=False)
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
                return Failed(f"no end within {target.get('timeout', '10m')}")
            return Failed(_last_words())
        except Exception:
            return Failed(_last_words())

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _invoke(self, task: Task, call: Call, arguments: Mapping[str, object]) -> object:
        if task.is_async:
            return await task.function(call, **arguments)
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, lambda: task.function(call, **arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # A thread cannot be stopped: the attempt lasts as long as the function does.
            await asyncio.wait([running])
            raise


def _timeout(target: Mapping[str, object]) -> timedelta:
    seconds = parse_duration(str(target.get("timeout", "10m")))
    return timedelta(seconds=seconds or 600)


def _kept(result: object) -> object:
    """What a run keeps of a task's answer: JSON, or its text."""
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(result)[:_MOST_ERROR]
    return result


def _last_words() -> str:
    return traceback.format_exc(limit=-8)[-_MOST_ERROR:]
