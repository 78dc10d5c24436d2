"""The eight cases that RAT's ADR-004 asks of a scheduler."""

from hourbell.store.control.actor import Actor
from tests.engine.nodes import BY, HOUR, INSERT, MINUTE, SECOND, Cluster, refuse, virtually


@virtually
async def test_without_schedules_nothing_happens(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.advance(5 * MINUTE)

    assert cluster.calls == []
    assert await cluster.runs() == []


@virtually
async def test_a_disabled_schedule_does_not_fire(cluster: Cluster) -> None:
    await cluster.add_job(enabled=False)
    await cluster.start()
    await cluster.advance(5 * MINUTE)

    assert await cluster.runs() == []


@virtually
async def test_a_due_schedule_fires(cluster: Cluster) -> None:
    job = await cluster.add_job()
    await cluster.start()
    await cluster.advance(MINUTE + SECOND)

    assert await cluster.states(job) == ["succeeded"]
    assert cluster.calls[0].lateness < SECOND / 100
    await cluster.assert_accounted()


@virtually
async def test_a_schedule_in_the_future_is_left_alone(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="0 12 * * *")
    await cluster.start()
    await cluster.advance(HOUR)

    assert await cluster.runs(job) == []
    assert (await cluster.job_row(job))["next_at"] == cluster.now().replace(hour=12, minute=0, second=0, microsecond=0)


@virtually
async def test_a_row_without_a_next_instant_gets_one_and_does_not_fire(cluster: Cluster) -> None:
    await cluster.sql(INSERT)
    await cluster.advance(30 * SECOND)
    await cluster.start()
    await cluster.advance(SECOND)
    [row] = await cluster.rows("jobs")

    assert row["next_at"] == cluster.now().replace(second=0, microsecond=0) + MINUTE
    assert await cluster.runs() == []


@virtually
async def test_after_three_missed_hours_there_is_exactly_one_run(cluster: Cluster) -> None:
    job = await cluster.add_job(schedule="0 * * * *")
    await cluster.advance(3 * HOUR + MINUTE)
    await cluster.start()
    await cluster.advance(SECOND)

    [run] = await cluster.runs(job)
    assert run["scheduled_at"] == cluster.now().replace(minute=0, second=0, microsecond=0)
    assert (await cluster.job_row(job))["next_at"] == run["scheduled_at"] + HOUR
    await cluster.assert_accounted()


@virtually
async def test_a_target_that_refuses_fails_its_run_and_not_the_schedule(cluster: Cluster) -> None:
    cluster.script["job"] = refuse
    job = await cluster.add_job()
    await cluster.start()
    await cluster.advance(2 * MINUTE + SECOND)

    runs = await cluster.runs(job)
    assert [(run["state"], run["reason"]) for run in runs] == [("failed", "permanent")] * 2
    await cluster.assert_accounted()


@virtually
async def test_an_invalid_expression_spares_the_others(cluster: Cluster) -> None:
    broken = await cluster.add_job("broken")
    good = await cluster.add_job("good")
    await cluster.sql("update hourbell.jobs set schedule = 'every now and then' where name = 'broken'")
    cluster.begin_period(broken.id, None)
    await cluster.start()
    await cluster.advance(2 * MINUTE + SECOND)

    assert await cluster.runs(broken) == []
    assert (await cluster.job_row(broken))["error"]
    assert await cluster.states(good) == ["succeeded"] * 2
    await cluster.control.delete_job(broken.id, Actor(BY, cluster.now()))
    await cluster.assert_accounted()
