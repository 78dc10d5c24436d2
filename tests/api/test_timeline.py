"""The time line: jobs with what happened and what is planned, what needs attention first."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from hourbell.core.run.settle import Failed
from tests.api.whole import T0, Whole, whole_api
from tests.contract.steps import HOUR, MINUTE, claim, finish, plan_all, run_and_finish
from tests.database import Database

pytestmark = pytest.mark.anyio

TIMELINE, JOBS = "/api/v1/timeline", "/api/v1/jobs"
TASK = {"type": "task", "name": "a"}
HOURLY: dict[str, Any] = {"schedule": "0 * * * *", "target": TASK}


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def timeline(api: Whole, **parameters: Any) -> dict[str, Any]:
    answer = await api.client.get(TIMELINE, params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(found: dict[str, Any]) -> list[str]:
    return [item["job"]["name"] for item in found["items"]]


def text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


async def test_an_empty_database_has_an_empty_timeline_of_two_days(api: Whole) -> None:
    assert await timeline(api) == {
        "now": text(T0),
        "from": text(T0 - timedelta(days=1)),
        "until": text(T0 + timedelta(days=1)),
        "bucket_seconds": 900,
        "items": [],
        "outages": [],
        "next_cursor": None,
    }


async def test_the_timeline_shows_runs_and_planned_times_of_a_job(api: Whole, database: Database) -> None:
    made = await api.job(**HOURLY)
    store = database.engine()
    await plan_all(store, T0 + HOUR)
    [run] = await run_and_finish(store, now=T0 + HOUR + MINUTE)
    api.advance(HOUR + 2 * MINUTE)

    found = await timeline(api, until=text(T0 + 4 * HOUR))

    [item] = found["items"]
    assert item["job"] == {
        "id": made["id"],
        "name": "report",
        "schedule": "0 * * * *",
        "words": "Every hour",
        "timezone": "UTC",
        "state": "active",
        "tags": [],
        "next_at": text(T0 + 2 * HOUR),
        "paused": None,
        "last_state": "succeeded",
        "attention": None,
        "attention_note": None,
        "streak": 0,
        "retry": None,
        "median_duration_ms": 0,
    }
    assert item["runs"] == [
        {
            "id": str(run.id),
            "kind": "scheduled",
            "state": "succeeded",
            "reason": None,
            "scheduled_at": text(T0 + HOUR),
            "started_at": text(T0 + HOUR + MINUTE),
            "finished_at": text(T0 + HOUR + MINUTE),
            "attempt": 1,
            "lateness_ms": 60_000,
            "duration_ms": 0,
            "is_late": False,
            "error": None,
        }
    ]
    assert item["planned"] == [text(T0 + hours * HOUR) for hours in (2, 3)]
    assert (item["skips"], item["buckets"], item["is_sampled"]) == ([], None, False)


async def test_a_job_with_too_many_items_is_counted_in_buckets(api: Whole, database: Database) -> None:
    await api.job(schedule="* * * * *", target=TASK, catch_up="all")
    store = database.engine()
    await plan_all(store, T0 + 10 * MINUTE)
    await run_and_finish(store, count=10, now=T0 + 10 * MINUTE)
    api.advance(10 * MINUTE)

    window = {"from": text(T0), "until": text(T0 + 20 * MINUTE)}
    [whole] = (await timeline(api, **window))["items"]
    found = await timeline(api, **window, max_marks=5)

    [item] = found["items"]
    assert (len(whole["runs"]), len(whole["planned"]), whole["buckets"]) == (10, 9, None)
    assert (item["runs"], item["planned"], found["bucket_seconds"]) == ([], [], 10)
    fates = ("succeeded", "late", "unfinished", "planned")
    counted = {fate: sum(bucket[fate] for bucket in item["buckets"]) for fate in fates}
    assert counted == {"succeeded": 6, "late": 4, "unfinished": 0, "planned": 9}
    assert all(any(bucket[fate] for fate in fates) for bucket in item["buckets"])


async def test_jobs_that_need_attention_come_first_with_the_reason(api: Whole, database: Database) -> None:
    for name in ("calm", "bad", "held"):
        await api.job(name, **HOURLY)
    await api.client.post(f"{JOBS}/held/pause", json={"note": "migration"})
    store = database.engine()
    await plan_all(store, T0 + HOUR)
    for run in await claim(store, free=5, now=T0 + HOUR):
        name = (await api.client.get(f"{JOBS}/{run.job_id}")).json()["name"]
        await finish(store, [run], Failed("HTTP 503", retryable=False) if name == "bad" else None, now=T0 + HOUR)
    api.advance(HOUR + MINUTE)

    first = await timeline(api, limit=2)
    rest = await timeline(api, limit=2, cursor=first["next_cursor"])

    jobs = [item["job"] for item in first["items"]]
    assert names(first) + names(rest) == ["bad", "held", "calm"]
    assert rest["next_cursor"] is None
    assert [(job["attention"], job["attention_note"]) for job in jobs] == [
        ("failing", "failed: HTTP 503"),
        ("paused", "paused by local: migration"),
    ]
    assert (jobs[0]["streak"], jobs[0]["last_state"]) == (1, "failed")
    assert jobs[1]["paused"] == {"note": "migration", "by": "local", "until": None, "since": text(T0)}
    assert first["items"][0]["runs"][0]["error"] == "HTTP 503"
    assert first["items"][1]["planned"] == []


async def test_a_job_whose_run_is_tried_again_says_so(api: Whole, database: Database) -> None:
    await api.job(**HOURLY)
    store = database.engine()
    await plan_all(store, T0 + HOUR)
    [run] = await claim(store, now=T0 + HOUR)
    await finish(store, [run], Failed("HTTP 503"), now=T0 + HOUR)
    api.advance(HOUR + MINUTE)

    [waiting] = (await timeline(api, attention="retrying"))["items"]
    await claim(store, now=T0 + 2 * HOUR)
    [running] = (await timeline(api, attention="retrying", sort="name"))["items"]

    next_at = waiting["job"]["retry"]["next_at"]
    assert waiting["job"]["attention"] == "retrying"
    assert waiting["job"]["attention_note"] == f"attempt 1 failed, attempt 2 at {next_at}: HTTP 503"
    assert waiting["job"]["retry"] == {"run_id": str(run.id), "attempt": 1, "next_at": next_at, "error": "HTTP 503"}
    assert datetime.fromisoformat(next_at) > T0 + HOUR
    assert running["job"]["attention_note"] == "attempt 1 failed, attempt 2 is running: HTTP 503"
    assert running["job"]["retry"] == {"run_id": str(run.id), "attempt": 1, "next_at": None, "error": "HTTP 503"}


async def test_the_counts_of_stats_equal_the_filtered_lists(api: Whole, database: Database) -> None:
    for name in ("calm", "bad", "held"):
        await api.job(name, **HOURLY)
    await api.job("yearly", schedule="0 0 1 1 *", target=TASK)
    await api.client.post(f"{JOBS}/held/pause", json={})
    store = database.engine()
    await plan_all(store, T0 + HOUR)
    runs = await claim(store, free=1, now=T0 + HOUR)
    await finish(store, runs, Failed("HTTP 503", retryable=False), now=T0 + HOUR)
    api.advance(HOUR + 10 * MINUTE)

    stats = (await api.client.get("/api/v1/stats")).json()
    counted = {
        "failing": stats["failing"],
        "retrying": stats["retrying"],
        "losing": stats["losing"],
        "late": stats["late"],
    }
    counted |= {"paused": stats["paused"], "due": stats["due_within_hour"]}
    for reason, count in counted.items():
        listed = (await api.client.get(JOBS, params={"attention": reason})).json()["items"]
        assert len(listed) == count, reason
        assert sorted(job["name"] for job in listed) == sorted(names(await timeline(api, attention=reason)))
    assert counted == {"failing": 1, "retrying": 0, "losing": 0, "late": 1, "paused": 1, "due": 2}
    assert (stats["now"], stats["nodes"], stats["at_least"]) == (text(T0 + HOUR + 10 * MINUTE), 0, [])


@pytest.mark.parametrize("sort", ["attention", "name", "next"])
async def test_pages_in_every_order_have_no_gap_or_overlap(api: Whole, sort: str) -> None:
    made = [f"job-{number}" for number in range(5)]
    for name in made:
        await api.job(name, **HOURLY)

    seen, cursor = [], None
    for _ in range(3):
        page = await timeline(api, sort=sort, limit=2, **({"cursor": cursor} if cursor else {}))
        seen += names(page)
        cursor = page["next_cursor"]

    assert (sorted(seen), cursor) == (made, None)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"q": "b"}, ["billing"]),
        ({"tag": "red"}, ["other", "billing"]),
        ({"tag": "red", "sort": "name", "q": "o"}, ["other"]),
        ({"job": ["other", "calm", "none"]}, ["other", "calm"]),
        ({"job": ["other"], "attention": "paused"}, ["other"]),
        ({"job": ["calm"], "attention": "paused"}, []),
        ({"attention": "paused"}, ["other"]),
        ({"state": "paused", "sort": "name"}, ["other"]),
        ({"last_result": "failed"}, []),
        ({"subject": "Ada"}, ["calm"]),
        ({"target": "task"}, ["other", "billing", "calm"]),
        ({"target": "http"}, []),
    ],
)
async def test_every_filter_selects_its_jobs(api: Whole, filters: dict[str, Any], expected: list[str]) -> None:
    await api.job("billing", **HOURLY, tags=["red"])
    await api.job("other", **HOURLY, tags=["red"], enabled=False)
    await api.job("calm", **HOURLY, subject="Ada")

    assert names(await timeline(api, **filters)) == expected


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"from": text(T0), "until": text(T0)}, "/query/until"),
        ({"from": text(T0), "until": text(T0 + timedelta(days=63))}, "/query/until"),
        ({"max_marks": 501}, "/query/max_marks"),
        ({"limit": 101}, "/query/limit"),
        ({"sort": "color"}, "/query/sort"),
        ({"attention": "none"}, "/query/attention"),
        ({"tag": ["a", "b"]}, "/query/tag"),
        ({"colour": "red"}, "/query/colour"),
    ],
)
async def test_invalid_parameters_are_refused(api: Whole, parameters: dict[str, Any], pointer: str) -> None:
    answer = await api.client.get(TIMELINE, params=parameters)

    assert (answer.status_code, [each["pointer"] for each in answer.json()["errors"]]) == (400, [pointer])


async def test_a_cursor_of_another_order_is_refused(api: Whole) -> None:
    for name in ("one", "two"):
        await api.job(name, **HOURLY)
    cursor = (await timeline(api, limit=1))["next_cursor"]

    answer = await api.client.get(TIMELINE, params={"cursor": cursor, "sort": "name"})

    assert answer.status_code == 400
