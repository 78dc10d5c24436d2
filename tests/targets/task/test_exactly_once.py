"""A task's transaction over a line that is cut, and in the hands of a node that comes back late."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from hourbell.core.run.run import Run
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.store.base import EngineStore, LeaseKey, OpenTransaction, Saved
from hourbell.store.postgres.function_connections import FunctionConnections
from hourbell.store.postgres.transactions import PostgresTransactionStore
from hourbell.targets.base import Transaction
from hourbell.targets.task import Task, TaskTarget
from hourbell.targets.task_run import Run as TaskRun
from tests.contract.steps import HOUR, MINUTE, OTHER_NODE, T0, a_job, a_waiting_job, claim, lose, settled
from tests.database import PostgresDatabase
from tests.faults.proxy import Proxy
from tests.targets.calls import ReportingCall

pytestmark = pytest.mark.anyio

Meanwhile = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Settling:
    opened: OpenTransaction
    run: Run

    @property
    def connection(self) -> Any:
        return self.opened.connection

    async def settle(self, outcome: Outcome) -> bool:
        return await self.opened.settle(settled(self.run, outcome))


class Node:
    """A node with one run, whose task writes an effect over the line."""

    def __init__(self, database: PostgresDatabase, store: EngineStore, url: str, run: Run) -> None:
        self._database = database
        self._transactions = PostgresTransactionStore(FunctionConnections(url))
        self.store = store
        self.run = run

    async def attempt(self, meanwhile: Meanwhile) -> tuple[Outcome, Saved]:
        """Deliver an attempt, with something happening inside its block, and settle it once more as the runner does."""

        async def function(run: TaskRun) -> None:
            async with run.transaction() as connection:
                await connection.execute("insert into effects values ($1)", run.attempt)
                await meanwhile()

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Transaction]:
            async with self._transactions.transaction(LeaseKey(self.run.id, self.run.attempt)) as opened:
                yield Settling(opened, self.run)

        target = TaskTarget({"a": Task("a", function)})
        try:
            outcome = await target.deliver(ReportingCall(self.run, a_job(), T0, transaction=transaction))
        finally:
            await target.close()
            await self._transactions.close()
        [saved] = await self.store.settle([settled(self.run, outcome)])
        return outcome, saved

    async def standing(self) -> tuple[str, list[int]]:
        """The run's state, and the attempts that left an effect."""
        [row] = await self._database.rows("runs")
        effects = await self._database.connection.fetch("select attempt from effects")
        return row["state"], [effect["attempt"] for effect in effects]


@pytest.fixture
async def proxy(postgres: PostgresDatabase) -> AsyncIterator[Proxy]:
    with Proxy(postgres.url) as opened:
        yield opened


@pytest.fixture
async def node(postgres: PostgresDatabase, proxy: Proxy) -> Node:
    await postgres.sql("create table effects (attempt integer)")
    store = postgres.engine()
    await a_waiting_job(store, postgres.control())
    [run] = await claim(store)
    return Node(postgres, store, proxy.url, run)


async def nothing() -> None: ...


async def test_the_effect_is_there_once_when_all_goes_well(node: Node) -> None:
    assert await node.attempt(nothing) == (Succeeded(), Saved.REPEATED)
    assert await node.standing() == ("succeeded", [1])


async def test_a_connection_cut_inside_the_block_leaves_no_effect(node: Node, proxy: Proxy) -> None:
    async def cut() -> None:
        proxy.reset()

    outcome, saved = await node.attempt(cut)

    assert isinstance(outcome, Failed)
    assert (saved, await node.standing()) == (Saved.SAVED, ("retrying", []))


async def test_a_commit_whose_answer_was_lost_is_a_success_with_its_effect(node: Node, proxy: Proxy) -> None:
    proxy.swallow("settle", 1)
    outcome, saved = await node.attempt(nothing)

    assert proxy.swallowed["settle"] == 1
    assert isinstance(outcome, Failed)
    assert (saved, await node.standing()) == (Saved.SUPERSEDED, ("succeeded", [1]))


async def test_a_node_that_comes_back_late_leaves_no_effect(node: Node) -> None:
    async def take_over() -> None:
        later = T0 + HOUR + 2 * MINUTE
        await lose(node.store, later)
        await claim(node.store, node=OTHER_NODE, now=later + MINUTE)

    outcome, saved = await node.attempt(take_over)

    assert (outcome, saved) == (Failed("another node has taken over this run"), Saved.SUPERSEDED)
    assert await node.standing() == ("running", [])


async def test_a_node_that_is_stopped_inside_the_block_leaves_no_effect(node: Node) -> None:
    inside = asyncio.Event()

    async def wait() -> None:
        inside.set()
        await asyncio.sleep(60)

    attempt = asyncio.create_task(node.attempt(wait))
    await inside.wait()
    attempt.cancel()

    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert await node.standing() == ("running", [])
