"""GET /tags: the tags that jobs have, in pages; and the total of a list of jobs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.control.pages import cursor_of
from tests.api.whole import Whole, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def whole(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def add(whole: Whole, name: str, *tags: str) -> None:
    target = {"type": "http", "url": "https://example.com/"}
    job = {"name": name, "schedule": "0 0 1 1 *", "target": target, "tags": tags}
    answer = await whole.client.post("/api/v1/jobs", json=job)
    assert answer.status_code == 201, answer.text


async def listed(whole: Whole, **query: Any) -> Any:
    answer = await whole.client.get("/api/v1/tags", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_tags_are_listed_in_pages(whole: Whole) -> None:
    await add(whole, "one", "ops", "billing")
    await add(whole, "two", "ops", "\u00fcber")

    first = await listed(whole, limit=2)
    rest = await listed(whole, limit=2, cursor=first["next_cursor"])

    assert first["items"] == [{"tag": "billing"}, {"tag": "ops"}]
    assert rest == {"items": [{"tag": "\u00fcber"}], "next_cursor": None}


@pytest.mark.parametrize("part", ["a\0", "\ud800", 5, None], ids=["zero", "half a pair", "number", "null"])
async def test_a_cursor_that_is_no_tag_is_refused(whole: Whole, part: Any) -> None:
    answer = await whole.client.get("/api/v1/tags", params={"cursor": cursor_of("tags", part)})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


async def test_a_list_of_jobs_has_its_total_if_asked_for(whole: Whole) -> None:
    for name in ("import-a", "import-b", "other"):
        await add(whole, name)

    asked = await whole.client.get("/api/v1/jobs", params={"q": "import", "limit": 1, "total": True})
    plain = await whole.client.get("/api/v1/jobs", params={"limit": 1})

    assert asked.json()["total"] == 2
    assert [job["name"] for job in asked.json()["items"]] == ["import-a"]
    assert "total" not in plain.json()
