"""The ledger of a job through the API: its scheduled times with their fates, and figures about them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.core.run.plan import Skip
from hourbell.core.run.settle import Failed
from hourbell.core.run.states import SkipReason
from tests.api.whole import Whole, whole_api
from tests.contract.steps import DAY, HOUR, SECOND, T0, add_job, claim, finish, new_run, put_runs
from tests.contract.test_times import a_mixture, put_all
from tests.database import Database

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


@pytest.fixture
async def mixed(api: Whole) -> Whole:
    await a_mixture(api.database.engine(), api.database.control())
    return api


async def items(api: Whole, path: str, **params: Any) -> list[dict[str, Any]]:
    """All items of a list, page by page."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        answer = await api.client.get(path, params=params | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
async def test_the_ledger_has_runs_and_skips_by_time_newest_first(mixed: Whole, limit: int) -> None:
    found = await items(mixed, f"{JOBS}/a/times", limit=limit)

    fates = [item["fate"] for item in found]
    assert fates[:4] == ["skipped", "skipped", "skipped", "cancelled"]
    assert fates[-4:] == ["failed", "failed", "late", "succeeded"]
    ends = [item["until"] or item["at"] for item in found]
    assert ends == sorted(ends, reverse=True)
    assert len(found) == 15
    assert found[0] == {
        "at": "2026-03-02T09:00:40Z",
        "local": "2026-03-02T09:00:40",
        "until": "2026-03-02T09:00:49Z",
        "count": 10,
        "fate": "skipped",
        "run": None,
        "skip": {"reason": "paused"},
        "version": 1,
    }
    late = found[-2]
    assert (late["run"]["lateness_ms"], late["run"]["duration_ms"], late["version"]) == (359_000, 3_240_000, 1)


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize(
    ("fates", "count"),
    [(["late"], 1), (["succeeded"], 1), (["late", "skipped"], 4), (["skipped"], 3), (["failed", "cancelled"], 3),
     (["waiting", "running"], 7), (["succeeded", "late", "failed", "cancelled", "skipped", "running", "waiting"], 15)],
)  # fmt: skip
async def test_the_ledger_lists_only_the_fates_asked_for(
    mixed: Whole, fates: list[str], count: int, limit: int
) -> None:
    every = await items(mixed, f"{JOBS}/a/times")

    found = await items(mixed, f"{JOBS}/a/times", fate=fates, limit=limit)

    assert found == [item for item in every if item["fate"] in fates]
    assert len(found) == count


@pytest.mark.parametrize("limit", [1, 100])
async def test_the_ledger_of_a_window_has_the_skips_that_reach_into_it(mixed: Whole, limit: int) -> None:
    window = {"from": "2026-03-02T09:00:09Z", "until": "2026-03-02T09:00:22Z"}

    found = await items(mixed, f"{JOBS}/a/times", limit=limit, **window)

    assert [(item["at"][-3:-1], item["fate"]) for item in found] == [
        ("20", "skipped"), ("11", "cancelled"), ("10", "waiting"), ("09", "waiting"),
    ]  # fmt: skip


async def test_searching_a_rare_fate_stops_after_a_limit_and_its_cursor_continues(
    mixed: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = await items(mixed, f"{JOBS}/a/times", fate="late")
    monkeypatch.setattr("hourbell.control.ledger.MAX_SCANNED_RUNS", 2)
    monkeypatch.setattr("hourbell.control.ledger._AT_ONCE", 1)

    first = (await mixed.client.get(f"{JOBS}/a/times", params={"fate": "late", "limit": 1})).json()

    assert (first["items"], first["next_cursor"] is None) == ([], False)
    assert await items(mixed, f"{JOBS}/a/times", fate=["late"], limit=1) == every
    both = await items(mixed, f"{JOBS}/a/times", fate=["late", "skipped"], limit=1)
    assert [item["fate"] for item in both] == ["skipped", "skipped", "skipped", "late"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("fate=lost", 400), ("cursor=x", 400), ("from=yesterday", 400), ("limit=501", 400), ("limit=1&limit=2", 400)],
)
async def test_a_bad_parameter_of_the_ledger_is_refused(mixed: Whole, query: str, status: int) -> None:
    answer = await mixed.client.get(f"{JOBS}/a/times?{query}")

    assert answer.status_code == status, answer.text


async def test_a_cursor_of_another_list_is_refused(mixed: Whole) -> None:
    runs = (await mixed.client.get(f"{JOBS}/a/runs?limit=1")).json()

    answer = await mixed.client.get(f"{JOBS}/a/times", params={"cursor": runs["next_cursor"]})

    assert answer.status_code == 400


async def test_recent_times_are_listed_oldest_first_if_asked(mixed: Whole) -> None:
    ledger = await items(mixed, f"{JOBS}/a/times", limit=100)

    job = (await mixed.client.get(f"{JOBS}/a?recent=50")).json()
    listed = (await mixed.client.get(f"{JOBS}?recent=50")).json()["items"]
    few = (await mixed.client.get(f"{JOBS}/a?recent=4")).json()

    assert [(each["at"], each["fate"]) for each in job["recent"]] == [
        (item["at"], item["fate"]) for item in reversed(ledger)
    ]
    names = ["recent", "median_duration_ms", "p95_duration_ms", "streak"]
    assert [[each[name] for name in names] for each in listed] == [[job[name] for name in names]]
    assert few["recent"] == job["recent"][-4:]
    assert job["recent"][1]["lateness_ms"] == 359_000
    assert job["recent"][1]["run_id"] == ledger[-2]["run"]["id"]
    assert (job["median_duration_ms"], job["p95_duration_ms"]) == (0, 58 * 60_000)


async def test_recent_times_are_left_out_unless_asked(mixed: Whole) -> None:
    without = (await mixed.client.get(f"{JOBS}/a")).json()
    none = (await mixed.client.get(f"{JOBS}/a?recent=0")).json()

    assert "recent" not in without
    assert none["recent"] == []
    assert none["p95_duration_ms"] == 58 * 60_000


async def test_a_job_read_with_recent_times_can_be_put_back(mixed: Whole) -> None:
    read = (await mixed.client.get(f"{JOBS}/a?recent=5")).json()

    put = await mixed.client.put(f"{JOBS}/a", json=read)

    assert (put.status_code, put.json()["version"]) == (200, 1)


@pytest.mark.parametrize("query", ["recent=51", "recent=-1", "recent=x", "recent=5&limit=101"])
async def test_too_many_recent_times_are_refused(mixed: Whole, query: str) -> None:
    assert (await mixed.client.get(f"{JOBS}?{query}")).status_code == 400


@pytest.mark.parametrize(("failed", "streak"), [(0, 0), (3, 3), (60, 60), (130, 100)])
async def test_the_streak_counts_failed_runs_in_a_row_up_to_a_hundred(api: Whole, failed: int, streak: int) -> None:
    job = await add_job(api.database.control(), "a", lane="a")
    engine = api.database.engine()
    await put_runs(engine, job, [new_run(job, number) for number in range(failed + 1)])
    await finish(engine, await claim(engine))
    ended = await claim(engine, free=failed) if failed else []
    await finish(engine, ended, Failed("no", retryable=False), now=T0 + 2 * HOUR)

    found = (await api.client.get(f"{JOBS}/a?recent=1")).json()

    assert found["streak"] == streak


async def test_a_series_has_the_newest_ended_runs_oldest_first(mixed: Whole) -> None:
    whole = (await mixed.client.get(f"{JOBS}/a/series")).json()
    two = (await mixed.client.get(f"{JOBS}/a/series?limit=2")).json()

    assert [point["state"] for point in whole["items"]] == ["succeeded", "succeeded", "failed", "failed", "cancelled"]
    assert whole["items"][1] | {"run_id": None} == {
        "run_id": None,
        "at": "2026-03-02T09:00:01Z",
        "state": "succeeded",
        "duration_ms": 3_240_000,
        "lateness_ms": 359_000,
        "attempt": 1,
    }
    assert two["items"] == whole["items"][-2:]
    assert (whole["median_duration_ms"], whole["p95_duration_ms"]) == (0, 58 * 60_000)
    assert whole["p95_lateness_ms"] == 3_598_000
    assert whole["duration_slope_ms_per_week"] is None


async def fails(api: Whole, name: str, errors: list[str]) -> None:
    """A job whose runs failed with these errors, one after the other."""
    job = await add_job(api.database.control(), name, lane=name)
    engine = api.database.engine()
    await put_runs(engine, job, [new_run(job, number) for number in range(len(errors))])
    for number, error in enumerate(errors):
        ended = await claim(engine, lane=name)
        await finish(engine, ended, Failed(error, retryable=False), now=T0 + HOUR + number * SECOND)


async def test_failed_runs_are_grouped_by_cause_the_most_common_first(api: Whole) -> None:
    await fails(api, "a", ["row 1 is locked", "no such host", "row 17 is locked", "row 18 is locked"])
    await fails(api, "b", ["no such host"])

    found = (await api.client.get("/api/v1/runs/groups")).json()

    assert [(group["count"], group["jobs"], group["error"], group["lane"]) for group in found["items"]] == [
        (3, ["a"], "row 18 is locked", "task:a"),
        (1, ["a"], "no such host", "task:a"),
        (1, ["b"], "no such host", "task:b"),
    ]
    first = found["items"][0]
    assert (first["first_at"], first["last_at"]) == ("2026-03-02T10:00:00Z", "2026-03-02T10:00:03Z")
    assert (first["reason"], first["job_count"], found["is_sampled"]) == ("permanent", 1, False)
    sample = (await api.client.get(f"/api/v1/runs/{first['sample_run_id']}")).json()
    assert sample["scheduled_at"] == "2026-03-02T09:00:03Z"
    of_job = (await api.client.get("/api/v1/runs/groups?job=b")).json()["items"]
    assert of_job == [group for group in found["items"] if group["jobs"] == ["b"]]
    later = (await api.client.get("/api/v1/runs/groups?since=2026-03-02T10:00:02Z&limit=1")).json()["items"]
    assert [group["count"] for group in later] == [2]


@pytest.mark.parametrize("action", ["replay", "discard"])
@pytest.mark.parametrize("body", [{}, {"job": "a"}, {"all": True}])
async def test_a_group_is_replayed_or_discarded_and_nothing_else(
    api: Whole, monkeypatch: pytest.MonkeyPatch, action: str, body: dict[str, object]
) -> None:
    monkeypatch.setattr("hourbell.control.runs._SCANNED_AT_ONCE", 2)
    await fails(api, "a", ["row 1 is locked", "no such host", "row 17 is locked", "row 18 is locked"])
    await fails(api, "b", ["row 1 is locked"])
    groups = (await api.client.get("/api/v1/runs/groups")).json()["items"]
    path, chosen = f"/api/v1/runs/{action}", body | {"fingerprint": groups[0]["fingerprint"]}

    counted = (await api.client.post(f"{path}?dry_run=true", json=chosen)).json()
    some = (await api.client.post(path, json=chosen | {"limit": 2})).json()
    rest = (await api.client.post(path, json=chosen)).json()

    assert (counted["matched"], counted["has_more"]) == (3, False)
    assert (some["matched"], some["has_more"], rest["matched"], rest["has_more"]) == (2, True, 1, False)
    assert (await api.client.get("/api/v1/runs/groups")).json()["items"] == groups[1:]


async def test_replays_of_a_group_become_ready_at_a_rate(api: Whole) -> None:
    await fails(api, "a", ["row 1 is locked", "row 17 is locked", "row 18 is locked"])
    [group] = (await api.client.get("/api/v1/runs/groups")).json()["items"]

    body = {"fingerprint": group["fingerprint"], "per_minute": 2}
    done = (await api.client.post("/api/v1/runs/replay", json=body)).json()["done"]

    runs = [(await api.client.get(f"/api/v1/runs/{each['new_run_id']}")).json() for each in done]
    assert [run["ready_at"] for run in runs] == ["2026-03-02T08:00:00Z", "2026-03-02T08:00:30Z", "2026-03-02T08:01:00Z"]


async def test_groups_say_whether_older_runs_were_not_counted(api: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    await fails(api, "a", ["row 1 is locked", "no such host", "row 17 is locked"])
    monkeypatch.setattr("hourbell.control.runs.MAX_GROUPED_RUNS", 2)

    found = (await api.client.get("/api/v1/runs/groups")).json()

    assert ([group["count"] for group in found["items"]], found["is_sampled"]) == ([1, 1], True)


async def test_waiting_runs_cannot_be_cancelled_by_fingerprint(api: Whole) -> None:
    answer = await api.client.post("/api/v1/runs/cancel", json={"fingerprint": "0123456789abcdef"})

    assert answer.status_code == 422


async def test_fates_are_counted_by_date_in_the_time_zone_of_the_job(mixed: Whole) -> None:
    mixed.time.moment = T0 + HOUR

    found = (await mixed.client.get(f"{JOBS}/a/days")).json()

    counts = {"succeeded": 1, "failed": 2, "late": 1, "cancelled": 1, "skipped": 17, "unfinished": 7}
    assert found == {
        "items": [{"date": "2026-03-02", **counts}],
        "timezone": "UTC",
        "counted_from": "2025-02-25",
        "is_sampled": False,
    }


async def test_days_follow_the_time_zone_and_a_long_skip_counts_on_each_of_its_days(api: Whole) -> None:
    # 09:00 UTC is 22:00 in Auckland: runs from 11:00 UTC on are of the next day there.
    job = await add_job(api.database.control(), "a", schedule="0 8 * * 1-5", timezone="Pacific/Auckland", lane="a")
    first, last = T0 + 10 * HOUR, T0 + 10 * HOUR + 7 * DAY  # 08:00 on Tuesday the 3rd, and a week later
    runs = [new_run(job, number)._replace(scheduled_at=T0 + number * HOUR) for number in range(4)]
    await put_all(api.database.engine(), job, runs, [Skip(first, last, 6, SkipReason.PAUSED)])
    api.time.moment = last + DAY

    found = (await api.client.get(f"{JOBS}/a/days")).json()
    part = (await api.client.get(f"{JOBS}/a/days?from=2026-03-04&until=2026-03-06")).json()

    dates = {item["date"][-2:]: (item["unfinished"], item["skipped"]) for item in found["items"]}
    assert dates == {"02": (2, 0), "03": (2, 1), "04": (0, 1), "05": (0, 1), "06": (0, 1), "09": (0, 1), "10": (0, 1)}
    assert part["items"] == [item for item in found["items"] if item["date"][-2:] in ("04", "05", "06")]


async def test_days_show_from_which_date_they_were_counted(mixed: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed.time.moment = T0 + HOUR
    monkeypatch.setattr("hourbell.control.ledger.MAX_COUNTED_RUNS", 5)

    found = (await mixed.client.get(f"{JOBS}/a/days")).json()

    assert (found["items"], found["is_sampled"], found["counted_from"]) == ([], True, "2026-03-03")


@pytest.mark.parametrize("query", ["from=2026-03-03&until=2026-03-02", "from=2025-01-01&until=2026-03-02", "from=x"])
async def test_a_bad_range_of_dates_is_refused(mixed: Whole, query: str) -> None:
    assert (await mixed.client.get(f"{JOBS}/a/days?{query}")).status_code == 400
