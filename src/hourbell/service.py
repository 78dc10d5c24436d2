"""One Hourbell process from start to stop: a node, and the HTTP server with the API."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import uuid4

import uvicorn
from starlette.types import ASGIApp

from hourbell import __version__, clock
from hourbell.api.app import build_app
from hourbell.api.connections import ConnectionLimits, ConnectionShare, share_of_descriptors
from hourbell.api.health import LoopAge, PoolUse, Readiness
from hourbell.api.http_protocol import RequestTimeouts, ServerConfig
from hourbell.api.middleware import RequestMiddleware
from hourbell.api.shared_answer import SharedAnswer
from hourbell.control.access import Access, refuse_to_listen
from hourbell.control.changes import Watch
from hourbell.control.programs import Program
from hourbell.core.values.networks import LOOPBACK
from hourbell.core.values.url import parse_url
from hourbell.descriptors import raise_descriptor_limit
from hourbell.engine.engine import Engine
from hourbell.engine.outside_ping import OutsidePing
from hourbell.engine.run_events import RunListener
from hourbell.metrics import Metrics
from hourbell.node import Node, prepare, warn_at_start
from hourbell.settings import Address, Settings, SettingsError
from hourbell.store.base import Backlog
from hourbell.store.errors import StoreLost, StoreReadOnly, StoreUnavailable, StoreUnwritable
from hourbell.targets.demo import DEMO_TASK
from hourbell.targets.http.transport import Request, Transport, TransportError
from hourbell.wiring import (
    Stores,
    build_access,
    build_analytics,
    build_authenticator,
    build_control,
    build_egress_policy,
    build_engine,
    build_outside,
    build_targets,
    load_keys,
    loopback_follows_access,
    open_stores,
)

log = logging.getLogger("hourbell.service")

SECOND_SIGNAL = 1
_ONE_SIGNAL = 0.3  # seconds: some programs send the same signal to a process and to its group
_BACKLOG = 1_024
_TIDY_SECONDS = 60
_FOLLOW_SECONDS = 2.0  # between two checks for open access
_KEYS_LAST = timedelta(hours=24)
_LOOPBACK_HINT = (
    "the server has a token now, so webhooks to this machine are refused; to allow them, set "
    "HOURBELL_ALLOW_NETWORKS=127.0.0.0/8,::1 and restart"
)
_FORGOTTEN_AT_ONCE = 10_000
_PING_SECONDS = 10.0  # for one ping
_TURN = 0.0001  # seconds that a busy thread blocks others; by default SQLite waits 5 ms for each statement
_BACKLOG_SECONDS = 0.5  # for which a response about the backlog is cached: it needs no token
_LAST_ANSWERS = 5  # seconds for requests in progress when the server closes


class CannotListen(Exception):
    """The address is in use, or not an address of this machine."""


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(slots=True)
class KnownAccess:
    """Caches whether the server has open access, so that callers need not wait for the database."""

    is_open: bool


@dataclass(frozen=True, slots=True)
class _Started:
    """The parts that run after the start."""

    node: Node
    access: Access
    known_access: KnownAccess
    watch: Watch
    app: ASGIApp
    readiness: Callable[[], Awaitable[Readiness]]


@dataclass(frozen=True, slots=True)
class ReadyServer:
    """The address of a started server, and if it is open to callers without a token."""

    url: str
    is_open: bool


OnReady = Callable[[ReadyServer], None]


class Service:
    def __init__(
        self,
        settings: Settings,
        program: Program,
        on_ready: OnReady | None = None,
        listener: RunListener | None = None,
    ) -> None:
        """`on_ready` is called once the server answers; `listener` gets the events of runs."""
        self._settings = settings
        self._program = program
        self._on_ready = on_ready
        self._listener = listener
        self._stopping = asyncio.Event()
        self._signalled_at = 0.0
        self._lost: StoreLost | None = None

    async def run(self) -> None:
        """Serve until a signal arrives.

        Raises CannotListen, StoreUnavailable, FunctionLoginRefused or MigrationError if it cannot start, and StoreLost
        if the database was deleted or replaced meanwhile.
        """
        share = _share_descriptors(self._settings)
        listening = _listen(*self._settings.http_addr, share.backlog)
        self._handle_signals()
        loop = asyncio.get_running_loop()

        def on_lost(error: StoreLost) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._lose, error)

        stores = open_stores(self._settings, on_lost=on_lost)
        starting = asyncio.create_task(self._start(stores, listening.getsockname()[1]))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await self._serve(starting.result(), stores, listening, share)
            await stores.close()
        starting.cancel()  # nothing is claimed yet, and a migration is applied as a whole or not at all
        stopping.cancel()
        log.info("stopped")
        _ignore_signals()
        if self._lost is not None:
            raise self._lost

    async def _start(self, stores: Stores, port: int) -> _Started:
        settings = self._settings
        log.info(
            "database_chosen", extra={"database": str(settings.database), "from": settings.origins["database_url"]}
        )
        now = await prepare(stores)
        warn_at_start(settings)
        known_access = KnownAccess(await build_access(stores, lambda: now).is_open())
        if (why := refuse_to_listen(settings.http_addr, known_access.is_open)) is not None:
            raise SettingsError(why)
        keys = await load_keys(settings, stores.secrets)
        if stores.transactions is not None:
            await stores.transactions.check()
        metrics = Metrics(with_job_names=settings.metrics_job_names)
        policy = build_egress_policy(settings, port=port, is_open=lambda: known_access.is_open)
        tasks = {DEMO_TASK.name: DEMO_TASK, **self._program.tasks}
        targets = build_targets(settings, stores, tasks, keys, policy)
        _log_networks(settings, known_access)
        analytics = build_analytics(settings, metrics)
        engine = build_engine(settings, stores, targets, metrics, self._listener, analytics)
        access = build_access(stores, engine.clock.now)
        control = build_control(settings, stores, keys, access, policy, engine.clock.now, analytics)
        authenticator = await build_authenticator(settings, stores, keys, access, engine.clock.now)
        backlog = SharedAnswer(lambda: _backlog(engine, stores), seconds=_BACKLOG_SECONDS, elapsed=clock.elapsed)

        async def readiness() -> Readiness:
            return await _readiness(engine, stores, backlog.get)

        app = build_app(control, authenticator, readiness, metrics, version=__version__)
        middleware = RequestMiddleware(
            app,
            new_id=lambda: str(uuid4()),
            elapsed=clock.elapsed,
            trusted_proxies=settings.trusted_proxies,
            public_path=settings.public_path,
        )
        node = Node(engine, targets, stores, self._program, analytics)
        await node.start(now)
        return _Started(node, access, known_access, control.watch, middleware, readiness)

    async def _serve(self, started: _Started, stores: Stores, listening: socket.socket, share: ConnectionShare) -> None:
        """Serve until the signal, then shut down, the HTTP server last: a drain can be watched."""
        settings = self._settings
        connections = ConnectionLimits(
            share.connections, settings.http_connections_per_address, settings.trusted_proxies, clock.elapsed
        )
        timeouts = RequestTimeouts(
            settings.http_header_timeout.total_seconds(), settings.http_body_timeout.total_seconds()
        )
        server = _server(started.app, connections, timeouts, share.backlog)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        tidying = asyncio.create_task(_tidy(started, stores))
        following = asyncio.create_task(_follow_access(self._settings, started.access, started.known_access))
        pinging = asyncio.create_task(_ping_outside(self._settings, started, stores))
        tune_interpreter()
        url = f"http://{Address(*listening.getsockname()[:2])}"
        log.info("serving", extra={"http": url})
        if self._on_ready is not None:
            self._on_ready(ReadyServer(url, is_open=started.known_access.is_open))
        await self._stopping.wait()
        await started.node.stop()
        tidying.cancel()
        following.cancel()
        pinging.cancel()
        await started.watch.close()
        with contextlib.suppress(StoreUnavailable):
            await started.access.flush()
        server.should_exit = True
        await serving

    def stop(self) -> None:
        self._stopping.set()

    def _lose(self, error: StoreLost) -> None:
        """Stop for good: later writes would be lost."""
        self._lost = error
        self._stopping.set()
        self._signalled_at = clock.elapsed()

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
            log.warning("forced_shutdown", extra={"signal": name})
            logging.shutdown()
            os._exit(SECOND_SIGNAL)  # leases run out by themselves; nothing is lost


def _server(
    app: ASGIApp,
    connections: ConnectionLimits | None = None,
    timeouts: RequestTimeouts = RequestTimeouts(),  # noqa: B008 - a frozen value
    backlog: int = _BACKLOG,
) -> _Server:
    """Return the HTTP server of an app; without connection limits for tests."""
    connections = connections or ConnectionLimits(_BACKLOG, 0, (), clock.elapsed)
    config = ServerConfig(app, connections, timeouts, backlog=backlog, timeout_graceful_shutdown=_LAST_ANSWERS)
    return _Server(config)


def _share_descriptors(settings: Settings) -> ConnectionShare:
    """Raise the descriptor limit, and give the HTTP server its share."""
    limit = raise_descriptor_limit()
    share = share_of_descriptors(settings.http_connections, limit, settings.slots)
    if share.connections < settings.http_connections:
        facts = {"limit": limit, "http_connections": share.connections, "asked": settings.http_connections}
        log.warning("descriptor_limit_low", extra=facts)
    return share


async def _tidy(started: _Started, stores: Stores) -> None:
    """Periodically record when tokens were used, and delete expired idempotency keys and sessions."""
    while True:
        await asyncio.sleep(_TIDY_SECONDS)
        with contextlib.suppress(StoreUnavailable):
            await started.access.flush()
            now = started.node.engine.clock.now()
            await stores.access.forget_keys(now - _KEYS_LAST, _FORGOTTEN_AT_ONCE)
            await stores.access.forget_sessions(now, _FORGOTTEN_AT_ONCE)


async def _ping_outside(settings: Settings, started: _Started, stores: Stores) -> None:
    """Ping the monitor of the settings, if there is one, until cancelled."""
    if settings.ping_url is None:
        return
    transport, _, user_agent = build_outside(settings)

    async def problems() -> list[str]:
        readiness = await started.readiness()
        waits = readiness.oldest_seconds
        is_late = waits is not None and waits > readiness.stuck_seconds
        return readiness.reasons(with_names=False) + ([f"a run has waited for {waits:.0f} s"] if is_late else [])

    ping = OutsidePing(
        settings.ping_url,
        stores.alerts,
        interval=settings.ping_interval,
        now=started.node.engine.clock.now,
        problems=problems,
        send=partial(_post_text, transport, user_agent),
    )
    while True:
        await ping.look()
        await asyncio.sleep(settings.ping_interval.total_seconds())


async def _post_text(transport: Transport, user_agent: str, url: str, text: str) -> str | None:
    """Post a text once; return an error, or None."""

    async def begin() -> bool:
        return True

    headers = {"User-Agent": user_agent, "Content-Type": "text/plain; charset=utf-8"}
    request = Request("POST", parse_url(url), headers, text.encode(), _PING_SECONDS)
    try:
        response = await transport.send(request, begin)
    except TransportError as error:
        return str(error)
    return None if 200 <= response.status < 300 else f"the monitor answered HTTP {response.status}"


def tune_interpreter() -> None:
    """Tune the interpreter for a dedicated process, once all permanent objects exist.

    The garbage collector then neither scans them nor runs after every few hundred new objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(_TURN)


async def _follow_access(settings: Settings, access: Access, known: KnownAccess) -> None:
    """Close loopback to webhooks soon after the first token was created, and open it again when access is opened."""
    while loopback_follows_access(settings):
        await asyncio.sleep(_FOLLOW_SECONDS)
        with contextlib.suppress(StoreUnavailable):
            is_open = await access.is_open()
            if is_open != known.is_open:
                known.is_open = is_open
                _log_networks(settings, known)
                if not is_open:
                    log.warning("loopback_closed", extra={"hint": _LOOPBACK_HINT})


def _log_networks(settings: Settings, access: KnownAccess) -> None:
    """Log the networks that webhooks may reach besides the public internet, and why."""
    networks, why = settings.allow_networks, settings.origins["allow_networks"]
    if loopback_follows_access(settings) and access.is_open:
        networks, why = LOOPBACK, "the server listens on loopback only and has no token"
    if networks:
        log.info("networks_allowed", extra={"networks": [str(network) for network in networks], "because": why})


def _ignore_signals() -> None:
    """Install no-op handlers, because the loop's own end with it: a late signal must not turn a clean shutdown into a
    failure.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)  # else the loop restores the default when it closes
        signal.signal(number, signal.SIG_IGN)


async def _backlog(engine: Engine, stores: Stores) -> Backlog:
    return await stores.engine.backlog(engine.clock.now(), engine.live_for)


async def _readiness(
    engine: Engine, stores: Stores, ask_backlog: Callable[[], Awaitable[Backlog]] | None = None
) -> Readiness:
    error = await stores.write_error()
    problem = None if error is None else _public_message(error)
    if engine.is_stopping:
        return Readiness(database_reachable=True, loops=(), is_stopping=True, database_problem=problem)
    loops = tuple(LoopAge(loop.name, loop.age, loop.max_age_of_pass) for loop in engine.loops)
    pools = tuple(PoolUse(pool.name, pool.size, pool.taken, dict(pool.overdue.most_common())) for pool in engine.pools)
    now = engine.clock.now()
    try:
        backlog = await (ask_backlog() if ask_backlog is not None else _backlog(engine, stores))
    except StoreReadOnly as refused:
        return Readiness(database_reachable=True, loops=loops, pools=pools, database_problem=str(refused))
    except StoreUnavailable:
        return Readiness(database_reachable=False, loops=loops, pools=pools, database_problem=problem)
    oldest = None if backlog.oldest_ready_at is None else (now - backlog.oldest_ready_at).total_seconds()
    return Readiness(
        True,
        loops,
        backlog.waiting,
        oldest,
        backlog.unserved,
        pools=pools,
        database_problem=problem,
        stuck_seconds=engine.stuck_after.total_seconds(),
    )


def _public_message(error: StoreUnavailable) -> str:
    """Return the public description of the database, for callers without a token: not its location."""
    return error.reason if isinstance(error, StoreUnwritable) else "the last write failed; the log says why"


def _listen(host: str, port: int, backlog: int = _BACKLOG) -> socket.socket:
    """Bind the address first: a second process on it fails at once."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        raise CannotListen(error.strerror or str(error)) from error
    return listening
