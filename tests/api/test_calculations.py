"""The event loop is not blocked while a schedule is calculated for a caller: deliveries share it."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.api.whole import HOOK, T0, Whole, whole_api
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

NEVER = "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"
LEAP_DAYS = "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29"
MAX_SHARE = 0.5  # of the time of a request, for which the event loop may be blocked


@pytest.fixture
async def api() -> AsyncIterator[Whole]:
    async with BACKENDS["memory"]() as database, whole_api(database) as made:
        yield made


def job(name: str, schedule: str) -> dict[str, Any]:
    return {"name": name, "schedule": schedule, "target": HOOK}


async def standstill(api: Whole, method: str, path: str, body: object = None) -> float:
    """Return the longest block of the event loop during a request, as a share of the request's time."""
    longest, is_over = 0.0, asyncio.Event()

    async def turn() -> None:
        nonlocal longest
        while not is_over.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - before)

    turning = asyncio.ensure_future(turn())
    await asyncio.sleep(0)
    began = time.perf_counter()
    answer = await api.client.request(method, f"/api/v1{path}", json=body)
    took = time.perf_counter() - began
    is_over.set()
    await turning
    assert answer.is_success, answer.text
    return longest / took


async def test_a_preview_does_not_stop_the_event_loop(api: Whole) -> None:
    assert await standstill(api, "POST", "/preview", {"schedule": NEVER}) < MAX_SHARE


async def test_a_definition_does_not_stop_the_event_loop(api: Whole) -> None:
    assert await standstill(api, "POST", "/jobs?dry_run=true", job("report", NEVER)) < MAX_SHARE
    assert await standstill(api, "POST", "/jobs", job("report", NEVER)) < MAX_SHARE
    jobs = {"jobs": [job("other", NEVER)], "source": "test"}
    assert await standstill(api, "POST", "/jobs/apply?dry_run=true", jobs) < MAX_SHARE


async def test_computing_upcoming_times_does_not_stop_the_event_loop(api: Whole) -> None:
    await api.client.post("/api/v1/jobs", json=job("report", LEAP_DAYS))

    assert await standstill(api, "GET", "/jobs/report/upcoming?count=100") < MAX_SHARE


async def test_a_backfill_does_not_stop_the_event_loop(api: Whole) -> None:
    await api.client.post("/api/v1/jobs", json=job("report", "* * * * * *"))
    await api.database.sql("update hourbell.jobs set cursor_at = plan_at")
    body = {"from": (T0 - timedelta(seconds=9_000)).isoformat(), "to": T0.isoformat()}

    assert await standstill(api, "POST", "/jobs/report/backfill?dry_run=true", body) < MAX_SHARE
