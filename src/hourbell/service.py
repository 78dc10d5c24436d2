"""One Hourbell process from start to stop: the engine, its heartbeat in a thread of its own, a small HTTP server."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import uvicorn
from starlette.types import ASGIApp

from hourbell import __version__, clock
from hourbell.api.app import build_app
from hourbell.api.health import LoopAge, Readiness
from hourbell.api.middleware import Edge
from hourbell.control.access import Access, refuse_to_listen
from hourbell.control.changes import Watch
from hourbell.engine.engine import Engine
from hourbell.engine.heartbeat import HeartbeatResult
from hourbell.library.scheduler import Scheduler
from hourbell.library.sync import sync_jobs
from hourbell.metrics import Metrics
from hourbell.settings import DEFAULT, Address, Settings, SettingsError
from hourbell.store.base import StoreUnavailable
from hourbell.targets.base import Target
from hourbell.wiring import (
    Stores,
    allowed_networks,
    build_access,
    build_control,
    build_door,
    build_engine,
    build_gate,
    build_targets,
    load_keys,
    open_stores,
)

log = logging.getLogger("hourbell.service")

SECOND_SIGNAL = 1
_ONE_SIGNAL = 0.3  # seconds: some programs send the same signal to a process and to its group
_BACKLOG = 1_024
_TIDY_SECONDS = 60
_KEYS_LAST = timedelta(hours=24)
_FORGOTTEN_AT_ONCE = 10_000
_LAST_ANSWERS = 5  # seconds for requests that are being answered when the server closes


class CannotListen(Exception):
    """The address is taken, or not this machine's."""


class HeartbeatThread:
    """Runs the heartbeat loop on an event loop of its own, so that a busy engine does not cost its leases."""

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


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class _Node:
    """What runs once the start is done."""

    engine: Engine
    heartbeat: HeartbeatThread
    targets: Sequence[Target]
    access: Access
    watch: Watch
    app: ASGIApp


class Service:
    def __init__(self, settings: Settings, scheduler: Scheduler) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._stopping = asyncio.Event()
        self._signalled_at = 0.0

    async def run(self) -> None:
        """Serve until a signal. Raises CannotListen, StoreUnavailable or MigrationError if it cannot start."""
        listening = _listen(*self._settings.http_addr)
        self._handle_signals()
        stores = open_stores(self._settings)
        starting = asyncio.create_task(self._start(stores, listening.getsockname()[1]))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await self._serve(starting.result(), stores, listening)
            await stores.close()
        starting.cancel()  # nothing is claimed yet, and a change of the schema is made whole or not at all
        stopping.cancel()
        log.info("stopped")
        _ignore_signals()

    async def _start(self, stores: Stores, port: int) -> _Node:
        settings = self._settings
        log.info(
            "database_chosen", extra={"database": str(settings.database), "from": settings.origins["database_url"]}
        )
        for migration in await stores.migrate():
            log.info("migration_applied", extra={"migration": f"{migration.number:04}_{migration.name}"})
        now = await stores.engine.sample_time()
        if (why := refuse_to_listen(settings.http_addr, await build_access(stores, lambda: now).is_open())) is not None:
            raise SettingsError(why)
        await sync_jobs(stores.control, self._scheduler.jobs, now, uuid4)
        keys = await load_keys(settings, stores.secrets)
        if stores.transactions is not None:
            await stores.transactions.check()
        metrics = Metrics(with_job_names=settings.metrics_job_names)
        gate = build_gate(settings, port=port)
        targets = build_targets(settings, self._scheduler, keys, gate)
        _tell_of_networks(settings)
        engine = build_engine(settings, stores, targets, metrics)
        access = build_access(stores, engine.clock.now)
        control = build_control(settings, stores, keys, access, gate, engine.clock.now)
        door = await build_door(settings, stores, keys, access, engine.clock.now)
        app = build_app(control, door, lambda: _readiness(engine, stores), metrics, version=__version__)
        edge = Edge(
            app,
            new_id=lambda: str(uuid4()),
            elapsed=clock.elapsed,
            trusted_proxies=settings.trusted_proxies,
        )
        heartbeat = HeartbeatThread(engine)
        heartbeat.start()
        await engine.start(with_heartbeat=False)
        return _Node(engine, heartbeat, targets, access, control.watch, edge)

    async def _serve(self, node: _Node, stores: Stores, listening: socket.socket) -> None:
        """Answer until the signal; then stop in order, with the HTTP server last: a drain can be watched."""
        server = _server(node.app)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        tidying = asyncio.create_task(_tidy(node, stores))
        _spare_the_collector()
        log.info("serving", extra={"http": f"http://{Address(*listening.getsockname()[:2])}"})
        await self._stopping.wait()
        await node.engine.stop()
        await node.heartbeat.stop()
        await node.engine.retire()
        for target in node.targets:
            await target.close()
        tidying.cancel()
        await node.watch.close()
        with contextlib.suppress(StoreUnavailable):
            await node.access.flush()
        server.should_exit = True
        await serving

    def stop(self) -> None:
        self._stopping.set()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if not self._stopping.is_set():
            log.info("stopping", extra={"signal": name})
            self._stopping.set()
            self._signalled_at = clock.elapsed()
        elif clock.elapsed() - self._signalled_at > _ONE_SIGNAL:
            log.warning("stopping_at_once", extra={"signal": name})
            logging.shutdown()
            os._exit(SECOND_SIGNAL)  # leases run out by themselves; nothing is lost


def _server(app: ASGIApp) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_LAST_ANSWERS,
        )
    )


async def _tidy(node: _Node, stores: Stores) -> None:
    """Now and then write down when tokens were used, and forget what was asked for long ago."""
    while True:
        await asyncio.sleep(_TIDY_SECONDS)
        with contextlib.suppress(StoreUnavailable):
            await node.access.flush()
            await stores.access.forget_kept(node.engine.clock.now() - _KEYS_LAST, _FORGOTTEN_AT_ONCE)


def _spare_the_collector() -> None:
    """What is there now stays: the collector need not walk over it, nor look at every few hundred new objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _tell_of_networks(settings: Settings) -> None:
    """Say where webhooks may go besides the public internet, and why."""
    networks = allowed_networks(settings)
    if networks:
        given = settings.origins["allow_networks"]
        why = "the server listens on loopback only" if given == DEFAULT else given
        log.info("networks_allowed", extra={"networks": [str(network) for network in networks], "because": why})


def _ignore_signals() -> None:
    """The handlers end with the event loop: a late signal must not make a failure of an orderly end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)  # else the loop puts back the default when it closes
        signal.signal(number, signal.SIG_IGN)


async def _readiness(engine: Engine, stores: Stores) -> Readiness:
    loops = tuple(LoopAge(loop.name, loop.age, loop.longest_age) for loop in engine.loops)
    now = engine.clock.now()
    try:
        backlog = await stores.engine.backlog(now, engine.live_for)
    except StoreUnavailable:
        return Readiness(database_reachable=False, loops=loops)
    oldest = None if backlog.oldest_ready_at is None else (now - backlog.oldest_ready_at).total_seconds()
    return Readiness(True, loops, backlog.waiting, oldest, backlog.unserved)


def _listen(host: str, port: int) -> socket.socket:
    """Take the address before anything else is done: a second process on it is told so at once."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise CannotListen(error.strerror or str(error)) from error
    return listening
