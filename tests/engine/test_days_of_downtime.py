"""All nodes are down for days, in the middle of attempts: no run is given up because of that."""

from uuid import UUID

import pytest

from hourbell.core.run.policies import RETRY_PRESETS
from hourbell.store.control.actor import Actor
from tests.engine.nodes import BY, DAY, HOUR, MINUTE, Cluster, Fails, hang, virtually
from tests.engine.virtual import START


@pytest.mark.parametrize("preset", ["none", "default"])
def test_attempts_cut_off_by_an_outage_of_everything_are_repeated_days_later(preset: str) -> None:
    @virtually
    async def test(cluster: Cluster) -> None:
        cluster.script["job"] = hang
        job = await cluster.add_job(schedule=f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}", retry=RETRY_PRESETS[preset])
        node = await cluster.start()
        await cluster.advance(2 * MINUTE)
        node.crash()
        await cluster.advance(3 * DAY)
        del cluster.script["job"]
        await cluster.start()
        await cluster.advance(2 * MINUTE)

        [run] = await cluster.runs(job)
        assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 2, 1)

    test()


@virtually
async def test_a_retry_that_fell_into_the_downtime_is_made_days_later(cluster: Cluster) -> None:
    cluster.script["job"] = Fails(1)
    job = await cluster.add_job(schedule=f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}")
    node = await cluster.start()
    await cluster.advance(MINUTE + MINUTE / 4)
    node.crash()
    await cluster.advance(3 * DAY)
    await cluster.start()
    await cluster.advance(MINUTE)

    [run] = await cluster.runs(job)
    assert (run["state"], run["attempt"]) == ("succeeded", 2)


@virtually
async def test_dispatch_time_counts_from_the_plan_and_not_from_an_instant_in_the_downtime(cluster: Cluster) -> None:
    await cluster.add_job(schedule=f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}")
    await cluster.advance(3 * HOUR)
    node = await cluster.start()
    await cluster.advance(2 * MINUTE)

    [dispatch] = node.metrics.dispatch.collect()
    [lateness] = node.metrics.lateness.collect()
    sums = {sample.name: sample.value for family in (dispatch, lateness) for sample in family.samples}
    assert sums["hourbell_dispatch_seconds_count"] == sums["hourbell_lateness_seconds_count"] == 1
    assert sums["hourbell_dispatch_seconds_sum"] < 60
    assert sums["hourbell_lateness_seconds_sum"] > 2 * 3_600


@virtually
async def test_lateness_is_logged_for_a_takeover_and_not_for_a_replay(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.script["job"] = hang
    job = await cluster.add_job(schedule=f"at {START + MINUTE:%Y-%m-%dT%H:%M:%S}")
    node = await cluster.start()
    await cluster.advance(2 * MINUTE)
    node.crash()
    await cluster.advance(2 * HOUR)
    del cluster.script["job"]
    await cluster.start()
    await cluster.advance(2 * MINUTE)
    [run] = await cluster.runs(job)
    await cluster.control.replay_run(run["id"], UUID(int=5), Actor(BY, cluster.now()))
    await cluster.advance(MINUTE)

    reported = [vars(record) for record in caplog.records if record.getMessage() == "run_very_late"]
    assert [(facts["run"], facts["late_hours"], facts["reason"]) for facts in reported] == [
        (str(run["id"]), 2.0, "recovery from downtime")
    ]
