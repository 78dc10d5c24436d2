"""Connections for users' functions: a separate pool, whose sessions are reset after every call.

A function may leave anything in its session: settings, another role, temporary objects, prepared statements, cursors,
locks. So no statement of ours is prepared under a name, which a function could drop or replace; a session is reset by
DISCARD ALL after every call; a session that does not roll back is terminated on the server; and one that sends an error
or a notice of more than 1 MiB is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import asyncpg

from hourbell.store.errors import StoreReadOnly, StoreUnavailable
from hourbell.store.postgres.hosts import connect, hosts_of, reports_read_only
from hourbell.store.postgres.message_limit import MessageTooLarge, limit_messages

_PATIENCE = 10  # seconds to wait for a connection
_HOUSEKEEPING = 30  # seconds for a statement of ours
_TO_ROLL_BACK = 2  # seconds
_TERMINATE = "select pg_catalog.pg_terminate_backend($1, 1000)"  # and wait a second for its end
_LOST = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.exceptions.AdminShutdownError,
    asyncpg.exceptions.CrashShutdownError,
    asyncpg.exceptions.CannotConnectNowError,
    asyncpg.exceptions.DatabaseDroppedError,
    asyncpg.exceptions.IdleSessionTimeoutError,
    asyncpg.exceptions.IdleInTransactionSessionTimeoutError,
    asyncpg.exceptions.TransactionTimeoutError,
)
# Without the last one, a server that is busy with a function does not notice that its client is gone.
_SETTINGS = {
    "application_name": "hourbell functions",
    "statement_timeout": f"{_HOUSEKEEPING}s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "client_connection_check_interval": "5s",
}


class ConnectionLost(StoreUnavailable, ConnectionError):
    """The database cannot be reached, or closed the connection; it is then unknown whether a commit took place.

    Also a `ConnectionError`, because callers of functions do not depend on stores.
    """


class FunctionConnections:
    """A pool that is opened on first use and never shared between event loops.

    A standby is not used, and of several hosts none that refuses writes. A single server or role that is read-only by
    default is accepted: functions run in a transaction that is declared writable.
    """

    def __init__(self, url: str, *, size: int = 10) -> None:
        self.size = size
        self._url = url
        self._has_choice = len(hosts_of(url)) > 1
        self._pool: Any = None
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction that commits at the end of the block; an exception rolls it back.

        Raises `ConnectionLost`; errors of the server at commit are raised unchanged.
        """
        with _reaching():
            pool, connection = await self._acquire()
            try:
                await self._begin(pool, connection)
                yield connection
                await _commit(connection)
            except BaseException:
                await self._roll_back(connection)
                raise
            finally:
                await _give_back(pool, connection)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), 5)
            except _LOST:
                pool.terminate()

    async def _acquire(self) -> tuple[Any, Any]:
        try:
            pool = self._pool or await self._open()
            return pool, await pool.acquire(timeout=_PATIENCE)
        except (asyncpg.PostgresError, StoreReadOnly) as error:  # no such role or database, too many connections
            raise ConnectionLost(str(error)) from error

    async def _open(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=0,
                    max_size=self.size,
                    timeout=_PATIENCE,
                    command_timeout=_HOUSEKEEPING,
                    server_settings=_SETTINGS,
                    statement_cache_size=0,  # every statement is unnamed
                    reset=_leave_as_it_is,
                    connect=_connect,
                )
            return self._pool

    async def _begin(self, pool: Any, connection: Any) -> None:
        """Begin a transaction; close a session that cannot, or whose server has become read-only."""
        try:
            await connection.execute("begin isolation level read committed read write")
        except asyncpg.PostgresError as error:  # a standby refuses
            why = str(error)
        else:
            if not (self._has_choice and reports_read_only(connection)):
                return
            why = "the server has become read-only"
        await pool.expire_connections()
        raise ConnectionLost(why)

    async def _roll_back(self, connection: Any) -> None:
        """Roll back. A running statement was asked to stop; if it does not, its session is terminated."""
        try:
            async with asyncio.timeout(_TO_ROLL_BACK):
                await connection.execute("rollback")
        except (*_LOST, asyncpg.PostgresError):
            if not _is_closed(connection):
                await self._end(connection)
        except BaseException:
            _close(connection)
            raise

    async def _end(self, connection: Any) -> None:
        """Terminate a session on the server: a function may ignore a cancellation and would keep running."""
        try:
            with suppress(*_LOST, asyncpg.PostgresError):
                async with asyncio.timeout(_PATIENCE):
                    other = await connect(self._url, timeout=_PATIENCE, server_settings=_SETTINGS)
                    try:
                        await other.fetchval(_TERMINATE, connection.get_server_pid())
                    finally:
                        other.terminate()
        finally:
            _close(connection)


async def _connect(url: str, **options: Any) -> asyncpg.Connection:
    connection = await connect(url, **options)
    limit_messages(connection)
    return connection


async def _commit(connection: Any) -> None:
    if await connection.execute("commit") != "COMMIT":
        raise ConnectionLost("the transaction had failed and was rolled back")


async def _give_back(pool: Any, connection: Any) -> None:
    """Reset the session, or close it. A commit before it stands, whatever happens here."""
    try:
        await connection.execute("discard all", timeout=_TO_ROLL_BACK)
    except (*_LOST, asyncpg.PostgresError):
        _close(connection)
    except BaseException:
        _close(connection)
        raise
    finally:
        await pool.release(connection)


def _is_closed(connection: Any) -> bool:
    """Return True if the server closed the connection: it is back in the pool, and its proxy raises."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True


def _close(connection: Any) -> None:
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


@contextmanager
def _reaching() -> Iterator[None]:
    """Convert errors of a lost connection to ConnectionLost."""
    try:
        yield
    except ConnectionLost:
        raise
    except _LOST as error:
        why = error.__cause__ if isinstance(error.__cause__, MessageTooLarge) else error
        raise ConnectionLost(str(why) or type(error).__name__) from error


async def _leave_as_it_is(_: Any) -> None:
    """Skip the pool's reset: the session was reset before it was returned."""
