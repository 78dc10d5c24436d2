"""One node of the engine in this process: its loops, its heartbeat in a separate thread, and the jobs of its program.

Everything is opened at start, so a process may fork before.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from datetime import datetime

from hourbell.analytics import Analytics
from hourbell.control.programs import Program, Programs
from hourbell.engine.engine import Engine
from hourbell.engine.heartbeat import HeartbeatResult
from hourbell.ids import new_id
from hourbell.private_files import close_command, exposed_files
from hourbell.settings import Settings
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.base import Target
from hourbell.wiring import Stores

log = logging.getLogger("hourbell.service")

_CHECK_JOBS_SECONDS = 60.0  # seconds between two checks for jobs that are gone from the code
_TRY_AGAIN = 5.0  # seconds, while a job is refused or the database is unreachable
_LAST_COUNTS_SECONDS = 5.0  # seconds to write the last counts to Redis
_LAST_CHECK_SECONDS = 5.0  # seconds for a check that is in progress when the node stops


def warn_at_start(settings: Settings) -> None:
    """Log warnings that do not prevent a start: unknown variables, and secret files that every user may open."""
    for each in settings.unknown_variables:
        log.warning("variable_unknown", extra={"variable": each.name, "hint": each.message})
    if exposed := exposed_files(settings.database_files):
        hint = f"every user of this machine may open them; run: {close_command(exposed)}"
        log.warning("database_exposed", extra={"files": [str(path) for path in exposed], "hint": hint})


async def prepare(stores: Stores) -> datetime:
    """Migrate the database, check that it is writable, and read its time."""
    for migration in await stores.migrate():
        log.info("migration_applied", extra={"migration": f"{migration.number:04}_{migration.name}"})
    if (error := await stores.write_error()) is not None:
        raise error
    return await stores.engine.sample_time()


class HeartbeatThread:
    """Runs the heartbeat loop on its own event loop, so that a busy engine does not lose its leases."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = threading.Thread(target=self._work, name="hourbell-heartbeat", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        main = asyncio.get_running_loop()

        def hand_over(result: HeartbeatResult) -> None:
            with contextlib.suppress(RuntimeError):  # the engine's loop is closed
                main.call_soon_threadsafe(engine.on_beat, result)

        engine.heartbeat.on_beat = hand_over

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        if self._thread.ident is None:
            return
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._engine.heartbeat_loop.stop)
        await asyncio.to_thread(self._thread.join, 5)

    def _work(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._engine.heartbeat_loop.run()
        finally:
            await self._engine.heartbeat.close()


class Node:
    """An engine with its targets and the program whose tasks it runs."""

    def __init__(
        self,
        engine: Engine,
        targets: Sequence[Target],
        stores: Stores,
        program: Program,
        analytics: Analytics | None = None,
    ) -> None:
        self.engine = engine
        self._analytics = analytics
        self._targets = targets
        self._program = program
        self._programs = Programs(stores.control, now=engine.clock.now, new_id=new_id, live_for=engine.live_for)
        self._heartbeat = HeartbeatThread(engine)
        self._keeping: asyncio.Task[None] | None = None

    async def start(self, now: datetime) -> None:
        """Sync the program's jobs and start the loops. `now` is the database's time."""
        has_program = bool(self._program.jobs or self._program.tasks)
        if self._analytics is not None:
            self._analytics.start()
        try:
            if has_program:
                await self.engine.announce(now)
                await self._programs.announce(self._program, self.engine.node_id)
            is_whole = await self._programs.sync(self._program, now)
            self._heartbeat.start()
            await self.engine.start(with_heartbeat=False)
        except BaseException:  # else a node without loops would count as alive
            await self._heartbeat.stop()
            if has_program:
                await self.engine.retire()
            raise
        if has_program:
            self._keeping = asyncio.create_task(self._keep_jobs(is_whole=is_whole), name="hourbell-program")

    async def stop(self) -> None:
        """Shut down within the drain limit; no outcome is lost if a step fails."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping], timeout=_LAST_CHECK_SECONDS)
        await self.engine.stop()
        await self._heartbeat.stop()
        await self.engine.retire()
        if self._analytics is not None:
            await asyncio.to_thread(self._analytics.close, _LAST_COUNTS_SECONDS)
        for target in self._targets:
            await target.close()

    async def _keep_jobs(self, *, is_whole: bool) -> None:
        """Sync jobs that could not be synced at the start, and retire those that are gone from the code."""
        until_check = 0.0
        while True:
            wait = _TRY_AGAIN
            try:
                is_whole = is_whole or await self._programs.sync(self._program, self.engine.clock.now())
                if until_check <= 0:
                    await self._programs.retire_undefined(self._program, self.engine.node_id)
                    until_check = _CHECK_JOBS_SECONDS
                if is_whole:
                    wait = until_check
            except StoreUnavailable:
                pass
            except Exception:
                log.exception("program_sync_failed")
                wait = _CHECK_JOBS_SECONDS
            await asyncio.sleep(wait)
            until_check -= wait
