"""The database's clock steps. No instant runs twice, none is lost, and one wrong sample has no effect."""

import logging
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hourbell.core.run.policies import CatchUp
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
    hang,
    takes,
    virtually,
)
from tests.engine.virtual import START

STEPS = [sign * step for step in (SECOND, 59 * SECOND, 61 * SECOND, 10 * MINUTE, DAY) for sign in (1, -1)]
BEAT = LEASE / 4


def name_of(step: timedelta) -> str:
    return f"{step.total_seconds():+.0f}s"


@pytest.mark.parametrize("step", STEPS, ids=name_of)
@pytest.mark.parametrize("nodes", [1, 3])
def test_no_instant_runs_twice_and_none_is_lost(step: timedelta, nodes: int) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.step(2 * DAY)
        begin = cluster.now()
        every_minute = await cluster.add_job("minute", catch_up=CatchUp.ALL)
        await cluster.add_job("latest", "every 10s")
        await cluster.start_many(nodes)
        await cluster.advance_to(begin + 2 * MINUTE + 30 * SECOND)
        cluster.step(step)
        await cluster.advance(3 * MINUTE)
        await cluster.advance(max(timedelta(0), min(-step, 12 * MINUTE)))

        assert set(Counter(called.run_id for called in cluster.calls).values()) == {1}
        planned = [run["scheduled_at"] for run in await cluster.runs(every_minute)]
        assert len(planned) == len(set(planned))
        if step > -DAY:
            expected = (cluster.now() - begin) // MINUTE
            assert len([at for at in planned if at <= cluster.now()]) >= min(expected, 1_000) - 1
        await cluster.assert_accounted()

    test()


@pytest.mark.parametrize("step", STEPS, ids=name_of)
def test_runs_that_live_nodes_hold_are_not_redelivered(step: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["*"] = takes(3 * MINUTE)
        for number in range(10):
            await cluster.add_job(f"job-{number}", "0 * * * *", lane="shared")
        await cluster.advance_to(START + HOUR - MINUTE)
        cluster.settings = replace(cluster.settings, slots=4)
        await cluster.start_many(3, apart=4)
        await cluster.advance_to(START + HOUR + 10 * SECOND)
        assert len({called.node for called in cluster.calls}) == 3
        cluster.step(step)
        await cluster.advance(4 * MINUTE)

        first = [called for called in cluster.calls if called.scheduled_at == START + HOUR]
        assert len(first) == 10
        ended = [run["state"] for run in await cluster.runs(scheduled_at=START + HOUR)]
        assert ended == ["succeeded"] * 10

    test()


@virtually
async def test_a_dead_nodes_run_waits_two_heartbeats_after_a_step(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    await cluster.add_job(schedule="at 2040-01-02T01:00:00")
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + 5 * SECOND)
    dead = next(node for node in cluster.alive if node.number == cluster.calls[0].node)
    dead.crash()
    cluster.step(10 * MINUTE)
    stepped_at = cluster.time.elapsed()
    while len(cluster.calls) == 1:
        await cluster.advance(SECOND)

    waited = cluster.time.elapsed() - stepped_at
    assert WARM_UP.total_seconds() <= waited
    assert waited <= (WARM_UP + BEAT + REAP + 2 * SECOND).total_seconds()


@virtually
async def test_after_a_step_forward_ordinary_catch_up_applies(cluster: Cluster) -> None:
    every = await cluster.add_job("all", catch_up=CatchUp.ALL)
    latest = await cluster.add_job("latest")
    await cluster.start()
    await cluster.advance_to(START + 30 * SECOND)
    cluster.step(10 * MINUTE)
    await cluster.advance(BEAT + SECOND)

    assert len(await cluster.runs(every)) == 10
    assert len(await cluster.runs(latest)) == 1
    await cluster.assert_accounted()


@pytest.mark.parametrize("step", [10 * SECOND, 10 * MINUTE], ids=name_of)
def test_a_planner_asleep_is_woken_by_the_step(step: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        at = START + 20 * MINUTE
        await cluster.add_job(schedule=f"at {at:%Y-%m-%dT%H:%M:%S}", catch_up=CatchUp.ALL)
        await cluster.start()
        await cluster.advance_to(at - step - SECOND)
        cluster.step(step + SECOND)
        await cluster.advance(BEAT + SECOND)

        assert len(cluster.calls) == 1

    test()


@pytest.mark.parametrize("step", [61 * SECOND, 10 * MINUTE], ids=name_of)
def test_a_pass_that_waits_does_not_decide_by_an_unconfirmed_step(step: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(schedule="every 5s", catch_up=CatchUp.ALL)
        node = await cluster.start()

        async def wait_through_a_step() -> None:
            node.store.hooks.clear()
            await cluster.advance(SECOND)
            cluster.step(step)
            while node.engine.clock.confirmations:
                await cluster.advance(SECOND / 10)

        await cluster.advance_to(START + 2 * SECOND)
        node.before("plan_due", wait_through_a_step)
        passes = node.counted("plan_due")
        while node.counted("plan_due") == passes:
            await cluster.advance(SECOND / 10)
        await cluster.advance(SECOND / 100)

        assert node.engine.clock.confirmations == 0
        assert all(run["scheduled_at"] <= cluster.now() - step for run in await cluster.runs(job))
        assert (await cluster.job_row(job))["cursor_at"] <= cluster.now() - step

    test()


@pytest.mark.parametrize("error", [DAY, -DAY], ids=name_of)
def test_one_wrong_sample_fools_nobody(error: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(catch_up=CatchUp.ALL)
        held = await cluster.add_job("held", "at 2040-01-02T00:01:00")
        cluster.script["held"] = takes(3 * MINUTE)
        nodes = await cluster.start_many(2)
        await cluster.advance_to(START + 2 * MINUTE + 40 * SECOND)
        samples = 0

        async def lie_once() -> datetime:
            nonlocal samples
            samples += 1
            return cluster.now() + (error if samples == 1 else timedelta(0))

        nodes[0].store.sample_time = lie_once
        await cluster.advance_to(START + 5 * MINUTE + 10 * SECOND)

        assert samples > 3
        assert [run["scheduled_at"] for run in await cluster.runs(job)] == [START + n * MINUTE for n in range(1, 6)]
        assert await cluster.states(held) == ["succeeded"]
        assert len(cluster.calls_of("held")) == 1
        await cluster.assert_accounted()

    test()


@virtually
async def test_a_stopped_machine_is_the_same_case(cluster: Cluster) -> None:
    """A laptop sleeps for eight hours: every process stands still while time passes."""
    job = await cluster.add_job(catch_up=CatchUp.ALL)
    held = await cluster.add_job("held", "at 2040-01-02T00:01:00")
    cluster.script["held"] = takes(5 * MINUTE)
    nodes = await cluster.start_many(2)
    await cluster.advance_to(START + 2 * MINUTE + 30 * SECOND)
    for node in nodes:
        node.freeze()
    await cluster.advance(8 * HOUR)
    for node in nodes:
        node.thaw()
    await cluster.advance(MINUTE)

    assert len(await cluster.runs(job)) == 8 * 60 + 3
    assert set(await cluster.states(job)) == {"succeeded"}
    assert len(cluster.calls_of("held")) == 1
    assert await cluster.states(held) == ["succeeded"]
    await cluster.assert_accounted()


@virtually
async def test_nodes_with_wrong_clocks_decide_alike(cluster: Cluster) -> None:
    """A node never asks its own clock: only the seconds that elapse between samples count, also if they drift."""
    for number in range(10):
        await cluster.add_job(f"job-{number}", catch_up=CatchUp.ALL, lane="shared")
    true = cluster.time.elapsed
    for error, drift in ((600.0, 1.0), (-600.0, 1.0), (0.0, 1.0005)):
        cluster.time.elapsed = lambda error=error, drift=drift: error + true() * drift  # type: ignore[misc]
        await cluster.start()
    cluster.time.elapsed = true  # type: ignore[method-assign]
    await cluster.advance_to(START + 5 * MINUTE + SECOND)

    assert set(Counter(called.run_id for called in cluster.calls).values()) == {1}
    assert len(cluster.calls) == 50
    assert max(abs(called.lateness) for called in cluster.calls) < SECOND / 5


def test_a_clock_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        await cluster.start()
        await cluster.advance(TAKEN_OVER)
        cluster.step(10 * MINUTE)
        await cluster.advance(BEAT + SECOND)

    with caplog.at_level(logging.WARNING, "hourbell.engine"):
        test()
    [reported] = [record for record in caplog.records if record.message == "clock_stepped"]
    assert reported.seconds == pytest.approx(600, abs=1)  # type: ignore[attr-defined]
