"""The database is unreachable: no run of a live node is delivered again, and every outcome is written afterwards."""

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hourbell.core.run.policies import CatchUp, Delivery
from hourbell.core.run.settle import Outcome, Succeeded
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.base import Call
from hourbell.targets.task import Task, TaskTarget
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
    hang,
    takes,
    virtually,
)
from tests.engine.virtual import START

HOURLY = "0 * * * *"


@pytest.mark.parametrize("outage", [SECOND, LEASE / 2, 3 * LEASE])
@pytest.mark.parametrize("new_node", [False, True], ids=["same-nodes", "and-a-new-node"])
def test_live_nodes_keep_what_they_hold(outage: timedelta, new_node: bool) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        for number in range(20):
            await cluster.add_job(f"job-{number}", HOURLY, lane="shared")
        cluster.script["*"] = takes(outage + 20 * SECOND)
        await cluster.advance_to(START + HOUR - MINUTE)
        await cluster.start_many(3)
        await cluster.advance_to(START + HOUR + 5 * SECOND)
        with cluster.outage():
            await cluster.advance(outage)
        if new_node:
            await cluster.start()
        await cluster.advance(WARM_UP + MINUTE)

        assert len(cluster.calls) == 20
        assert await cluster.states() == ["succeeded"] * 20
        assert {run["attempt"] for run in await cluster.runs()} == {1}

    test()


@pytest.mark.parametrize("lease", [3 * SECOND, 8 * SECOND])
def test_live_nodes_keep_what_they_hold_under_a_short_lease(lease: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.settings = replace(cluster.settings, lease=lease)
        for number in range(20):
            await cluster.add_job(f"job-{number}", HOURLY, lane="shared")
        cluster.script["*"] = takes(10 * MINUTE)
        await cluster.advance_to(START + HOUR - MINUTE)
        await cluster.start_many(3)
        await cluster.advance_to(START + HOUR + 5 * SECOND)
        for seconds in (20, 23, 27, 31):  # by then every loop waits as long as it ever does
            with cluster.outage():
                await cluster.advance(seconds)
            await cluster.advance(20 * SECOND)

        assert len(cluster.calls) == 20

    test()


@pytest.mark.parametrize("outage", [LEASE / 2, 3 * LEASE])
def test_outcomes_from_an_outage_are_written_when_the_database_is_back(outage: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        for number in range(20):
            await cluster.add_job(f"job-{number}", HOURLY, lane="shared")
        cluster.script["*"] = takes(10 * SECOND)
        await cluster.advance_to(START + HOUR - MINUTE)
        await cluster.start_many(2)
        await cluster.advance_to(START + HOUR + 5 * SECOND)
        with cluster.outage():
            await cluster.advance(outage)
        back_at = cluster.now()
        await cluster.advance(10 * SECOND)

        assert await cluster.states() == ["succeeded"] * 20
        assert len(cluster.calls) == 20
        attempts = await cluster.rows("attempts")
        assert max(attempt["finished_at"] for attempt in attempts) < back_at

    test()


@virtually
async def test_instants_that_fell_due_meanwhile_are_served_within_ten_seconds(cluster: Cluster) -> None:
    job = await cluster.add_job(catch_up=CatchUp.ALL)
    await cluster.start_many(2)
    await cluster.advance_to(START + 30 * SECOND)
    with cluster.outage():
        await cluster.advance(5 * MINUTE)
    await cluster.advance(10 * SECOND)

    assert await cluster.states(job) == ["succeeded"] * 5
    assert len(cluster.calls) == 5
    await cluster.assert_accounted()


@virtually
async def test_a_dead_nodes_run_is_taken_over_after_the_outage_too(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + 5 * SECOND)
    with cluster.outage():
        next(node for node in cluster.alive if node.number == cluster.calls[0].node).crash()
        await cluster.advance(2 * LEASE)
    await cluster.advance(WARM_UP + 2 * REAP + 5 * SECOND)

    assert [called.attempt for called in cluster.calls] == [1, 2]


@virtually
async def test_a_node_cut_off_alone_loses_its_runs_and_starts_nothing(cluster: Cluster) -> None:
    cluster.script["*"] = takes(3 * LEASE)
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - MINUTE)
    await cluster.start_many(2)
    await cluster.advance_to(START + HOUR + SECOND)
    cut_off = next(node for node in cluster.alive if node.number == cluster.calls[0].node)
    cut_off.is_cut_off = True
    await cluster.advance(TAKEN_OVER + 20 * SECOND)
    assert [called.attempt for called in cluster.calls] == [1, 2]
    cut_off.is_cut_off = False
    await cluster.advance(4 * LEASE)

    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"]) == ("succeeded", 2)
    [first, _] = await cluster.attempts(run["id"])
    assert (first["outcome"], first["late_outcome"]) == ("lost", "interrupted")


@pytest.mark.parametrize("verb", ["plan_due", "lanes", "claim", "definitions", "settle", "heartbeat", "sample_time"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_lost_on_any_verb_loses_no_run(verb: str, when: str) -> None:
    """Inject one failure of a verb, before or after its commit."""

    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(catch_up=CatchUp.ALL)
        node = await cluster.start()
        await cluster.advance_to(START + 59 * SECOND)
        failed = 0

        async def fail_once() -> None:
            nonlocal failed
            if failed == 0 and cluster.now() >= START + MINUTE:
                failed += 1
                raise StoreUnavailable("once")

        (node.before if when == "before" else node.after)(verb, fail_once)
        await cluster.advance(TAKEN_OVER + 25 * SECOND)

        assert failed == 1
        assert set(await cluster.states(job)) == {"succeeded"}
        again = Counter(called.run_id for called in cluster.calls).most_common(1)[0][1]
        assert again == 1  # a claim whose answer was lost is delivered by its second attempt only
        await cluster.assert_accounted()

    test()


@virtually
async def test_an_attempt_that_could_not_begin_is_handed_back_uncharged(cluster: Cluster) -> None:
    """At most once: the mark that the effect begins could not be written, so it did not begin."""
    job = await cluster.add_job(schedule=HOURLY, delivery=Delivery.AT_MOST_ONCE)
    await cluster.advance_to(START + HOUR - SECOND)
    node = await cluster.start()
    failed = 0

    async def fail_once() -> None:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise StoreUnavailable("once")

    node.before("begin", fail_once)
    await cluster.advance(10 * SECOND)

    [run] = await cluster.runs(job)
    assert (run["state"], run["failures"], run["crashes"]) == ("succeeded", 0, 0)
    assert len(cluster.calls) == 1


@virtually
async def test_a_target_that_breaks_fails_its_attempt_and_holds_nothing(cluster: Cluster) -> None:
    async def crumble(_: Node, call: Call) -> Outcome:
        if call.run.attempt == 1:
            raise RuntimeError("not an outcome")
        return Succeeded()

    cluster.script["job"] = crumble
    job = await cluster.add_job(schedule=HOURLY)
    await cluster.advance_to(START + HOUR - SECOND)
    await cluster.start()
    await cluster.advance(MINUTE)

    [run] = await cluster.runs(job)
    assert (run["state"], run["failures"]) == ("succeeded", 1)
    [first, _] = await cluster.attempts(run["id"])
    assert first["error"] == "the target crashed: RuntimeError"  # its text may hold the payload


@virtually
async def test_a_definition_that_cannot_be_read_keeps_no_other_run(cluster: Cluster) -> None:
    job = await cluster.add_job("newer", lane="shared")
    good = await cluster.add_job("good", lane="shared")
    await cluster.sql(
        "update hourbell.job_versions set definition = json_set(definition, '$.overlap', 'of a later version') "
        f"where job_id = '{job.id}'"
    )
    await cluster.start()
    await cluster.advance(2 * MINUTE + SECOND)

    assert await cluster.states(good) == ["succeeded"] * 2
    assert await cluster.states(job) == ["failed"] * 2


@virtually
async def test_an_answer_that_cannot_be_stored_keeps_no_other_outcome(cluster: Cluster) -> None:
    class Strange:
        """Looks like an answer, and no database takes it."""

    async def answer_strangely(*_: object) -> Outcome:
        return Succeeded({"at": Strange()})

    cluster.script["strange"] = answer_strangely
    strange = await cluster.add_job("strange", lane="shared")
    for number in range(10):
        await cluster.add_job(f"good-{number}", lane="shared")
    await cluster.start()
    await cluster.advance(MINUTE + 5 * SECOND)

    assert await cluster.states() == ["succeeded"] * 11
    [run] = await cluster.runs(strange)
    assert "cannot be written" in (await cluster.attempts(run["id"]))[0]["error"]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ({"at": datetime(2040, 1, 1)}, "{'at': datetime.datetime(2040, 1, 1, 0, 0)}"),  # noqa: DTZ001
        (float("nan"), "nan"),
        ({"done": 3}, {"done": 3}),
    ],
    ids=["not-json", "nan", "json"],
)
def test_a_task_may_answer_anything(answer: object, kept: object) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        async def function(_: Call) -> object:
            return answer

        job = await cluster.add_job()
        await cluster.start([TaskTarget({"job": Task("job", function)})])
        await cluster.advance(MINUTE + SECOND)

        [run] = await cluster.runs(job)
        assert (run["state"], run["result"]) == ("succeeded", kept)

    test()


@pytest.mark.parametrize("loop", ["planner", "runner", "settler", "heartbeat", "reaper"])
@pytest.mark.parametrize("seconds", [8, 30, 120])
def test_an_outage_is_logged_once_and_not_as_recovered(
    loop: str, seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    def reported() -> list[str]:
        return [record.message for record in caplog.records if getattr(record, "loop", "") == loop]

    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = takes(5 * SECOND)
        await cluster.add_job()
        await cluster.start()
        await cluster.advance_to(START + MINUTE + 2 * SECOND)
        with cluster.outage():
            await cluster.advance(seconds * SECOND)
            assert reported() in ([], ["database_unavailable"])  # who had nothing to do does not know of it
            reported_then = reported()
        await cluster.advance(90 * SECOND)
        assert reported() == (reported_then and ["database_unavailable", "loop_recovered"])
        assert loop in ("planner", "heartbeat", "reaper") or reported_then

    with caplog.at_level(logging.INFO, "hourbell.engine"):
        test()


@virtually
async def test_a_node_made_long_before_it_starts_starts(cluster: Cluster) -> None:
    """Making the jobs of a program may take a while."""
    node = cluster.node()
    cluster.alive.append(node)
    await cluster.advance(MINUTE)
    await asyncio.wait_for(node.spawn(node.engine.start()), 5)
    await cluster.add_job()
    await cluster.advance(2 * MINUTE + SECOND)

    assert len(cluster.calls) == 2


@virtually
async def test_a_planner_that_waited_for_the_database_plans_by_the_time_it_is_then(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="*/10 * * * * *")  # the newest of what it missed
    node = await cluster.start()
    await cluster.advance(5 * SECOND)
    waits = [28 * SECOND]

    async def wait() -> None:
        if waits:
            await asyncio.sleep(waits.pop().total_seconds())

    node.before("plan_due", wait)
    await cluster.advance(40 * SECOND)

    assert [run["scheduled_at"] - START for run in await cluster.runs(job)] == [30 * SECOND, 40 * SECOND]
    await cluster.assert_accounted()
