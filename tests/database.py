"""A database of its own for each test, and a look at its tables that does not go through the store.

To hold another backend to the contract, add it to `BACKENDS`.
"""

import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from hourbell.store.alerts.verbs import AlertVerbs
from hourbell.store.alerts.watching import AlertStore
from hourbell.store.base import EngineStore
from hourbell.store.control.access import AccessStore
from hourbell.store.control.audit_chain import AuditChainStore
from hourbell.store.control.secrets import SecretStore
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.reader import ListStore
from hourbell.store.migrations import Migration, load_migrations
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.postgres.lists import PostgresListStore
from hourbell.store.postgres.migrate import PACKAGE, migrate
from hourbell.store.postgres.session import PostgresSessions
from tests.server import server_url
from tests.sqlite_database import SqliteDatabase

Row = dict[str, Any]
_CLOCK = """
create table public.clock (moment timestamptz);
create function public.clock_now() returns timestamptz language sql security definer
as 'select moment from public.clock';
alter table hourbell.jobs alter column created_at set default public.clock_now();
"""
_READS_CLOCK = """
select pg_get_functiondef(oid) as text from pg_proc
where pronamespace = 'hourbell'::regnamespace and prorettype = 'trigger'::regtype and prosrc like '%clock_timestamp()%'
"""


class Database(Protocol):
    def engine(self) -> EngineStore:
        """Another node's store on this database, closed with it."""

    def control(self) -> ControlStore: ...

    def secrets(self) -> SecretStore: ...

    def lists(self) -> ListStore: ...

    def access(self) -> AccessStore: ...

    def audit_chain(self) -> AuditChainStore: ...

    def alerts(self) -> AlertStore: ...

    def alert_control(self) -> AlertVerbs: ...

    async def rows(self, table: str, order: str = "1") -> list[Row]:
        """A table's rows, with ids as UUIDs, instants as datetimes and JSON as values."""

    async def migrate(self) -> list[Migration]:
        """Migrate the schema, as a starting process does."""

    async def sql(self, statement: str) -> None:
        """Execute SQL as a user with a SQL prompt would. Tables are written `hourbell.jobs`, on every backend."""

    async def set_clock(self, moment: datetime) -> None:
        """Set the database's own clock to a fixed moment for every later `sql`."""


class PostgresDatabase:
    def __init__(self, url: str, connection: Any) -> None:
        self.url = url
        self.connection = connection
        self._opened: list[Connections] = []
        self._has_clock = False

    @classmethod
    @asynccontextmanager
    async def made(cls, *, migrated: bool = True) -> AsyncIterator["PostgresDatabase"]:
        server = await asyncpg.connect(server_url())
        name = f"hourbell_test_{secrets.token_hex(6)}"
        template = await _template(server) if migrated else "template0"
        await server.execute(f"create database {name} template {template}")
        connection = await asyncpg.connect(_url_of(name))
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        made = cls(_url_of(name), connection)
        try:
            yield made
        finally:
            for each in made._opened:
                await each.close()
            await connection.close()
            await server.execute(f"drop database {name} with (force)")
            await server.close()

    def connections(self, size: int = 2, *, by_key: bool = False) -> Connections:
        self._opened.append(Connections(self.url, size=size, by_key=by_key))
        return self._opened[-1]

    def engine(self) -> PostgresEngineStore:
        return PostgresEngineStore(self.connections(by_key=True))

    def control(self) -> ControlStore:
        return ControlStore(PostgresSessions(self.connections()))

    def secrets(self) -> SecretStore:
        return SecretStore(PostgresSessions(self.connections()))

    def lists(self) -> PostgresListStore:
        return PostgresListStore(self.connections())

    def access(self) -> AccessStore:
        return AccessStore(PostgresSessions(self.connections()))

    def audit_chain(self) -> AuditChainStore:
        return AuditChainStore(PostgresSessions(self.connections()))

    def alerts(self) -> AlertStore:
        return AlertStore(PostgresSessions(self.connections()), public_url="https://hourbell.example")

    def alert_control(self) -> AlertVerbs:
        return AlertVerbs(PostgresSessions(self.connections()))

    async def migrate(self) -> list[Migration]:
        return await migrate(self.connections())

    async def rows(self, table: str, order: str = "1") -> list[Row]:
        return [dict(row) for row in await self.connection.fetch(f"select * from hourbell.{table} order by {order}")]

    async def sql(self, statement: str) -> None:
        await self.connection.execute(statement)

    async def set_clock(self, moment: datetime) -> None:
        if not self._has_clock:  # the triggers themselves stay as they are, but for where they read the time
            await self.connection.execute(_CLOCK)
            for row in await self.connection.fetch(_READS_CLOCK):
                await self.connection.execute(row["text"].replace("clock_timestamp()", "public.clock_now()"))
            self._has_clock = True
        await self.connection.execute("delete from public.clock")
        await self.connection.execute("insert into public.clock values ($1)", moment)


BACKENDS: dict[str, Callable[..., AbstractAsyncContextManager[Database]]] = {
    "postgres": PostgresDatabase.made,
    "sqlite": SqliteDatabase.in_file,
    "memory": SqliteDatabase.in_memory,
}


def _url_of(database: str) -> str:
    return urlunsplit(urlsplit(server_url())._replace(path=f"/{database}"))


async def _template(server: Any) -> str:
    """A database with today's schema to copy from; the first to need it makes it."""
    sums = "".join(migration.checksum for migration in load_migrations(PACKAGE))
    name = f"hourbell_template_{hashlib.sha256(sums.encode()).hexdigest()[:12]}"
    async with server.transaction():
        await server.execute("select pg_advisory_xact_lock(4711)")
        made = await server.fetchval("select datistemplate from pg_database where datname = $1", name)
        if made:
            return name
        maker = await asyncpg.connect(server_url())
        if made is None:
            await maker.execute(f"create database {name}")
        connections = Connections(_url_of(name))
        await migrate(connections)
        await connections.close()
        await maker.execute(f"alter database {name} is_template true")
        await maker.close()
    return name
