"""Crash counts: only a dead node counts as a death. A lost response and a freeze do not."""

import asyncio
from datetime import datetime, timedelta

import pytest

from hourbell.core.run.policies import Delivery
from hourbell.core.run.settle import Outcome, Succeeded
from hourbell.store.errors import StoreUnavailable
from tests.engine.nodes import (
    HOUR,
    LEASE,
    MINUTE,
    REAP,
    SECOND,
    TAKEN_OVER,
    WARM_UP,
    Cluster,
    Node,
    kill,
    takes,
    virtually,
)
from tests.engine.virtual import START

HOURLY = "0 * * * *"
BEAT = LEASE / 4


def lose_claim_answers(node: Node, times: int) -> None:
    """Lose the answers to the node's next claims, after they are committed."""
    left = iter(range(times))

    async def lose() -> None:
        if next(left, None) is not None:
            raise StoreUnavailable("the answer was lost")

    node.after("claim", lose)


def holder(cluster: Cluster) -> Node:
    """The node that made the newest call."""
    return next(node for node in cluster.alive if node.number == cluster.calls[-1].node)


@virtually
async def test_three_lost_claim_answers_count_as_no_deaths(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node = await cluster.start()
    lose_claim_answers(node, 3)
    await cluster.advance_to(START + HOUR + 4 * BEAT)

    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"], run["crashes"], run["attempt"]) == ("succeeded", None, 0, 4)
    assert [attempt["number"] for attempt in await cluster.attempts(run["id"])] == [4]
    reported = [vars(record) for record in caplog.records if record.getMessage() == "leases_handed_back"]
    assert [record["count"] for record in reported] == [1, 1, 1]


@virtually
async def test_a_lease_whose_claim_answer_was_lost_is_handed_back_soon_after_a_heartbeat(
    cluster: Cluster,
) -> None:
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node = await cluster.start()
    lose_claim_answers(node, 1)
    await cluster.advance_to(START + HOUR + 2 * BEAT)

    [called] = cluster.calls
    assert (called.attempt, called.lateness <= BEAT * 1.25 + SECOND) == (2, True)


@virtually
async def test_a_lease_whose_claim_answer_was_lost_is_handed_back_though_the_clock_steps_back(cluster: Cluster) -> None:
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node = await cluster.start()
    lose_claim_answers(node, 1)
    await cluster.advance_to(START + HOUR + SECOND)
    cluster.step(-HOUR / 2)
    await cluster.advance(2 * BEAT)

    [run] = await cluster.runs()
    assert (run["state"], run["attempt"]) == ("pending", 1)
    await cluster.advance(HOUR / 2)
    [run] = await cluster.runs()
    assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 2, 0)


@virtually
async def test_a_claim_whose_answer_is_slow_is_not_handed_back(cluster: Cluster) -> None:
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node = await cluster.start()

    async def be_slow() -> None:
        await cluster.advance(2.5 * BEAT)

    node.after("claim", be_slow)
    await cluster.advance_to(START + HOUR + 2 * LEASE)

    assert [called.attempt for called in cluster.calls] == [1]
    [run] = await cluster.runs()
    assert (run["state"], run["attempt"]) == ("succeeded", 1)


@virtually
async def test_lost_claim_answers_before_a_long_silence_count_as_no_deaths(cluster: Cluster) -> None:
    """The network breaks in the middle of a claim, for longer than a lease, three times: another node reaps."""
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    claimer, reaper = await cluster.start_many(2)
    reaper.engine.attempts.take_no_more()
    await cluster.advance_to(START + HOUR - SECOND)

    async def cut_off() -> None:
        claimer.is_cut_off = True

    claimer.after("claim", cut_off)
    for _ in range(3):
        await cluster.advance(BEAT)
        assert claimer.is_cut_off
        await cluster.advance(LEASE + 2 * REAP)
        claimer.is_cut_off = False
    claimer.store.hooks.clear()
    await cluster.advance(LEASE)

    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"], run["attempt"]) == ("succeeded", None, 4)
    assert [called.attempt for called in cluster.calls] == [4]


@pytest.mark.parametrize("duration", [10 * SECOND, 300 * SECOND], ids=["answered late", "stopped as lost"])
def test_three_freezes_count_as_no_deaths(duration: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = takes(duration)
        job = await cluster.add_job(schedule=HOURLY)
        await cluster.advance_to(START + HOUR - MINUTE)
        await cluster.start_many(2)
        await cluster.advance_to(START + HOUR + SECOND)
        for attempt in (1, 2, 3):
            frozen = holder(cluster)
            frozen.freeze()
            while cluster.calls[-1].attempt == attempt:
                await cluster.advance(SECOND)
            frozen.thaw()
            await cluster.advance(SECOND)
        await cluster.advance(2 * LEASE + duration)

        [run] = await cluster.runs(job)
        assert (run["state"], run["reason"], run["attempt"], run["crashes"]) == ("succeeded", None, 4, 1)

    test()


@virtually
async def test_attempts_that_are_stopped_as_lost_are_logged(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    stopped = []

    async def slow(_: Node, __: object) -> Outcome:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            stopped.append(cluster.now())
            raise
        return Succeeded()

    cluster.script["*"] = slow
    for number in range(3):
        await cluster.add_job(f"job-{number}", HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node, reaper = await cluster.start_many(2)
    reaper.engine.attempts.take_no_more()
    await cluster.advance_to(START + HOUR + SECOND)
    node.freeze()
    await cluster.advance(LEASE + 2 * REAP)
    node.thaw()
    await cluster.advance(SECOND)

    [reported] = [vars(record) for record in caplog.records if record.getMessage() == "attempts_stopped_as_lost"]
    assert (reported["count"], len(reported["runs"]), len(stopped)) == (3, 3, 3)


@virtually
async def test_an_attempt_that_is_claimed_twice_is_made_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.script["job"] = takes(10 * SECOND)
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node = await cluster.start()
    await cluster.advance_to(START + HOUR + SECOND)
    [active] = node.engine.attempts._held.values()

    again = node.engine.attempts.take([active.run], {active.run.lane: active.target}, cluster.now(), 1e9)
    assert again == []
    await cluster.advance(MINUTE)
    assert len(cluster.calls) == 1
    [reported] = [vars(record) for record in caplog.records if record.getMessage() == "runs_claimed_while_held"]
    assert (reported["count"], reported["runs"]) == (1, [{"run": str(active.run.id), "attempt": 1}])


@virtually
async def test_a_run_that_is_frozen_once_and_then_kills_is_poison_by_its_third_death(cluster: Cluster) -> None:
    cluster.script["job"] = takes(10 * SECOND)
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + SECOND)
    frozen = holder(cluster)
    frozen.freeze()
    cluster.script["job"] = kill
    await cluster.advance(TAKEN_OVER)
    frozen.thaw()
    deaths = 1
    for _ in range(8):
        if not cluster.alive:
            await cluster.start()
        await cluster.advance(TAKEN_OVER + WARM_UP)
        deaths = len(cluster.calls) - 1

    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"], run["crashes"], deaths) == ("failed", "poison", 3, 3)


@virtually
async def test_a_death_before_an_at_most_once_effect_is_not_charged(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule=HOURLY, delivery=Delivery.AT_MOST_ONCE)
    await cluster.advance_to(START + HOUR - SECOND)

    async def die(node: Node, _: object) -> None:
        node.crash()
        await cluster.advance(SECOND)

    cluster.before_begin.append(die)
    for _ in range(4):
        await cluster.start()
        await cluster.advance(TAKEN_OVER + WARM_UP)
    cluster.before_begin.clear()
    await cluster.start()
    await cluster.advance(TAKEN_OVER + WARM_UP)

    [run] = await cluster.runs(job)
    assert (run["state"], run["crashes"], len(cluster.calls)) == ("succeeded", 0, 1)


@pytest.mark.parametrize("when", ["before", "after"], ids=["not written", "answer lost"])
def test_an_at_most_once_run_does_not_begin_while_that_cannot_be_written(when: str) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(schedule=HOURLY, delivery=Delivery.AT_MOST_ONCE)
        await cluster.advance_to(START + HOUR - MINUTE)
        node = await cluster.start()

        async def fail() -> None:
            raise StoreUnavailable("as the test says")

        (node.before if when == "before" else node.after)("begin", fail)
        await cluster.advance_to(START + HOUR + 5 * SECOND)
        assert cluster.calls == []
        node.store.hooks.clear()
        await cluster.advance(LEASE)

        assert len(cluster.calls) == 1
        [run] = await cluster.runs(job)
        assert (run["state"], run["failures"], run["crashes"]) == ("succeeded", 0, 0)

    test()


@virtually
async def test_a_lease_is_trusted_from_when_its_renewal_was_asked_for(cluster: Cluster) -> None:
    """Not from its answer, which may come much later: by then the lease may be another's."""
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    node = await cluster.start()
    asked: list[datetime] = []

    async def ask() -> None:
        if cluster.calls or asked:
            raise StoreUnavailable("the database is away")
        if await cluster.runs(state="running"):
            asked.append(cluster.now())

    async def be_slow() -> None:
        if asked:
            await cluster.advance(2 * LEASE / 3)

    async def wait(*_: object) -> None:
        while not asked or cluster.now() < asked[0] + LEASE - 3 * SECOND:
            await cluster.advance(SECOND)

    node.before("heartbeat", ask)
    node.after("heartbeat", be_slow)
    cluster.before_begin.append(wait)
    await cluster.advance_to(START + HOUR + 2 * LEASE)

    assert asked
    assert cluster.calls == []
