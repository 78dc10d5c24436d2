"""A scheduler embedded in a program: a node without an HTTP server, or only a connection to the database.

The node runs only tasks of the program, and delivers the messages of alerts that its settings allow; `hourbell serve`
runs webhooks and SQL functions.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4, uuid5

from hourbell import clock
from hourbell.control.jobs import Jobs
from hourbell.control.programs import Programs
from hourbell.control.rules import Rules
from hourbell.control.secrets import Secrets
from hourbell.control.user import User
from hourbell.core.access.roles import Role
from hourbell.core.schedule.preview import rfc3339
from hourbell.core.values.field_errors import BodyError
from hourbell.ids import new_id
from hourbell.library.declaring import Duration, aware, check_function, describe, duration_of, json_of, task_target
from hourbell.logs import readable_messages
from hourbell.metrics import Metrics
from hourbell.node import Node, prepare, warn_at_start
from hourbell.settings import load_settings
from hourbell.store.base import LIVE_FOR
from hourbell.store.control.bundles import owner_text
from hourbell.store.errors import Conflict, StoreUnavailable
from hourbell.targets.base import Target
from hourbell.targets.task import TaskTarget
from hourbell.wiring import Stores, build_engine, build_own_channels, find_own_channels, open_stores

if TYPE_CHECKING:
    from hourbell.library.scheduler import Scheduler
    from hourbell.targets.channel.target import OwnChannels

log = logging.getLogger("hourbell.library")

_KEYS = UUID("9b1d2f2c-54a4-5a1b-8b53-9f6b1a3f7d21")  # UUIDv5 namespace of names derived from a caller's key
_SOON = timedelta(milliseconds=100)
_FIND_CHANNELS_SECONDS = 15.0


class Embedded:
    def __init__(self, scheduler: "Scheduler", *, database_url: str | None, has_engine: bool) -> None:
        self._scheduler = scheduler
        self._settings = load_settings(arguments={"database_url": database_url}, refuse_misspelled=False)
        self._has_engine = has_engine
        self._pid = os.getpid()
        self._stores: Stores | None = None
        self._node: Node | None = None
        self._jobs: Jobs | None = None
        self._finding: asyncio.Task[None] | None = None
        self._now = clock.now
        self._logs = ExitStack()

    @property
    def is_of_this_process(self) -> bool:
        """True if it was created in this process, not in the parent that this one was forked from."""
        return self._pid == os.getpid()

    async def start(self) -> None:
        """Connect, sync the jobs and start the node, unless this process only defines jobs (`engine=False`)."""
        self._logs.enter_context(readable_messages())
        stores = self._stores = open_stores(self._settings)
        try:
            now = await prepare(stores)
            warn_at_start(self._settings)
            await self._begin(stores, now)
        except BaseException:
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
            engine = build_engine(self._settings, stores, all_targets, Metrics())
            self._node = Node(engine, all_targets, stores, self._scheduler)
            await self._node.start(now)
            self._now = engine.clock.now
            self._finding = asyncio.create_task(self._find_channels(stores, channels), name="hourbell-channels")
        else:
            ahead = now - clock.now()
            self._now = lambda: clock.now() + ahead
            live_for = max(LIVE_FOR, self._settings.lease)
            programs = Programs(stores.control, now=self._now, new_id=new_id, live_for=live_for)
            await programs.store_jobs(self._scheduler, now)
        rules = Rules(forbids=lambda *_: None)
        secrets = Secrets(stores.secrets, stores.control, None, new_id=new_id, random_bytes=os.urandom)
        self._jobs = Jobs(stores.control, stores.lists, rules=rules, secrets=secrets, now=self._now, new_id=new_id)

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
            if self._stores is not None:
                await self._stores.close()

    async def trigger(self, name: str, payload: object, key: str | None) -> UUID:
        assert self._jobs is not None
        payload = json_of("the payload", payload)
        try:
            return await self._jobs.trigger(name, self._user(), payload=payload, key=key)
        except Conflict as conflict:
            raise LookupError(str(conflict)) from None

    async def once(
        self,
        task: Callable[..., Any] | str,
        *,
        at: datetime | None,
        delay: Duration | None,
        args: Mapping[str, object],
        payload: object,
        timeout: Duration,
        name: str | None,
        key: str | None,
    ) -> str:
        assert self._jobs is not None
        called = self._called(task, args)
        instant = self._instant(at, delay)
        name = name or _name_of(called, uuid4() if key is None else uuid5(_KEYS, f"{self._scheduler.source}/{key}"))
        body = {
            "name": name,
            "schedule": f"at {rfc3339(instant)}",
            "target": task_target(called, json_of("args", dict(args)), timeout),
            "payload": json_of("the payload", payload),
        }
        try:
            await self._jobs.create(body, self._user())
        except BodyError as error:
            raise ValueError(describe(error)) from None
        except Conflict as conflict:
            if key is None or not await self._calls(name, called):
                raise ValueError(f"{name!r} cannot be called once: {conflict}") from None
        return name

    async def _calls(self, name: str, task: str) -> bool:
        """Return True if the job with this name calls the task: an earlier call with the same key created it."""
        assert self._jobs is not None
        target = (await self._jobs.get(name)).job.definition.target
        return (target.get("type"), target.get("name")) == ("task", task)

    def _called(self, task: Callable[..., Any] | str, args: Mapping[str, object]) -> str:
        """Return the name of a task; raise ValueError if the function is no task, or is known and rejects the args."""
        name = task if isinstance(task, str) else self._scheduler.name_of(task)
        known = self._scheduler.tasks.get(name)
        if known is None and not isinstance(task, str):
            raise ValueError(f"{name} is not a task; write @scheduler.task() above it")
        if known is not None:
            check_function(name, known.function, args)
        return name

    def _instant(self, at: datetime | None, delay: Duration | None) -> datetime:
        if (at is None) == (delay is None):
            raise ValueError("give either at= (an aware datetime) or delay= (such as '90s')")
        now = self._now()
        if at is None:
            assert delay is not None
            at = now + duration_of("delay", delay)
        at = max(
            aware("at", at).astimezone(UTC), now + _SOON
        )  # a job never fires for past times: move a past one to just after now
        return at.replace(microsecond=0) + (timedelta(seconds=1) if at.microsecond else timedelta(0))

    def _user(self) -> User:
        return User(owner_text("code", self._scheduler.source), Role.ADMIN)


def _name_of(task: str, number: UUID) -> str:
    """Return a name for a job that calls a task once."""
    return f"once-{re.sub('[^A-Za-z0-9_]+', '-', task)[-50:].strip('-')}-{number.hex[:16]}"
