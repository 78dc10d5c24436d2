"""The target that runs commands on the node's machine.

A command is code. So a node has this target only if its settings allow commands, and runs only what control has sealed:
this job, in this version, with exactly this command. That is checked here and nowhere else, for every attempt, so that
the right to write Hourbell's tables is not the right to run programs.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from hourbell.core.job.command import CommandCall, lane_of_label
from hourbell.core.job.target import TargetError, command_of, parse_target
from hourbell.core.run.run import trigger_of
from hourbell.core.run.settle import Failed, Outcome, Unstarted
from hourbell.core.schedule.preview import rfc3339
from hourbell.sealing import CommandSeals
from hourbell.targets.base import Call
from hourbell.targets.command.environment import CannotPrepare, account_of, environment_of, folder_of
from hourbell.targets.command.execution import Ended, Execution
from hourbell.targets.command.outcome import outcome_of, remarks_on
from hourbell.targets.command.output import Output
from hourbell.targets.pool import Pool
from hourbell.targets.task_notes import NoteWriter

log = logging.getLogger("hourbell.targets")

_MAX_PAYLOAD_BYTES = 32_768  # in a variable; stdin has all of it
_STOP_SECONDS = 8.0  # an interrupted command is killed after five
_KILL_SECONDS = 15.0


class CommandTarget:
    """Runs commands whose label this node carries, at most `slots` at once."""

    reads_secrets = False

    def __init__(
        self,
        seals: CommandSeals,
        *,
        labels: Collection[str],
        slots: int,
        users: Collection[str],
        elapsed: Callable[[], float],
    ) -> None:
        self._seals = seals
        self._labels = tuple(labels)
        self._users = frozenset(users)
        self._elapsed = elapsed
        self._slots = Pool("commands", slots, stop_seconds=_STOP_SECONDS)
        self.pools: tuple[Pool, ...] = (self._slots,)
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="hourbell-command")
        self._running: dict[Execution, asyncio.Future[Ended]] = {}

    def lanes(self) -> tuple[str, ...]:
        return tuple(lane_of_label(label) for label in self._labels)

    def slots(self, lane: str) -> int | None:  # noqa: ARG002
        return None

    def pool(self, lane: str) -> Pool | None:  # noqa: ARG002
        return self._slots

    async def deliver(self, call: Call) -> Outcome:
        try:
            command = await self._verified(call)
        except Exception as error:  # nothing has started, so the run can be handed back
            facts = {"run": str(call.run.id), "job": call.definition.name, "error": str(error) or type(error).__name__}
            log.warning("command_seal_unreadable", extra=facts)
            return Unstarted()
        if isinstance(command, Failed):
            return command
        if not self._slots.enter():
            return Unstarted()
        try:
            return await self._deliver(call, command)
        finally:
            self._slots.leave(call)

    async def close(self) -> None:
        """End the commands that still run; kill them if they take too long."""
        for execution in self._running:
            execution.stop(soon=True)
        await self._wait(_STOP_SECONDS)
        for execution in self._running:
            execution.kill()
        await self._wait(_KILL_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)

    async def _verified(self, call: Call) -> CommandCall | Failed:
        """Return the command of a call if it is sealed for the run's job and version; else the permanent failure."""
        run = call.run
        command = command_of(call.definition)
        if command is None:
            return _refused(_why_unreadable(call))
        if run.lane != command.lane:
            return _refused(f"the run is in the lane {run.lane}, and its command in {command.lane}; replay the run")
        seal = await call.command_seal()
        if not self._seals.verify(seal, run.job_id, run.job_version, command):
            return _refused(
                f"the command of version {run.job_version} of this job is not sealed with a key of this node, so it "
                "was not run: SQL has changed the job, or the key was replaced. Check the command, approve it as an "
                f"admin (`hourbell job edit {call.definition.name} --approve-command`), and replay the run"
            )
        return command

    async def _deliver(self, call: Call, command: CommandCall) -> Outcome:
        try:
            # In a thread, because users and files may be on a slow network.
            specification = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._specification, call, command
            )
        except CannotPrepare as error:
            return Failed(str(error), begun=False)
        if not await call.begin():
            return Unstarted()
        output = Output()
        began_at, began = call.now, self._elapsed()
        writer = NoteWriter(call, asyncio.get_running_loop(), output.notes)

        def on_output(data: bytes) -> None:
            output.add(began_at + timedelta(seconds=self._elapsed() - began), data)
            writer.source_changed()

        variables = specification["environment"]
        marks = {name: variables[name] for name in ("HOURBELL_RUN_ID", "HOURBELL_ATTEMPT")}
        execution = Execution(specification, marks, on_output, self._elapsed)
        try:
            ended = await self._until_ended(execution, call)
            for text in remarks_on(command, ended):
                output.remark(began_at + timedelta(seconds=self._elapsed() - began), text)
                writer.source_changed()
        finally:
            writer.close()
            await writer.write_last()
        return outcome_of(command, ended, output)

    async def _until_ended(self, execution: Execution, call: Call) -> Ended:
        """Run a command in a thread until nothing of it is left, also if the attempt is cancelled: that stops it."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, execution.run)
        self._running[execution] = running
        stopped: asyncio.CancelledError | None = None
        try:
            while not running.done():
                try:
                    await asyncio.wait([running])
                except asyncio.CancelledError as error:
                    execution.stop(soon=call.is_interrupted())
                    stopped = error
        finally:
            del self._running[execution]
        if stopped is not None:
            raise stopped
        return running.result()

    def _specification(self, call: Call, command: CommandCall) -> dict[str, Any]:
        """Return what the supervisor is told; raise CannotPrepare if this node cannot run the command."""
        account = account_of(command.user, self._users)
        payload = call.payload
        text = None if payload is None else json.dumps(payload)
        user = None
        if account.groups is not None:
            user = {"name": account.name, "uid": account.uid, "gid": account.gid, "groups": account.groups}
        limits = {name: value for name, value in asdict(command.limits).items() if value is not None}
        if command.limits.cpu is not None:
            limits["cpu"] = max(1, int(command.limits.cpu.total_seconds()))
        return {
            "arguments": command.arguments,
            "environment": environment_of(command, account, os.environ, _variables(call, text)),
            "cwd": folder_of(command, account),
            "user": user,
            "umask": command.umask,
            "nice": command.nice,
            "limits": limits,
            "stdin": text if command.stdin is None else command.stdin,
            "timeout": command.timeout.total_seconds(),
            "kill_after": command.kill_after.total_seconds(),
        }


def _variables(call: Call, payload: str | None) -> dict[str, str]:
    run = call.run
    variables = {
        "HOURBELL_RUN_ID": str(run.id),
        "HOURBELL_JOB": call.definition.name,
        "HOURBELL_SCHEDULED_AT": rfc3339(run.scheduled_at),
        "HOURBELL_TRIGGER": trigger_of(run, call.definition),
        "HOURBELL_ATTEMPT": str(run.attempt),
    }
    if payload is not None and len(payload) <= _MAX_PAYLOAD_BYTES:
        variables["HOURBELL_PAYLOAD"] = payload
    return variables


def _refused(why: str) -> Failed:
    return Failed(why, retryable=False, begun=False)


def _why_unreadable(call: Call) -> str:
    try:
        parse_target(call.definition.target)
    except TargetError as error:
        return f"the target cannot be read: {error}"
    return "the job has no command that may be run: its target has another type, or a program owns it"
