"""POST /jobs/apply: all jobs of a source at once, planned and applied."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.core.access.roles import Role
from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio
APPLY = "/api/v1/jobs/apply"


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as whole:
        yield whole


async def apply(api: Whole, *jobs: object, dry_run: bool = False, **more: object) -> Any:
    body = {"source": "billing", "jobs": list(jobs), **more}
    return await api.client.post(APPLY, json=body, params={"dry_run": "true"} if dry_run else {})


async def applied(api: Whole, *jobs: object, **more: Any) -> Any:
    answer = await apply(api, *jobs, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def names(api: Whole) -> list[str]:
    return [job["name"] for job in (await api.client.get("/api/v1/jobs")).json()["items"]]


async def test_a_dry_run_shows_the_plan_and_changes_nothing(api: Whole) -> None:
    await applied(api, a_job("one"), a_job("two"), a_job("three"))

    plan = await applied(api, a_job("one"), a_job("two", schedule="0 8 * * *"), a_job("four"), prune=True, dry_run=True)

    assert [(job["name"], job["action"]) for job in plan["jobs"]] == [
        ("one", "none"),
        ("two", "change"),
        ("four", "create"),
    ]
    two, four = plan["jobs"][1:]
    assert two["fields"] == [{"field": "schedule", "before": "0 9 * * *", "after": "0 8 * * *"}]
    assert [each["at"] for each in two["before"]][:1] == ["2026-03-02T09:00:00Z"]
    assert [each["at"] for each in two["after"]][:1] == ["2026-03-03T08:00:00Z"]
    assert (four["id"], four["version"]) == (None, None)
    assert [job["name"] for job in plan["deleted"]] == ["three"]
    assert await names(api) == ["one", "three", "two"]


async def test_a_plan_is_applied_unless_the_jobs_changed_since(api: Whole) -> None:
    plan = await applied(api, a_job("one"), dry_run=True)
    done = await applied(api, a_job("one"), expect=plan["state"])
    late = await apply(api, a_job("one", schedule="0 8 * * *"), expect=plan["state"])

    assert done["jobs"][0]["version"] == 1
    assert (late.status_code, late.json()["code"]) == (409, "plan_outdated")


async def test_all_errors_are_reported_at_once_with_json_pointers(api: Whole) -> None:
    answer = await apply(
        api,
        a_job("good"),
        a_job("bad", schedule="0 25 * * *", overlap="never"),
        a_job("worse", secret_headers={"Host": "x"}),
        7,
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_job")
    assert [error["pointer"] for error in answer.json()["errors"]] == [
        "/jobs/1/schedule",
        "/jobs/1/overlap",
        "/jobs/2/secret_headers/Host",
        "/jobs/3",
    ]
    assert await names(api) == []


async def test_jobs_of_other_owners_are_refused_unless_taken_over(api: Whole) -> None:
    made = await api.job("theirs")

    refused = await apply(api, a_job("mine"), a_job("theirs"))
    assert (refused.status_code, refused.json()["code"]) == (409, "plan_refused")
    assert refused.json()["errors"][0]["pointer"] == "/jobs/1"
    assert "belongs to api" in refused.json()["errors"][0]["message"]
    assert await names(api) == ["theirs"]

    plan = await applied(api, a_job("mine"), a_job("theirs"), take_over=True)
    assert plan["jobs"][1]["fields"] == [{"field": "owner", "before": "api", "after": "file:billing"}]
    assert plan["jobs"][1]["id"] == made["id"]


async def test_an_empty_list_prunes_nothing(api: Whole) -> None:
    await applied(api, a_job("one"))

    answer = await apply(api, prune=True)

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/jobs")
    assert await names(api) == ["one"]


async def test_secrets_are_set_once_and_never_shown(api: Whole) -> None:
    secret = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
    job = a_job("one", target={**HOOK, "secret": secret}, secret_headers={"Authorization": "Bearer xyzzy"})

    first = await apply(api, job)
    again = await applied(api, job)
    changed = await applied(api, {**job, "secret_headers": {"Authorization": "Bearer plugh"}})
    without = await applied(api, a_job("one"))
    stored = (await api.client.get("/api/v1/jobs/one")).json()

    assert "xyzzy" not in first.text
    assert secret not in first.text
    assert again["jobs"][0]["action"] == "none"
    assert changed["jobs"][0]["fields"] == [
        {"field": "secret_headers.Authorization", "before": "(hidden)", "after": "(hidden, another)"}
    ]
    assert without["jobs"][0]["action"] == "none"
    assert without["jobs"][0]["notes"] == ["its secret header Authorization is not in the file, and stays"]
    assert stored["target"] == {**HOOK}
    assert sorted(row["field"] for row in stored["secrets"]) == ["header:Authorization", "signing"]


async def test_a_missing_secret_is_generated_and_shown_once(api: Whole) -> None:
    job = a_job("one", target={**HOOK, "secret": "generate"})

    planned = await applied(api, job, dry_run=True)
    first, second = await applied(api, job), await applied(api, job)

    assert planned["jobs"][0]["generated_secret"] is None
    assert first["jobs"][0]["generated_secret"].startswith("whsec_")
    assert (second["jobs"][0]["generated_secret"], second["jobs"][0]["action"]) == (None, "none")


async def test_applying_leaves_a_paused_job_paused_and_notes_it(api: Whole) -> None:
    await applied(api, a_job("one"))
    await api.client.post("/api/v1/jobs/one/pause", json={"note": "hands off"})

    plan = await applied(api, a_job("one", schedule="0 8 * * *"))

    assert plan["jobs"][0]["notes"] == ["it is paused, and stays so until somebody resumes it"]
    assert (await api.client.get("/api/v1/jobs/one")).json()["state"] == "paused"


async def test_only_an_admin_sends_a_secret_header_to_another_host(api: Whole) -> None:
    await applied(api, a_job("one", secret_headers={"Authorization": "Bearer xyzzy"}))
    admin, editor = await api.token(Role.ADMIN), await api.token(Role.EDITOR)
    body = {"source": "billing", "jobs": [a_job("one", target={**HOOK, "url": "https://elsewhere.example.com/"})]}

    refused = await api.client.post(APPLY, json=body, headers={"Authorization": f"Bearer {editor}"})
    body["drop_secrets"] = True
    still = await api.client.post(APPLY, json=body, headers={"Authorization": f"Bearer {editor}"})
    allowed = await api.client.post(APPLY, json=body, headers={"Authorization": f"Bearer {admin}"})

    assert (refused.status_code, still.status_code, allowed.status_code) == (403, 403, 200)


async def test_a_key_acts_once(api: Whole) -> None:
    body = {"source": "billing", "jobs": [a_job("one")]}

    first = await api.client.post(APPLY, json=body, headers={"Idempotency-Key": "k"})
    again = await api.client.post(APPLY, json=body, headers={"Idempotency-Key": "k"})

    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_a_file_may_be_larger_than_a_job(api: Whole) -> None:
    jobs = [a_job(f"job-{number}", description="x" * 9_000) for number in range(200)]

    assert len((await applied(api, *jobs))["jobs"]) == 200
    too_large = await api.client.post(APPLY, content=b"[" * (9 * 1024 * 1024))
    assert too_large.status_code == 413
