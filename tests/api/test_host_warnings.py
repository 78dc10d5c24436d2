"""A job whose host resolves to a forbidden address is stored with a warning, however it is defined."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from hourbell.core.values.url import Url
from tests.api.whole import Whole, a_job, whole_api
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
INTERNAL = {"type": "http", "url": "https://internal.example/hook"}
WARNING = {"code": "address_forbidden", "message": "internal.example is closed", "at": []}


class Hosts:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def check(self, urls: Iterable[Url]) -> dict[str, str]:
        origins = [url.origin for url in urls]
        self.asked += origins
        return {origin: "internal.example is closed" for origin in origins if "internal" in origin}


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@pytest.fixture
async def api(hosts: Hosts) -> AsyncIterator[Whole]:
    async with SqliteDatabase.in_memory() as database, whole_api(database, check_hosts=hosts.check) as made:
        yield made


def warned(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in body["warnings"] if each["code"] == "address_forbidden"]


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
@pytest.mark.parametrize("way", ["post", "put", "patch", "replace", "apply"])
async def test_every_way_to_define_a_job_warns(api: Whole, way: str, query: str) -> None:
    if way in ("patch", "replace"):
        await api.job("report")
    job = a_job(target=INTERNAL)
    match way:
        case "post":
            answer = await api.client.post(JOBS + query, json=job)
        case "put" | "replace":
            answer = await api.client.put(f"{JOBS}/report{query}", json=job)
        case "patch":
            answer = await api.client.patch(f"{JOBS}/report{query}", json={"target": INTERNAL})
        case _:
            answer = await api.client.post(f"{JOBS}/apply{query}", json={"source": "here", "jobs": [job]})

    assert answer.status_code in (200, 201), answer.text
    body = answer.json()
    assert warned(body["jobs"][0] if way == "apply" else body) == [WARNING]
    if not query:
        assert (await api.client.get(f"{JOBS}/report")).json()["target"]["url"] == INTERNAL["url"]


async def test_a_host_that_may_be_reached_gets_no_warning(api: Whole) -> None:
    assert warned(await api.job("report")) == []


async def test_a_task_has_no_host(api: Whole, hosts: Hosts) -> None:
    await api.job("report", target={"type": "task", "name": "t"})

    assert hosts.asked == []


async def test_an_import_does_not_look_up_hosts(api: Whole, hosts: Hosts) -> None:
    lines = "\n".join(json.dumps(a_job(f"job-{number}", target=INTERNAL)) for number in range(10))
    answer = await api.client.post(f"{JOBS}/import", content=lines, headers={"Content-Type": "application/x-ndjson"})

    assert answer.text.count('"created"') == 10
    assert hosts.asked == []


async def test_applying_checks_the_hosts_of_changed_jobs_only(api: Whole, hosts: Hosts) -> None:
    jobs = [a_job("one", target=INTERNAL), a_job("two")]
    await api.client.post(f"{JOBS}/apply", json={"source": "here", "jobs": jobs})
    hosts.asked.clear()
    await api.client.post(f"{JOBS}/apply", json={"source": "here", "jobs": [*jobs[:1], a_job("two", tags=["new"])]})

    assert hosts.asked == ["https://example.com:443"]
