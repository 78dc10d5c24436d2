"""Every pool and listener leaves a server that refuses writes, for a host that accepts them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from hourbell.clock import elapsed
from hourbell.store.base import Node, Wake
from hourbell.store.errors import StoreReadOnly, StoreUnavailable
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.doctor import PostgresDoctorStore
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.postgres.function_connections import ConnectionLost, FunctionConnections
from hourbell.store.postgres.hosts import hosts_of
from hourbell.store.postgres.migrate import migrate, status
from tests.contract.steps import T0
from tests.database import PostgresDatabase
from tests.faults.cluster import Cluster
from tests.faults.pair import Pair

pytestmark = pytest.mark.anyio

WRITE = "create table if not exists written (at timestamptz default now()); insert into written default values"
LONG = 30.0  # seconds for what takes no time on an idle machine


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as running:
        yield running


@asynccontextmanager
async def pool(url: str, **options: Any) -> AsyncIterator[Connections]:
    connections = Connections(url, **options)
    try:
        yield connections
    finally:
        await connections.close()


@asynccontextmanager
async def function_pool(url: str) -> AsyncIterator[FunctionConnections]:
    functions = FunctionConnections(url, size=2)
    try:
        yield functions
    finally:
        await functions.close()


async def write(connections: Connections | FunctionConnections) -> None:
    async with connections.transaction() as connection:
        await connection.execute(WRITE)


async def address_of(connections: Connections | FunctionConnections) -> Path:
    """The folder of the socket that a connection goes to."""
    async with connections.transaction() as connection:
        return Path(await connection.fetchval("show unix_socket_directories"))


async def eventually_writes(connections: Connections | FunctionConnections) -> int:
    """Write, and try again after each refusal; how many there were."""
    end, refused = elapsed() + LONG, 0
    while True:
        try:
            await write(connections)
        except StoreUnavailable:
            refused += 1
            assert elapsed() < end
            await asyncio.sleep(0.02)
        else:
            return refused


@asynccontextmanager
async def read_only_database(database: PostgresDatabase) -> AsyncIterator[None]:
    """New sessions are read-only, by a setting of the database; the test's own connection is older."""
    name = await database.connection.fetchval("select current_database()")
    await database.sql(f"alter database {name} set default_transaction_read_only = on")
    try:
        yield
    finally:
        await database.sql(f"alter database {name} reset default_transaction_read_only")


@asynccontextmanager
async def read_only_server(cluster: Cluster) -> AsyncIterator[None]:
    """Every session of the server is read-only, those that are open already too."""
    await asyncio.to_thread(cluster.configure, default_transaction_read_only="on")
    try:
        yield
    finally:
        await asyncio.to_thread(cluster.configure, default_transaction_read_only="off")


async def test_a_pool_opened_while_the_server_was_read_only_writes_after_it(postgres: PostgresDatabase) -> None:
    async with pool(postgres.url, by_key=True) as connections:
        async with read_only_database(postgres):
            with pytest.raises(
                StoreReadOnly, match=r"the database is read-only: default_transaction_read_only is on; "
            ):
                await write(connections)

        await write(connections)


async def test_a_read_only_call_is_refused_too(postgres: PostgresDatabase) -> None:
    store = postgres.engine()
    async with read_only_database(postgres):
        with pytest.raises(StoreReadOnly):
            await store.sample_time()

    await store.sample_time()


async def test_open_sessions_that_become_read_only_are_left_at_the_first_refused_write(cluster: Cluster) -> None:
    async with pool(cluster.url, size=4) as connections:
        async with asyncio.TaskGroup() as group:  # four sessions from before the spell
            for _ in range(4):
                group.create_task(_sleep_on(connections))
        async with read_only_server(cluster):
            with pytest.raises(StoreReadOnly, match="the database is read-only: cannot execute"):
                await write(connections)
            with pytest.raises(StoreReadOnly, match="default_transaction_read_only is on"):
                await write(connections)  # no session of the pool is trusted any more: this is a new one

        await write(connections)


async def _sleep_on(connections: Connections) -> None:
    async with connections.connection() as connection:
        await connection.execute("select pg_sleep(0.2)")


async def test_a_read_only_session_is_left_once_the_server_reports_the_change(cluster: Cluster) -> None:
    async with pool(cluster.url, size=1) as connections:
        await write(connections)
        async with read_only_server(cluster):
            async with connections.connection() as connection:
                await connection.fetchval("select 1")  # the answer carries the new setting
            with pytest.raises(StoreReadOnly):
                async with connections.connection():
                    pass


async def test_readiness_notices_a_read_only_server_at_once(cluster: Cluster) -> None:
    async with pool(cluster.url, by_key=True) as connections:
        await migrate(connections)
        store = PostgresEngineStore(connections)
        await store.backlog(T0)
        async with read_only_server(cluster):
            with pytest.raises(StoreReadOnly):  # the first time: who asks for it trusts the answer
                await store.backlog(T0)

        await store.backlog(T0)


async def test_a_heartbeat_resumes_after_a_read_only_period(cluster: Cluster) -> None:
    node = Node(uuid4(), "host", T0, ("task:*",), "2026.1")
    async with pool(cluster.url, size=1, timeout=2, by_key=True) as connections:
        await migrate(connections)
        store = PostgresEngineStore(connections)
        await store.heartbeat(node, T0, T0 + timedelta(minutes=1), [])
        async with read_only_server(cluster):
            for _ in range(2):
                with pytest.raises(StoreReadOnly):
                    await store.heartbeat(node, T0, T0 + timedelta(minutes=1), [])

        await store.heartbeat(node, T0, T0 + timedelta(minutes=1), [])


async def test_the_listener_leaves_with_its_pool(cluster: Cluster) -> None:
    async with pool(cluster.url) as connections:
        await migrate(connections)
        await write(connections)  # on a session that the spell makes read-only
        store = PostgresEngineStore(connections)
        async with aclosing(cast(Any, store.wakes())) as wakes:
            assert {await _heard(wakes) for _ in Wake} == set(Wake)
            hearing = asyncio.create_task(_heard(wakes))
            async with read_only_server(cluster):
                with pytest.raises(StoreReadOnly):
                    await write(connections)
                await _until(lambda: not store.hears_others)
            assert await hearing in Wake  # it listens again, on a session of after the spell
            assert store.hears_others


async def _heard(wakes: AsyncIterator[Wake]) -> Wake:
    async with asyncio.timeout(LONG):
        return await anext(wakes)


async def _until(holds: Any) -> None:
    async with asyncio.timeout(LONG):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_silent_listener_asks_whether_its_server_still_accepts_writes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hourbell.store.postgres.engine._SILENCE", 0.1)
    async with pool(cluster.url) as connections:
        await migrate(connections)
        store = PostgresEngineStore(connections)
        async with aclosing(cast(Any, store.wakes())) as wakes:
            assert {await _heard(wakes) for _ in Wake} == set(Wake)
            hearing = asyncio.create_task(_heard(wakes))
            async with read_only_server(cluster):
                await _until(lambda: not store.hears_others)
            assert await hearing in Wake


async def test_migrations_are_refused_and_their_status_is_readable(postgres: PostgresDatabase) -> None:
    async with read_only_database(postgres):
        with pytest.raises(StoreReadOnly):
            await migrate(postgres.connections())
        assert all(applied for _, applied in await status(postgres.connections()))


async def test_the_doctor_runs_there_and_reports_it(postgres: PostgresDatabase) -> None:
    async with read_only_database(postgres), pool(postgres.url, size=1, writes=False) as connections:
        schema = await PostgresDoctorStore(connections).schema()

    assert schema.read_only == "default_transaction_read_only is on"


async def test_a_standby_alone_is_refused_by_name(pair: Pair) -> None:
    async with pool(pair.standby.url) as connections:
        with pytest.raises(StoreReadOnly, match="the database is read-only: the server is a standby; "):
            await write(connections)
    async with function_pool(pair.standby.url) as functions:
        with pytest.raises(ConnectionLost, match="during recovery"):
            await write(functions)
    async with pool(pair.standby.url, size=1, writes=False) as connections:
        assert (await PostgresDoctorStore(connections).schema()).read_only == "the server is a standby"


async def test_the_one_of_two_hosts_that_accepts_writes_is_used(pair: Pair) -> None:
    for url in (pair.url, _reversed(pair)):
        async with pool(url) as connections, function_pool(url) as functions:
            assert await address_of(connections) == pair.primary.host
            assert await address_of(functions) == pair.primary.host
            async with connections.dedicated() as connection:
                assert Path(await connection.fetchval("show unix_socket_directories")) == pair.primary.host


def _reversed(pair: Pair) -> str:
    return f"postgresql://postgres@/postgres?host={pair.standby.host},{pair.primary.host}"


async def test_session_settings_in_the_url_are_not_overridden(pair: Pair) -> None:
    async with pool(f"{_reversed(pair)}&target_session_attrs=any") as connections:
        with pytest.raises(StoreReadOnly, match="the server is a standby"):
            await write(connections)


async def test_after_a_failover_the_old_primary_may_return_as_a_standby(pair: Pair) -> None:
    async with pool(pair.url, size=3) as connections, function_pool(pair.url) as functions:
        for _ in range(2):
            await write(connections)
            await write(functions)
            pair.fail_over()
            assert await eventually_writes(connections) <= 3  # its three sessions are gone
            pair.return_old()
            for each in (connections, functions):
                await eventually_writes(each)
                assert await address_of(each) == pair.primary.host


async def test_while_no_host_accepts_writes_all_calls_say_so_and_none_is_stuck_afterwards(pair: Pair) -> None:
    async with pool(pair.url) as connections:
        await write(connections)
        pair.primary.stop()
        with pytest.raises(StoreUnavailable):
            await write(connections)
        with pytest.raises(StoreReadOnly, match="no host accepts writes: 1 is read-only, 1 is unreachable; "):
            await write(connections)
        pair.standby.promote()
        pair.primary, pair.standby = pair.standby, pair.primary
        await write(connections)
        pair.return_old()


async def test_a_fenced_primary_is_left_for_the_new_one(pair: Pair) -> None:
    """Fenced by a setting, the old primary keeps answering, so that a check for lost connections does not notice."""
    async with pool(pair.url) as connections, function_pool(pair.url) as functions:
        await write(connections)
        await write(functions)
        fenced = pair.primary
        async with read_only_server(fenced):
            pair.standby.promote()  # it follows the fenced one no more
            for each in (connections, functions):
                assert await eventually_writes(each) <= 2
                assert await address_of(each) == pair.standby.host


async def test_a_host_that_never_answers_leaves_time_for_the_next(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes the connection and says nothing
        port = silent.getsockname()[1]
        url = f"postgresql://postgres@/postgres?host=127.0.0.1:{port},{cluster.host}"
        async with pool(url, timeout=1) as connections:
            await write(connections)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@one/db", [("one", None)]),
        ("postgresql://u:p@one:5433,two/db?sslmode=require", [("one", 5433), ("two", None)]),
        ("postgresql://u:p%2C%40@[::1]:5433,[fe80::1]/db", [("::1", 5433), ("fe80::1", None)]),
        ("postgresql://u@%2Fvar%2Frun,two/db", [("/var/run", None), ("two", None)]),
        ("postgresql://u@/db?host=/one,/two", [("/one", None), ("/two", None)]),
        ("postgresql://u@/db?host=/one,two&port=5433,5434", [("/one", 5433), ("two", 5434)]),
        ("postgresql://u@/db?host=one,two&port=5433", [("one", 5433), ("two", 5433)]),
        ("postgresql://u@/db?host=one:5435,two:5436", [("one", 5435), ("two", 5436)]),
        ("postgresql://u@one:1,two:2/db?host=three&port=3", [("one", 1), ("two", 2)]),
        ("postgresql:///db", []),
    ],
)
def test_the_hosts_of_a_url_are_those_that_asyncpg_reads(url: str, hosts: list[tuple[str, int | None]]) -> None:
    from asyncpg.connect_utils import _parse_connect_dsn_and_args

    nothing = dict.fromkeys(
        ("host", "port", "user", "password", "passfile", "database", "ssl", "service", "servicefile", "direct_tls")
    )
    rest = dict.fromkeys(("server_settings", "target_session_attrs", "krbsrvname", "gsslib"))
    assert hosts_of(url) == hosts
    if hosts:
        addresses, _ = _parse_connect_dsn_and_args(dsn=url, **nothing, **rest)
        expected = [
            f"{host}/.s.PGSQL.{port or 5432}" if host.startswith("/") else (host, port or 5432) for host, port in hosts
        ]
        assert addresses == expected
