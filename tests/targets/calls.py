"""A scripted call, for tests of targets without a node."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from hourbell.core.job.definition import Definition
from hourbell.core.run.notes import Notes
from hourbell.core.run.run import Run
from hourbell.sealing import Sealed
from hourbell.targets.base import Call, Transaction


class ReportingCall(Call):
    def __init__(
        self,
        run: Run,
        definition: Definition,
        now: datetime,
        *,
        begin: Callable[[], Awaitable[bool]] | None = None,
        transaction: Callable[[], AbstractAsyncContextManager[Transaction]] | None = None,
        secrets: tuple[Sealed, ...] = (),
        note: Callable[[Notes], Awaitable[None]] | None = None,
        is_stopped: Callable[[], bool] | None = None,
        last_success: Callable[[], Awaitable[datetime | None]] | None = None,
        seal: str | None = None,
        is_interrupted: bool = False,
    ) -> None:
        super().__init__(run, definition, now, secrets)
        self._begin = begin or super().begin
        self._transaction = transaction or super().transaction
        self._note = note or super().note
        self._is_stopped = is_stopped or super().is_stopped
        self._last_success = last_success or super().last_success
        self._seal = seal
        self._is_interrupted = is_interrupted

    async def begin(self) -> bool:
        return await self._begin()

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    async def note(self, notes: Notes) -> None:
        await self._note(notes)

    def is_stopped(self) -> bool:
        return self._is_stopped()

    async def last_success(self) -> datetime | None:
        return await self._last_success()

    def is_interrupted(self) -> bool:
        return self._is_interrupted

    async def command_seal(self) -> str | None:
        return self._seal
