"""The proxy to PostgreSQL: dropped answers are of committed transactions, and stopped bytes are not lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from hourbell.clock import elapsed
from hourbell.core.run.plan import plan
from hourbell.store.base import EngineStore, Saved
from hourbell.store.errors import StoreUnavailable
from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.engine import PostgresEngineStore
from hourbell.store.postgres.planning import SQL
from tests.contract.steps import MINUTE, PASS, T0, a_waiting_job, add_job, claim, settled
from tests.database import PostgresDatabase
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(postgres: PostgresDatabase) -> Iterator[Proxy]:
    with Proxy(postgres.url) as opened:
        yield opened


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[EngineStore]:
    """A node's store behind the proxy."""
    connections = Connections(proxy.url)
    yield PostgresEngineStore(connections)
    proxy.restore()
    await connections.close()


async def test_a_plan_whose_answer_was_lost_is_written(
    store: EngineStore, proxy: Proxy, postgres: PostgresDatabase
) -> None:
    await add_job(postgres.control())
    proxy.swallow("plan", 1)

    with pytest.raises(StoreUnavailable):
        await store.plan_due(T0 + MINUTE, PASS, plan)
    assert len(await postgres.rows("runs")) == 1
    assert (proxy.swallowed, proxy.is_sated) == ({"plan": 1}, True)
    assert (await store.plan_due(T0 + MINUTE, PASS, plan)).runs == 0


async def test_a_claim_whose_answer_was_lost_holds_its_run(
    store: EngineStore, proxy: Proxy, postgres: PostgresDatabase
) -> None:
    await a_waiting_job(store, postgres.control())
    proxy.swallow("claim", 1)

    with pytest.raises(StoreUnavailable):
        await claim(store)
    assert [(run["state"], run["attempt"]) for run in await postgres.rows("runs")] == [("running", 1)]
    assert proxy.swallowed == {"claim": 1}


async def test_a_settlement_whose_answer_was_lost_may_be_repeated(
    store: EngineStore, proxy: Proxy, postgres: PostgresDatabase
) -> None:
    await a_waiting_job(store, postgres.control())
    outcomes = [settled(run) for run in await claim(store)]
    proxy.swallow("settle", 1)

    with pytest.raises(StoreUnavailable):
        await store.settle(outcomes)
    assert [run["state"] for run in await postgres.rows("runs")] == ["succeeded"]
    assert await store.settle(outcomes) == [Saved.REPEATED]


async def test_the_proxy_drops_only_answers_of_commits_that_change_a_run(
    store: EngineStore, proxy: Proxy, postgres: PostgresDatabase
) -> None:
    await add_job(postgres.control())
    for verb in ("plan", "claim", "settle"):
        proxy.swallow(verb, 1)

    assert await claim(store) == []
    assert await store.settle([]) == []
    assert proxy.swallowed == {}


async def test_a_rolled_back_transaction_is_not_swallowed(proxy: Proxy) -> None:
    proxy.swallow("plan", 1)
    connection = await asyncpg.connect(proxy.url)
    transaction = connection.transaction()

    await transaction.start()
    await connection.fetch(SQL["due_jobs"], T0, 1)
    await transaction.rollback()
    assert await connection.fetchval("select 1") == 1
    assert proxy.swallowed == {}
    await connection.close()


async def test_a_stopped_connection_continues_when_the_network_is_restored(store: EngineStore, proxy: Proxy) -> None:
    await store.sample_time()
    proxy.stop()
    asking = asyncio.create_task(store.sample_time())
    done, _ = await asyncio.wait([asking], timeout=0.5)

    assert not done
    proxy.restore()
    assert await asyncio.wait_for(asking, 10)


async def test_a_server_behind_a_mute_connection_receives_and_acts(
    store: EngineStore, proxy: Proxy, postgres: PostgresDatabase
) -> None:
    await a_waiting_job(store, postgres.control())
    await claim(store, lane="other")  # prepared by now: the claim that matters is one request
    proxy.mute()
    claiming = asyncio.create_task(claim(store))
    async with asyncio.timeout(10):
        while (await postgres.rows("runs"))[0]["state"] != "running":
            await asyncio.sleep(0.01)

    assert not claiming.done()
    proxy.restore()
    assert len(await asyncio.wait_for(claiming, 10)) == 1


@pytest.mark.parametrize("end", [Proxy.drop, Proxy.reset])
async def test_a_cut_connection_is_unreachable_until_it_is_restored(
    store: EngineStore, proxy: Proxy, end: object
) -> None:
    assert callable(end)
    await store.sample_time()

    end(proxy)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.sample_time()
    proxy.restore()
    assert await store.sample_time()


async def test_a_delay_is_added_to_every_answer(store: EngineStore, proxy: Proxy) -> None:
    await store.sample_time()
    proxy.delay(0.2)
    began_at = elapsed()

    await store.sample_time()
    assert elapsed() - began_at >= 0.4  # there and back


async def test_a_throttled_connection_carries_so_many_bytes_a_second(proxy: Proxy) -> None:
    connection = await asyncpg.connect(proxy.url)
    proxy.throttle(10_000)
    began_at = elapsed()

    assert len(await connection.fetchval("select repeat('x', 5000)")) == 5_000
    assert elapsed() - began_at >= 0.4
    proxy.restore()
    await connection.close()
