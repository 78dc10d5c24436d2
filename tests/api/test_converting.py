"""POST /jobs/convert and the demo jobs."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from hourbell.control.demo import TASK
from hourbell.targets.demo import DEMO_TASK
from tests.api.whole import T0, Whole, whole_api
from tests.database import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def whole(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def convert(whole: Whole, form: str, text: str, **more: Any) -> Any:
    answer = await whole.client.post("/api/v1/jobs/convert", json={"format": form, "text": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_crontab_becomes_jobs_that_can_be_applied(whole: Whole) -> None:
    text = "0 3 * * * /usr/local/bin/backup\n61 * * * * /bin/odd\n"
    found = await convert(whole, "crontab", text, timezone="Europe/Berlin", source="page")

    [job] = found["jobs"]
    assert (job["name"], job["timezone"], job["enabled"], job["tags"]) == (
        "backup",
        "Europe/Berlin",
        False,
        ["crontab"],
    )
    [problem] = found["problems"]
    assert (problem["line"], problem["text"]) == (2, "61 * * * * /bin/odd")
    applied = await whole.client.post("/api/v1/jobs/apply", json={"jobs": found["jobs"], "source": found["source"]})
    assert applied.status_code == 200, applied.text
    assert applied.json()["jobs"][0]["action"] == "create"


async def test_conversion_notes_name_no_command_line_flags(whole: Whole) -> None:
    found = await convert(whole, "crontab", "0 3 * * * root /usr/local/bin/backup\n")

    assert found["notes"]
    assert "--" not in " ".join(found["notes"])


async def test_converting_a_jobs_file_resolves_no_references(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "the-value")
    text = """
source = "billing"
[[job]]
name = "report"
schedule = "0 9 * * *"
target = { type = "http", url = "https://example.com/", headers = { Authorization = "env:CANARY" } }
"""
    found = await convert(whole, "jobs-file", text)

    assert ([job["name"] for job in found["jobs"]], found["source"]) == (["report"], "billing")
    assert "the-value" not in str(found)
    assert any("env:CANARY was left out" in note for note in found["notes"])
    applied = await whole.client.post("/api/v1/jobs/apply", json={"jobs": found["jobs"], "source": "billing"})
    assert applied.status_code == 200, applied.text


@pytest.mark.parametrize("text", ["[[job]]\nname = 1\n", "[[job", "job: {a: b}", '{"job": [{"name": "x"}]}'])
async def test_errors_in_a_jobs_file_are_listed(whole: Whole, text: str) -> None:
    found = await convert(whole, "jobs-file", text)

    assert found["jobs"] == []
    assert all(problem["message"] for problem in found["problems"])
    assert found["problems"]


@pytest.mark.parametrize(
    "body",
    [{"format": "crontab"}, {"format": "xml", "text": ""}, {"format": "crontab", "text": "", "timezone": "Mars"}],
)
async def test_a_bad_request_is_refused(whole: Whole, body: dict[str, str]) -> None:
    assert (await whole.client.post("/api/v1/jobs/convert", json=body)).status_code == 422


async def test_the_demo_jobs_come_and_go(whole: Whole) -> None:
    made = await whole.client.post("/api/v1/demo")
    again = await whole.client.post("/api/v1/demo")

    assert (made.status_code, again.status_code) == (201, 201)
    items = made.json()["items"]
    assert [job["name"] for job in items] == ["demo-succeeds", "demo-fails", "demo-skips"]
    assert {(job["ends_at"], job["tags"][0], job["target"]["name"]) for job in items} == {
        ((T0 + timedelta(hours=1)).isoformat().replace("+00:00", "Z"), "demo", DEMO_TASK.name)
    }
    gone = await whole.client.delete("/api/v1/demo")
    assert [job["name"] for job in gone.json()["items"]] == ["demo-succeeds", "demo-fails", "demo-skips"]
    assert (await whole.client.get("/api/v1/jobs")).json()["items"] == []
    assert (await whole.client.delete("/api/v1/demo")).json() == {"items": []}


async def test_a_users_job_is_not_taken_for_a_demo_job(whole: Whole) -> None:
    await whole.job("demo-fails")

    for method in ("POST", "DELETE"):
        answer = await whole.client.request(method, "/api/v1/demo")
        assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
    assert [job["name"] for job in (await whole.client.get("/api/v1/jobs")).json()["items"]] == ["demo-fails"]


def test_demo_jobs_call_the_task_that_every_server_has() -> None:
    assert DEMO_TASK.name == TASK
