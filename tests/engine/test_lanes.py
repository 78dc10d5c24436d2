"""Slots, lanes and ranks: one slow receiver takes no more than its share, and nothing starves."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from hourbell.core.run.policies import CatchUp, Priority
from hourbell.core.run.settle import Outcome, Succeeded
from hourbell.engine.shares import last_slots
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.base import Call
from tests.engine.nodes import HOUR, MINUTE, SECOND, Cluster, Node, hang, takes, virtually
from tests.engine.virtual import START


@virtually
async def test_a_lane_whose_target_hangs_takes_no_more_than_its_limit(cluster: Cluster) -> None:
    cluster.lane_slots = {"task:slow": 10}
    for number in range(50):
        await cluster.add_job(f"slow-{number}", lane="slow", catch_up=CatchUp.ALL)
        cluster.script[f"slow-{number}"] = hang
    for number in range(50):
        await cluster.add_job(f"good-{number}", lane="good")
    await cluster.start(slots=40)
    await cluster.advance_to(START + 5 * MINUTE + SECOND)

    good = [called for called in cluster.calls if called.job.startswith("good")]
    assert len(good) == 250
    assert max(called.lateness for called in good) < SECOND
    assert sum(cluster.running.values()) == 10
    await cluster.assert_accounted()


@pytest.mark.parametrize("slots", [1, 7, 100])
def test_a_node_never_makes_more_attempts_than_it_has_slots(slots: int) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        peak = 0

        async def count(*_: object) -> Outcome:
            nonlocal peak
            peak = max(peak, sum(cluster.running.values()))
            await asyncio.sleep(0.05)
            return Succeeded()

        cluster.script["*"] = count
        for number in range(150):
            await cluster.add_job(f"job-{number}", lane=f"lane-{number % 7}")
        await cluster.start(slots=slots)
        await cluster.advance_to(START + 2 * MINUTE + 20 * SECOND)

        assert peak == slots - last_slots(slots), "the last ones are for lanes that hold few"
        assert len(cluster.calls) == 300

    test()


@virtually
async def test_while_outcomes_cannot_be_written_a_node_holds_no_more_than_twice_its_slots(cluster: Cluster) -> None:
    is_away = True

    async def refuse() -> None:
        if is_away:
            raise StoreUnavailable("settling only")

    for number in range(20):
        await cluster.add_job(f"job-{number}", lane=f"lane-{number % 2}", schedule="0 * * * *")
    await cluster.advance_to(START + HOUR - SECOND)
    node = await cluster.start(slots=3)
    node.before("settle", refuse)
    await cluster.advance(20 * SECOND)
    assert len(cluster.calls) == 6

    is_away = False
    await cluster.advance(20 * SECOND)
    assert len(cluster.calls) == 20
    await cluster.assert_accounted()


@virtually
async def test_more_lanes_than_a_claim_can_name_are_all_served(cluster: Cluster) -> None:
    for number in range(450):
        await cluster.add_job(f"job-{number}")
    await cluster.start(slots=50)
    await cluster.advance_to(START + 2 * MINUTE + 5 * SECOND)

    assert set(Counter(called.job for called in cluster.calls).values()) == {2}
    assert max(called.lateness for called in cluster.calls) < 2 * SECOND


@virtually
async def test_higher_priorities_go_first_and_one_slot_in_eight_to_the_oldest(cluster: Cluster) -> None:
    """The low ones have waited a second longer than the others."""
    cluster.script["*"] = takes(SECOND)
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        for number in range(64):
            at = START + MINUTE + (0 if priority is Priority.LOW else 1) * SECOND
            name = f"{priority}-{number}"
            await cluster.add_job(name, f"at {at:%Y-%m-%dT%H:%M:%S}", lane="shared", priority=priority)
    await cluster.advance_to(START + MINUTE + 10 * SECOND)
    await cluster.plan_only()
    await cluster.start(slots=16)
    await cluster.advance(20 * SECOND)

    order = [called.job.partition("-")[0] for called in cluster.calls]
    waves = [Counter(order[start : start + 16]) for start in range(0, len(order), 16)]
    assert len(order) == 192
    assert waves[0]["high"] == 14  # sixteen slots: two for the oldest, whatever their rank
    assert waves[0]["low"] == 2
    assert waves[1]["high"] == 14
    assert "high" not in waves[8]


@virtually
async def test_a_low_priority_does_not_starve_under_a_constant_load(cluster: Cluster) -> None:
    cluster.script["*"] = takes(SECOND)
    for number in range(4):
        await cluster.add_job(f"high-{number}", "every 1s", lane="shared", priority=Priority.HIGH)
    await cluster.add_job("low", "every 30s", lane="shared", priority=Priority.LOW)
    await cluster.start(slots=3)
    await cluster.advance(5 * MINUTE)

    assert len(cluster.calls_of("low")) >= 5


@virtually
async def test_on_time_runs_go_before_a_backlog_and_the_backlog_progresses(cluster: Cluster) -> None:
    cluster.script["*"] = takes(SECOND / 10)
    backlog = [await cluster.add_job(f"late-{n}", catch_up=CatchUp.ALL, lane="shared") for n in range(10)]
    await cluster.advance(3 * HOUR)
    for number in range(10):
        await cluster.add_job(f"now-{number}", "every 1s", lane="shared", max_age=HOUR)
    await cluster.start(slots=4)
    await cluster.advance(MINUTE)

    now = [called for called in cluster.calls if called.job.startswith("now")]
    late = [called for called in cluster.calls if called.job.startswith("late")]
    assert max(called.lateness for called in now) < SECOND
    assert len(late) > 60 * 10 * 2  # forty slots a second, ten of them taken by what is on time
    assert all(job.id for job in backlog)
    await cluster.assert_accounted()


@virtually
async def test_without_a_free_slot_lanes_are_scanned_once_a_second_and_when_runs_were_added(cluster: Cluster) -> None:
    cluster.script["*"] = takes(SECOND / 20)
    await cluster.add_job(schedule="every 1s", catch_up=CatchUp.ALL)
    await cluster.advance(HOUR)
    await cluster.plan_only()
    node = await cluster.start(slots=4)
    await cluster.advance(5 * SECOND)
    polls = node.counted("lanes")
    await cluster.advance(20 * SECOND)

    assert len(cluster.calls) > 20 / 0.06 * 4, "it is busy all the time"
    assert node.counted("lanes") - polls <= 2 * 20


@virtually
async def test_slots_are_shared_by_lanes_in_turn(cluster: Cluster) -> None:
    """A lane with a long line does not keep another lane's single run waiting."""
    cluster.script["*"] = takes(SECOND)
    for number in range(100):
        await cluster.add_job(f"long-{number}", lane="long")
    await cluster.add_job("short")
    await cluster.start(slots=5)
    await cluster.advance_to(START + MINUTE + 30 * SECOND)

    assert cluster.calls_of("short")[0].lateness < 3 * SECOND


@virtually
async def test_a_slot_is_free_only_when_its_outcome_is_written(cluster: Cluster) -> None:
    cluster.script["*"] = takes(SECOND)
    for number in range(10):
        await cluster.add_job(f"job-{number}", lane="shared")
    await cluster.start(slots=2)
    await cluster.advance_to(START + MINUTE + SECOND / 2)
    with cluster.outage():
        await cluster.advance(20 * SECOND)
        assert len(cluster.calls) == 2
    await cluster.advance(20 * SECOND)

    assert len(cluster.calls) == 10


@virtually
async def test_a_thousand_jobs_of_one_second_are_all_on_time(cluster: Cluster) -> None:
    async def quick(_: Node, call: Call) -> Outcome:
        return Succeeded(call.run.attempt)

    cluster.script["*"] = quick
    for number in range(1_000):
        await cluster.add_job(f"job-{number}", lane=f"lane-{number % 20}")
    await cluster.start()
    await cluster.advance_to(START + 2 * MINUTE + SECOND)

    lateness: list[timedelta] = sorted(called.lateness for called in cluster.calls)
    assert len(lateness) == 2_000
    assert lateness[-1] < SECOND / 2
    await cluster.assert_accounted()


@virtually
async def test_many_lanes_with_a_run_each_are_drained_by_few_claims(cluster: Cluster) -> None:
    for number in range(1_000):
        await cluster.add_job(f"job-{number}", lane=f"lane-{number}")
    await cluster.start()
    await cluster.advance_to(START + MINUTE + 2 * SECOND)

    assert len(cluster.calls) == 1_000
    assert sum(count for (_, verb), count in cluster.verbs.items() if verb == "claim") < 60
