"""Attempts of one run: waits, timeouts, jitter, and being cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from hourbell.core.run.policies import RETRY_PRESETS, Delivery, RetryPolicy
from hourbell.core.run.settle import Cancelled, Failed, Outcome, Succeeded
from hourbell.targets.base import Call
from hourbell.targets.task import Task, TaskTarget
from hourbell.targets.task_run import Run
from tests.engine.nodes import HOUR, MINUTE, SECOND, Cluster, Fails, Node, fail, hang, takes, virtually
from tests.engine.virtual import START

ONCE = f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}"
WAITS = {
    "default": [0, 30, 150, 750],
    "fixed": [0, 60, 120],
    "none": [0],
}


def seconds_apart(cluster: Cluster, name: str = "job") -> list[float]:
    began = cluster.started(name)
    return [round((at - began[0]).total_seconds(), 1) for at in began]


@pytest.mark.parametrize("preset", WAITS)
def test_retry_waits_are_exact(preset: str) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = fail
        job = await cluster.add_job(schedule=ONCE, retry=RETRY_PRESETS[preset])
        await cluster.start()
        await cluster.advance(20 * MINUTE)

        assert seconds_apart(cluster) == WAITS[preset]
        [run] = await cluster.runs(job)
        assert (run["reason"], run["failures"]) == ("exhausted", len(WAITS[preset]))

    test()


@virtually
async def test_a_random_wait_is_between_half_and_the_whole(cluster: Cluster) -> None:
    cluster.script["job"] = fail
    await cluster.add_job(schedule=ONCE, retry=RETRY_PRESETS["exponential"])
    await cluster.start()
    await cluster.advance(20 * MINUTE)

    began = cluster.started()
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(began)]
    for wait, whole in zip(waits, (10, 40, 160, 640), strict=False):
        assert whole / 2 - 1 <= wait <= whole + 0.1
    assert len(waits) >= 3


@virtually
async def test_retry_after_is_honoured_and_bounded(cluster: Cluster) -> None:
    async def later(_: Node, call: Call) -> Outcome:
        if call.run.attempt == 1:
            return Failed("busy", retry_after=90 * SECOND)
        return Failed("busy", retry_after=timedelta(days=10_000)) if call.run.attempt == 2 else Succeeded()

    cluster.script["job"] = later
    await cluster.add_job(schedule=ONCE)
    node = await cluster.start()
    await cluster.advance(3 * MINUTE)
    await node.stop()
    await cluster.advance(HOUR - MINUTE)
    await cluster.start()
    await cluster.advance(5 * MINUTE)

    assert seconds_apart(cluster) == pytest.approx([0, 90, 90 + 3_600], abs=0.2)


@virtually
async def test_a_retry_that_would_come_too_late_is_not_waited_for(cluster: Cluster) -> None:
    cluster.script["job"] = fail
    job = await cluster.add_job(schedule=ONCE, max_age=MINUTE)
    await cluster.start()
    await cluster.advance(5 * MINUTE)

    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"], run["failures"]) == ("failed", "expired", 2)


@virtually
async def test_an_async_task_that_takes_too_long_is_stopped_and_retried(cluster: Cluster) -> None:
    stopped = []

    async def slow(_: Call) -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            stopped.append(cluster.now())
            raise

    job = await cluster.add_job(schedule=ONCE, retry=RetryPolicy(2, (5 * SECOND,)))
    await cluster.edit(job, target={"type": "task", "name": "job", "timeout": "7s"})
    await cluster.start([TaskTarget({"job": Task("job", slow)})])
    await cluster.advance(3 * MINUTE)

    assert [round((at - START).total_seconds()) for at in stopped] == [67, 79]
    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"]) == ("failed", "exhausted")
    assert [attempt["error"] for attempt in await cluster.attempts(run["id"])] == ["timed out after 7s"] * 2


@virtually
async def test_a_task_gets_its_arguments_and_its_error_is_kept(cluster: Cluster) -> None:
    got = []

    async def function(run: Run, days: int) -> str:
        got.append((run.scheduled_at, days))
        raise KeyError("gone")

    job = await cluster.add_job(schedule=ONCE, retry=RETRY_PRESETS["none"])
    await cluster.edit(job, target={"type": "task", "name": "job", "args": {"days": 3}})
    await cluster.start([TaskTarget({"job": Task("job", function)})])
    await cluster.advance(2 * MINUTE)

    assert got == [(START + MINUTE, 3)]
    [run] = await cluster.runs(job)
    assert "KeyError: 'gone'" in (await cluster.attempts(run["id"]))[0]["error"]


async def wait_for_something_cancelled(_: Call) -> None:
    waited_for = asyncio.get_running_loop().create_future()
    waited_for.cancel()
    await waited_for


async def cancel_itself(_: Call) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def leave_without_a_word(_: Call) -> None:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (wait_for_something_cancelled, "something it waited for was cancelled"),
        (cancel_itself, "its own task was cancelled"),
        (leave_without_a_word, "its task ended by GeneratorExit"),
    ],
)
def test_an_attempt_that_nobody_stopped_and_that_has_no_outcome_has_failed(
    function: Callable[[Call], Coroutine[Any, Any, None]], error: str
) -> None:
    """The failure is charged, so that the run is not repeated for ever."""

    @virtually
    async def test(cluster: Cluster) -> None:
        job = await cluster.add_job(schedule=ONCE, retry=RETRY_PRESETS["fixed"])
        await cluster.start([TaskTarget({"job": Task("job", function)})])
        await cluster.advance(5 * MINUTE)

        [run] = await cluster.runs(job)
        assert (run["state"], run["reason"], run["attempt"]) == ("failed", "exhausted", 3)
        assert {attempt["error"] for attempt in await cluster.attempts(run["id"])} == {error}

    test()


@pytest.mark.parametrize("jitter", [10 * SECOND, HOUR])
def test_jitter_delays_the_start_and_never_reaches_the_next_instant(jitter: timedelta) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        for number in range(30):
            await cluster.add_job(f"job-{number}", jitter=jitter, lane="shared")
        await cluster.start()
        await cluster.advance_to(START + 3 * MINUTE - SECOND / 2)

        first = [called for called in cluster.calls if called.scheduled_at == START + MINUTE]
        lateness = [called.lateness for called in first]
        assert len(first) == 30
        assert max(lateness) < min(jitter, MINUTE) + SECOND / 5
        assert max(lateness) - min(lateness) > min(jitter, MINUTE) / 2
        for called in first:
            [run] = await cluster.runs(id=called.run_id)
            assert abs(called.started_at - run["ready_at"]) < SECOND / 5
        await cluster.assert_accounted()

    test()


@virtually
async def test_a_waiting_run_is_cancelled_at_once(cluster: Cluster) -> None:
    cluster.script["job"] = Fails(1)
    job = await cluster.add_job(schedule=ONCE)
    await cluster.start()
    await cluster.advance(MINUTE + 5 * SECOND)
    [run] = await cluster.runs(job)
    assert run["state"] == "retrying"
    await cluster.cancel(run["id"])
    await cluster.advance(5 * MINUTE)

    assert await cluster.states(job) == ["cancelled"]
    assert len(cluster.calls) == 1


@virtually
async def test_a_running_run_is_stopped_by_the_next_heartbeat(cluster: Cluster) -> None:
    cluster.script["job"] = hang
    job = await cluster.add_job(schedule=ONCE)
    await cluster.start_many(2)
    await cluster.advance(MINUTE + SECOND)
    await cluster.cancel((await cluster.runs(job))[0]["id"])
    await cluster.advance(16 * SECOND)

    [run] = await cluster.runs(job)
    assert run["state"] == "cancelled"
    assert [attempt["outcome"] for attempt in await cluster.attempts(run["id"])] == ["cancelled"]
    assert cluster.calls[0].ended_at is not None


@virtually
async def test_an_attempt_that_is_stopped_before_its_first_step_ends_when_it_began(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule=ONCE)
    node = await cluster.start()

    def stop() -> None:
        attempts = node.engine.attempts
        attempts.stop_runs([held.run_id for held in attempts.held()], Cancelled())

    async def stop_before_the_task_runs() -> None:
        asyncio.get_running_loop().call_soon(stop)

    cluster.latency = 0.5  # seconds pass between the claim and the task
    node.after("definitions", stop_before_the_task_runs)
    await cluster.advance(2 * MINUTE)

    [run] = await cluster.runs(job)
    [attempt] = await cluster.attempts(run["id"])
    assert (run["state"], attempt["outcome"], cluster.calls) == ("cancelled", "cancelled", [])
    assert START + MINUTE <= attempt["started_at"] == attempt["finished_at"]


@virtually
async def test_a_task_that_is_cancelled_sees_why_its_coroutine_ends(cluster: Cluster) -> None:
    seen = []

    async def function(run: Run) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            seen.append(run.is_cancelled)

    job = await cluster.add_job(schedule=ONCE)
    await cluster.start([TaskTarget({"job": Task("job", function)})])
    await cluster.advance(MINUTE + SECOND)
    await cluster.cancel((await cluster.runs(job))[0]["id"])
    await cluster.advance(16 * SECOND)

    assert seen == [True]


@virtually
async def test_a_run_asked_to_stop_is_not_tried_again(cluster: Cluster) -> None:
    async def fail_soon(*_: object) -> Outcome:
        await asyncio.sleep(2)
        return Failed("no")

    cluster.script["job"] = fail_soon
    job = await cluster.add_job(schedule=ONCE)
    await cluster.start()
    await cluster.advance(MINUTE + SECOND)
    await cluster.cancel((await cluster.runs(job))[0]["id"])
    await cluster.advance(5 * MINUTE)

    assert await cluster.states(job) == ["cancelled"]
    assert len(cluster.calls) == 1


@virtually
async def test_a_cancelled_run_frees_its_slot(cluster: Cluster) -> None:
    cluster.script["first"] = hang
    first = await cluster.add_job("first", ONCE, lane="shared")
    await cluster.add_job("second", f"at {START + MINUTE + SECOND:%Y-%m-%dT%H:%M:%S}", lane="shared")
    await cluster.start(slots=1)
    await cluster.advance(MINUTE + 5 * SECOND)
    assert cluster.calls_of("second") == []
    await cluster.cancel((await cluster.runs(first))[0]["id"])
    await cluster.advance(16 * SECOND)

    assert len(cluster.calls_of("second")) == 1


@virtually
async def test_a_failure_at_most_once_is_not_tried_again(cluster: Cluster) -> None:
    cluster.script["job"] = fail
    job = await cluster.add_job(schedule=ONCE, delivery=Delivery.AT_MOST_ONCE)
    await cluster.start()
    await cluster.advance(10 * MINUTE)

    assert len(cluster.calls) == 1
    [run] = await cluster.runs(job)
    assert (run["state"], run["reason"]) == ("failed", "lost")


@virtually
async def test_a_failure_before_anything_happened_is_tried_again_at_most_once_too(cluster: Cluster) -> None:
    async def refuse_the_first(_: Node, call: Call) -> Outcome:
        return Failed("refused", begun=False) if call.run.attempt == 1 else Succeeded()

    cluster.script["job"] = refuse_the_first
    job = await cluster.add_job(schedule=ONCE, delivery=Delivery.AT_MOST_ONCE)
    await cluster.start()
    await cluster.advance(3 * MINUTE)

    assert await cluster.states(job) == ["succeeded"]


@virtually
async def test_a_run_somebody_triggers_starts_within_a_second_and_moves_no_cursor(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="0 12 * * *")
    await cluster.start()
    await cluster.advance(10 * SECOND)
    before = await cluster.job_row(job)
    run = await cluster.trigger(job, {"days": 3})
    triggered_at = cluster.now()
    await cluster.advance(2 * SECOND)

    assert cluster.started()[0] - triggered_at < SECOND
    assert (await cluster.runs(id=run.id))[0]["state"] == "succeeded"
    assert (await cluster.job_row(job))["cursor_at"] == before["cursor_at"]


@virtually
async def test_two_nodes_never_pass_a_run_to_and_fro_while_one_works(cluster: Cluster) -> None:
    cluster.latency = 0.01
    cluster.script["job"] = takes(5 * MINUTE)
    job = await cluster.add_job(schedule=ONCE)
    await cluster.start_many(3)
    await cluster.advance(7 * MINUTE)

    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"]) == ("succeeded", 1)
