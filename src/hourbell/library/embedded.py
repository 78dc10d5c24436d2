"""A scheduler embedded in a program: a node without an HTTP server, or only a connection to the database.

The node runs only tasks of the program, and delivers the messages of alerts that its settings allow; `hourbell serve`
runs webhooks and SQL functions.
"""

import asyncio
import logging
import os
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from hourbell import clock
from hourbell.control.programs import Programs
from hourbell.ids import new_id
from hourbell.library.run_time import RunTimeJobs
from hourbell.logs import readable_messages
from hourbell.metrics import Metrics
from hourbell.node import Node, prepare, warn_at_start
from hourbell.settings import load_settings
from hourbell.store.base import LIVE_FOR
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.base import Target
from hourbell.targets.task import TaskTarget
from hourbell.wiring import (
    Stores,
    build_analytics,
    build_engine,
    build_own_channels,
    find_own_channels,
    open_stores,
)

if TYPE_CHECKING:
    from hourbell.library.scheduler import Scheduler
    from hourbell.targets.channel.target import OwnChannels

log = logging.getLogger("hourbell.library")

_FIND_CHANNELS_SECONDS = 15.0


class Embedded:
    def __init__(self, scheduler: "Scheduler", *, database_url: str | None, has_engine: bool) -> None:
        self._scheduler = scheduler
        self._settings = load_settings(arguments={"database_url": database_url}, refuse_misspelled=False)
        self._has_engine = has_engine
        self._pid = os.getpid()
        self._stores: Stores | None = None
        self._node: Node | None = None
        self._run_time: RunTimeJobs | None = None
        self._finding: asyncio.Task[None] | None = None
        self.loop = asyncio.get_running_loop()
        self._now = clock.now
        self._logs = ExitStack()

    @property
    def is_of_this_process(self) -> bool:
        """True if it was created in this process, not in the parent that this one was forked from."""
        return self._pid == os.getpid()

    @property
    def run_time(self) -> RunTimeJobs:
        """The jobs at run time; call its methods on `loop`."""
        assert self._run_time is not None
        return self._run_time

    async def start(self) -> None:
        """Connect, sync the jobs and start the node, unless this process only defines jobs (`engine=False`)."""
        self._logs.enter_context(readable_messages())
        stores = self._stores = open_stores(self._settings)
        try:
            now = await prepare(stores)
            warn_at_start(self._settings)
            await self._begin(stores, now)
        except BaseException:
            await self._scheduler.listeners.stop()
            await stores.close()
            self._logs.close()
            raise
        database, jobs, tasks = str(self._settings.database), len(self._scheduler.jobs), len(self._scheduler.tasks)
        log.info("scheduler_started", extra={"database": database, "jobs": jobs, "tasks": tasks})

    async def _begin(self, stores: Stores, now: datetime) -> None:
        if self._has_engine:
            targets = [
                TaskTarget(
                    self._scheduler.tasks,
                    threads=self._settings.sync_threads,
                    transactions=self._settings.sql_connections,
                )
            ]
            channels = build_own_channels(self._settings, stores)
            await find_own_channels(stores, channels, now)
            all_targets: list[Target] = [*targets, channels]
            metrics, listeners = Metrics(), self._scheduler.listeners
            analytics = build_analytics(self._settings, metrics)
            engine = build_engine(self._settings, stores, all_targets, metrics, listeners, analytics)
            self._node = Node(engine, all_targets, stores, self._scheduler, analytics)
            listeners.start()
            await self._node.start(now)
            self._now = engine.clock.now
            self._finding = asyncio.create_task(self._find_channels(stores, channels), name="hourbell-channels")
        else:
            ahead = now - clock.now()
            self._now = lambda: clock.now() + ahead
            live_for = max(LIVE_FOR, self._settings.lease)
            programs = Programs(stores.control, now=self._now, new_id=new_id, live_for=live_for)
            await programs.store_jobs(self._scheduler, now)
        self._run_time = RunTimeJobs(
            self._scheduler,
            stores.control,
            stores.lists,
            stores.secrets,
            now=self._now,
            live_for=max(LIVE_FOR, self._settings.lease),
        )

    async def _find_channels(self, stores: Stores, channels: "OwnChannels") -> None:
        """Look from time to time for channels that this node can deliver."""
        while True:
            await asyncio.sleep(_FIND_CHANNELS_SECONDS)
            with suppress(StoreUnavailable):  # the engine reports that
                await find_own_channels(stores, channels, self._now())

    async def stop(self) -> None:
        """Shut down gracefully within the drain limit, and close the connections."""
        with self._logs:
            if self._finding is not None:
                self._finding.cancel()
                await asyncio.wait([self._finding])
            if self._node is not None:
                await self._node.stop()
            await self._scheduler.listeners.stop()
            if self._stores is not None:
                await self._stores.close()
