"""last_success: the newest successful run of a job before a scheduled time."""

from uuid import UUID

import pytest

from hourbell.core.run.settle import Failed
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, HOUR, MINUTE, SECOND, T0, a_waiting_job, claim, finish, run_and_finish

pytestmark = pytest.mark.anyio


async def test_it_is_the_newest_scheduled_strictly_before(store: EngineStore, control: ControlStore) -> None:
    job = await a_waiting_job(store, control, count=4)
    await run_and_finish(store, count=3)

    found = [await store.last_success(job.id, T0 + number * SECOND) for number in range(5)]

    assert found == [None, T0, T0 + SECOND, T0 + 2 * SECOND, T0 + 2 * SECOND]


async def test_failed_and_unfinished_runs_do_not_count(store: EngineStore, control: ControlStore) -> None:
    job = await a_waiting_job(store, control, count=3)
    first, second, _ = await claim(store, free=3)
    await finish(store, [first])
    await finish(store, [second], Failed("no", retryable=False))

    assert await store.last_success(job.id, T0 + HOUR) == first.scheduled_at


async def test_a_run_by_hand_counts_and_other_jobs_do_not(store: EngineStore, control: ControlStore) -> None:
    job = await a_waiting_job(store, control, "job")
    other = await a_waiting_job(store, control, "other")
    await control.trigger_job(job.id, UUID(int=7), Actor(BY, T0 + MINUTE))
    runs = await claim(store, free=3)
    await finish(store, [run for run in runs if run.job_id == job.id])

    assert await store.last_success(job.id, T0 + HOUR) == T0 + MINUTE
    assert await store.last_success(other.id, T0 + HOUR) is None
