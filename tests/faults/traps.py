"""Traps: a process kills itself with SIGKILL at a named moment between a fact and its message.

The application of every node calls `install`; the campaign sets a trap, which is a file. Of the processes that reach
the moment, the one that removes the file dies there. Nothing of Hourbell is changed but that it dies.
"""

import os
import signal
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from hourbell.core.alerts.channel import StoredChannel
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Outcome
from hourbell.core.run.states import RunState
from hourbell.store.alerts import messages
from hourbell.store.alerts.watching import AlertStore, WatchResult
from hourbell.store.base import Saved, SettledAttempt
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.sqlite.engine import SqliteEngineStore
from hourbell.targets.base import Call
from hourbell.targets.channel.target import ChannelTarget

_STATES = {Event.OPENED: RunState.FAILED, Event.RESOLVED: RunState.SUCCEEDED}


class Moment(StrEnum):
    SETTLED = "the fact is committed, and nobody has watched it"
    PLANNED = "incident and message are written, and not committed"
    WATCHED = "incident and message are committed"
    CLAIMED = "the message is claimed, and not sent"
    SENT = "the receiver has answered, and that is not written"


class Trap:
    """The next moment at which a process dies: about a job and an event of its incident."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "trap"

    def set(self, moment: Moment, job_id: UUID, event: Event) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(_line(moment, job_id, event))
        new.replace(self._file)

    @property
    def is_set(self) -> bool:
        return self._file.exists()

    def pass_by(self, moment: Moment, job_id: object, event: Event) -> None:
        """Die if the trap is set for this."""
        try:
            if self._file.read_text() != _line(moment, job_id, event):
                return
            self._file.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def _line(moment: Moment, job_id: object, event: Event) -> str:
    return f"{moment.name} {job_id} {event}"


def install(folder: str) -> None:
    """Let this process die in the trap of a folder."""
    trap = Trap(Path(folder))
    for store in (PostgresEngineStore, SqliteEngineStore):
        _trap_settle(trap, store)
    _trap_messages(trap)
    _trap_watch(trap)
    _trap_delivery(trap)


def _trap_settle(trap: Trap, store: Any) -> None:
    settle = store.settle

    async def trapped(self: Any, settled: Sequence[SettledAttempt]) -> list[Saved]:
        saved: list[Saved] = await settle(self, settled)
        for each in settled:
            for event, state in _STATES.items():
                if each.settlement.state is state:
                    trap.pass_by(Moment.SETTLED, each.settlement.run.job_id, event)
        return saved

    store.settle = trapped


def _trap_messages(trap: Trap) -> None:
    plan_message = messages.plan_message

    async def trapped(session: Any, channel: StoredChannel, run_id: UUID, message: Message, *more: Any) -> None:
        await plan_message(session, channel, run_id, message, *more)
        if message.job is not None:
            trap.pass_by(Moment.PLANNED, message.job.id, message.event)

    messages.plan_message = trapped


def _trap_watch(trap: Trap) -> None:
    watch_jobs = AlertStore.watch_jobs

    async def trapped(self: AlertStore, *arguments: Any) -> list[WatchResult]:
        results = await watch_jobs(self, *arguments)
        for each in results:
            if each.event is not None:
                trap.pass_by(Moment.WATCHED, each.incident.job_id, each.event)
        return results

    AlertStore.watch_jobs = trapped  # type: ignore[method-assign]


def _trap_delivery(trap: Trap) -> None:
    deliver = ChannelTarget.deliver

    async def trapped(self: ChannelTarget, call: Call) -> Outcome:
        message = Message.from_json(call.payload)
        assert message.job is not None  # incidents of the scenario are about single jobs
        trap.pass_by(Moment.CLAIMED, message.job.id, message.event)
        outcome = await deliver(self, call)
        trap.pass_by(Moment.SENT, message.job.id, message.event)
        return outcome

    ChannelTarget.deliver = trapped  # type: ignore[method-assign]
