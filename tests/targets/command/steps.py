"""An attempt at a real command, as a node makes it, and the processes it leaves."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from hourbell import clock
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import command_of, lane_of
from hourbell.core.run.notes import Notes
from hourbell.core.run.settle import Failed, Outcome
from hourbell.sealing import CommandSeals, KeyRing
from hourbell.targets.command.target import CommandTarget
from tests.targets.calls import ReportingCall
from tests.targets.task.steps import NOW, RUN

SEALS = CommandSeals.of(KeyRing([b"k" * 32], bytes))


def a_definition(target: Mapping[str, Any], **more: Any) -> Definition:
    whole = {"type": "command", **target}
    return Definition("backup", "@daily", whole, lane=lane_of(whole), **more)


@dataclass
class Attempt:
    """An attempt at a command; `target` has its fields. Each has a run of its own."""

    target: Mapping[str, Any]
    payload: object = None
    seals: CommandSeals = SEALS
    seal: str | None = "its own"
    lane: str | None = None
    users: tuple[str, ...] = ()
    slots: int = 1
    is_interrupted: bool = False
    written: list[Notes] = field(default_factory=list)
    begins: int = 0

    def __post_init__(self) -> None:
        self.definition = a_definition(self.target, payload=self.payload)
        self.run = RUN._replace(id=uuid4(), lane=self.lane or self.definition.lane)
        self.node = CommandTarget(
            self.seals, labels=["default"], slots=self.slots, users=self.users, elapsed=clock.elapsed
        )

    @property
    def mark(self) -> str:
        return f"HOURBELL_RUN_ID={self.run.id}"

    def call(self) -> ReportingCall:
        command = command_of(self.definition)
        seal = self.seal
        if seal == "its own" and command is not None:
            seal = SEALS.seal(self.run.job_id, self.run.job_version, command)
        return ReportingCall(
            self.run,
            self.definition,
            NOW,
            seal=seal,
            note=self._note,
            begin=self._begin,
            is_interrupted=self.is_interrupted,
        )

    async def make(self) -> Outcome:
        try:
            return await self.node.deliver(self.call())
        finally:
            await self.node.close()

    async def error(self) -> str:
        outcome = await self.make()
        assert isinstance(outcome, Failed)
        return outcome.error

    @property
    def lines(self) -> list[str]:
        """The lines of the newest notes."""
        return [line.text for line in self.written[-1].log] if self.written else []

    def survivors(self) -> list[int]:
        """Return every process that was started with the variables of the run, wherever it is now."""
        return marked(self.mark)

    async def until_line(self, text: str) -> None:
        async with asyncio.timeout(20):
            while text not in self.lines:
                await asyncio.sleep(0.02)

    async def _note(self, notes: Notes) -> None:
        self.written.append(notes)

    async def _begin(self) -> bool:
        self.begins += 1
        return True


def marked(mark: str) -> list[int]:
    """Return every process whose environment has a variable; processes that have ended have none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in variables:
            found.append(int(path.parent.name))
    return found
