"""Targets of a rehearsed node: user functions and recorded webhooks, separated from the engine's own timers."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from hourbell.core.run.settle import Failed, Outcome
from hourbell.targets.base import Call, Target
from hourbell.targets.pool import Pool
from hourbell.targets.task import Task
from hourbell.testing.loop import is_housekeeping, outside_of_loops

_job: ContextVar[str] = ContextVar("job")


class IsolatedTarget:
    """A wrapper of a target that marks its timers as user timers, so that virtual time never jumps past them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.reads_secrets = target.reads_secrets
        self.pools = target.pools

    def lanes(self) -> tuple[str, ...]:
        return self._target.lanes()

    def slots(self, lane: str) -> int | None:
        return self._target.slots(lane)

    def pool(self, lane: str) -> Pool | None:
        return self._target.pool(lane)

    async def deliver(self, call: Call) -> Outcome:
        is_housekeeping.set(False)  # only in the context of this attempt
        _job.set(call.definition.name)
        return await self._target.deliver(call)

    async def close(self) -> None:
        await self._target.close()


class Unserved:
    """A target for everything that cannot be rehearsed: each attempt fails at once and says why."""

    reads_secrets = False
    pools: tuple[Pool, ...] = ()

    def lanes(self) -> tuple[str, ...]:
        return "task:*", "sql:*", "queue:*"

    def slots(self, lane: str) -> int | None:  # noqa: ARG002
        return None

    def pool(self, lane: str) -> None: ...

    async def deliver(self, call: Call) -> Outcome:
        target = call.definition.target
        if target.get("type") == "task":
            why = f"no task named {target.get('name')!r} is loaded; load the Scheduler that has it"
        else:
            why = f"a target of type {target.get('type')} cannot be rehearsed; test it on a real database or queue"
        return Failed(why, retryable=False, begun=False)

    async def close(self) -> None: ...


def as_rehearsed(task: Task, seconds: Mapping[str, float]) -> Task:
    """Return the task without isolation, extended by the `seconds` set for the job that calls it."""
    if not seconds:
        return replace(task, isolate=False)
    return replace(task, isolate=False, function=_taking(task.function, seconds))


def _taking(function: Callable[..., Any], seconds: Mapping[str, float]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        raised: Exception | None = None
        result: Any = None
        try:
            if inspect.iscoroutinefunction(function):
                result = await function(*arguments, **named)
            else:
                with outside_of_loops():
                    result = function(*arguments, **named)
        except Exception as error:
            raised = error
        await asyncio.sleep(seconds.get(_job.get(), 0.0))
        if raised is not None:
            raise raised
        return result

    return call
