"""Connections to PostgreSQL: one pool, a time limit on every statement, and one error for "unreachable".

When a server begins to refuse writes, open connections to it are replaced and new ones are not used.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import asyncpg

from hourbell.store.errors import StoreReadOnly, StoreUnavailable
from hourbell.store.postgres.hosts import check_writable, connect, reports_read_only

log = logging.getLogger("hourbell.store")

_STATEMENT_TIMEOUT = 30  # seconds
_PATIENCE = 10  # seconds to wait for a connection
_OUT_OF_REACH = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.InternalClientError,
    asyncpg.exceptions.InvalidCachedStatementError,  # another node migrated; the next call prepares the statement again
    asyncpg.exceptions.InvalidAuthorizationSpecificationError,
    asyncpg.exceptions.InvalidCatalogNameError,
    asyncpg.exceptions.DeadlockDetectedError,
    asyncpg.exceptions.SerializationError,
)
# A bitmap scan never marks dead index entries, so the empty probe for due jobs would stay slow after a burst. With the
# default cost of a random page, a thousand look-ups by key become a scan of the whole table.
_SETTINGS = {"application_name": "hourbell", "enable_bitmapscan": "off", "jit": "off", "random_page_cost": "1.1"}
_BY_KEY = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
_LIFETIMES = {"max_inactive_connection_lifetime": 0, "max_cached_statement_lifetime": 0}  # 0 means no limit
_POOL_SETTINGS = _SETTINGS | {
    "statement_timeout": f"{_STATEMENT_TIMEOUT}s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}


class Connections:
    """A pool that is opened on first use and never shared between event loops.

    `by_key` is for the engine, whose few statements always use an index. Small tables are not scanned: two statements
    that lock rows in the order of their ids avoid deadlocks only if both find the rows by key. Each statement is
    planned once, because planning a claim anew costs as much as the claim itself. Connections and plans are kept
    however long nothing is due. `warm_up` prepares a new connection.

    With `writes` false, a read-only server is accepted, for callers that only diagnose.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = 5,
        timeout: float = _STATEMENT_TIMEOUT,
        by_key: bool = False,
        warm_up: Callable[[Any], Awaitable[None]] | None = None,
        writes: bool = True,
    ) -> None:
        self._url = url
        self._settings = _POOL_SETTINGS | (_BY_KEY if by_key else {})
        self._lifetimes = _LIFETIMES if by_key else {}
        self._warm_up = warm_up
        self._writes = writes
        self._size = size
        self._timeout = timeout
        self._patience = min(_PATIENCE, 2 * timeout)
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._pids: set[int] = set()
        self._dedicated: set[Any] = set()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection of the pool."""
        with _reaching():
            pool = self._pool or await self._open()
            async with asyncio.timeout(self._patience):  # the pool's own time limit creates a task per wait
                connection = await pool.acquire()
            try:
                yield connection
            except (asyncpg.ReadOnlySQLTransactionError, StoreReadOnly):
                await self._leave(pool)
                raise
            finally:
                if self._writes and reports_read_only(connection):
                    await self._leave(pool)
                if _is_in_transaction(connection):  # what the next user writes there would not be committed
                    log.error("connection_left_in_transaction", extra={"pid": connection.get_server_pid()})
                    connection.terminate()
                await pool.release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def dedicated(self, *, writes: bool = True) -> AsyncIterator[Any]:
        """Open a connection outside the pool, without time limits. It is closed when the pool leaves a server."""
        with _reaching():
            connection = await connect(self._url, timeout=_PATIENCE, writes=writes, server_settings=_SETTINGS)
            self._dedicated.add(connection)
            try:
                if writes:
                    await check_writable(connection)
                yield connection
            except BaseException:
                connection.terminate()
                raise
            finally:
                self._dedicated.discard(connection)
            await connection.close(timeout=5)

    def has(self, pid: int) -> bool:
        """Return True if this server process belongs to a connection of the pool."""
        return pid in self._pids

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), 5)
            except _OUT_OF_REACH:
                pool.terminate()

    async def _open(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=0,  # else it logs every failure to hold a connection open through an outage
                    max_size=self._size,
                    timeout=self._patience,
                    command_timeout=self._timeout,
                    server_settings=self._settings,
                    reset=_leave_as_it_is,
                    init=self._begin,
                    connect=partial(connect, writes=self._writes),
                    **self._lifetimes,
                )
            return self._pool

    async def _leave(self, pool: Any) -> None:
        """Replace every connection before it is used again: the server has become read-only."""
        await pool.expire_connections()
        for connection in list(self._dedicated):
            connection.terminate()

    async def _begin(self, connection: Any) -> None:
        """Register a new connection of the pool, and warm it up."""
        if self._writes:
            await check_writable(connection)
        pid = connection.get_server_pid()
        self._pids.add(pid)
        connection.add_termination_listener(lambda _: self._pids.discard(pid))
        if self._warm_up is not None:
            await self._warm_up(connection)


@contextmanager
def _reaching() -> Iterator[None]:
    """Convert errors of an unreachable or read-only database to StoreUnavailable."""
    try:
        yield
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise StoreReadOnly(str(error), "see that the server is the primary and accepts writes") from error
    except _OUT_OF_REACH as error:
        raise StoreUnavailable(str(error) or type(error).__name__) from error


def _is_in_transaction(connection: Any) -> bool:
    """Return True if the connection has an open transaction, according to the last response; no round trip is made."""
    try:
        return bool(connection.is_in_transaction())
    except asyncpg.InterfaceError:  # it was closed, and the pool already has it back
        return False


async def _leave_as_it_is(_: Any) -> None:
    """Skip the reset: our statements leave no state in a session, so returning a connection costs no round trip."""
