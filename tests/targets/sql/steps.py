"""An attempt at a run that calls a function, as the engine makes it: claimed, delivered, and settled twice."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid5

from hourbell import clock
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import RetryPolicy
from hourbell.core.run.run import Run
from hourbell.core.run.settle import Failed, Outcome, Succeeded, settle
from hourbell.store.base import EngineStore, LaneDemand, LeaseKey, OpenTransaction, Saved, SettledAttempt
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.postgres.function_connections import FunctionConnections
from hourbell.store.postgres.transactions import PostgresTransactionStore, SeparateLogin
from hourbell.targets.base import Call, Transaction
from hourbell.targets.sql.target import SqlTarget
from tests.contract.steps import HOUR, MINUTE, NODE, SECOND, T0, lose
from tests.database import PostgresDatabase, Row
from tests.targets.calls import ReportingCall

PASSWORD = "for-tests"
RETRY = RetryPolicy(attempts=3, backoff=(MINUTE,))
NOW = T0 + HOUR
EFFECTS = "create table public.effects (run_id uuid, attempt integer, note text)"
# Notes its run, and answers what it is given.
EFFECT = """
create function public.effect(answer jsonb default '{"success": true, "message": "done"}') returns jsonb
language plpgsql as $$
begin
    insert into public.effects values (current_setting('hourbell.run_id')::uuid,
                                       current_setting('hourbell.attempt')::integer, 'effect');
    return answer;
end $$
"""


def function(body: str, name: str = "public.f()", options: str = "") -> str:
    """The text that makes a function of plpgsql that returns jsonb; `body` stands before its successful return."""
    return f"""create or replace function {name} returns jsonb language plpgsql {options} as $f$
    begin {body} return '{{"success": true, "message": "done"}}'; end $f$"""


@dataclass(frozen=True, slots=True)
class _Settling:
    opened: OpenTransaction
    settled: Callable[[Outcome], SettledAttempt]
    before_settle: Callable[[], Awaitable[object]]

    @property
    def connection(self) -> Any:
        return self.opened.connection

    async def settle(self, outcome: Outcome) -> bool:
        await self.before_settle()
        return await self.opened.settle(self.settled(outcome))


async def _nothing() -> None: ...


@dataclass
class Node:
    """A node that calls functions, without loops: a test makes its steps."""

    database: PostgresDatabase
    connections: FunctionConnections
    store: PostgresTransactionStore
    target: SqlTarget
    engine: EngineStore
    control: ControlStore
    id: UUID = NODE
    begins: bool = True  # what `begin` answers
    before_settle: Callable[[], Awaitable[object]] = _nothing
    numbers: Any = field(default_factory=itertools.count)

    @classmethod
    @asynccontextmanager
    async def made(
        cls,
        database: PostgresDatabase,
        *,
        url: str | None = None,
        login: str | None = None,
        size: int = 2,
        node: UUID = NODE,
        allow: Collection[str] = (),
        others: dict[str, FunctionConnections] | None = None,
    ) -> AsyncIterator[Self]:
        """Create a node; with a login, functions run under that one."""
        functions = FunctionConnections(url or url_as(database, login), size=size)
        nonces = itertools.count()
        separate = SeparateLogin(database.connections(), lambda: sha256(b"%d" % next(nonces)).digest())
        store = PostgresTransactionStore(functions, separate=separate if login else None)
        target = SqlTarget(others or {}, own_slots=size, allow=allow, elapsed=clock.elapsed)
        try:
            yield cls(database, functions, store, target, database.engine(), database.control(), node)
        finally:
            await target.close()
            await store.close()

    async def claim(self, name: str = "public.effect", **more: Any) -> tuple[Run, Definition]:
        """A run of a new job that calls the function, claimed by this node. Ids are the same in every database."""
        job = await self.add_job(name, **more)
        await self.control.trigger_job(job.id, uuid5(job.id, "run"), Actor("somebody", NOW))
        [run] = await self.engine.claim(self.id, NOW, NOW + MINUTE, [LaneDemand(job.definition.lane, 1)])
        return run, job.definition

    async def claim_again(self, run: Run) -> Run:
        """The next attempt of a run that failed, claimed when it is ready."""
        [again] = await self.engine.claim(self.id, NOW + HOUR, NOW + 2 * HOUR, [LaneDemand(run.lane, 1)])
        return again

    async def add_job(
        self,
        name: str,
        managed_by: str = "sql",
        retry: RetryPolicy = RETRY,
        job: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> Job:
        """A job that calls the function. `more` goes into its target, `job` into its definition."""
        target = {"type": "sql", "function": name, **more}
        number = next(self.numbers)
        definition = Definition(
            f"job-{number}", "0 0 1 1 *", target, lane=lane_of(target), managed_by=managed_by, retry=retry, **job
        )
        return (await self.control.create_job(definition, UUID(int=1_000 + number), Actor("somebody", T0))).job

    async def attempt(self, run: Run, definition: Definition) -> tuple[Outcome, Saved]:
        """Deliver an attempt, and settle it once more as the runner does: the outcome, and what became of that."""
        outcome = await self.target.deliver(self.call(run, definition))
        [saved] = await self.engine.settle([self.settled(run, definition, outcome)])
        return outcome, saved

    async def run(self, name: str = "public.effect", **more: Any) -> Outcome:
        """Claim and deliver one attempt of a new job that calls the function."""
        outcome, _ = await self.attempt(*await self.claim(name, **more))
        return outcome

    async def succeed(self, name: str = "public.effect", **more: Any) -> Any:
        """The result of a run that must succeed."""
        outcome = await self.run(name, **more)
        assert isinstance(outcome, Succeeded), outcome
        return outcome.result

    async def fail(self, name: str = "public.effect", **more: Any) -> Failed:
        """The failure of a run that must fail."""
        outcome = await self.run(name, **more)
        assert isinstance(outcome, Failed), outcome
        return outcome

    def call(self, run: Run, definition: Definition) -> Call:
        async def begin() -> bool:
            return self.begins

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Transaction]:
            async with self.store.transaction(LeaseKey(run.id, run.attempt)) as opened:
                yield _Settling(opened, lambda outcome: self.settled(run, definition, outcome), self.before_settle)

        return ReportingCall(run, definition, NOW, begin=begin, transaction=transaction)

    def settled(self, run: Run, definition: Definition, outcome: Outcome) -> SettledAttempt:
        return SettledAttempt(settle(run, outcome, NOW + SECOND, definition.retry), self.id, NOW)

    async def effects(self) -> list[tuple[UUID, int]]:
        """Return the attempts of runs that left an effect."""
        rows = await self.database.connection.fetch("select run_id, attempt from public.effects order by 1, 2")
        return [tuple(row) for row in rows]

    async def the_run(self) -> Row:
        [row] = await self.database.rows("runs")
        return row

    async def states(self) -> list[str]:
        return [row["state"] for row in await self.database.rows("runs", "planned_at, id")]


async def take_over(node: Node, run: Run, by: UUID) -> Run:
    """Reap a run whose lease ran out, and let another node claim it."""
    later = NOW + 2 * MINUTE
    await lose(node.engine, later)
    [again] = await node.engine.claim(by, later, later + HOUR, [LaneDemand(run.lane, 1)])
    return again


def url_as(database: PostgresDatabase, login: str | None) -> str:
    """The database's URL for another login."""
    if login is None:
        return database.url
    parts = urlsplit(database.url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}:{PASSWORD}@{host}"))
