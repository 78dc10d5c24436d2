"""Lists are bounded in bytes: long values are left out with a mark, and a page ends at 4 MiB with a cursor."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.api import pages
from tests.api.failing import fail_waiting_runs
from tests.api.whole import Whole, a_job, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio

JOBS, RUNS, AUDIT = "/api/v1/jobs", "/api/v1/runs", "/api/v1/audit"
LONG = {"text": "x" * 5_000}
MEGABYTE = {"text": "x" * 1_000_000}
FOUR_MEBIBYTES = 4 * 1024 * 1024


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def listed(api: Whole, path: str) -> list[dict[str, Any]]:
    answer = await api.client.get(path)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def whole_value(api: Whole, item: dict[str, Any], field: str) -> object:
    """Return the value that a list leaves out, by the link beside it."""
    [mark] = [mark for mark in item["omitted"] if mark["field"] == field]
    found = (await api.client.get(mark["url"])).json()
    assert "omitted" not in found
    for name in field.split("."):
        found = found[name]
    return found


async def walk(api: Whole, path: str) -> tuple[list[dict[str, Any]], int]:
    """Every item of a list by its cursors, and in how many pages."""
    items: list[dict[str, Any]] = []
    cursor, count = "", 0
    while True:
        answer = await api.client.get(f"{path}{'&' if '?' in path else '?'}limit=500{cursor}")
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        count += 1
        if answer.json()["next_cursor"] is None:
            return items, count
        cursor = f"&cursor={answer.json()['next_cursor']}"


async def test_150_runs_of_a_job_with_a_megabyte_of_payload_are_a_short_answer(api: Whole) -> None:
    await api.job("large", payload=MEGABYTE)
    for _ in range(150):
        assert (await api.client.post(f"{JOBS}/large/trigger")).status_code == 201

    answer = await api.client.get(f"{RUNS}?limit=500")
    assert len(answer.json()["items"]) == 150
    assert len(answer.content) < 300_000
    assert await whole_value(api, answer.json()["items"][0], "payload") == MEGABYTE


async def test_a_page_ends_before_four_mebibytes_and_the_next_one_continues(api: Whole) -> None:
    lines = [json.dumps(a_job(f"job-{number:03}", description="ä" * 10_000)) for number in range(500)]
    headers = {"Content-Type": "application/x-ndjson"}
    assert (await api.client.post(f"{JOBS}/import", content="\n".join(lines), headers=headers)).status_code == 200

    answer = await api.client.get(f"{JOBS}?limit=500")
    assert FOUR_MEBIBYTES * 0.95 < len(answer.content) <= FOUR_MEBIBYTES
    items, count = await walk(api, JOBS)
    assert [item["name"] for item in items] == [f"job-{number:03}" for number in range(500)]
    assert count == 3


async def test_every_list_marks_omitted_values_in_the_same_way(api: Whole) -> None:
    made = await api.job("report", payload=LONG, target={"type": "http", "url": "https://example.com/", "body": LONG})
    await api.client.post(f"{JOBS}/report/trigger", json={"payload": LONG})

    [job] = await listed(api, JOBS)
    assert job["omitted"] == [{"field": name, "url": f"{JOBS}/{made['id']}"} for name in ("payload", "target")]
    assert (job["payload"], job["target"]) == (None, {"type": "http", "url": "https://example.com/"})
    assert await whole_value(api, job, "payload") == LONG
    for path in (RUNS, f"{JOBS}/report/runs"):
        [run] = await listed(api, path)
        assert run["omitted"] == [{"field": "payload", "url": f"{RUNS}/{run['id']}"}]
        assert (run["payload"], await whole_value(api, run, "payload")) == (None, LONG)
    [version] = await listed(api, f"{JOBS}/report/versions")
    assert version["omitted"][0] == {"field": "definition.payload", "url": f"{JOBS}/report/versions/1"}
    assert await whole_value(api, version, "definition.payload") == LONG
    [_, entry] = await listed(api, AUDIT)
    assert entry["omitted"] == [{"field": "after", "url": f"{AUDIT}/{entry['id']}"}]
    after = await whole_value(api, entry, "after")
    assert isinstance(after, dict)
    assert after["payload"] == LONG


async def test_short_values_are_not_omitted_and_equal_those_of_a_single_get(api: Whole) -> None:
    await api.job("report", payload={"days": 30})

    [job] = await listed(api, f"{JOBS}?secrets=true")
    assert job == (await api.client.get(f"{JOBS}/report")).json()
    [version] = await listed(api, f"{JOBS}/report/versions")
    assert version == (await api.client.get(f"{JOBS}/report/versions/1")).json()
    [entry] = await listed(api, AUDIT)
    assert entry == (await api.client.get(f"{AUDIT}/{entry['id']}")).json()


@pytest.mark.parametrize("path", [f"{JOBS}/report/versions/2", f"{JOBS}/none/versions/1", f"{AUDIT}/1000000"])
async def test_an_unknown_version_or_entry_is_not_found(api: Whole, path: str) -> None:
    await api.job("report")

    assert (await api.client.get(path)).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        JOBS,
        f"{JOBS}?sort=next_at",
        RUNS,
        f"{RUNS}?state=failed",
        f"{RUNS}?state=pending",
        f"{RUNS}/late",
        f"{RUNS}/stuck",
        f"{RUNS}/orphans",
        f"{JOBS}/job-0/runs",
        f"{JOBS}/job-0/versions",
        f"{JOBS}/job-0/skips",
        AUDIT,
    ],
)
async def test_pages_cut_by_bytes_have_no_gap_or_overlap(
    api: Whole, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for number in range(6):
        await api.job(f"job-{number}")
    for number in range(6):
        await api.client.patch(f"{JOBS}/job-0", json={"description": f"version {number}"})
        await api.client.post(f"{JOBS}/job-0/pause")
        api.time.moment = api.time.moment.replace(day=api.time.moment.day + 1)
        await api.client.post(f"{JOBS}/job-0/resume")
    for number in range(6):
        await api.client.post(f"{JOBS}/job-{number}/trigger")
    await fail_waiting_runs(api, "job-0")
    for number in range(1, 6):
        await api.client.post(f"{JOBS}/job-{number}/trigger")
    api.time.moment = api.time.moment.replace(day=api.time.moment.day + 1)
    whole, count = await walk(api, path)
    assert count == 1

    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 1)
    assert await walk(api, path) == (whole, max(1, len(whole)))
