"""The overlap policies, from the plan to the last outcome, against a target that is slower than its schedule."""

from itertools import pairwise

import pytest

from hourbell.core.run.policies import CatchUp, Overlap
from tests.engine.nodes import MINUTE, SECOND, Called, Cluster, Fails, hang, takes, virtually
from tests.engine.virtual import START

ONE_AT_A_TIME = [overlap for overlap in Overlap if overlap is not Overlap.ALLOW]


def assert_one_at_a_time(calls: list[Called]) -> None:
    for earlier, later in pairwise(calls):
        assert earlier.ended_at is not None
        assert later.started_at >= earlier.ended_at


def instants(calls: list[Called]) -> list[int]:
    return [round((called.scheduled_at - START) / SECOND) for called in calls]


async def run_slowly(cluster: Cluster, overlap: Overlap, nodes: int = 1) -> None:
    """A run each ten seconds that takes twenty-five, for a minute and a half."""
    cluster.script["job"] = takes(25 * SECOND)
    await cluster.add_job(schedule="every 10s", overlap=overlap, catch_up=CatchUp.ALL)
    await cluster.start_many(nodes, apart=0.3)
    await cluster.advance_to(START + 89 * SECOND)
    await cluster.assert_accounted()


@virtually
async def test_allow_runs_them_beside_each_other(cluster: Cluster) -> None:
    await run_slowly(cluster, Overlap.ALLOW)

    assert instants(cluster.calls) == [10, 20, 30, 40, 50, 60, 70, 80]
    assert cluster.max_running["job"] == 3


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("overlap", ONE_AT_A_TIME)
def test_every_other_policy_runs_one_at_a_time(overlap: Overlap, nodes: int) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.latency = 0.002
        await run_slowly(cluster, overlap, nodes)

        assert cluster.max_running["job"] == 1
        assert_one_at_a_time(cluster.calls)

    test()


@virtually
async def test_skip_leaves_out_what_falls_due_meanwhile(cluster: Cluster) -> None:
    await run_slowly(cluster, Overlap.SKIP)

    assert instants(cluster.calls) == [10, 40, 70]
    assert [row["count"] for row in await cluster.rows("skips")] == [2, 2, 1]


@virtually
async def test_queue_one_keeps_the_first_that_waits(cluster: Cluster) -> None:
    await run_slowly(cluster, Overlap.QUEUE_ONE)

    assert instants(cluster.calls) == [10, 20, 40, 70]
    assert_one_at_a_time(cluster.calls)
    for earlier, later in pairwise(cluster.calls):
        assert earlier.ended_at is not None
        assert later.started_at - earlier.ended_at < SECOND / 5


@virtually
async def test_queue_all_drops_nothing_and_keeps_the_order(cluster: Cluster) -> None:
    await run_slowly(cluster, Overlap.QUEUE_ALL)
    cluster.script.clear()
    await cluster.advance(30 * SECOND)

    assert instants(cluster.calls) == list(range(10, 121, 10))[: len(cluster.calls)]
    assert len(cluster.calls) >= 10
    assert await cluster.rows("skips") == []


@virtually
async def test_a_long_queue_of_short_runs_does_not_wait_between_them(cluster: Cluster) -> None:
    cluster.script["job"] = takes(SECOND / 100)
    job = await cluster.add_job(overlap=Overlap.QUEUE_ALL, catch_up=CatchUp.ALL)
    await cluster.advance(90 * MINUTE)
    await cluster.start()
    await cluster.advance(5 * SECOND)

    assert await cluster.states(job) == ["succeeded"] * 90
    assert_one_at_a_time(cluster.calls)
    assert instants(cluster.calls) == sorted(instants(cluster.calls))


@virtually
async def test_cancel_running_stops_the_old_one_for_the_new(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    job = await cluster.add_job(overlap=Overlap.CANCEL_RUNNING)
    await cluster.start_many(2)
    await cluster.advance_to(START + 3 * MINUTE + 20 * SECOND)

    assert await cluster.states(job) == ["cancelled", "cancelled", "running"]
    assert cluster.max_running["job"] == 1
    assert max(called.lateness for called in cluster.calls) < 17 * SECOND  # a heartbeat notifies the node
    await cluster.assert_accounted()


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ALL, Overlap.QUEUE_ONE, Overlap.SKIP])
def test_a_retrying_run_keeps_its_position(overlap: Overlap) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = Fails(1)
        await cluster.add_job(schedule="every 20s", overlap=overlap)
        await cluster.start()
        await cluster.advance_to(START + 52 * SECOND)

        assert instants(cluster.calls)[:2] == [20, 20]
        assert cluster.calls[1].started_at >= START + 50 * SECOND

    test()


@virtually
async def test_a_crash_keeps_the_position_of_the_run_it_interrupted(cluster: Cluster) -> None:
    cluster.script["job"] = takes(30 * SECOND)
    await cluster.add_job(overlap=Overlap.QUEUE_ALL)
    first = await cluster.start()
    await cluster.advance_to(START + MINUTE + SECOND)
    first.crash()
    await cluster.start()
    await cluster.advance_to(START + 4 * MINUTE)

    assert instants(cluster.calls)[:3] == [60, 60, 120]
    assert_one_at_a_time(cluster.calls[1:3])
    await cluster.assert_accounted()
