"""Every request that defines a job refuses an alert policy that does not exist, and says where and what does."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.api.whole import Whole, a_job, whole_api
from tests.database import Database
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
JOBS = "/api/v1/jobs"
NDJSON = {"Content-Type": "application/x-ndjson"}
UNKNOWN = {"alert_policy": "biling"}


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with SqliteDatabase.in_memory() as made:
        yield made


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


Send = Callable[[Whole, dict[str, str]], Awaitable[httpx.Response]]
WAYS: dict[str, Send] = {
    "POST": lambda api, query: api.client.post(JOBS, json=a_job("new", **UNKNOWN), params=query),
    "PUT of a new job": lambda api, query: api.client.put(f"{JOBS}/new", json=a_job("new", **UNKNOWN), params=query),
    "PUT": lambda api, query: api.client.put(f"{JOBS}/report", json=a_job(**UNKNOWN), params=query),
    "PATCH": lambda api, query: api.client.patch(f"{JOBS}/report", json=UNKNOWN, params=query),
    "apply": lambda api, query: api.client.post(
        f"{JOBS}/apply", json={"source": "a", "jobs": [a_job("new", **UNKNOWN)]}, params=query
    ),
    "import": lambda api, query: api.client.post(
        f"{JOBS}/import", content=json.dumps(a_job("new", **UNKNOWN)), headers=NDJSON, params=query
    ),
}


def errors_of(answer: httpx.Response) -> list[dict[str, Any]]:
    if answer.status_code == 200:  # an import answers line by line
        first = json.loads(answer.text.splitlines()[0])
        assert (first["result"], first["code"]) == ("refused", "no_such_alert_policy")
        return list(first["errors"])
    assert answer.status_code in (409, 422), answer.text
    return list(answer.json()["errors"])


@pytest.mark.parametrize("query", [{}, {"dry_run": "true"}], ids=["", "dry run"])
@pytest.mark.parametrize("way", WAYS)
async def test_it_is_refused_with_a_pointer_and_the_names_there_are(
    api: Whole, way: str, query: dict[str, str]
) -> None:
    await api.job("report")
    await api.client.put("/api/v1/alert-policies/billing", json={})

    [error] = errors_of(await WAYS[way](api, query))

    assert error["pointer"].endswith("/alert_policy")
    assert error["message"] == "there is no alert policy 'biling'"
    assert "write none, billing, default, or create it" in error["hint"]
    [job] = (await api.client.get(JOBS)).json()["items"]
    assert job["alert_policy"] == ""


async def test_a_policy_in_use_is_deleted_only_by_force(api: Whole) -> None:
    await api.client.put("/api/v1/alert-policies/billing", json={})
    await api.job("report", alert_policy="billing")

    refused = await api.client.delete("/api/v1/alert-policies/billing")
    forced = await api.client.delete("/api/v1/alert-policies/billing", params={"force": "true"})

    assert (refused.status_code, refused.json()["code"]) == (409, "alert_policy_in_use")
    assert "1 job names it: report" in refused.json()["detail"]
    assert forced.status_code == 204
