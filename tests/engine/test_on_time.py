"""A run begins at its instant, whatever its node does at that moment."""

from tests.engine.nodes import MINUTE, SECOND, Cluster, virtually
from tests.engine.virtual import START


@virtually
async def test_a_planner_that_is_woken_just_before_an_instant_does_not_sleep_past_it(cluster: Cluster) -> None:
    cluster.latency = 0.02
    await cluster.add_job("job")
    await cluster.start()
    await cluster.advance_to(START + MINUTE - SECOND / 100)
    await cluster.add_job("other", "0 0 1 1 *")
    await cluster.advance(SECOND)

    assert cluster.calls_of("job")[0].lateness < SECOND / 10
