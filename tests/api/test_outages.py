"""GET /outages, and outages in explain and on the time line."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.run.outages import Outage, OutageOf
from tests.api.whole import T0, Whole, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio
NODE = UUID(int=7)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
async def whole(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def save(whole: Whole, of: OutageOf, start: timedelta, length: timedelta) -> None:
    await whole.database.engine().save_outage(Outage(of, T0 + start, T0 + start + length, NODE))


async def got(whole: Whole, path: str, **query: Any) -> Any:
    answer = await whole.client.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_outages_are_listed_in_pages_newest_first(whole: Whole) -> None:
    for number in range(3):
        await save(whole, OutageOf.NODES, number * DAY, HOUR)
    await save(whole, OutageOf.DATABASE, 2 * DAY, 2 * HOUR)

    first = await got(whole, "outages", limit=3)
    rest = await got(whole, "outages", limit=3, cursor=first["next_cursor"])

    assert [each["of"] for each in first["items"] + rest["items"]] == ["nodes", "database", "nodes", "nodes"]
    assert rest["next_cursor"] is None
    assert rest["items"] == [
        {"from": "2026-03-02T08:00:00Z", "until": "2026-03-02T09:00:00Z", "of": "nodes", "found_by": str(NODE)}
    ]


async def test_a_range_selects_the_outages_that_overlap_it(whole: Whole) -> None:
    for number in range(3):
        await save(whole, OutageOf.NODES, number * DAY, HOUR)

    found = await got(whole, "outages", **{"from": "2026-03-03T08:30:00Z", "until": "2026-03-03T10:00:00Z"})

    assert [each["from"] for each in found["items"]] == ["2026-03-03T08:00:00Z"]


@pytest.mark.parametrize("cursor", ["x", "WyJub2RlcyIsMV0"])
async def test_a_cursor_of_another_list_is_refused(whole: Whole, cursor: str) -> None:
    answer = await whole.client.get("/api/v1/outages", params={"cursor": cursor})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


async def test_explain_names_the_outage_that_a_scheduled_time_fell_into(whole: Whole) -> None:
    await whole.job()
    await save(whole, OutageOf.NODES, HOUR - timedelta(minutes=1), DAY)
    whole.advance(2 * DAY)

    during = await got(whole, "explain", job="report", at="2026-03-02T09:00:00Z")
    after = await got(whole, "explain", job="report", at="2026-03-04T09:00:00Z")

    assert "no node was running from 2026-03-02 08:59:00 UTC to 2026-03-03 08:59:00 UTC." in during["sentence"]
    assert during["data"]["outages"] == [
        {"of": "nodes", "from": "2026-03-02T08:59:00Z", "until": "2026-03-03T08:59:00Z"}
    ]
    assert "no node was running" not in after["sentence"]


async def test_the_timeline_has_the_outages_of_its_window(whole: Whole) -> None:
    await save(whole, OutageOf.DATABASE, -2 * DAY, HOUR)
    await save(whole, OutageOf.NODES, -HOUR, HOUR)

    assert (await got(whole, "timeline"))["outages"] == [
        {"from": "2026-03-02T07:00:00Z", "until": "2026-03-02T08:00:00Z", "of": "nodes"}
    ]
