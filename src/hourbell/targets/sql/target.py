"""SQL functions as targets. In Hourbell's own database the function's transaction also settles the run; in other
databases it commits before the run is settled."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import asyncpg

from hourbell.core.job.target import OWN_DATABASE, SqlCall, TargetError, parse_target
from hourbell.core.run.settle import Failed, Outcome, Unstarted
from hourbell.targets.base import Call, Transaction
from hourbell.targets.pool import Pool
from hourbell.targets.sql.errors import failure_of
from hourbell.targets.sql.invocation import Overdue, no_end_within, perform, prepare

_REST = 1.0  # seconds without new claims after a connection could not be had
_MAKERS_TO_CHECK = ("api", "file")  # whoever creates jobs by SQL or code can call any function already


class Database(Protocol):
    """A connection pool of a database whose functions may be called."""

    @property
    def size(self) -> int:
        """The max number of concurrent calls."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a connection in a transaction that commits at the end of the block; an exception rolls it back."""

    async def close(self) -> None:
        """Close every connection."""


class SqlTarget:
    """The target for functions of the node's own database, if it lends transactions, and of databases in the settings.

    `own_slots` is how many transactions the own database lends at once; None if it lends none. `lent_to_others` returns
    how many of them others hold now. `allow` holds the exact signatures that jobs from the API or from files may call,
    such as `public.run_daily_cleanup(integer)`; in another database, `reports:public.refresh()`.
    """

    reads_secrets = False
    pools: tuple[Pool, ...] = ()

    def __init__(
        self,
        databases: Mapping[str, Database],
        *,
        own_slots: int | None,
        lent_to_others: Callable[[], int] = lambda: 0,
        allow: Collection[str] = frozenset(),
        elapsed: Callable[[], float],
    ) -> None:
        self._databases = databases
        self._slots = {name: database.size for name, database in databases.items()}
        if own_slots is not None:
            self._slots = {OWN_DATABASE: own_slots, **self._slots}
        self._lent_to_others = lent_to_others
        self._allow = frozenset(allow)
        self._elapsed = elapsed
        self._rests_until = float("-inf")

    def lanes(self) -> tuple[str, ...]:
        return tuple(f"sql:{name}" for name in self._slots)

    def slots(self, lane: str) -> int | None:
        """Return the number of connections for the lane; 0 for a moment after the own database had none to give."""
        name = lane.removeprefix("sql:")
        if name != OWN_DATABASE or name not in self._slots:
            return self._slots.get(name, 0)
        return 0 if self._elapsed() < self._rests_until else self._slots[name] - self._lent_to_others()

    def pool(self, lane: str) -> None:
        """Return None: each database has its own lane, so lanes share no connections."""

    async def deliver(self, call: Call) -> Outcome:
        try:
            target = parse_target(call.definition.target)
        except TargetError as error:
            return Failed(str(error), retryable=False, begun=False)
        if not isinstance(target, SqlCall):
            return Failed("the target is not of type sql", retryable=False, begun=False)
        if target.database not in self._slots:
            known = ", ".join(self._slots) or "none"
            what = f"no database named {target.database!r} in the settings; there are: {known}"
            return Failed(what, retryable=False, begun=False)
        attempt = _Attempt(call, target, self._allowed(call, target))
        outcome = await attempt.make(self._opened(call, target.database))
        if isinstance(outcome, Unstarted):
            self._rests_until = self._elapsed() + _REST
        return outcome

    async def close(self) -> None:
        for database in self._databases.values():
            await database.close()

    def _allowed(self, call: Call, target: SqlCall) -> frozenset[str] | None:
        """Return the signatures that the job may call; None for all."""
        if call.definition.managed_by not in _MAKERS_TO_CHECK:
            return None
        prefix = f"{target.database}:"
        own = self._allow if target.database == OWN_DATABASE else frozenset[str]()
        return own | {entry.removeprefix(prefix) for entry in self._allow if entry.startswith(prefix)}

    def _opened(self, call: Call, database: str) -> AbstractAsyncContextManager[Transaction]:
        return call.transaction() if database == OWN_DATABASE else _elsewhere(self._databases[database])


class _TakenOver(Exception):
    """Raised when this node no longer owns the attempt, to roll back its transaction."""


@dataclass(slots=True)
class _Attempt:
    call: Call
    target: SqlCall
    allowed: frozenset[str] | None
    has_begun: bool = False

    async def make(self, opening: AbstractAsyncContextManager[Transaction]) -> Outcome:
        """Make one attempt in a transaction; database and connection errors become a failed attempt."""
        try:
            async with opening as transaction:
                outcome = await self._in(transaction.connection)
                if not isinstance(outcome, Unstarted) and not await transaction.settle(outcome):
                    raise _TakenOver
                return outcome
        except _TakenOver:
            return Failed("another node has taken over this run")
        except Overdue:
            return no_end_within(self.target.timeout)
        except ConnectionError as error:
            return self._lost(error)
        except asyncpg.PostgresError as error:
            # The error is of the statements around the function: login, session or server may work on the next attempt.
            return replace(failure_of(error), retryable=True, begun=self.has_begun)

    async def _in(self, connection: Any) -> Outcome:
        prepared = await prepare(connection, self.target, self.call, self.allowed)
        if isinstance(prepared, Failed):
            return prepared
        if not await self.call.begin():
            return Unstarted()
        self.has_begun = True
        return await perform(connection, self.target, prepared)

    def _lost(self, error: ConnectionError) -> Outcome:
        if not self.has_begun and self.target.database == OWN_DATABASE:
            return Unstarted()  # Hourbell's own database is short of connections, which is not the run's failure
        if not self.has_begun:
            return Failed(f"the database is unreachable: {error}", begun=False)
        if self.target.database == OWN_DATABASE:
            known = "the function's work was rolled back, or committed together with this run's success"
        else:
            known = "it is not known whether the function's work was committed"
        return Failed(f"the connection to the database was lost ({error}): {known}")


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A transaction of another database, where runs cannot be settled."""

    connection: Any

    async def settle(self, _: Outcome) -> bool:
        return True


@asynccontextmanager
async def _elsewhere(database: Database) -> AsyncIterator[Transaction]:
    async with database.transaction() as connection:
        yield _Elsewhere(connection)
