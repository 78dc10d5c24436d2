"""Lanes that share a limited resource, such as threads: a node claims only what it can begin."""

import asyncio
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from hourbell.api.health import PoolUse
from hourbell.core.run.policies import RetryPolicy
from hourbell.service import _readiness
from hourbell.targets.base import Call
from hourbell.wiring import Stores
from tests.engine.nodes import HOUR, MINUTE, SECOND, Cluster, Fails, Node, hang, keeps_on, kill, takes, virtually
from tests.engine.virtual import START


def share(cluster: Cluster, slots: int, *lanes: str) -> None:
    cluster.lane_pools |= {f"task:{lane}": slots for lane in lanes}


def max_held(node: Node) -> list[int]:
    """Record how many unfinished runs a node holds after each claim."""
    held: list[int] = []

    async def count() -> None:
        rows = await node.cluster.runs(lease_owner=node.id)
        ended = {called.run_id for called in node.cluster.calls if called.ended_at is not None}
        held.append(len([row for row in rows if row["id"] not in ended]))

    node.after("claim", count)
    return held


@virtually
async def test_an_idle_node_takes_at_once_the_runs_another_has_no_slot_for(cluster: Cluster) -> None:
    share(cluster, 4, "slow", "quick")
    for number in range(4):
        cluster.script[f"slow-{number}"] = keeps_on(40 * SECOND)
        await cluster.add_job(f"slow-{number}", "0 * * * *", lane="slow")
    await cluster.advance_to(START + HOUR - 5 * SECOND)
    busy = await cluster.start()
    held = max_held(busy)
    await cluster.advance_to(START + HOUR + SECOND)
    assert sum(cluster.running.values()) == 4
    await cluster.start()
    for number in range(3):
        await cluster.add_job(f"quick-{number}", "every 1s", lane="quick")
    await cluster.advance(30 * SECOND)

    quick = [called for called in cluster.calls if called.job.startswith("quick")]
    assert len(quick) >= 3 * 28
    assert max(called.lateness for called in quick) < SECOND / 2
    assert {called.node for called in quick} == {2}
    assert max(held) == 4
    assert cluster.without_slot == []


@virtually
async def test_one_claim_does_not_offer_a_free_slot_to_several_lanes(cluster: Cluster) -> None:
    lanes = [f"lane-{number}" for number in range(10)]
    share(cluster, 5, *lanes)
    cluster.script["*"] = takes(SECOND)
    for lane in lanes:
        for number in range(3):
            await cluster.add_job(f"{lane}-{number}", lane=lane)
    node = await cluster.start()
    held = max_held(node)
    await cluster.advance_to(START + MINUTE + 20 * SECOND)

    assert len(cluster.calls) == 30
    assert max(held) == 5
    assert cluster.without_slot == []
    assert max(called.lateness for called in cluster.calls) < 6.5 * SECOND, "all five are used all the time"


@virtually
async def test_a_lane_without_a_pool_does_not_wait_for_one(cluster: Cluster) -> None:
    share(cluster, 2, "stuck", "other")
    cluster.script["stuck"] = hang
    await cluster.add_job("stuck", "every 1s", lane="stuck")
    await cluster.add_job("other", "every 1s", lane="other")
    await cluster.start()
    await cluster.advance(10 * SECOND)
    await cluster.add_job("free", "every 1s", lane="free")
    await cluster.advance(20 * SECOND)

    free = cluster.calls_of("free")
    assert len(free) >= 19
    assert max(called.lateness for called in free) < SECOND / 2
    assert sum(cluster.running.values()) == 2
    assert cluster.without_slot == []


@virtually
async def test_lanes_take_turns_at_shared_slots(cluster: Cluster) -> None:
    """A lane with a long line does not keep another lane's single run waiting for longer than a place does."""
    share(cluster, 2, "long", "short")
    cluster.script["*"] = takes(10 * SECOND)
    for number in range(20):
        await cluster.add_job(f"long-{number}", lane="long", schedule="0 * * * *")
    for number in range(3):
        await cluster.add_job(f"short-{number}", lane="short", schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    await cluster.start()
    await cluster.advance(HOUR / 6)

    short = [called for called in cluster.calls if called.job.startswith("short")]
    assert len(cluster.calls) == 23
    assert max(called.lateness for called in short) < 35 * SECOND
    assert cluster.without_slot == []


@virtually
async def test_freed_slots_are_used_at_once(cluster: Cluster) -> None:
    share(cluster, 1, "shared")
    cluster.script["*"] = takes(3 * SECOND)
    for number in range(5):
        await cluster.add_job(f"job-{number}", lane="shared")
    await cluster.start()
    await cluster.advance_to(START + MINUTE + 30 * SECOND)

    starts = sorted(called.started_at for called in cluster.calls)
    assert len(starts) == 5
    assert starts[-1] - starts[0] < 4 * 3.1 * SECOND


@virtually
async def test_a_suspect_is_not_claimed_without_a_free_slot(cluster: Cluster) -> None:
    share(cluster, 1, "busy", "suspect")
    cluster.script["busy"] = takes(30 * SECOND)
    await cluster.add_job("busy", "0 * * * *", lane="busy")
    await cluster.advance_to(START + HOUR - 5 * SECOND)
    node = await cluster.start()
    await cluster.advance_to(START + HOUR + SECOND)
    assert len(cluster.calls) == 1
    suspect = await cluster.add_job("suspect", "every 5s", lane="suspect")
    await cluster.advance(6 * SECOND)
    await cluster.sql("update hourbell.runs set crashes = 2 where state = 'pending'")
    claims = node.counted("claim")
    await cluster.advance(3 * SECOND)
    assert await cluster.states(suspect) == ["pending"]
    assert node.counted("claim") == claims

    await cluster.advance(30 * SECOND)
    assert (await cluster.states(suspect))[0] == "succeeded"
    assert cluster.without_slot == []


@virtually
async def test_a_node_is_not_ready_while_every_slot_of_a_pool_is_overdue(cluster: Cluster) -> None:
    share(cluster, 2, "stuck")
    cluster.script["stuck"] = hang
    await cluster.add_job("stuck", "every 1s", lane="stuck")
    node = await cluster.start()
    await cluster.advance(10 * SECOND)
    stores = cast(Stores, SimpleNamespace(engine=node.store, write_error=no_error))
    [pool] = node.engine.pools
    pool.mark_overdue("first", "stuck")
    assert (await _readiness(node.engine, stores)).is_ready

    pool.mark_overdue("second", "stuck")
    readiness = await _readiness(node.engine, stores)
    assert (readiness.is_ready, readiness.pools) == (False, (PoolUse("pool-2", 2, 2, {"stuck": 2}),))
    assert "stuck (2)" in readiness.reasons(with_names=True)[0]

    pool.leave("first")
    assert (await _readiness(node.engine, stores)).is_ready


@virtually
async def test_a_run_is_as_late_as_its_work_begins_and_not_as_it_was_claimed(cluster: Cluster) -> None:
    async def connect(node: Node, call: Call) -> None:  # noqa: ARG001
        await asyncio.sleep(3)

    cluster.before_begin.append(connect)
    await cluster.add_job(schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    node = await cluster.start()
    await cluster.advance(10 * SECOND)

    [run] = await cluster.runs()
    [attempt] = await cluster.attempts(run["id"])
    [called] = cluster.calls
    assert called.lateness >= 3 * SECOND
    assert abs(run["started_at"] - called.started_at) < SECOND / 1000
    assert attempt["started_at"] == run["started_at"]
    assert lateness(node) == (1, pytest.approx(called.lateness.total_seconds(), abs=0.001))


def lateness(node: Node) -> tuple[int, float]:
    """Return the number of runs in the histogram, and the sum of their lateness."""
    [family] = node.metrics.lateness.collect()
    values = {sample.name.removeprefix("hourbell_lateness_seconds"): sample.value for sample in family.samples}
    return int(values["_count"]), values["_sum"]


@virtually
async def test_the_lateness_of_a_run_is_counted_once_however_often_it_is_tried(cluster: Cluster) -> None:
    cluster.script["job"] = Fails(2)
    await cluster.add_job(schedule="0 * * * *", retry=RetryPolicy(4, (30 * SECOND,)))
    await cluster.advance_to(START + HOUR - SECOND)
    node = await cluster.start()
    await cluster.advance(2 * MINUTE)

    assert len(cluster.calls) == 3
    assert lateness(node) == (1, pytest.approx(0, abs=0.1))


@virtually
async def test_a_run_whose_first_attempt_fails_to_begin_is_counted_once_and_on_time(cluster: Cluster) -> None:
    tried: list[UUID] = []

    async def refuse_once(node: Node, call: Call) -> None:  # noqa: ARG001
        tried.append(call.run.id)
        if len(tried) == 1:
            raise ConnectionRefusedError

    await cluster.add_job(schedule="0 * * * *", retry=RetryPolicy(4, (30 * SECOND,)))
    await cluster.advance_to(START + HOUR - SECOND)
    cluster.before_begin.append(refuse_once)
    node = await cluster.start()
    await cluster.advance(2 * MINUTE)

    assert (len(tried), len(cluster.calls)) == (2, 1)
    assert lateness(node) == (1, pytest.approx(0, abs=0.1))


@virtually
async def test_a_run_taken_over_after_a_crash_is_not_counted_again(cluster: Cluster) -> None:
    cluster.script["job"] = kill
    await cluster.add_job(schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    first = await cluster.start()
    await cluster.advance(2 * SECOND)
    del cluster.script["job"]
    second = await cluster.start()
    await cluster.advance(3 * MINUTE)

    assert [called.node for called in cluster.calls] == [1, 2]
    assert (lateness(first)[0], lateness(second)[0]) == (1, 0)


async def no_error() -> None:
    """A database that takes writes."""
