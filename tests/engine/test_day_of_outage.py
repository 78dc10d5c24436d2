"""A day without any node, and many jobs that fire every minute: the runs that each policy owes, and their order."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import pytest

from hourbell.core.run.policies import CatchUp
from hourbell.core.run.settle import Outcome, Succeeded
from hourbell.store.base import Planned
from tests.engine.nodes import DAY, MINUTE, SECOND, Cluster, virtually

MISSED = DAY // MINUTE
CURRENT = 100  # jobs beside the backlog
RATE = 5_000  # calls that the receiver answers in a second
FULL, SMALL = 1_000, 18


@pytest.fixture(autouse=True)
def terse_logs() -> Iterator[None]:
    """Without a line for each late run."""
    log = logging.getLogger("hourbell.engine")
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(logging.NOTSET)


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
    """Jobs made five seconds before a full minute, and a day in which nobody runs them."""
    await cluster.advance(55 * SECOND)
    cluster.script["*"] = Receiver(cluster, RATE)
    for number in range(jobs):
        await cluster.add_job(f"late-{number}", catch_up=policy, lane="shared")
    for number in range(CURRENT):
        await cluster.add_job(f"current-{number}", lane="shared")
    await cluster.advance(DAY)


def assert_current_runs_were_on_time(cluster: Cluster, since: datetime, minutes: int) -> None:
    current = [called for called in cluster.calls if called.job.startswith("current") and called.scheduled_at > since]
    lateness = sorted(called.lateness for called in current)
    assert len(lateness) == CURRENT * minutes
    assert lateness[len(lateness) * 99 // 100 - 1] <= SECOND


async def drains_all(cluster: Cluster, jobs: int) -> None:
    await stop_for_a_day(cluster, jobs, CatchUp.ALL)
    restarted_at = cluster.now()
    await cluster.start()
    await cluster.advance(jobs * MISSED / RATE)
    minutes = (cluster.now() - restarted_at + 55 * SECOND) // MINUTE
    assert runs_by_state(cluster, "late")["succeeded"] < jobs * MISSED  # until now the receiver was never idle
    await cluster.advance(3 + jobs * minutes / RATE)

    assert runs_by_state(cluster, "late") == {"succeeded": jobs * (MISSED + minutes)}
    assert await cluster.rows("skips", reason="overlap") == []
    assert len({called.run_id for called in cluster.calls}) == len(cluster.calls)
    assert_current_runs_were_on_time(cluster, restarted_at, minutes)
    await cluster.assert_accounted()


async def runs_one_of_each(cluster: Cluster, jobs: int, policy: CatchUp) -> None:
    await stop_for_a_day(cluster, jobs, policy)
    await cluster.start()
    await cluster.advance(3 * SECOND)

    assert runs_by_state(cluster, "late") == {"succeeded": jobs}  # for `none` too: less than a minute is not missed
    skipped = [row["count"] for row in await cluster.rows("skips", reason="missed")]
    assert sum(skipped) == (jobs + CURRENT) * (MISSED - 1)
    assert len(skipped) == jobs + CURRENT
    await cluster.assert_accounted()


def test_all_drops_nothing_and_current_runs_stay_on_time() -> None:
    virtually(drains_all)(jobs=SMALL)


@pytest.mark.sweep
def test_all_drops_nothing_and_current_runs_stay_on_time_in_full() -> None:
    virtually(drains_all)(jobs=FULL)


async def passes_of(cluster: Cluster, seconds: float) -> list[Planned]:
    """Start a node; what its planning passes did."""
    node = cluster.node()
    cluster.alive.append(node)
    plan_due, passes = node.store.plan_due, list[Planned]()

    async def note(*arguments: object) -> Planned:
        passes.append(await plan_due(*arguments))
        return passes[-1]

    node.store.plan_due = note
    await node.spawn(node.engine.start())
    await cluster.advance(seconds)
    return passes


@virtually
async def test_no_planning_pass_holds_the_database_for_long(cluster: Cluster) -> None:
    for number in range(100):
        await cluster.add_job(f"late-{number}", catch_up=CatchUp.ALL, lane="elsewhere")
    cluster.lanes = ("task:here",)
    await cluster.advance(200 * MINUTE)
    passes = await passes_of(cluster, 1)

    assert sum(planned.runs for planned in passes) == 100 * 200
    assert max(planned.runs for planned in passes) <= 2_000
    await cluster.assert_accounted()


@virtually
async def test_many_jobs_of_one_instant_are_planned_in_few_passes(cluster: Cluster) -> None:
    for number in range(3_000):
        await cluster.add_job(f"job-{number}", lane="elsewhere")
    cluster.lanes = ("task:here",)
    await cluster.advance(MINUTE)
    passes = await passes_of(cluster, 1)

    assert sum(planned.runs for planned in passes) == 3_000
    assert len([planned for planned in passes if planned.jobs]) <= 8
    assert len(passes) <= 8 + 3  # each line looks once more


@pytest.mark.parametrize("policy", [CatchUp.LATEST, CatchUp.EARLIEST, CatchUp.NONE])
def test_the_other_policies_run_one_and_account_for_all(policy: CatchUp) -> None:
    virtually(runs_one_of_each)(jobs=FULL // 5, policy=policy)


@pytest.mark.sweep
@pytest.mark.parametrize("policy", [CatchUp.LATEST, CatchUp.EARLIEST, CatchUp.NONE])
def test_the_other_policies_run_one_and_account_for_all_in_full(policy: CatchUp) -> None:
    virtually(runs_one_of_each)(jobs=FULL, policy=policy)
