"""A day without any node, and many jobs that fire every minute: what each policy owes, and who goes first."""

import asyncio
from collections import Counter

import pytest

from hourbell.core.policies import CatchUp
from hourbell.core.settle import Outcome, Succeeded
from tests.engine.nodes import DAY, MINUTE, SECOND, Cluster, virtually

MISSED = DAY // MINUTE
ON_TIME = 100
FULL, SMALL = 1_000, 24


class Receiver:
    """Answers so many calls a second, each after those before it."""

    def __init__(self, cluster: Cluster, rate: float) -> None:
        self._elapsed = cluster.time.elapsed
        self._pause = 1 / rate
        self._free_at = 0.0

    async def __call__(self, *_: object) -> Outcome:
        now = self._elapsed()
        self._free_at = max(now, self._free_at) + self._pause
        await asyncio.sleep(self._free_at - now)
        return Succeeded()


def runs_by_state(cluster: Cluster, prefix: str) -> Counter[str]:
    query = (
        "select r.state, count(*) from hourbell_runs r join hourbell_jobs j on j.id = r.job_id "
        "where j.name like ? group by r.state"
    )
    return Counter(dict(cluster.database.connection.execute(query, (f"{prefix}-%",))))


async def stop_for_a_day(cluster: Cluster, jobs: int, policy: CatchUp) -> None:
    """Jobs made just after a full minute, and a day later the first node, with five calls a second for each job."""
    await cluster.advance(SECOND)
    cluster.settings = cluster.settings.__class__(slots=jobs)
    cluster.script["*"] = Receiver(cluster, rate=5 * jobs)
    for number in range(jobs):
        await cluster.add_job(f"late-{number}", catch_up=policy, lane="shared")
    for number in range(ON_TIME * jobs // FULL):
        await cluster.add_job(f"current-{number}", lane="shared")
    await cluster.advance(DAY)


def assert_current_runs_were_on_time(cluster: Cluster, restarted_at: object) -> None:
    current = [called for called in cluster.calls if called.job.startswith("current")]
    lateness = sorted(called.lateness for called in current if called.scheduled_at > restarted_at)  # type: ignore[operator]
    assert len(lateness) >= 4 * ON_TIME * len(current) // (6 * ON_TIME) // 2
    assert lateness[len(lateness) * 99 // 100 - 1] <= SECOND


async def drains_all(cluster: Cluster, jobs: int) -> None:
    await stop_for_a_day(cluster, jobs, CatchUp.ALL)
    restarted_at = cluster.now()
    await cluster.start()
    await cluster.advance(MISSED / 5 + 20)  # the backlog's length at the receiver's pace, and a little

    minutes = (cluster.now() - restarted_at) // MINUTE
    assert runs_by_state(cluster, "late") == {"succeeded": jobs * (MISSED + minutes)}
    assert await cluster.rows("skips", reason="overlap") == []
    assert len({called.run_id for called in cluster.calls}) == len(cluster.calls)
    assert_current_runs_were_on_time(cluster, restarted_at)
    await cluster.assert_accounted()


async def runs_one_of_each(cluster: Cluster, jobs: int, policy: CatchUp) -> None:
    await stop_for_a_day(cluster, jobs, policy)
    await cluster.start()
    await cluster.advance(30 * SECOND)

    runs = {CatchUp.LATEST: 1, CatchUp.EARLIEST: 1, CatchUp.NONE: 1}[policy]  # a second old is not missed
    assert runs_by_state(cluster, "late") == {"succeeded": jobs * runs}
    skipped = sum(row["count"] for row in await cluster.rows("skips") if row["reason"] == "missed")
    assert skipped == (jobs + ON_TIME * jobs // FULL) * (MISSED - 1)
    await cluster.assert_accounted()


def test_all_drops_nothing_and_current_runs_stay_on_time() -> None:
    virtually(drains_all)(jobs=SMALL)


@pytest.mark.sweep
def test_all_drops_nothing_and_current_runs_stay_on_time_in_full() -> None:
    virtually(drains_all)(jobs=FULL)


@pytest.mark.parametrize("policy", [CatchUp.LATEST, CatchUp.EARLIEST, CatchUp.NONE])
def test_the_other_policies_run_one_and_account_for_all(policy: CatchUp) -> None:
    virtually(runs_one_of_each)(jobs=FULL // 5, policy=policy)


@pytest.mark.sweep
@pytest.mark.parametrize("policy", [CatchUp.LATEST, CatchUp.EARLIEST, CatchUp.NONE])
def test_the_other_policies_run_one_and_account_for_all_in_full(policy: CatchUp) -> None:
    virtually(runs_one_of_each)(jobs=FULL, policy=policy)
