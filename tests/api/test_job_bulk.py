"""POST /jobs/bulk: many jobs in one request, each by the rule of the single action."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.core.access.roles import Role
from tests.api.whole import Whole, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def whole(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        for number in range(4):
            await made.job(f"job-{number}", tags=["even"] if number % 2 == 0 else [])
        yield made


async def bulk(whole: Whole, action: str, *, status: int = 200, dry_run: bool = False, **body: Any) -> Any:
    query = {"dry_run": "true"} if dry_run else {}
    answer = await whole.client.post("/api/v1/jobs/bulk", json={"action": action, **body}, params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def states(whole: Whole) -> dict[str, str]:
    found = (await whole.client.get("/api/v1/jobs")).json()["items"]
    return {each["name"]: each["state"] for each in found}


async def test_a_filter_selects_exactly_its_jobs(whole: Whole) -> None:
    result = await bulk(whole, "pause", filter={"tag": "even"}, expect=2, note="why")

    assert [each["name"] for each in result["done"]] == ["job-0", "job-2"]
    assert (result["matched"], result["refused"], result["has_more"]) == (2, [], False)
    assert await states(whole) == {"job-0": "paused", "job-1": "active", "job-2": "paused", "job-3": "active"}
    assert (await whole.client.get("/api/v1/jobs/job-0")).json()["paused"]["note"] == "why"


async def test_a_dry_run_counts_and_changes_nothing(whole: Whole) -> None:
    result = await bulk(whole, "delete", filter={"all": True}, dry_run=True)

    assert (result["dry_run"], result["matched"], result["done"]) == (True, 4, [])
    assert len(await states(whole)) == 4


async def test_an_unexpected_count_changes_nothing(whole: Whole) -> None:
    problem = await bulk(whole, "delete", filter={"tag": "even"}, expect=3, status=409)

    assert problem["code"] == "count_changed"
    assert len(await states(whole)) == 4


async def test_named_jobs_that_do_not_exist_are_refused_by_name(whole: Whole) -> None:
    result = await bulk(whole, "trigger", jobs=["job-1", "nobody"], payload={"days": 7})

    [done] = result["done"]
    assert result["refused"] == [{"name": "nobody", "message": "there is no job of this name"}]
    run = (await whole.client.get(f"/api/v1/runs/{done['run_id']}")).json()
    assert (run["job_name"], run["payload"]) == ("job-1", {"days": 7})


async def test_jobs_that_need_no_change_are_counted_and_left_alone(whole: Whole) -> None:
    await bulk(whole, "pause", jobs=["job-0"], note="the first note")

    result = await bulk(whole, "pause", filter={"all": True}, expect=4)
    again = await bulk(whole, "resume", filter={"tag": "even"})

    assert [each["name"] for each in result["done"]] == ["job-1", "job-2", "job-3"]
    assert [each["name"] for each in again["done"]] == ["job-0", "job-2"]


async def test_tags_are_added_and_removed(whole: Whole) -> None:
    await bulk(whole, "tag", filter={"all": True}, tags=["x", "even"])
    await bulk(whole, "untag", jobs=["job-3"], tags=["x"])

    found = (await whole.client.get("/api/v1/jobs")).json()["items"]
    tags = {each["name"]: sorted(each["tags"]) for each in found}
    assert tags == {f"job-{number}": ["even", "x"] for number in range(3)} | {"job-3": ["even"]}


async def test_a_refused_job_does_not_stop_the_others(whole: Whole) -> None:
    applied = {
        "source": "file",
        "jobs": [{"name": "owned", "schedule": "@daily", "target": {"type": "task", "name": "t"}}],
    }
    assert (await whole.client.post("/api/v1/jobs/apply", json=applied)).status_code == 200

    result = await bulk(whole, "delete", filter={"all": True}, expect=5)

    assert [each["name"] for each in result["refused"]] == ["owned"]
    assert "belongs to file:file" in result["refused"][0]["message"]
    assert await states(whole) == {"owned": "active"}


@pytest.mark.parametrize(("action", "more"), [("delete", {}), ("tag", {"tags": ["x"]}), ("untag", {"tags": ["even"]})])
async def test_an_operator_may_not_edit(whole: Whole, action: str, more: dict[str, Any]) -> None:
    whole.client.headers["Authorization"] = f"Bearer {await whole.token(Role.OPERATOR)}"

    assert (await bulk(whole, action, filter={"all": True}, status=403, **more))["code"] == "not_allowed"
    assert (await bulk(whole, "pause", filter={"all": True}))["matched"] == 4


@pytest.mark.parametrize(
    "body",
    [
        {"action": "pause"},
        {"action": "pause", "jobs": ["a"], "filter": {"all": True}},
        {"action": "pause", "filter": {}},
        {"action": "tag", "jobs": ["job-0"]},
        {"action": "pause", "jobs": ["job-0"], "tags": ["x"]},
        {"action": "resume", "jobs": ["job-0"], "note": "x"},
        {"action": "pause", "jobs": ["job-0"], "payload": 1},
        {"action": "pause", "jobs": ["job-0"], "until": "2020-01-01T00:00:00Z"},
        {"action": "explode", "jobs": ["job-0"]},
    ],
)
async def test_an_ambiguous_body_is_refused(whole: Whole, body: dict[str, Any]) -> None:
    answer = await whole.client.post("/api/v1/jobs/bulk", json=body)

    assert answer.status_code == 422, answer.text
    assert set((await states(whole)).values()) == {"active"}


async def test_the_same_idempotency_key_acts_once(whole: Whole) -> None:
    body = {"action": "trigger", "filter": {"tag": "even"}}
    answers = [
        await whole.client.post("/api/v1/jobs/bulk", json=body, headers={"Idempotency-Key": "once"}) for _ in range(2)
    ]

    assert answers[0].json() == answers[1].json()
    assert len((await whole.client.get("/api/v1/jobs/job-0/runs")).json()["items"]) == 1
