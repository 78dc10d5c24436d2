"""An orderly shutdown: planner, reaper, runner; attempts end or are interrupted, and the rest is handed back."""

import asyncio
import contextlib
import logging
from datetime import timedelta

import pytest

from hourbell.core.run.policies import CatchUp, Delivery
from hourbell.core.run.settle import Outcome
from hourbell.targets.base import Call
from tests.engine.nodes import HOUR, LEASE, MINUTE, SECOND, Cluster, Node, hang, takes, virtually
from tests.engine.virtual import START

HOURLY = "0 * * * *"
DRAIN = 30 * SECOND


async def at_the_hour(cluster: Cluster, **settings: object) -> Node:
    """A node that has just begun what is due at the full hour."""
    await cluster.advance_to(START + HOUR - SECOND)
    node = await cluster.start(**settings)
    await cluster.advance(2 * SECOND)
    return node


@virtually
async def test_attempts_that_began_end_within_the_limit(cluster: Cluster) -> None:
    cluster.script["job"] = takes(20 * SECOND)
    job = await cluster.add_job(schedule=HOURLY)
    node = await at_the_hour(cluster)
    before = cluster.now()
    await node.stop()

    assert 18 * SECOND < cluster.now() - before < 20 * SECOND
    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"]) == ("succeeded", 1)


@virtually
async def test_a_stop_with_nothing_to_do_is_immediate(cluster: Cluster) -> None:
    await cluster.add_job()
    node = await at_the_hour(cluster)
    before = cluster.now()
    await node.stop()

    assert cluster.now() - before < SECOND
    assert await cluster.rows("nodes") == []


@virtually
async def test_at_the_limit_attempts_are_interrupted_uncharged_and_ready_at_once(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    job = await cluster.add_job(schedule=HOURLY)
    node = await at_the_hour(cluster)
    before = cluster.now()
    await node.stop()
    stopped_at = cluster.now()

    assert DRAIN <= stopped_at - before < DRAIN + 2 * SECOND
    [run] = await cluster.runs(job)
    assert (run["state"], run["failures"], run["crashes"]) == ("retrying", 0, 0)
    assert run["ready_at"] <= stopped_at
    assert [attempt["outcome"] for attempt in await cluster.attempts(run["id"])] == ["interrupted"]

    cluster.script.clear()
    await cluster.start()
    await cluster.advance(SECOND)
    assert await cluster.states(job) == ["succeeded"]


@virtually
async def test_an_attempt_that_cannot_be_stopped_is_handed_back_too(cluster: Cluster) -> None:
    """A function in a thread works on until the process ends."""

    async def ignore_everything(*_: object) -> Outcome:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3_600)

    cluster.script["job"] = ignore_everything
    job = await cluster.add_job(schedule=HOURLY)
    node = await at_the_hour(cluster)
    before = cluster.now()
    await node.stop()
    node.is_dead = node.is_frozen = True
    for task in node.tasks:
        task.cancel()

    assert cluster.now() - before < DRAIN + 3 * SECOND
    [run] = await cluster.runs(job)
    assert (run["state"], run["failures"], run["crashes"]) == ("retrying", 0, 0)


@virtually
async def test_at_the_limit_an_attempt_at_most_once_is_lost(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    job = await cluster.add_job(schedule=HOURLY, delivery=Delivery.AT_MOST_ONCE)
    node = await at_the_hour(cluster)
    await node.stop()

    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"]) == ("failed", "lost")


@pytest.mark.parametrize("delivery", Delivery)
def test_attempts_that_did_not_begin_are_handed_back_at_once_uncharged(delivery: Delivery) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        async def wait_for_a_turn(_: Node, call: Call) -> None:
            if call.definition.name == "waits":
                await asyncio.sleep(300)

        cluster.before_begin.append(wait_for_a_turn)
        cluster.script["runs"] = takes(20 * SECOND)
        waits = await cluster.add_job("waits", HOURLY, delivery=delivery)
        await cluster.add_job("runs", HOURLY)
        node = await at_the_hour(cluster)
        stopping = asyncio.create_task(node.stop())
        await cluster.advance(SECOND)

        [run] = await cluster.runs(waits)  # while the other is still at work
        assert (run["state"], run["failures"], run["crashes"]) == ("pending", 0, 0)
        assert await cluster.attempts(run["id"]) == []
        await stopping
        cluster.before_begin.clear()
        await cluster.start()
        await cluster.advance(SECOND)
        assert await cluster.states() == ["succeeded"] * 2

    test()


@virtually
async def test_runs_claimed_during_the_stop_do_not_begin(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - SECOND)
    node = await cluster.start()
    stopping: list[asyncio.Task[None]] = []

    async def stop_now() -> None:
        stopping.append(asyncio.create_task(node.stop()))
        await asyncio.sleep(1)

    node.after("claim", stop_now)
    await cluster.advance(3 * SECOND)
    await stopping[0]

    assert cluster.calls == []
    [run] = await cluster.runs(job)
    assert (run["state"], run["failures"], run["crashes"]) == ("pending", 0, 0)


@virtually
async def test_nothing_is_planned_reaped_or_claimed_any_more(cluster: Cluster) -> None:
    cluster.script["slow"] = takes(25 * SECOND)
    await cluster.add_job("slow", HOURLY)
    every = await cluster.add_job("every", "every 1s")
    node = await at_the_hour(cluster)
    stopping = asyncio.create_task(node.stop())
    await cluster.advance(SECOND / 2)
    before = {verb: node.counted(verb) for verb in ("plan_due", "reap", "claim", "prune")}
    beats = node.counted("heartbeat")
    planned = len(await cluster.runs(every))
    await stopping

    assert {verb: node.counted(verb) for verb in before} == before
    assert node.counted("heartbeat") > beats  # its leases are renewed to the end
    assert len(await cluster.runs(every)) == planned


def test_the_order_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Each loop is asked to stop only when those before it have."""
    order: list[str] = []

    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = takes(10 * SECOND)
        await cluster.add_job(schedule=HOURLY)
        node = await at_the_hour(cluster)
        for name, task in node.engine._tasks.items():
            task.add_done_callback(lambda _, name=name: order.append(name))
        await node.stop()

    with caplog.at_level(logging.INFO, "hourbell.engine"):
        test()
    loops = [name for name in order if name not in ("wakes", "pulse")]
    assert loops == ["planner", "reaper", "janitor", "runner", "settler", "heartbeat"]
    assert [record.message for record in caplog.records if record.message.startswith("engine_stop")] == [
        "engine_stopping",
        "engine_stopped",
    ]
    assert "drain_limit_reached" not in caplog.text


@virtually
async def test_a_lease_is_kept_while_an_attempt_is_drained(cluster: Cluster) -> None:
    cluster.script["job"] = takes(3 * MINUTE)
    job = await cluster.add_job(schedule=HOURLY)
    node = await at_the_hour(cluster, drain_timeout=5 * MINUTE)
    await cluster.start()
    await node.stop()

    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 1, 0)


@virtually
async def test_rolling_restarts_under_load_lose_and_double_nothing(cluster: Cluster) -> None:
    cluster.latency = 0.002
    cluster.script["*"] = takes(2 * SECOND)
    for number in range(20):
        await cluster.add_job(f"job-{number}", "every 3s", catch_up=CatchUp.ALL, lane=f"lane-{number % 3}")
    nodes = await cluster.start_many(3, apart=0.5)
    for _ in range(20):
        stopping = asyncio.create_task(nodes.pop(0).stop())
        nodes.append(await cluster.start())
        await cluster.advance(2.7)
        await stopping
    for node in nodes:
        await node.stop()
    await cluster.start()
    await cluster.advance(5 * SECOND)

    runs = await cluster.runs()
    done = [run for run in runs if run["scheduled_at"] < cluster.now() - 4 * SECOND]
    assert {run["state"] for run in done} == {"succeeded"}
    begun = [called.run_id for called in cluster.calls]
    assert len(begun) == len(set(begun))
    assert {run["failures"] + run["crashes"] for run in runs} == {0}
    await cluster.assert_accounted()


@pytest.mark.parametrize("outage", [2 * SECOND, LEASE], ids=["short", "long"])
def test_a_stop_while_the_database_is_unreachable_ends_and_loses_nothing(outage: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = takes(5 * SECOND)
        job = await cluster.add_job(schedule=HOURLY)
        node = await at_the_hour(cluster)
        before = cluster.now()
        with cluster.outage():
            stopping = asyncio.create_task(node.stop())
            await cluster.advance(outage)
        await stopping
        assert cluster.now() - before < outage + 45 * SECOND
        await cluster.start()
        await cluster.advance(2 * LEASE)

        assert await cluster.states(job) == ["succeeded"]
        await cluster.assert_accounted()

    test()


@virtually
async def test_a_second_signal_loses_nothing_either(cluster: Cluster) -> None:
    cluster.script["job"] = takes(20 * SECOND)
    job = await cluster.add_job(schedule=HOURLY)
    node = await at_the_hour(cluster)
    stopping = asyncio.create_task(node.stop())
    await cluster.advance(SECOND)
    node.crash()
    stopping.cancel()
    await cluster.start()
    await cluster.advance(2 * LEASE)

    assert await cluster.states(job) == ["succeeded"]
