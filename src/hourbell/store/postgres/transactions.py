"""Transactions on the engine's own database, lent to functions: their work and the settlement, both or neither.

A separate login for functions has no rights on Hourbell's tables. The settlement then goes through
`hourbell.settle_run`, which runs with its owner's rights and requires a nonce. The node writes the nonce's digest with
its own login before the function begins, and uses the nonce only after the function has returned. The grants that the
operator gives to that login are described in the migration `0015_baseline.sql`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from hourbell.store.base import LeaseKey, OpenTransaction, SettledAttempt
from hourbell.store.engine.records import settlement_values
from hourbell.store.errors import FunctionLoginRefused, FunctionsOutOfReach, StoreUnavailable
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.function_connections import ConnectionLost, FunctionConnections
from hourbell.store.postgres.settling import write_settlements
from hourbell.store.sql.queries import load_queries

_SQL = load_queries("hourbell.store.postgres", "transactions.sql")


@dataclass(frozen=True, slots=True)
class SeparateLogin:
    """The dependencies of a separate login for functions: the engine's connections, and unguessable nonces."""

    engine: Connections
    nonce: Callable[[], bytes]


class PostgresTransactionStore:
    def __init__(self, functions: FunctionConnections, *, separate: SeparateLogin | None = None) -> None:
        self._functions = functions
        self._separate = separate

    @asynccontextmanager
    async def transaction(self, held: LeaseKey) -> AsyncIterator[OpenTransaction]:
        if self._separate is None:
            async with self._functions.transaction() as connection:
                yield _OwnLogin(connection)
            return
        async with _nonce_for(held, self._separate) as nonce, self._functions.transaction() as connection:
            yield _OtherLogin(connection, nonce)

    async def check(self) -> None:
        if self._separate is None:
            return
        async with self._separate.engine.connection() as connection:
            ours = await connection.fetchval(_SQL["which_database"])
        try:
            async with self._functions.transaction() as connection:
                theirs = await connection.fetchval(_SQL["which_database"])
                may_settle = theirs == ours and await connection.fetchval(_SQL["may_settle"])
        except ConnectionLost as error:
            raise FunctionsOutOfReach(str(error)) from error
        if theirs != ours:
            raise FunctionLoginRefused("it names another database than the jobs are in; name that one, with this login")
        if not may_settle:
            raise FunctionLoginRefused(
                "its login may not settle runs; grant it usage on schema hourbell and execute on function "
                "hourbell.settle_run"
            )

    async def close(self) -> None:
        await self._functions.close()


@dataclass(frozen=True, slots=True)
class _OwnLogin:
    connection: Any

    async def settle(self, settled: SettledAttempt) -> bool:
        _check_open(self.connection)
        await self.connection.execute(_step_back(self.connection))
        return not await write_settlements(self.connection, [settled])


@dataclass(slots=True)
class _Nonce:
    value: bytes = field(repr=False)
    is_said: bool = False


@dataclass(frozen=True, slots=True)
class _OtherLogin:
    connection: Any
    nonce: _Nonce

    async def settle(self, settled: SettledAttempt) -> bool:
        _check_open(self.connection)
        await self.connection.execute(_step_back(self.connection))
        self.nonce.is_said = True
        return bool(await self.connection.fetchval(_SQL["settle_run"], self.nonce.value, *settlement_values(settled)))


def _step_back(connection: Any) -> str:
    """Return the statements between the function's work and the settlement.

    PostgreSQL 17 and later also end a session that stalls within a statement, whatever its login.
    """
    statements = _SQL["step_back"]
    return f"{statements};\n{_SQL['limit_rest']}" if connection.get_server_version().major >= 17 else statements


def _check_open(connection: Any) -> None:
    """Raise if the task ended the transaction, which it can because it has the connection: a settlement alone would be
    false.
    """
    if not connection.is_in_transaction():
        raise StoreUnavailable("the transaction was ended inside its block; leave out begin, commit and rollback")


@asynccontextmanager
async def _nonce_for(held: LeaseKey, separate: SeparateLogin) -> AsyncIterator[_Nonce]:
    """Create a nonce for one attempt. An unused nonce is deleted; if that fails, or the node dies, it is deleted with
    the run's next attempt or with the run.
    """
    nonce = _Nonce(separate.nonce())
    fence = (held.run_id, held.attempt)
    try:
        async with separate.engine.connection() as connection:
            await connection.execute(_SQL["note_call"], *fence, sha256(nonce.value).digest())
    except StoreUnavailable as error:
        raise ConnectionLost(str(error)) from error
    try:
        yield nonce
    finally:
        if not nonce.is_said:
            with suppress(StoreUnavailable):
                async with separate.engine.connection() as connection:
                    await connection.execute(_SQL["forget_call"], *fence)
