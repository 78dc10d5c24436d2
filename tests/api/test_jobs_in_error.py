"""A job that cannot be planned shows all its errors in every list and answer."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hourbell.core.run.plan import plan
from tests.api.whole import T0, Whole, whole_api
from tests.backends import ONE
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

RANGE = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
SCHEDULE, URL = "minute field, column 1: 61 is outside 0-59", "url: a URL begins with https:// or http://"


@pytest.fixture(params=ONE)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Whole]:
    """A job with an invalid schedule and URL, as only plain SQL can write it."""
    async with BACKENDS[request.param]() as database, whole_api(database) as made:
        await made.job()
        target = '{"type": "http", "url": "ftp://x"}'
        await database.set_clock(T0)
        await database.sql(
            f"update hourbell.jobs set schedule = '61 * * * *', target = '{target}', version = 2, cursor_at = null"
        )
        yield made


async def adopted(api: Whole) -> str:
    """Return the error that adoption stores."""
    for _ in range(2):  # the first pass ends the version before the change
        await api.database.engine().plan_due(T0 + timedelta(days=1), 10, plan)
    error: str = (await api.client.get("/api/v1/jobs/report")).json()["error"]
    assert SCHEDULE in error
    assert URL in error
    return error


@pytest.mark.parametrize(("action", "body"), [("backfill", RANGE), ("trigger", {})])
async def test_actions_on_a_job_in_error_are_refused_with_the_error(api: Whole, action: str, body: object) -> None:
    error = await adopted(api)

    answer = await api.client.post(f"/api/v1/jobs/report/{action}", json=body)

    assert (answer.status_code, answer.json()["code"]) == (409, "job_in_error")
    assert answer.json()["detail"] == f"The job is in error: {error}."


async def test_a_trigger_before_adoption_is_refused_with_the_same_error(api: Whole) -> None:
    answer = await api.client.post("/api/v1/jobs/report/trigger")

    assert answer.json()["detail"] == f"The job is in error: {await adopted(api)}."


@pytest.mark.parametrize("at", ["2026-03-03T09:00:00Z", "2026-03-03T09:30:00Z"])
async def test_explaining_a_time_lists_all_errors_of_the_job(api: Whole, at: str) -> None:
    error = await adopted(api)

    answer = await api.client.get(f"/api/v1/explain?job=report&at={at}")

    assert answer.json()["verdict"] == "in_error"
    assert answer.json()["sentence"].endswith(f"does not run: the job cannot be planned ({error}); fix the job.")


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../zones", "../../../../../../../../etc/passwd"])
async def test_a_job_in_an_unknown_zone_is_triggered_in_utc(zone: str) -> None:
    async with BACKENDS["memory"]() as database, whole_api(database) as api:
        await api.job()
        await database.sql(f"update hourbell.jobs set timezone = '{zone}', version = 2")
        answer = await api.client.post("/api/v1/jobs/report/trigger")

    assert answer.status_code == 201
