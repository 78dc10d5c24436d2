"""Definitions and payloads with very many values, which cost time everywhere, are refused everywhere."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hourbell.api import job_bulk
from hourbell.api.limits import MAX_REQUESTS_PER_CALLER
from hourbell.core.formats.convert import Converted
from hourbell.core.values.strict_json import MAX_VALUES
from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
LIMIT = f"more than {MAX_VALUES:,} values"
MANY = [1] * (MAX_VALUES + 1)
LARGE = ["x" * 20_000]


@pytest.fixture
async def api() -> AsyncIterator[Whole]:
    async with BACKENDS["memory"]() as database, whole_api(database) as made:
        yield made


async def send(api: Whole, method: str, path: str, body: object) -> httpx.Response:
    return await api.client.request(method, f"{JOBS}{path}", json=body)


@pytest.mark.parametrize("job", [a_job(payload=MANY), a_job(target={**HOOK, "body": MANY})])
async def test_a_definition_with_too_many_values_is_refused(api: Whole, job: dict[str, object]) -> None:
    answers = [
        await send(api, "POST", "", job),
        await send(api, "POST", "?dry_run=true", job),
        await send(api, "PUT", "/report", job),
        await send(api, "POST", "/apply", {"jobs": [job], "source": "a"}),
    ]
    imported = await api.client.post(
        f"{JOBS}/import", content=json.dumps(job), headers={"Content-Type": "application/x-ndjson"}
    )

    assert [answer.status_code for answer in answers] == [400, 400, 400, 422]
    assert all(LIMIT in answer.text for answer in answers)
    assert (imported.json()["result"], LIMIT in imported.text) == ("refused", True)
    assert (await send(api, "GET", "", None)).json()["items"] == []


async def test_a_trigger_with_too_many_values_is_refused(api: Whole) -> None:
    await api.job()
    answer = await send(api, "POST", "/report/trigger", {"payload": MANY})

    assert (answer.status_code, LIMIT in answer.text) == (400, True)


async def test_patches_cannot_exceed_the_limit_together(api: Whole) -> None:
    half = [1] * (MAX_VALUES * 2 // 3)
    await api.job()
    first = await send(api, "PATCH", "/report", {"payload": {"a": half}})
    second = await send(api, "PATCH", "/report", {"payload": {"b": half}})

    assert (first.status_code, second.status_code, LIMIT in second.text) == (200, 422, True)


async def test_the_largest_allowed_number_of_values_is_accepted(api: Whole) -> None:
    payload = {str(number): number for number in range(MAX_VALUES - 30)}
    answer = await send(api, "POST", "", a_job(payload=payload))

    assert (answer.status_code, answer.json()["payload"]) == (201, payload)


@pytest.mark.parametrize(("payload", "at_once"), [(LARGE, 1), (["x"], MAX_REQUESTS_PER_CALLER)])
async def test_large_bodies_are_handled_one_at_a_time(payload: object, at_once: int) -> None:
    handled, peak = 0, 0

    async def check_hosts(_urls: object) -> dict[str, str]:
        nonlocal handled, peak
        handled += 1
        peak = max(peak, handled)
        for _ in range(1_000):
            await asyncio.sleep(0)
        handled -= 1
        return {}

    async with BACKENDS["memory"]() as database, whole_api(database, check_hosts=check_hosts) as api:
        jobs = [a_job(f"job-{number}", payload=payload) for number in range(5)]
        answers = await asyncio.gather(*(send(api, "POST", "", job) for job in jobs))
        bad = await asyncio.gather(*(send(api, "POST", "", {**job, "schedule": "?"}) for job in jobs))

    assert [answer.status_code for answer in answers] == [201] * 5
    assert [answer.status_code for answer in bad] == [422] * 5
    assert peak == at_once


async def test_other_large_bodies_do_not_wait_for_a_conversion(api: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    convert = job_bulk.convert_crontab

    def slow(*given: Any, **options: Any) -> Converted:
        begun.set()
        assert go_on.wait(30)
        return convert(*given, **options)

    monkeypatch.setattr(job_bulk, "convert_crontab", slow)
    body = {"format": "crontab", "text": "@daily a\n" * 2_000}
    conversion = asyncio.create_task(send(api, "POST", "/convert", body))
    assert await asyncio.to_thread(begun.wait, 30)
    made = await send(api, "POST", "", a_job("large", payload=LARGE))
    timeline = await api.client.get("/api/v1/timeline")
    go_on.set()

    assert (made.status_code, timeline.status_code, (await conversion).status_code) == (201, 200, 200)
