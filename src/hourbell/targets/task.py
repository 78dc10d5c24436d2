"""Python functions as targets: coroutines on the event loop, ordinary functions in threads, or each call in a process
of its own."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.core.values.readers import InvalidValue, read_duration
from hourbell.targets.base import Call
from hourbell.targets.pool import Pool
from hourbell.targets.task_code import names
from hourbell.targets.task_desk import NodeDesk, TransactionLimit
from hourbell.targets.task_error import error_text
from hourbell.targets.task_run import LastSuccess, Run, kept
from hourbell.targets.time_limits import TimeLimit, TimeLimits

log = logging.getLogger("hourbell.targets")

_TIMEOUT = "10m"
_NONE = timedelta(0)
_SUCCEEDED = Succeeded()


@dataclass(frozen=True, slots=True)
class Task:
    """A function under the name by which jobs call it. Its first parameter is the run.

    With `isolate`, each call has a process of its own, which can be ended. A ValueError says why a function cannot.
    """

    name: str
    function: Callable[..., Any]
    isolate: bool = False
    is_async: bool = field(init=False, compare=False)
    reads_last_success: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
        object.__setattr__(self, "reads_last_success", names(self.function, "previous_success_at"))
        if not self.isolate:
            return
        if self.is_async:
            raise ValueError(f"{self.name} is async and is stopped as it is; isolate=True is for ordinary functions")
        name = getattr(self.function, "__qualname__", "<none>")
        if "<" in name:
            raise ValueError(f"{self.name} is not at the top of a module, where other processes find it; move it there")


class TaskTarget:
    """Calls the functions of this process. A node without a function never sees its runs.

    `threads` is how many ordinary functions run at once, `transactions` how many runs have their transaction open.
    """

    reads_secrets = False

    def __init__(self, tasks: Mapping[str, Task], *, threads: int = 32, transactions: int = 10) -> None:
        self._tasks = tasks
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="hourbell-task")
        self._threads = Pool("threads", threads)
        self.pools: tuple[Pool, ...] = (self._threads,)
        self._transactions = TransactionLimit(transactions)
        self._limits = TimeLimits()
        self._told_late: set[str] = set()  # tasks

    @property
    def open_transactions(self) -> int:
        """How many connections of the node's own database its tasks hold, or are about to."""
        return self._transactions.taken

    def lanes(self) -> tuple[str, ...]:
        return tuple(f"task:{name}" for name in self._tasks)

    def slots(self, lane: str) -> int | None:  # noqa: ARG002
        return None

    def pool(self, lane: str) -> Pool | None:
        """The threads, for an ordinary function. One with a process of its own has a thread that follows it."""
        task = self._tasks.get(lane.removeprefix("task:"))
        return None if task is None or task.is_async else self._threads

    async def deliver(self, call: Call) -> Outcome:
        target = call.definition.target
        task = self._tasks.get(str(target.get("name")))
        if task is None:
            return Failed(f"no task named {target.get('name')!r} in this process", begun=False)
        arguments = target.get("args") or {}
        if not isinstance(arguments, dict):
            return Failed("the target's args are not an object", retryable=False, begun=False)
        try:
            seconds = read_duration(target.get("timeout", _TIMEOUT)).total_seconds()
        except InvalidValue:
            return Failed("the target's timeout is not a duration such as 90s", retryable=False, begun=False)
        if task.is_async:
            return await self._call(task, call, arguments, seconds)
        if not self._threads.enter():
            return Unstarted()
        try:
            return await self._call(task, call, arguments, seconds)
        finally:
            self._threads.leave(call)

    async def close(self) -> None:
        self._limits.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _call(self, task: Task, call: Call, arguments: Mapping[str, object], seconds: float) -> Outcome:
        last_success: LastSuccess = ...
        if task.reads_last_success:
            try:
                last_success = await call.last_success()
            except Exception as error:  # nothing has begun, so it can be handed back
                facts = {"run": str(call.run.id), "job": call.definition.name, "error": str(error)}
                log.warning("last_success_unreadable", extra=facts)
                return Unstarted()
        limit = TimeLimit(self._limits, seconds)
        desk = NodeDesk(call, limit, self._transactions if task.is_async else None, last_success)
        if task.is_async:
            limit.on_overrun = desk.tell_overrun
        elif not task.isolate:
            limit.on_overrun = partial(self._keep_thread, task, call, desk)
        try:
            outcome = await self._outcome(task, call, desk, arguments, limit)
        except asyncio.CancelledError:
            if desk.committed is None:
                raise
            return desk.committed
        finally:
            if (writer := desk.close()) is not None:
                await writer.write_last()
        if desk.committed is None:
            return outcome
        if isinstance(outcome, Failed):  # too late: what was settled stays so
            log.warning("task_failed_after_commit", extra={"run": str(call.run.id), "error": outcome.error})
        elif isinstance(outcome, Succeeded) and outcome.result is not None and desk.committed == Succeeded(None):
            self._tell_late_result(task.name)
        return desk.committed

    def _keep_thread(self, task: Task, call: Call, desk: NodeDesk) -> None:
        """A function whose time is over goes on, and keeps its thread."""
        desk.tell_overrun()
        self._threads.mark_overdue(call, task.name)

    def _tell_late_result(self, name: str) -> None:
        """The function is written so, so that once is enough."""
        if name not in self._told_late:
            self._told_late.add(name)
            hint = "set run.result within run.transaction()"
            log.warning("task_result_after_commit", extra={"job": name, "hint": hint})

    async def _outcome(
        self, task: Task, call: Call, desk: NodeDesk, arguments: Mapping[str, object], limit: TimeLimit
    ) -> Outcome:
        try:
            with limit:  # from here on, so that it also bounds the wait for the begin
                if not await call.begin():
                    return Unstarted()
                desk.begin()
                run = run_of(call, desk)
                if task.isolate:
                    return await self._in_process(task, run, desk, arguments)
                if task.is_async:
                    result = await task.function(run, **arguments)
                else:
                    result = await self._in_thread(task, run, desk, arguments)
                if result is not None and inspect.isawaitable(result):  # of a function around a coroutine
                    result = await result
            if limit.is_over:  # it did not let itself be cancelled
                return _no_end(call)
            return _SUCCEEDED if result is None else Succeeded(kept(result))
        except TimeoutError as error:
            if limit.is_over:
                return _no_end(call) if desk.has_begun else Unstarted()
            return Failed(error_text(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it ends its attempt, and not the node
            if task.is_async and isinstance(error, (KeyboardInterrupt, GeneratorExit)):
                raise  # on the event loop, it is the whole program that is to end
            return Failed(error_text(error))

    async def _in_thread(self, task: Task, run: Run, desk: NodeDesk, arguments: Mapping[str, object]) -> object:
        answer: _Answer = await self._until_done(desk.stop, _called, task.function, run, arguments)
        return answer.value()

    async def _in_process(self, task: Task, run: Run, desk: NodeDesk, arguments: Mapping[str, object]) -> Outcome:
        from hourbell.targets.isolated import Isolated  # only programs that use it load it

        isolated = Isolated(task.function, run, arguments, desk.last_success)

        def stop() -> None:
            desk.stop()
            isolated.stop()

        try:
            outcome: Outcome = await self._until_done(stop, isolated.perform)
            return outcome
        finally:
            isolated.close()

    async def _until_done(self, stop: Callable[[], None], function: Callable[..., Any], *arguments: object) -> Any:
        """What a function in a thread answers. It is waited for in any case, because a thread cannot be stopped; when
        the attempt is to end, `stop` is called, once."""
        running = asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        stopped: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                if stopped is None:
                    stop()
                stopped = error
        if stopped is not None:
            raise stopped
        return running.result()


def _no_end(call: Call) -> Failed:
    return Failed(f"no end within {call.definition.target.get('timeout', _TIMEOUT)}")


def run_of(call: Call, desk: NodeDesk) -> Run:
    """A call as its task sees it."""
    run, definition = call.run, call.definition
    late = call.lateness
    return Run(
        run.id,
        definition.name,
        run.job_id,
        run.job_version,
        run.scheduled_at,
        run.attempt,
        late if late > _NONE else _NONE,
        call.payload,
        run.kind,
        run.expires_at,
        definition,
        desk,
    )


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


def _called(function: Callable[..., Any], run: Run, arguments: Mapping[str, object]) -> _Answer:
    try:
        return _Answer(function(run, **arguments))
    except BaseException as error:
        return _Answer(None, error)
