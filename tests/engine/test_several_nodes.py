"""Two and more nodes on one database: each run happens once, and a dead node costs one lease and no run."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest

from hourbell.core.run.policies import CatchUp, Delivery, RetryPolicy
from hourbell.core.run.settle import Outcome, Succeeded
from hourbell.targets.base import Call
from tests.engine.nodes import (
    DAY,
    HOUR,
    LEASE,
    MINUTE,
    REAP,
    SECOND,
    TAKEN_OVER,
    WARM_UP,
    Cluster,
    Fails,
    Node,
    hang,
    kill,
    takes,
    virtually,
)
from tests.engine.virtual import START

HOURLY = "0 * * * *"


async def just_before_the_hour(cluster: Cluster) -> None:
    await cluster.advance_to(START + HOUR - SECOND)


@pytest.mark.parametrize("count", [2, 5])
def test_each_instant_runs_once(count: int) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.latency = 0.003
        cluster.settings = replace(cluster.settings, slots=8)  # no node alone has room for what is due at once
        cluster.script["*"] = takes(SECOND / 20)
        for number in range(20):
            await cluster.add_job(f"job-{number}", lane=f"lane-{number % 4}")
        nodes = await cluster.start_many(count, apart=0.4)
        await cluster.advance_to(START + 3 * MINUTE + SECOND)

        assert Counter(called.run_id for called in cluster.calls).most_common(1)[0][1] == 1
        assert len(cluster.calls) == 60
        assert max(called.lateness for called in cluster.calls) < SECOND / 5
        assert len({called.node for called in cluster.calls}) > 1
        assert len(nodes) == count
        await cluster.assert_accounted()

    test()


@virtually
async def test_nodes_that_come_and_go_run_each_instant_once(cluster: Cluster) -> None:
    cluster.latency = 0.002
    cluster.script["*"] = takes(SECOND)
    for number in range(10):
        await cluster.add_job(f"job-{number}", "every 5s", catch_up=CatchUp.ALL, lane="shared")
    nodes = await cluster.start_many(2, apart=1)
    for _ in range(6):
        await cluster.advance(7.3 * SECOND)
        nodes.append(await cluster.start())
        await nodes.pop(0).stop()
    await cluster.advance(5 * SECOND)

    assert set(Counter(called.run_id for called in cluster.calls).values()) == {1}
    await cluster.assert_accounted()


@virtually
async def test_a_crashed_nodes_run_is_taken_over_within_lease_and_reap(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.script["job"] = takes(10 * SECOND)
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + 5 * SECOND)
    [first] = cluster.calls
    next(node for node in cluster.alive if node.number == first.node).crash()
    crashed_at = cluster.now()
    await cluster.advance(TAKEN_OVER + 11 * SECOND)

    _, second = cluster.calls
    assert second.node != first.node
    assert second.started_at - crashed_at <= TAKEN_OVER
    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"], run["crashes"], run["failures"]) == ("succeeded", 2, 1, 0)
    assert [attempt["outcome"] for attempt in await cluster.attempts(run["id"])] == ["lost", "succeeded"]
    [reported] = [vars(record) for record in caplog.records if record.getMessage() == "lease_lost"]
    assert (reported["job"], reported["run"], reported["state"]) == ("job", str(run["id"]), "retrying")
    await cluster.assert_accounted()


@virtually
async def test_a_crash_between_claim_and_delivery_loses_no_run(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule=HOURLY)
    await just_before_the_hour(cluster)
    doomed = await cluster.start()

    async def die() -> None:
        doomed.crash()
        await asyncio.sleep(1)

    doomed.after("claim", die)
    await cluster.advance(2 * SECOND)
    assert cluster.calls == []

    await cluster.start()
    await cluster.advance(TAKEN_OVER + REAP)
    assert [called.attempt for called in cluster.calls] == [2]
    assert await cluster.states(job) == ["succeeded"]


@pytest.mark.parametrize("verb", ["plan_due", "claim", "definitions", "settle", "heartbeat", "reap"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_around_any_verb_loses_no_run_and_plans_none_twice(verb: str, when: str) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(catch_up=CatchUp.ALL)
        other = await cluster.add_job("other", catch_up=CatchUp.ALL)
        cluster.script["other"] = takes(20 * SECOND)
        doomed = await cluster.start()
        await cluster.advance_to(START + 59 * SECOND)

        async def die() -> None:
            if doomed in cluster.alive:
                doomed.crash()
                await asyncio.sleep(1)

        (doomed.before if when == "before" else doomed.after)(verb, die)
        await cluster.advance(MINUTE)
        assert doomed not in cluster.alive
        await cluster.start()
        await cluster.advance(TAKEN_OVER + WARM_UP + MINUTE)

        for each in (job, other):
            ended = [run["state"] for run in await cluster.runs(each) if run["scheduled_at"] < cluster.now() - MINUTE]
            assert set(ended) == {"succeeded"}
        await cluster.assert_accounted()

    test()


@virtually
async def test_a_frozen_nodes_late_write_is_superseded(cluster: Cluster) -> None:
    cluster.script["job"] = takes(10 * SECOND)
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + SECOND)
    frozen = cluster.alive[0] if cluster.calls[0].node == cluster.alive[0].number else cluster.alive[1]
    frozen.freeze()
    await cluster.advance(2 * LEASE)
    frozen.thaw()
    await cluster.advance(LEASE)

    assert [called.attempt for called in cluster.calls] == [1, 2]
    [run] = await cluster.runs(job)
    first, second = await cluster.attempts(run["id"])
    assert (first["outcome"], second["outcome"]) == ("lost", "succeeded")
    assert first["late_outcome"] in ("succeeded", "interrupted")
    assert (run["state"], run["attempt"]) == ("succeeded", 2)


@virtually
async def test_a_node_frozen_after_its_claim_starts_nothing_late(cluster: Cluster) -> None:
    """Thawed past the lease, it finds that it must not trust it any more."""
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    frozen, other = await cluster.start_many(2)
    await just_before_the_hour(cluster)
    other.engine.attempts.take_no_more()

    async def freeze() -> None:
        frozen.freeze()
        await asyncio.sleep(0.01)

    frozen.after("claim", freeze)
    await cluster.advance(2 * SECOND)
    assert frozen.is_frozen
    frozen.store.hooks.clear()
    await cluster.advance(2 * LEASE)
    frozen.thaw()
    await cluster.advance(LEASE)

    assert [called.attempt for called in cluster.calls] == [2]


@virtually
async def test_a_lease_is_not_trusted_to_its_very_end(cluster: Cluster) -> None:
    """Between the margin and the end of the lease no node may start the run."""
    await cluster.add_job(schedule=HOURLY)
    await just_before_the_hour(cluster)
    node = await cluster.start()

    async def wait(*_: object) -> None:
        node.freeze()
        await asyncio.sleep(0.5)

    cluster.before_begin.append(wait)
    await cluster.advance(2 * SECOND)
    cluster.before_begin.clear()
    await cluster.advance(LEASE - 3 * SECOND)
    node.thaw()
    await cluster.advance(5 * SECOND)

    assert [called.attempt for called in cluster.calls] == [2]
    [run] = await cluster.runs()
    assert (run["state"], run["crashes"]) == ("succeeded", 0)


@virtually
async def test_a_node_that_claims_again_what_it_lost_keeps_the_new_lease(cluster: Cluster) -> None:
    """The late end of its first attempt must not free the second one's lease."""
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    frozen, reaper = await cluster.start_many(2)

    async def slow(node: Node, call: Call) -> Outcome:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(10)  # it takes a while to stop
        if call.run.attempt == 2:
            await asyncio.sleep(3 * LEASE.total_seconds())
        return Succeeded(node.number)

    cluster.script["job"] = slow
    reaper.engine.attempts.take_no_more()
    await cluster.advance_to(START + HOUR + SECOND)
    frozen.freeze()
    await cluster.advance(LEASE + 2 * REAP)
    frozen.thaw()
    await cluster.advance(6 * LEASE)

    assert [called.attempt for called in cluster.calls] == [1, 2]
    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 2, 1)


@virtually
async def test_a_slow_heartbeat_does_not_stop_the_attempt_that_followed(cluster: Cluster) -> None:
    """A beat that asks about attempt 1 and is answered when attempt 2 runs says nothing about attempt 2."""
    job = await cluster.add_job(schedule=HOURLY, retry=RetryPolicy(2, (0 * SECOND,)))
    await just_before_the_hour(cluster)
    node = await cluster.start()

    async def first_fails_then_takes_long(node: Node, call: Call) -> Outcome:
        await asyncio.sleep(14.5 if call.run.attempt == 1 else 30)
        return await fails(node, call)

    fails = Fails(1)
    cluster.script["job"] = first_fails_then_takes_long

    async def be_slow() -> None:
        await asyncio.sleep(3)

    node.before("heartbeat", be_slow)
    await cluster.advance(2 * MINUTE)

    [run] = await cluster.runs(job)
    outcomes = [attempt["outcome"] for attempt in await cluster.attempts(run["id"])]
    assert outcomes == ["failed", "succeeded"]


@virtually
async def test_three_deaths_are_poison_and_the_bystanders_complete(cluster: Cluster) -> None:
    cluster.script["*"] = takes(2 * SECOND)
    for number in range(5):
        await cluster.add_job(f"good-{number}", HOURLY, lane="shared")
    bad = await cluster.add_job("bad", HOURLY, lane="shared")
    cluster.script["bad"] = kill
    await just_before_the_hour(cluster)
    deaths = 0
    for _ in range(8):
        if not cluster.alive:
            deaths += 1
            await cluster.start()
        await cluster.advance(TAKEN_OVER + WARM_UP)

    [run] = await cluster.runs(bad)
    assert (run["state"], run["reason"], run["crashes"]) == ("failed", "poison", 3)
    others = [row for row in await cluster.runs() if row["job_id"] != bad.id]
    assert [row["state"] for row in others] == ["succeeded"] * 5
    assert max(row["crashes"] for row in others) == 2
    assert len(cluster.calls_of("bad")) == 3


async def plan_suspects(cluster: Cluster, count: int) -> None:
    """Runs under each of which two nodes died."""
    for number in range(count):
        await cluster.add_job(f"suspect-{number}", HOURLY, lane="shared")
    await cluster.advance_to(START + HOUR)
    await cluster.plan_only()
    await cluster.sql("update hourbell.runs set crashes = 2")


@virtually
async def test_suspects_run_one_at_a_time_beside_ordinary_runs(cluster: Cluster) -> None:
    cluster.script["*"] = takes(10 * SECOND)
    await plan_suspects(cluster, 4)
    await cluster.add_job("plain", "every 5s", lane="shared")
    await cluster.start()
    await cluster.advance(MINUTE)

    suspects = [called for called in cluster.calls if called.job.startswith("suspect")]
    assert len(suspects) == 4
    for earlier, later in pairwise(suspects):
        assert earlier.ended_at is not None
        assert later.started_at >= earlier.ended_at
    assert len(cluster.calls_of("plain")) > 10


@virtually
async def test_a_suspect_takes_no_slot_that_is_not_there(cluster: Cluster) -> None:
    cluster.lane_slots = {"task:shared": 2}
    cluster.script["*"] = hang
    await plan_suspects(cluster, 1)
    for number in range(4):
        await cluster.add_job(f"plain-{number}", "every 1s", lane="shared")
    await cluster.advance(3 * SECOND)
    await cluster.start()
    await cluster.advance(10 * SECOND)

    assert len(await cluster.runs(state="running")) == 2
    assert len(cluster.calls_of("suspect-0")) == 1


@virtually
async def test_an_attempt_that_may_have_happened_is_lost_with_its_node_at_most_once(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    job = await cluster.add_job(schedule=HOURLY, delivery=Delivery.AT_MOST_ONCE)
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + SECOND)
    next(node for node in cluster.alive if node.number == cluster.calls[0].node).crash()
    await cluster.advance(TAKEN_OVER)

    assert len(cluster.calls) == 1
    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"]) == ("failed", "lost")


@virtually
async def test_at_most_once_never_starts_twice_whatever_happens(cluster: Cluster) -> None:
    starts: Counter[UUID] = Counter()

    async def deliver(_: Node, call: Call) -> Outcome:
        starts[call.run.id] += 1
        await asyncio.sleep(2)
        return Succeeded()

    cluster.script["*"] = deliver
    for number in range(5):
        await cluster.add_job(f"job-{number}", "every 7s", delivery=Delivery.AT_MOST_ONCE, lane="shared")
    await cluster.start_many(3)
    for turn in range(4):
        await cluster.advance(9.1 * SECOND)
        cluster.alive[0].crash()
        await cluster.start()
        if turn == 2:
            cluster.alive[0].freeze()
            await cluster.advance(LEASE + REAP)
            cluster.alive[0].thaw()
    await cluster.advance(TAKEN_OVER)

    assert set(starts.values()) == {1}
    await cluster.assert_accounted()


@virtually
async def test_a_node_without_the_function_never_sees_its_runs(cluster: Cluster) -> None:
    await cluster.add_job("here")
    await cluster.add_job("there")
    cluster.lanes = ("task:here",)
    await cluster.start()
    cluster.lanes = ("task:there",)
    await cluster.start()
    await cluster.advance_to(START + 2 * MINUTE + SECOND)

    assert {(called.job, called.node) for called in cluster.calls} == {("here", 1), ("there", 2)}


@virtually
async def test_a_run_expires_only_while_no_node_serves_its_lane(cluster: Cluster) -> None:
    served = await cluster.add_job("served", "at 2040-01-02T00:01:00", max_age=10 * MINUTE)
    unserved = await cluster.add_job("unserved", "at 2040-01-02T00:01:00", max_age=10 * MINUTE)
    blocker = await cluster.add_job("blocker", "at 2040-01-02T00:00:30")
    cluster.script["blocker"] = hang
    cluster.lanes = ("task:served", "task:blocker")
    await cluster.start(slots=1)
    await cluster.advance(15 * MINUTE)

    assert await cluster.states(blocker) == ["running"]
    assert await cluster.states(served) == ["pending"]
    [run] = await cluster.runs(unserved)
    assert (run["state"], run["reason"]) == ("failed", "expired")


@virtually
async def test_downtime_before_planning_does_not_age_a_run(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="at 2040-01-02T00:01:00", catch_up=CatchUp.ALL, max_age=10 * MINUTE)
    await cluster.advance(3 * DAY)
    await cluster.start()
    await cluster.advance(SECOND)

    assert await cluster.states(job) == ["succeeded"]
