"""An attempt at a task, as a node makes it, and its notes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hourbell.core.job.definition import Definition
from hourbell.core.run.notes import Notes
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Failed, Outcome
from hourbell.core.run.states import Kind, RunState
from hourbell.targets.base import Call, Transaction
from hourbell.targets.task import Task, TaskTarget
from tests.targets.calls import ReportingCall

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUN = Run(
    UUID(int=1),
    UUID(int=2),
    3,
    Kind.SCHEDULED,
    NOW - SECOND,
    NOW,
    NOW + timedelta(1),
    RunState.RUNNING,
    "task:job",
    2,
    0,
    0,
)


@dataclass
class Opened:
    """A transaction that a test looks into."""

    answer: bool = True
    connection: object = "the connection"
    settled: list[Outcome] = field(default_factory=list)
    is_committed: bool | None = None

    async def settle(self, outcome: Outcome) -> bool:
        self.settled.append(outcome)
        return self.answer

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Transaction]:
        try:
            yield self
        except BaseException:
            self.is_committed = False
            raise
        self.is_committed = True


@dataclass
class Attempt:
    """An attempt at a function, and the notes it wrote."""

    function: Callable[..., Any]
    args: dict[str, object] = field(default_factory=dict)
    timeout: str = "60s"
    isolate: bool = False
    transaction: Opened = field(default_factory=Opened)
    written: list[Notes] = field(default_factory=list)
    fails_to_write: bool = False
    is_stopped: bool = False
    previous_success_at: datetime | None = None
    fails_to_read: bool = False
    asked_for_success: int = 0
    begins: int = 0

    async def make(self, times: int = 1) -> Outcome:
        """Return the outcome of the last of this many attempts of one node."""
        target = TaskTarget({"job": Task("job", self.function, isolate=self.isolate)}, threads=1)
        try:
            outcomes = [await target.deliver(self._call()) for _ in range(times)]
            return outcomes[-1]
        finally:
            await target.close()

    def begun(self) -> asyncio.Task[Outcome]:
        return asyncio.create_task(self.make())

    def stop(self, making: asyncio.Task[Outcome]) -> None:
        """Stop it as a node does."""
        self.is_stopped = True
        making.cancel()

    async def error(self) -> str:
        """Return the error of the failed attempt."""
        outcome = await self.make()
        assert isinstance(outcome, Failed), outcome
        return outcome.error

    @property
    def lines(self) -> list[str]:
        return [line.text for line in self.written[-1].log] if self.written else []

    def _call(self) -> Call:
        target = {"type": "task", "name": "job", "args": self.args, "timeout": self.timeout}
        definition = Definition("job", "* * * * *", target, payload={"days": 3})

        async def note(notes: Notes) -> None:
            if self.fails_to_write:
                raise ConnectionError("unreachable")
            self.written.append(notes)

        def transaction() -> AbstractAsyncContextManager[Transaction]:
            return self.transaction.opened()

        async def begin() -> bool:
            self.begins += 1
            return True

        async def last_success() -> datetime | None:
            self.asked_for_success += 1
            if self.fails_to_read:
                raise ConnectionError("unreachable")
            return self.previous_success_at

        return ReportingCall(
            RUN,
            definition,
            NOW,
            begin=begin,
            transaction=transaction,
            note=note,
            is_stopped=lambda: self.is_stopped,
            last_success=last_success,
        )
