"""Shared resource limits of a node's targets."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.settle import Succeeded
from hourbell.settings import load_settings
from hourbell.targets.base import Target, Transaction
from hourbell.targets.pool import Pool
from hourbell.targets.task import Task
from hourbell.targets.task_run import Run
from hourbell.wiring import build_egress_policy, build_targets, open_stores
from tests.targets.calls import ReportingCall
from tests.targets.task.steps import NOW, RUN, Opened

LANES = [
    "task:plain",
    "task:isolated",
    "task:transfer",
    "sql:default",
    "sql:reports",
    "http://a.example",
    "task:unknown",
]


def plain(run: Run) -> None: ...


async def transfer(run: Run) -> None:
    async with run.transaction() as connection:
        await connection.wait()


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Target]]:
    """The targets of a node on PostgreSQL, which connect to nothing until they are used."""
    monkeypatch.setenv("HOURBELL_SQL_CONNECTIONS", "3")
    monkeypatch.setenv("HOURBELL_SYNC_THREADS", "5")
    settings = load_settings(arguments={"database_url": "postgresql://somebody@127.0.0.1:9/nothing"})
    tasks = {"plain": Task("plain", plain), "isolated": Task("isolated", plain, isolate=True)}
    tasks["transfer"] = Task("transfer", transfer)
    return build_targets(settings, open_stores(settings), tasks, None, build_egress_policy(settings, port=1))


@pytest.mark.parametrize("lane", LANES)
def test_a_lanes_pool_is_one_of_its_targets_pools(targets: list[Target], lane: str) -> None:
    for target in targets:
        pool = target.pool(lane)
        assert pool is None or (pool in target.pools and pool.size > 0)


def test_plain_tasks_share_the_threads_and_nothing_else_does(targets: list[Target]) -> None:
    [threads] = [pool for target in targets for pool in target.pools]

    sharing = {lane for lane in LANES for target in targets if target.pool(lane) is threads}
    assert (threads.size, sharing) == (5, {"task:plain", "task:isolated"})


@pytest.mark.anyio
async def test_sql_functions_leave_the_connections_alone_that_tasks_hold(targets: list[Target]) -> None:
    tasks, _, functions, _ = targets
    may_end = asyncio.Event()
    opened = Opened(connection=may_end)

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Transaction]:
        async with opened.opened() as each:
            yield each

    call = ReportingCall(
        RUN, Definition("job", "* * * * *", {"type": "task", "name": "transfer"}), NOW, transaction=transaction
    )
    assert functions.slots("sql:default") == 3
    holding = [asyncio.create_task(tasks.deliver(call)) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert functions.slots("sql:default") == 1

    may_end.set()
    assert await asyncio.gather(*holding) == [Succeeded(), Succeeded()]
    assert functions.slots("sql:default") == 3


def test_a_pool_gives_out_each_slot_once() -> None:
    pool = Pool("threads", 2)

    assert [pool.enter(), pool.enter(), pool.enter()] == [True, True, False]
    pool.leave("first")
    assert (pool.enter(), pool.taken) == (True, 2)


def test_a_pool_is_exhausted_only_while_all_of_its_users_are_overdue() -> None:
    pool = Pool("threads", 2)
    assert (pool.enter(), pool.enter()) == (True, True)

    pool.mark_overdue("first", "report")
    assert (dict(pool.overdue), pool.is_exhausted) == ({"report": 1}, False)
    pool.mark_overdue("second", "report")
    assert (dict(pool.overdue), pool.is_exhausted) == ({"report": 2}, True)
    pool.leave("first")
    assert (dict(pool.overdue), pool.is_exhausted, pool.taken) == ({"report": 1}, False, 1)
