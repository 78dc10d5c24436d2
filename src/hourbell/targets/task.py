"""Python functions as targets: coroutines on the event loop, sync functions in threads, or each call in its own
process."""

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
from hourbell.targets.attempt_context import NodeAttemptContext, TransactionLimit
from hourbell.targets.base import Call
from hourbell.targets.pool import Pool
from hourbell.targets.task_code import names
from hourbell.targets.task_error import error_text
from hourbell.targets.task_run import LastSuccess, Run, stored_result
from hourbell.targets.time_limits import TimeLimit, TimeLimits

log = logging.getLogger("hourbell.targets")

_TIMEOUT = "10m"
_NONE = timedelta(0)
_SUCCEEDED = Succeeded()


@dataclass(frozen=True, slots=True)
class Task:
    """A function registered under the name by which jobs call it. Its first parameter is the run.

    With `isolate`, each call runs in its own process, which can be killed. Raises ValueError, with the reason, if the
    function cannot be isolated.
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
    """The target that calls functions of this process. A node without a function never claims its runs.

    `threads` is the max number of sync functions that run at once, `transactions` the max number of open transactions.
    """

    reads_secrets = False

    def __init__(self, tasks: Mapping[str, Task], *, threads: int = 32, transactions: int = 10) -> None:
        self._tasks = tasks
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="hourbell-task")
        self._threads = Pool("threads", threads)
        self.pools: tuple[Pool, ...] = (self._threads,)
        self._transactions = TransactionLimit(transactions)
        self._limits = TimeLimits()
        self._late_logged: set[str] = set()  # names of tasks whose late result was logged

    @property
    def open_transactions(self) -> int:
        """The number of connections to the node's own database that tasks hold or are about to take."""
        return self._transactions.taken

    def lanes(self) -> tuple[str, ...]:
        return tuple(f"task:{name}" for name in self._tasks)

    def slots(self, lane: str) -> int | None:  # noqa: ARG002
        return None

    def pool(self, lane: str) -> Pool | None:
        """Return the thread pool for a sync function; an isolated one needs a thread that follows its process."""
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
            except Exception as error:  # nothing has started, so the run can be handed back
                facts = {"run": str(call.run.id), "job": call.definition.name, "error": str(error)}
                log.warning("last_success_unreadable", extra=facts)
                return Unstarted()
        limit = TimeLimit(self._limits, seconds)
        context = NodeAttemptContext(call, limit, self._transactions if task.is_async else None, last_success)
        if task.is_async:
            limit.on_overrun = context.log_overrun
        elif not task.isolate:
            limit.on_overrun = partial(self._keep_thread, task, call, context)
        try:
            outcome = await self._outcome(task, call, context, arguments, limit)
        except asyncio.CancelledError:
            if context.committed is None:
                raise
            return context.committed
        finally:
            if (writer := context.close()) is not None:
                await writer.write_last()
        if context.committed is None:
            return outcome
        if isinstance(outcome, Failed):  # too late: the transaction has committed the settlement
            log.warning("task_failed_after_commit", extra={"run": str(call.run.id), "error": outcome.error})
        elif isinstance(outcome, Succeeded) and outcome.result is not None and context.committed == Succeeded(None):
            self._log_late_result(task.name)
        return context.committed

    def _keep_thread(self, task: Task, call: Call, context: NodeAttemptContext) -> None:
        """Log that a function still runs after its timeout, and mark its thread as overdue."""
        context.log_overrun()
        self._threads.mark_overdue(call, task.name)

    def _log_late_result(self, name: str) -> None:
        """Log a result that came after the commit; once per task, because every call of the function does the same."""
        if name not in self._late_logged:
            self._late_logged.add(name)
            hint = "set run.result within run.transaction()"
            log.warning("task_result_after_commit", extra={"job": name, "hint": hint})

    async def _outcome(
        self, task: Task, call: Call, context: NodeAttemptContext, arguments: Mapping[str, object], limit: TimeLimit
    ) -> Outcome:
        try:
            with limit:  # from here on, so that it also bounds the wait for `begin`
                if not await call.begin():
                    return Unstarted()
                context.begin()
                run = run_of(call, context)
                if task.isolate:
                    return await self._in_process(task, run, context, arguments)
                if task.is_async:
                    result = await task.function(run, **arguments)
                else:
                    result = await self._in_thread(task, run, context, arguments)
                if result is not None and inspect.isawaitable(result):  # a sync function that returns a coroutine
                    result = await result
            if limit.is_over:  # the function ignored its cancellation
                return _no_end(call)
            return _SUCCEEDED if result is None else Succeeded(stored_result(result))
        except TimeoutError as error:
            if limit.is_over:
                return _no_end(call) if context.has_begun else Unstarted()
            return Failed(error_text(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it must end the attempt and not the node
            if task.is_async and isinstance(error, (KeyboardInterrupt, GeneratorExit)):
                raise  # on the event loop, these mean that the whole program shuts down
            return Failed(error_text(error))

    async def _in_thread(
        self, task: Task, run: Run, context: NodeAttemptContext, arguments: Mapping[str, object]
    ) -> object:
        answer: _Answer = await self._until_done(context.stop, _called, task.function, run, arguments)
        return answer.value()

    async def _in_process(
        self, task: Task, run: Run, context: NodeAttemptContext, arguments: Mapping[str, object]
    ) -> Outcome:
        from hourbell.targets.isolated import Isolated  # imported only by programs that use it

        isolated = Isolated(task.function, run, arguments, context.last_success)

        def stop() -> None:
            context.stop()
            isolated.stop()

        try:
            outcome: Outcome = await self._until_done(stop, isolated.perform)
            return outcome
        finally:
            isolated.close()

    async def _until_done(self, stop: Callable[[], None], function: Callable[..., Any], *arguments: object) -> Any:
        """Run a function in a thread and return its result.

        A thread cannot be stopped, so this waits for it in any case. The first cancellation calls `stop`, once.
        """
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
    return Failed(f"timed out after {call.definition.target.get('timeout', _TIMEOUT)}")


def run_of(call: Call, context: NodeAttemptContext) -> Run:
    """Build the `Run` object that a task gets as its first argument."""
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
        context,
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result or the exception of a function in a thread. A future does not carry every exception unchanged."""

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
