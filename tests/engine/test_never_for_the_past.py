"""A first start, an edit, a switch or a row written by SQL never makes a job fire for the past, restarted or not."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

from hourbell.core.run.policies import CatchUp
from hourbell.core.schedule import Schedule
from tests.engine.nodes import HOUR, INSERT, MINUTE, SECOND, Cluster, Node, virtually
from tests.engine.virtual import START


async def create(cluster: Cluster) -> None:
    await cluster.add_job(catch_up=CatchUp.ALL)


async def insert(cluster: Cluster) -> None:
    await cluster.sql(INSERT)


async def edit(cluster: Cluster) -> None:
    [job] = cluster.made
    await cluster.edit(job, schedule="* * * * *")


async def edit_zone(cluster: Cluster) -> None:
    [job] = cluster.made
    await cluster.edit(job, schedule="* * * * *", timezone="Asia/Tokyo")


async def resume(cluster: Cluster) -> None:
    [job] = cluster.made
    await cluster.edit(job, schedule="* * * * *", enabled=False)
    await cluster.advance(10 * MINUTE)
    await cluster.resume(job)


async def enable_by_edit(cluster: Cluster) -> None:
    [job] = cluster.made
    await cluster.edit(job, schedule="* * * * *", enabled=False)
    await cluster.advance(10 * MINUTE)
    await cluster.edit(job, enabled=True)


async def update(cluster: Cluster) -> None:
    await cluster.sql("update hourbell.jobs set schedule = '* * * * *'")


async def enable_by_sql(cluster: Cluster) -> None:
    await cluster.sql("update hourbell.jobs set enabled = 0, schedule = '* * * * *'")
    await cluster.advance(10 * MINUTE)
    await cluster.sql("update hourbell.jobs set enabled = 1")


async def start_in_the_past(cluster: Cluster) -> None:
    await cluster.sql(f"update hourbell.jobs set schedule = '* * * * *', starts_at = {1_000_000 * 86_400}")


async def catch_up_by_sql(cluster: Cluster) -> None:
    await cluster.sql("update hourbell.jobs set schedule = '* * * * *', catch_up = 'latest'")


NEW = [create, insert]
CHANGES = [edit, edit_zone, resume, enable_by_edit, update, enable_by_sql, start_in_the_past, catch_up_by_sql]
Act = Callable[[Cluster], Awaitable[None]]


async def quiet_job(cluster: Cluster) -> None:
    """A job that has not fired for an hour and would not for years."""
    await cluster.add_job(schedule="0 0 29 2 *", catch_up=CatchUp.ALL)
    await cluster.advance(HOUR)


async def restart(cluster: Cluster, node: Node) -> Node:
    await node.stop()
    await cluster.advance(SECOND)
    return await cluster.start()


def assert_only_since(cluster: Cluster, changed_at: datetime) -> None:
    """The job fired at every minute from the change on, and at none before it."""
    minutes = list(Schedule.parse("* * * * *").between(changed_at, cluster.now()))
    assert [called.scheduled_at for called in cluster.calls] == minutes


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("act", NEW + CHANGES, ids=lambda act: act.__name__)
def test_while_a_node_runs(act: Act, restarts: bool) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        if act in CHANGES:
            await quiet_job(cluster)
        node = await cluster.start()
        await cluster.advance(30 * SECOND)
        await act(cluster)
        changed_at = cluster.now()
        if restarts:
            await restart(cluster, node)
        await cluster.advance_to(changed_at + 2 * MINUTE + SECOND)

        assert_only_since(cluster, changed_at)

    test()


@pytest.mark.parametrize("act", NEW + CHANGES, ids=lambda act: act.__name__)
def test_while_nobody_runs(act: Act) -> None:
    """A change holds from when it was made, through the store as by SQL, and what was due since then is caught up."""

    @virtually
    async def test(cluster: Cluster) -> None:
        if act in CHANGES:
            await quiet_job(cluster)
        await act(cluster)
        changed_at = cluster.now()
        await cluster.advance(80 * SECOND)
        await cluster.start()
        await cluster.advance_to(changed_at + 3 * MINUTE + 30 * SECOND)

        assert_only_since(cluster, changed_at)

    test()


@virtually
async def test_a_second_start_fires_what_was_missed_and_nothing_before_the_job_was_made(cluster: Cluster) -> None:
    await cluster.advance(HOUR)
    job = await cluster.add_job(catch_up=CatchUp.ALL)
    await cluster.advance(3 * MINUTE)
    await cluster.start()
    await cluster.advance(SECOND)

    instants = [run["scheduled_at"] for run in await cluster.runs(job)]
    assert instants == [START + HOUR + n * MINUTE for n in (1, 2, 3)]


@virtually
async def test_resuming_with_catch_up_plans_what_the_pause_swallowed(cluster: Cluster) -> None:
    job = await cluster.add_job(catch_up=CatchUp.ALL)
    await cluster.start()
    await cluster.advance(MINUTE / 2)
    await cluster.pause(job)
    await cluster.advance(5 * MINUTE)
    assert cluster.calls == []

    await cluster.resume(job, catch_up=True)
    await cluster.advance(SECOND)
    assert len(cluster.calls) == 5
    await cluster.assert_accounted()


@virtually
async def test_a_pause_with_an_end_is_one_skip(cluster: Cluster) -> None:
    job = await cluster.add_job(catch_up=CatchUp.ALL)
    await cluster.start()
    await cluster.advance(MINUTE / 2)
    await cluster.pause(job, until=cluster.now() + 5 * MINUTE)
    await cluster.advance(7 * MINUTE)

    [skip] = await cluster.rows("skips")
    assert (skip["reason"], skip["count"]) == ("paused", 5)
    assert len(cluster.calls) == 2
    await cluster.assert_accounted()


@virtually
async def test_a_change_just_before_an_instant_does_not_make_it_late(cluster: Cluster) -> None:
    await cluster.add_job()
    await cluster.start()
    await cluster.advance_to(START + MINUTE - SECOND / 50)
    await cluster.add_job("other", "0 0 29 2 *")
    await cluster.advance(SECOND)

    assert cluster.calls[0].lateness < SECOND / 100


@virtually
async def test_a_change_is_seen_within_a_second(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="0 0 29 2 *")
    await cluster.start_many(2)
    await cluster.advance_to(START + 10 * SECOND)
    await cluster.edit(job, schedule="every 1s")
    await cluster.advance(3 * SECOND)

    assert [called.scheduled_at for called in cluster.calls] == [START + n * SECOND for n in (11, 12, 13)][
        : len(cluster.calls)
    ]
    assert len(cluster.calls) >= 2
    assert max(called.lateness for called in cluster.calls) < SECOND / 10
