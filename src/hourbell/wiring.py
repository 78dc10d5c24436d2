"""Builds everything from the settings. The only module that names concrete classes."""

import logging
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from ssl import SSLContext, SSLError
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from hourbell import __version__, clock
from hourbell.analytics import Analytics
from hourbell.control.access import Access
from hourbell.control.alert_bundles import AlertBundles
from hourbell.control.alerts import Alerts
from hourbell.control.applying import Applying
from hourbell.control.backfill import Backfills
from hourbell.control.changes import Watch
from hourbell.control.control import Control
from hourbell.control.demo import Demo
from hourbell.control.history import History
from hourbell.control.imports import Imports
from hourbell.control.job_bulk import JobBulk
from hourbell.control.jobs import Jobs
from hourbell.control.ledger import Ledger
from hourbell.control.rules import Rules
from hourbell.control.run_counts import RunCounts
from hourbell.control.runs import Runs
from hourbell.control.secrets import MAKE_KEY, Secrets, WrongKeys, check_keys
from hourbell.control.timeline import Timelines
from hourbell.core.access.audit_chain import SealKeys
from hourbell.core.doctor.deployment import check_deployment
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.deployment import describe_deployment
from hourbell.engine.engine import Engine, EngineSettings
from hourbell.engine.run_events import RunListener
from hourbell.ids import new_id
from hourbell.metrics import Metrics
from hourbell.private_files import exposure, read_with_mode
from hourbell.sealing import CommandSeals, KeyRing, make_key_file, parse_keys
from hourbell.settings import DEFAULT, Settings, SettingsError, servers_of
from hourbell.store.alerts.verbs import AlertVerbs
from hourbell.store.alerts.watching import AlertStore
from hourbell.store.base import LIVE_FOR, EngineStore, TransactionStore
from hourbell.store.control.access import AccessStore
from hourbell.store.control.audit_chain import AuditChainStore, Verdict, verify_chain
from hourbell.store.control.secrets import SecretStore
from hourbell.store.control.store import ControlStore
from hourbell.store.doctor import DoctorStore, Examined, Expectations, compare_clocks, examine
from hourbell.store.errors import StoreLost, StoreUnavailable
from hourbell.store.lists.reader import ListStore
from hourbell.store.migrations import Migration, MigrationError, load_migrations, pending
from hourbell.targets.base import Target
from hourbell.targets.task import Task, TaskTarget

if TYPE_CHECKING:  # imported late, because only a server needs it
    from hourbell.api.access import Authenticator
    from hourbell.targets.channel.base import Channel
    from hourbell.targets.channel.target import OwnChannels
    from hourbell.targets.http.dial import EgressPolicy as AnyPolicy
    from hourbell.targets.http.host_check import HostCheck
    from hourbell.targets.http.resolver import EgressPolicy
    from hourbell.targets.http.transport import Transport

log = logging.getLogger("hourbell.service")

T = TypeVar("T")

_LOOKUP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one process. `heartbeat` has its own connection and thread."""

    engine: EngineStore
    heartbeat: EngineStore
    control: ControlStore
    lists: ListStore
    access: AccessStore
    secrets: SecretStore
    audit_chain: AuditChainStore
    alerts: AlertStore
    alert_control: AlertVerbs
    transactions: TransactionStore | None
    migrate: Callable[[], Awaitable[list[Migration]]]
    status: Callable[[], Awaitable[list[tuple[Migration, bool]]]]
    write_error: Callable[[], Awaitable[StoreUnavailable | None]]  # the reason the database accepts no writes, if known
    close: Callable[[], Awaitable[None]]


def open_stores(settings: Settings, *, on_lost: Callable[[StoreLost], None] = lambda _: None) -> Stores:
    """Build the stores on the database of the settings, without connecting.

    `on_lost` is called once, in any thread, when a database file was deleted or replaced.
    """
    return _open_sqlite(settings, on_lost) if settings.database.kind == "sqlite" else _open_postgres(settings)


def _open_postgres(settings: Settings) -> Stores:
    from hourbell.store.postgres.connections import Connections
    from hourbell.store.postgres.engine import PostgresEngineStore
    from hourbell.store.postgres.function_connections import FunctionConnections
    from hourbell.store.postgres.lists import PostgresListStore
    from hourbell.store.postgres.migrate import migrate, status
    from hourbell.store.postgres.session import PostgresSessions
    from hourbell.store.postgres.transactions import PostgresTransactionStore, SeparateLogin
    from hourbell.store.postgres.warming import warm_up

    location = settings.database.location
    engine = Connections(location, size=6, by_key=True, warm_up=warm_up)
    control = Connections(location, size=4)
    sessions = PostgresSessions(control)
    heartbeat = Connections(location, size=1, timeout=settings.lease.total_seconds() / 8, by_key=True)
    separate = SeparateLogin(engine, lambda: os.urandom(32)) if settings.sql_database_url else None
    functions = PostgresTransactionStore(
        FunctionConnections(settings.sql_database_url or location, size=settings.sql_connections), separate=separate
    )

    async def close() -> None:
        await functions.close()
        await engine.close()
        await control.close()

    return Stores(
        engine=PostgresEngineStore(engine),
        heartbeat=PostgresEngineStore(heartbeat),
        control=ControlStore(sessions),
        lists=PostgresListStore(control),
        access=AccessStore(sessions),
        secrets=SecretStore(sessions),
        audit_chain=AuditChainStore(sessions),
        alerts=AlertStore(sessions, public_url=settings.public_url or None),
        alert_control=AlertVerbs(sessions, public_url=settings.public_url or None),
        transactions=functions,
        migrate=lambda: _or_unavailable(migrate(control)),
        status=lambda: _or_unavailable(status(control)),
        write_error=_no_error,
        close=close,
    )


async def _no_error() -> None:
    return None


async def _or_unavailable(asking: Awaitable[T]) -> T:
    """Convert a refusal by PostgreSQL at start (role, database or permission) to StoreUnavailable, with its message."""
    import asyncpg

    try:
        return await asking
    except asyncpg.PostgresError as error:
        raise StoreUnavailable(str(error)) from error


def _open_sqlite(settings: Settings, on_lost: Callable[[StoreLost], None]) -> Stores:
    from hourbell.store.sqlite.database_file import DatabaseFile
    from hourbell.store.sqlite.engine import SqliteEngineStore
    from hourbell.store.sqlite.lists import SqliteListStore
    from hourbell.store.sqlite.migrate import migrate, status
    from hourbell.store.sqlite.session import SqliteSessions
    from hourbell.store.sqlite.transactions import SqliteTransactionStore
    from hourbell.store.sqlite.write_check import WriteCheck
    from hourbell.store.sqlite.writer import ReadWriteSplit, WriterThread

    def lose(error: StoreLost) -> None:
        log.error("database_lost", extra={"database": str(settings.database), "error": error.reason})
        on_lost(error)

    file = DatabaseFile(settings.database.location, on_lost=lose)
    writer = WriterThread(file)
    users = ReadWriteSplit(WriterThread(file), writer)  # a long list does not delay other writers
    sessions = SqliteSessions(users)
    transactions = SqliteTransactionStore(WriterThread(file), elapsed=clock.elapsed)

    async def close() -> None:
        await transactions.close()
        await users.close()

    return Stores(
        engine=SqliteEngineStore(writer),
        heartbeat=SqliteEngineStore(WriterThread(file)),
        control=ControlStore(sessions),
        lists=SqliteListStore(users),
        access=AccessStore(sessions),
        secrets=SecretStore(sessions),
        audit_chain=AuditChainStore(sessions),
        alerts=AlertStore(sessions, public_url=settings.public_url or None),
        alert_control=AlertVerbs(sessions, public_url=settings.public_url or None),
        transactions=transactions,
        migrate=lambda: migrate(writer),
        status=lambda: status(writer),
        write_error=WriteCheck(file, writer).error,
        close=close,
    )


def open_doctor(settings: Settings) -> DoctorStore:
    """Build the doctor's read-only store on the database of the settings, without connecting."""
    if settings.database.kind == "sqlite":
        from hourbell.store.sqlite.doctor import SqliteDoctorStore

        return SqliteDoctorStore(settings.database.location)
    from hourbell.store.postgres.connections import Connections
    from hourbell.store.postgres.doctor import PostgresDoctorStore

    return PostgresDoctorStore(Connections(settings.database.location, size=1, writes=False))


def _migrations(settings: Settings) -> list[Migration]:
    return load_migrations(f"hourbell.store.{'sqlite' if settings.database.kind == 'sqlite' else 'postgres'}")


async def examine_database(settings: Settings, *, production: bool = False) -> Examined:
    """Run the doctor on the database of the settings and, for production, on its deployment."""
    store = open_doctor(settings)
    expected = Expectations(
        migrations=_migrations(settings),
        tzdata=TZDATA_VERSION,
        retention=settings.retention,
        lease=settings.lease,
        stuck_after=settings.reconcile_threshold,
    )
    try:
        now, defects = await _or_unavailable(compare_clocks(store, clock.now))
        examined = await _or_unavailable(examine(store, now, expected))
        examined.findings.add(defects)
        access = await _or_unavailable(store.access(now)) if production and examined.is_whole else None
    finally:
        await store.close()
    if production:  # after the doctor's own files beside the database are gone
        examined.findings.add(check_deployment(describe_deployment(settings, access)))
    return examined


async def verify_audit(settings: Settings, *, expect: str | None, start: int) -> Verdict:
    """Verify the audit chain in the database of the settings, read-only."""
    store = open_doctor(settings)
    try:
        if pending(_migrations(settings), (await _or_unavailable(store.schema())).applied):
            raise MigrationError("the schema is not up to date; run: hourbell db migrate")
        now = await _or_unavailable(store.sample_time())
        return await _or_unavailable(
            verify_chain(store.audit_chain, now, seal_keys(settings), expect=expect, start=start)
        )
    finally:
        await store.close()


def seal_keys(settings: Settings) -> SealKeys:
    """Return the keys that seal the audit chain, derived from those that seal secrets."""
    ring = _read_keys(settings)
    return SealKeys() if ring is None else SealKeys(ring.derive_each("audit chain"), ring.newest)


def _read_keys(settings: Settings) -> KeyRing | None:
    """Return the keys that seal secrets; None if there are none yet."""
    if settings.secret_key is not None:
        return KeyRing(parse_keys(settings.secret_key), os.urandom)
    path = settings.secret_key_file
    if path is None and settings.database.kind == "sqlite":
        path = Path(f"{settings.database.location}.key")
    return _ring_in(path) if path is not None and path.exists() else None


async def load_keys(settings: Settings, secrets: SecretStore) -> KeyRing | None:
    """Load the keys that seal secrets; raise WrongKeys if they cannot open the stored ones.

    They come from the settings, or on SQLite from a file beside the database, which is created if no other key has
    sealed anything yet.
    """
    path = settings.secret_key_file
    if settings.secret_key is not None:
        ring: KeyRing | None = KeyRing(parse_keys(settings.secret_key), os.urandom)
    elif path is not None or settings.database.kind == "sqlite":
        path = path or Path(f"{settings.database.location}.key")
        if path != settings.secret_key_file and not os.path.lexists(path) and await secrets.canary() is None:
            make_key_file(path, os.urandom)
        # A link that leads nowhere is refused: a start without the key would refuse secrets later.
        ring = _ring_in(path) if os.path.lexists(path) or path == settings.secret_key_file else None
    else:
        ring = None
    await check_keys(secrets, ring)
    return ring


def _ring_in(path: Path) -> KeyRing:
    try:
        text, mode = read_with_mode(path)
        if (why := exposure(path.absolute(), mode)) is None:
            return KeyRing(parse_keys(text), os.urandom)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
    raise SettingsError(f"the key file {path} cannot be used: {why}")


@asynccontextmanager
async def open_secrets(settings: Settings) -> AsyncIterator[tuple[Secrets, datetime]]:
    """Open the secrets of jobs in the database of the settings; also return its time."""
    stores = open_stores(settings)
    try:
        await stores.migrate()
        keys = await load_keys(settings, stores.secrets)
        if keys is None:
            raise WrongKeys("set HOURBELL_SECRET_KEY to base64 of 32 random bytes, as `openssl rand -base64 32` makes")
        stores.control.seal_commands(CommandSeals.of(keys))
        secrets = Secrets(stores.secrets, stores.control, keys, new_id=new_id, random_bytes=os.urandom)
        yield secrets, await stores.engine.sample_time()
    finally:
        await stores.close()


@asynccontextmanager
async def open_access(settings: Settings) -> AsyncIterator[Access]:
    """Open the tokens in the database of the settings, with its time."""
    stores = open_stores(settings)
    try:
        await stores.migrate()
        now = await stores.engine.sample_time()
        yield build_access(stores, lambda: now)
    finally:
        await stores.close()


def build_access(stores: Stores, now: Callable[[], datetime]) -> Access:
    return Access(stores.access, now=now, new_id=new_id, random_bytes=os.urandom, elapsed=clock.elapsed)


def build_control(
    settings: Settings,
    stores: Stores,
    keys: KeyRing | None,
    access: Access,
    policy: "EgressPolicy",
    now: Callable[[], datetime],
    analytics: Analytics | None = None,
) -> Control:
    """Build the control side. `clock` returns the database's time."""
    rules = Rules(
        forbids=policy.forbids,
        functions=settings.allow_functions,
        databases=settings.sql_databases,
        has_functions=settings.database.kind == "postgresql",
        has_keys=keys is not None,
    )
    stores.control.seal_commands(None if keys is None else CommandSeals.of(keys))
    secrets = Secrets(stores.secrets, stores.control, keys, new_id=new_id, random_bytes=os.urandom)
    jobs = Jobs(stores.control, stores.lists, rules=rules, secrets=secrets, now=now, new_id=new_id)
    live_for = max(LIVE_FOR, settings.lease)
    history = History(jobs, stores.lists, now=now, live_for=live_for, check_hosts=_build_host_check(policy))
    alerts = Alerts(
        stores.alert_control,
        jobs,
        build_channels(settings),
        secrets=secrets,
        forbids=policy.forbids,
        now=now,
        new_id=new_id,
        random_bytes=os.urandom,
    )
    return Control(
        alerts=alerts,
        jobs=jobs,
        runs=Runs(stores.control, stores.lists, now=now, new_id=new_id, live_for=live_for),
        history=history,
        ledger=Ledger(jobs, stores.lists, now=now),
        timelines=Timelines(stores.lists, now=now, live_for=live_for),
        backfills=Backfills(stores.control, stores.lists, jobs, now=now),
        applying=Applying(
            stores.control,
            jobs,
            AlertBundles(alerts, secrets=secrets, now=now, new_id=new_id),
            secrets=secrets,
            now=now,
            new_id=new_id,
        ),
        job_bulk=JobBulk(stores.control, jobs, history, now=now),
        demo=Demo(jobs, now=now),
        imports=Imports(stores.control, rules=rules, now=now, new_id=new_id),
        secrets=secrets,
        access=access,
        watch=Watch(stores.lists, now=now, epoch=os.urandom(4).hex()),
        run_counts=RunCounts(jobs, analytics, now=now),
        now=now,
    )


def _build_host_check(policy: "EgressPolicy") -> "HostCheck":
    """Build the host check with its own threads, so that slow DNS names in definitions do not delay deliveries."""
    from hourbell.targets.http.host_check import HostCheck
    from hourbell.targets.http.resolver import DaemonThreads, look_up

    threads = DaemonThreads()
    return HostCheck(lambda host, port: look_up(host, port, threads), policy.prohibits, elapsed=clock.elapsed)


async def build_authenticator(
    settings: Settings, stores: Stores, keys: KeyRing | None, access: Access, now: Callable[[], datetime]
) -> "Authenticator":
    """Build the authenticator. Sessions are signed by the key of the settings, or else by one in the database."""
    from hourbell.api.access import Authenticator
    from hourbell.api.limits import Limits, LoginLimits, stream_limits
    from hourbell.api.session_cookie import SessionCookies

    key = await stores.access.session_key(os.urandom(32)) if keys is None else keys.derive("session")
    return Authenticator(
        access,
        SessionCookies(key, now=now),
        Limits(settings.api_rate, elapsed=clock.elapsed),
        LoginLimits(elapsed=clock.elapsed),
        is_local=settings.http_addr.is_loopback,
        triggers=Limits(settings.trigger_rate, elapsed=clock.elapsed),
        streams=stream_limits(settings.event_streams),
        import_bytes=settings.import_max_mib * 1024 * 1024,
    )


def build_analytics(settings: Settings, metrics: Metrics) -> Analytics | None:
    """Build the counts in Redis; None if no Redis is configured."""
    if not settings.redis_url:
        return None
    ca_file = None if settings.ca_file is None else str(settings.ca_file)
    keep = settings.analytics_retention
    return Analytics(settings.redis_url, metrics, keep=keep, elapsed=clock.elapsed, ca_file=ca_file)


def build_engine(
    settings: Settings,
    stores: Stores,
    targets: Sequence[Target],
    metrics: Metrics,
    listener: RunListener | None = None,
    analytics: Analytics | None = None,
) -> Engine:
    return Engine(
        stores.engine,
        targets,
        EngineSettings(
            lease=settings.lease,
            reap_interval=settings.reap_interval,
            tick_interval=settings.tick_interval,
            drain_timeout=settings.drain_timeout,
            retention=settings.retention,
            keep_runs=settings.keep_runs,
            prune_interval=settings.reconcile_interval,
            stuck_after=settings.reconcile_threshold,
            slots=settings.slots,
            poison_after=settings.poison_after,
        ),
        node_id=uuid4(),
        host=socket.gethostname(),
        tzdata=TZDATA_VERSION,
        metrics=metrics,
        elapsed=clock.elapsed,
        random=random.random,
        heartbeat_store=stores.heartbeat,
        transactions=stores.transactions,
        audit_chain=stores.audit_chain,
        seals=seal_keys(settings),
        alerts=stores.alerts,
        listener=listener,
        on_ended=None if analytics is None else analytics.count,
    )


def build_targets(
    settings: Settings, stores: Stores, tasks: Mapping[str, Task], keys: KeyRing | None, policy: "EgressPolicy"
) -> list[Target]:
    """Build the targets of a node whose own server listens on this port."""
    own = TaskTarget(tasks, threads=settings.sync_threads, transactions=settings.sql_connections)
    commands = [_command_target(settings, keys)] if settings.commands else []
    return [
        own,
        *commands,
        _http_target(settings, keys, policy),
        _sql_target(settings, lambda: own.open_transactions),
        _channel_target(settings, stores, keys, policy),
    ]


def _command_target(settings: Settings, keys: KeyRing | None) -> Target:
    from hourbell.targets.command.target import CommandTarget

    if not sys.platform.startswith("linux"):
        raise SettingsError("HOURBELL_COMMANDS is 1, and commands need Linux; leave it out on this machine")
    if keys is None:
        raise SettingsError(f"HOURBELL_COMMANDS is 1, and there is no key to verify commands with; {MAKE_KEY}")
    return CommandTarget(
        CommandSeals.of(keys),
        labels=settings.labels,
        slots=settings.command_slots,
        users=settings.command_users,
        elapsed=clock.elapsed,
    )


def build_channels(settings: Settings) -> list["Channel"]:
    """Build every type of channel."""
    from hourbell.targets.channel.alertmanager import AlertmanagerChannel
    from hourbell.targets.channel.chat import DiscordChannel, MattermostChannel, RocketChatChannel, SlackChannel
    from hourbell.targets.channel.email import EmailChannel
    from hourbell.targets.channel.ntfy import NtfyChannel
    from hourbell.targets.channel.pagerduty import PagerDutyChannel
    from hourbell.targets.channel.telegram import TelegramChannel
    from hourbell.targets.channel.webhook import WebhookChannel

    return [
        WebhookChannel(),
        EmailChannel(settings.mail_server, settings.mail_sender, _tls_context(settings, protocol=None)),
        SlackChannel(),
        MattermostChannel(),
        RocketChatChannel(),
        DiscordChannel(),
        NtfyChannel(),
        TelegramChannel(),
        PagerDutyChannel(),
        AlertmanagerChannel(),
    ]


def build_outside(settings: Settings) -> tuple["Transport", dict[str, "Channel"], str]:
    """Build what `hourbell watch` needs: a transport to any address, the types of channels, and the user agent."""
    from hourbell.targets.http.resolver import SystemResolver, Unrestricted

    transport = _http_transport(settings, Unrestricted(SystemResolver(timeout=_LOOKUP_SECONDS)))
    return transport, {channel.type: channel for channel in build_channels(settings)}, _user_agent(settings)


def _channel_target(settings: Settings, stores: Stores, keys: KeyRing | None, policy: "EgressPolicy") -> Target:
    from hourbell.targets.channel.target import ChannelTarget

    return ChannelTarget(
        build_channels(settings),
        stores.alerts.channel,
        _http_transport(settings, policy),
        keys=keys,
        user_agent=_user_agent(settings),
    )


def build_own_channels(settings: Settings, stores: Stores) -> "OwnChannels":
    """Build the channel target of a node in a program, with the keys and the mail server of its settings, if any."""
    from hourbell.targets.channel.target import OwnChannels

    try:
        keys = _read_keys(settings)
    except SettingsError as error:
        log.warning("key_unusable", extra={"reason": str(error)})
        keys = None
    policy = build_egress_policy(settings, port=settings.http_addr.port)
    return OwnChannels(
        build_channels(settings),
        stores.alerts.channel,
        _http_transport(settings, policy),
        keys=keys,
        user_agent=_user_agent(settings),
    )


async def find_own_channels(stores: Stores, target: "OwnChannels", now: datetime) -> None:
    """Let a node in a program serve the channels that it can deliver."""
    channels = await stores.alerts.channels()
    target.refresh(channels, await stores.secrets.sealed_secrets([each.job_id for each in channels], now))


def loopback_follows_access(settings: Settings) -> bool:
    """Return True if webhooks may reach this machine only while the server, bound to loopback, has open access.

    A token has a role, and a caller that may define webhooks must not reach services that trust this machine.
    """
    return settings.origins["allow_networks"] == DEFAULT and settings.http_addr.is_loopback


def build_egress_policy(
    settings: Settings, *, port: int, is_open: Callable[[], bool] = lambda: False
) -> "EgressPolicy":
    """Build the egress policy. `port` is that of our own server, which asks for no token while `is_open`."""
    from hourbell.targets.http.addresses import AddressRules, cached_for_a_minute, own_addresses
    from hourbell.targets.http.resolver import EgressPolicy, OwnServers, SystemResolver

    resolver = SystemResolver(timeout=_LOOKUP_SECONDS)
    urls = [settings.database_url, settings.sql_database_url, *settings.sql_databases.values(), settings.redis_url]
    hosts = [server for url in urls if url for server in servers_of(url)]
    servers = OwnServers([*hosts, ("127.0.0.1", port)], resolver, elapsed=clock.elapsed)
    rules = AddressRules(
        allow_networks=settings.allow_networks,
        allow_loopback=is_open if loopback_follows_access(settings) else lambda: False,
        allow_ports=settings.allow_ports,
        deny_networks=settings.deny_networks,
        own_servers=servers,
        own_addresses=cached_for_a_minute(own_addresses, clock.elapsed),
    )
    return EgressPolicy(resolver, rules, servers)


def _http_target(settings: Settings, keys: KeyRing | None, policy: "EgressPolicy") -> Target:
    from hourbell.targets.http.target import HttpTarget

    return HttpTarget(
        _http_transport(settings, policy),
        keys=keys,
        user_agent=_user_agent(settings),
        slots=settings.lane_slots,
        elapsed=clock.elapsed,
    )


def _http_transport(settings: Settings, policy: "AnyPolicy") -> "Transport":
    from hourbell.targets.http.client import HttpTransport

    return HttpTransport(policy, _tls_context(settings, protocol="http/1.1"), elapsed=clock.elapsed)


def _tls_context(settings: Settings, *, protocol: str | None) -> SSLContext:
    from hourbell.targets.http.dial import tls_context

    try:
        return tls_context(settings.ca_file, protocol=protocol)
    except OSError as error:
        why = "it holds no certificates that can be read" if isinstance(error, SSLError) else error.strerror
        raise SettingsError(f"HOURBELL_CA_FILE is {str(settings.ca_file)!r}; {why}") from None


def _user_agent(settings: Settings) -> str:
    contact = f" ({settings.contact})" if settings.contact else ""
    return f"Hourbell/{__version__}{contact}"


def _sql_target(settings: Settings, lent_to_tasks: Callable[[], int]) -> Target:
    from hourbell.store.postgres.function_connections import FunctionConnections
    from hourbell.targets.sql.target import SqlTarget

    databases = {
        name: FunctionConnections(url, size=settings.sql_connections) for name, url in settings.sql_databases.items()
    }
    lends = settings.database.kind == "postgresql"
    return SqlTarget(
        databases,
        own_slots=settings.sql_connections if lends else None,
        lent_to_others=lent_to_tasks,
        allow=frozenset(settings.allow_functions),
        elapsed=clock.elapsed,
    )
