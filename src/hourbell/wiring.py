"""Builds everything from the settings. The only module that names concrete classes."""

import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from hourbell import clock
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.engine.engine import Engine, EngineSettings
from hourbell.library.scheduler import Scheduler
from hourbell.metrics import Metrics
from hourbell.settings import Settings
from hourbell.store.base import ControlStore, EngineStore, StoreUnavailable
from hourbell.store.doctor import DoctorStore, Examined, Expectations, compare_clocks, examine
from hourbell.store.migrations import Migration, load_migrations
from hourbell.targets.base import Target
from hourbell.targets.task import TaskTarget

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one process. `heartbeat` has a connection of its own and lives in a thread of its own."""

    engine: EngineStore
    heartbeat: EngineStore
    control: ControlStore
    migrate: Callable[[], Awaitable[list[Migration]]]
    status: Callable[[], Awaitable[list[tuple[Migration, bool]]]]
    close: Callable[[], Awaitable[None]]


def open_stores(settings: Settings) -> Stores:
    """Stores on the database of the settings. Nothing is connected yet."""
    return _open_sqlite(settings) if settings.database.kind == "sqlite" else _open_postgres(settings)


def _open_postgres(settings: Settings) -> Stores:
    from hourbell.store.postgres.connections import Connections
    from hourbell.store.postgres.control import PostgresControlStore
    from hourbell.store.postgres.engine import PostgresEngineStore
    from hourbell.store.postgres.migrate import migrate, status

    engine, control = Connections(settings.database.location, size=6), Connections(settings.database.location, size=4)

    async def close() -> None:
        await engine.close()
        await control.close()

    return Stores(
        engine=PostgresEngineStore(engine),
        heartbeat=PostgresEngineStore(
            Connections(settings.database.location, size=1, timeout=settings.lease.total_seconds() / 8)
        ),
        control=PostgresControlStore(control),
        migrate=lambda: _told(migrate(control)),
        status=lambda: _told(status(control)),
        close=close,
    )


async def _told(asking: Awaitable[T]) -> T:
    """What PostgreSQL refuses to a process that starts, be it its role, its database or a right, told in its words."""
    import asyncpg

    try:
        return await asking
    except asyncpg.PostgresError as error:
        raise StoreUnavailable(str(error)) from error


def _open_sqlite(settings: Settings) -> Stores:
    from hourbell.store.sqlite.control import SqliteControlStore
    from hourbell.store.sqlite.engine import SqliteEngineStore
    from hourbell.store.sqlite.migrate import migrate, status
    from hourbell.store.sqlite.writer import Threaded

    writer = Threaded(settings.database.location)
    return Stores(
        engine=SqliteEngineStore(writer),
        heartbeat=SqliteEngineStore(Threaded(settings.database.location)),
        control=SqliteControlStore(writer),
        migrate=lambda: migrate(writer),
        status=lambda: status(writer),
        close=writer.close,
    )


def open_doctor(settings: Settings) -> DoctorStore:
    """The doctor's store on the database of the settings, which it only reads. Nothing is connected yet."""
    if settings.database.kind == "sqlite":
        from hourbell.store.sqlite.doctor import SqliteDoctorStore

        return SqliteDoctorStore(settings.database.location)
    from hourbell.store.postgres.connections import Connections
    from hourbell.store.postgres.doctor import PostgresDoctorStore

    return PostgresDoctorStore(Connections(settings.database.location, size=1))


async def examine_database(settings: Settings) -> Examined:
    """Everything the doctor finds in the database of the settings."""
    store = open_doctor(settings)
    package = "sqlite" if settings.database.kind == "sqlite" else "postgres"
    expected = Expectations(
        migrations=load_migrations(f"hourbell.store.{package}"),
        tzdata=TZDATA_VERSION,
        retention=settings.retention,
        lease=settings.lease,
        stuck_after=settings.reconcile_threshold,
    )
    try:
        now, faults = await _told(compare_clocks(store, clock.now))
        examined = await _told(examine(store, now, expected))
        examined.findings.add(faults)
        return examined
    finally:
        await store.close()


def build_engine(settings: Settings, stores: Stores, targets: Sequence[Target], metrics: Metrics) -> Engine:
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
        luck=random.random,
        heartbeat_store=stores.heartbeat,
    )


def build_targets(settings: Settings, scheduler: Scheduler) -> list[Target]:
    return [TaskTarget(scheduler.tasks, threads=settings.sync_threads)]
