"""Runs that failed, for tests of what may be done about them."""

from datetime import timedelta
from uuid import UUID

from hourbell.core.run.settle import Failed
from hourbell.store.base import LaneDemand
from tests.api.whole import Whole
from tests.contract.steps import NODE, finish


async def fail_waiting_runs(api: Whole, job: str) -> list[UUID]:
    """Let every waiting run of a job fail for good, as a node would."""
    store, now = api.database.engine(), api.time.now()
    waiting = (await api.client.get(f"/api/v1/jobs/{job}/runs?state=pending")).json()["items"]
    demands = [LaneDemand(lane, 500) for lane in {run["lane"] for run in waiting}]
    claimed = await store.claim(NODE, now, now + timedelta(minutes=1), demands)
    await finish(store, claimed, Failed("HTTP 404", retryable=False), now)
    return [run.id for run in claimed]
