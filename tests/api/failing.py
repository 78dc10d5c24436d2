"""Runs that failed and incidents, for tests of what may be done about them."""

from datetime import timedelta
from uuid import UUID

from hourbell.core.alerts.incident import Trouble, channel_key
from hourbell.core.alerts.kinds import IncidentKind
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


async def open_incident(api: Whole, channel: str) -> UUID:
    """Let a watcher open an incident, about a channel that cannot deliver."""
    now = api.time.now()
    trouble = Trouble(channel_key(channel), IncidentKind.CHANNEL_FAILED, now, "it cannot deliver")
    [opened] = await api.database.alerts().watch_keys(now, [], [trouble])
    return opened.incident.id
