"""Jobs through the API, from the request to the row."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from hourbell.core.access.roles import Role
from hourbell.core.run.policies import RETRY_PRESETS
from hourbell.core.run.settle import Failed, Succeeded, settle, settle_lost
from hourbell.store.base import LaneDemand, LeaseKey, Node, SettledAttempt
from tests.api.whole import HOOK, T0, Whole, a_job, whole_api
from tests.contract.steps import a_job as a_definition
from tests.contract.steps import plan_all, run_and_finish
from tests.core.values import DAY, HOUR, MINUTE
from tests.database import Database

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def test_a_created_job_can_be_read_by_name_and_by_id(api: Whole) -> None:
    made = await api.job(timezone="Europe/Paris", tags=["billing"])

    by_name, by_id = await api.client.get(f"{JOBS}/report"), await api.client.get(f"{JOBS}/{made['id']}")

    assert by_name.json() == by_id.json()
    assert (by_id.json()["next_at"], by_id.headers["ETag"]) == ("2026-03-03T08:00:00Z", '"1"')


async def test_all_errors_are_reported_at_once(api: Whole) -> None:
    answer = await api.client.post(JOBS, json=a_job("no spaces", schedule="99 * * * *", overlap="maybe", tgs=[]))

    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    assert sorted(pointers) == ["/name", "/overlap", "/schedule", "/tgs"]


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "01J8ZK3V9Q-create-once"}])
async def test_a_job_may_run_once_at_once_when_it_is_created(api: Whole, key: dict[str, str]) -> None:
    answers = [
        await api.client.post(f"{JOBS}?run_on_create=true", json=a_job(), headers=key) for _ in range(2 if key else 1)
    ]

    assert {answer.status_code for answer in answers} == {201}
    [run] = (await api.client.get(f"{JOBS}/report/runs")).json()["items"]
    assert (run["kind"], run["state"], run["scheduled_at"]) == ("manual", "pending", "2026-03-02T08:00:00Z")
    dry = await api.client.post(f"{JOBS}?run_on_create=true&dry_run=true", json=a_job("dry"))
    assert dry.json()["action"] == "create"
    assert (await api.client.get("/api/v1/runs")).json()["items"] == [run]


async def test_a_job_that_is_refused_does_not_run(api: Whole) -> None:
    await api.job()

    assert (await api.client.post(f"{JOBS}?run_on_create=true", json=a_job())).status_code == 409
    assert (await api.client.get("/api/v1/runs")).json()["items"] == []


async def test_a_second_job_with_the_same_name_is_a_conflict(api: Whole) -> None:
    await api.job()

    answer = await api.client.post(JOBS, json=a_job())

    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")


async def test_putting_back_a_job_as_it_was_read_changes_nothing(api: Whole) -> None:
    await api.job(retry={"attempts": 2, "backoff": ["30s"]}, jitter="10s")
    read = (await api.client.get(f"{JOBS}/report")).json()

    put = await api.client.put(f"{JOBS}/report", json=read)

    assert (put.status_code, put.json()["version"]) == (200, 1)


async def test_a_patch_changes_only_the_fields_it_contains(api: Whole) -> None:
    await api.job(payload={"days": 30}, description="old")

    patched = await api.client.patch(f"{JOBS}/report", json={"schedule": "0 10 * * *", "description": None})

    body = patched.json()
    assert (body["version"], body["schedule"], body["description"]) == (2, "0 10 * * *", "")
    assert body["payload"] == {"days": 30}


async def test_putting_under_a_new_name_creates_a_job(api: Whole) -> None:
    answer = await api.client.put(f"{JOBS}/fresh", json={"schedule": "@daily", "target": HOOK})

    assert (answer.status_code, answer.json()["name"]) == (201, "fresh")


async def test_if_match_changes_only_that_version(api: Whole) -> None:
    await api.job()

    stale = await api.client.patch(f"{JOBS}/report", json={"schedule": "@daily"}, headers={"If-Match": '"7"'})
    fresh = await api.client.patch(f"{JOBS}/report", json={"schedule": "@daily"}, headers={"If-Match": '"1"'})

    assert (stale.status_code, fresh.status_code, fresh.headers["ETag"]) == (412, 200, '"2"')


async def test_a_dry_run_shows_the_result_and_stores_nothing(api: Whole) -> None:
    await api.job()

    answer = await api.client.patch(f"{JOBS}/report?dry_run=true", json={"schedule": "0 10 * * *"})

    body = answer.json()
    assert (body["action"], body["fires_now"], len(body["before"]), len(body["after"])) == ("change", False, 10, 10)
    assert (body["before"][0]["at"], body["after"][0]["at"]) == ("2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z")
    assert (await api.client.get(f"{JOBS}/report")).json()["version"] == 1


async def test_a_generated_secret_is_shown_once(api: Whole) -> None:
    made = await api.job(target={**HOOK, "secret": "generate"})

    read = await api.client.get(f"{JOBS}/report")

    assert made["generated_secret"].startswith("whsec_")
    assert made["generated_secret"] not in read.text
    assert [secret["field"] for secret in read.json()["secrets"]] == ["signing"]


async def test_a_list_includes_the_secrets_of_jobs_if_asked(api: Whole) -> None:
    await api.job(target={**HOOK, "secret": "generate"})
    await api.job(name="unsigned")

    asked = (await api.client.get(f"{JOBS}?secrets=true")).json()["items"]
    plain = (await api.client.get(JOBS)).json()["items"]

    assert asked == [(await api.client.get(f"{JOBS}/{name}")).json() for name in ("report", "unsigned")]
    assert [[secret["field"] for secret in job["secrets"]] for job in asked] == [["signing"], []]
    assert not any("secrets" in job for job in plain)


async def test_rotating_shows_the_new_secret_and_the_old_one_stays_valid_for_a_while(api: Whole) -> None:
    await api.job(target={**HOOK, "secret": "generate"})

    rotated = await api.client.post(f"{JOBS}/report/rotate-secret", json={"keep_old": "1h"})

    assert rotated.json()["secret"].startswith("whsec_")
    assert rotated.json()["old_valid_until"] == "2026-03-02T09:00:00Z"


async def test_a_paused_job_shows_who_paused_it_and_until_when(api: Whole) -> None:
    await api.job()

    paused = await api.client.post(f"{JOBS}/report/pause", json={"note": "upgrade", "until": "2026-03-02T12:00:00Z"})
    resumed = await api.client.post(f"{JOBS}/report/resume")

    assert paused.json()["paused"] == {"note": "upgrade", "by": "local", "until": "2026-03-02T12:00:00Z"}
    assert (resumed.json()["state"], resumed.json()["paused"]) == ("active", None)


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}], ids=["no-type", "json"])
async def test_a_job_is_triggered_without_a_body(api: Whole, headers: dict[str, str]) -> None:
    await api.job()

    answer = await api.client.post(f"{JOBS}/report/trigger", content=b"", headers=headers)

    assert answer.status_code == 201, answer.text


async def test_a_triggered_run_carries_its_own_payload(api: Whole) -> None:
    await api.job(payload={"days": 30})

    answer = await api.client.post(f"{JOBS}/report/trigger", json={"payload": {"days": 1}, "key": "once"})
    again = await api.client.post(f"{JOBS}/report/trigger", json={"payload": {"days": 1}, "key": "once"})

    run = answer.json()["run"]
    assert (answer.status_code, run["kind"], run["payload"], run["state"]) == (201, "manual", {"days": 1}, "pending")
    assert again.json()["run_id"] == answer.json()["run_id"]


async def test_a_deleted_job_is_not_found_and_its_name_is_free(api: Whole) -> None:
    await api.job()

    gone = await api.client.delete(f"{JOBS}/report")
    found = await api.client.get(f"{JOBS}/report")

    assert (gone.status_code, found.status_code, found.json()["code"]) == (204, 404, "no_such_job")
    assert (await api.job())["version"] == 1


async def test_a_backfill_fills_the_gaps_of_a_range(api: Whole) -> None:
    await api.job(schedule="0 * * * *")
    await api.client.post(f"{JOBS}/report/pause")
    api.advance(timedelta(hours=5))
    await api.client.post(f"{JOBS}/report/resume")
    span = {"from": "2026-03-02T09:00:00Z", "to": "2026-03-02T11:00:00Z"}

    dry = await api.client.post(f"{JOBS}/report/backfill?dry_run=true", json=span)
    real = await api.client.post(f"{JOBS}/report/backfill", json=span)
    again = await api.client.post(f"{JOBS}/report/backfill", json=span)

    assert (len(dry.json()["instants"]), dry.json()["runs"]) == (3, [])
    assert (len(real.json()["runs"]), again.json()["runs"]) == (3, [])


async def test_a_backfill_does_not_repeat_pruned_runs(api: Whole) -> None:
    await api.job(schedule="0 * * * *", catch_up="all", target={"type": "task", "name": "a"})
    store, now = api.database.engine(), api.time.now() + timedelta(hours=3)
    await plan_all(store, now)
    await run_and_finish(store, count=3, now=now)
    assert (await store.prune(now + timedelta(days=1), timedelta(0), 1, 10)).removed == 2
    before = {"from": "2026-03-02T06:00:00Z", "to": "2026-03-02T07:00:00Z"}
    pruned = {"from": "2026-03-02T06:00:00Z", "to": "2026-03-02T12:00:00Z"}

    fresh = await api.client.post(f"{JOBS}/report/backfill", json=before)
    refused = [await api.client.post(f"{JOBS}/report/backfill{query}", json=pruned) for query in ("", "?dry_run=true")]
    asked = await api.client.post(f"{JOBS}/report/backfill", json=pruned | {"include_pruned": True})

    assert len(fresh.json()["runs"]) == 2
    [problem] = refused[0].json()["errors"]
    assert {answer.status_code for answer in refused} == {422}
    assert "of 2 of these times, 2026-03-02T09:00:00Z to 2026-03-02T10:00:00Z: they may have run" in problem["message"]
    assert len(asked.json()["runs"]) == 3  # with the instant at which the job was made


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
async def test_a_reversed_or_future_range_is_not_backfilled(api: Whole, query: str) -> None:
    await api.job(schedule="0 * * * *")

    async def refused(start: datetime, end: datetime) -> tuple[int, str, list[str]]:
        span = {"from": start.isoformat(), "to": end.isoformat()}
        answer = await api.client.post(f"{JOBS}/report/backfill{query}", json=span)
        return answer.status_code, answer.json()["code"], [each["pointer"] for each in answer.json()["errors"]]

    assert await refused(T0 - HOUR, T0 - DAY) == (422, "invalid_body", ["/from", "/to"])
    assert await refused(T0 + DAY, T0 - DAY) == (422, "invalid_body", ["/from", "/to"])
    assert await refused(T0 + HOUR, T0 + DAY) == (422, "invalid_body", ["/from"])


async def test_a_backfill_range_may_be_one_time_and_may_end_in_the_future(api: Whole) -> None:
    await api.job(schedule="0 * * * *")

    for start, end, count in ((T0 - HOUR, T0 - HOUR, 1), (T0 - 2 * HOUR, T0 + DAY, 3)):
        span = {"from": start.isoformat(), "to": end.isoformat()}
        answer = await api.client.post(f"{JOBS}/report/backfill?dry_run=true", json=span)
        assert (answer.status_code, len(answer.json()["instants"])) == (200, count)


async def test_a_scheduled_time_is_explained(api: Whole) -> None:
    await api.job(schedule="0 * * * *")
    await api.client.post(f"{JOBS}/report/pause")
    api.advance(timedelta(hours=5))
    await api.client.post(f"{JOBS}/report/resume")

    answer = await api.client.get("/api/v1/explain", params={"job": "report", "at": "2026-03-02T10:00:00Z"})

    assert answer.json()["verdict"] == "skipped"
    assert "paused" in answer.json()["sentence"]


async def test_a_late_success_of_a_run_that_was_failed_as_lost_is_shown(api: Whole) -> None:
    await api.job(schedule="0 * * * *", delivery="at_most_once")
    api.advance(timedelta(hours=1))
    store, node, now = api.database.engine(), UUID(int=7), api.time.now()
    await plan_all(store, now)
    [lane] = await store.lanes(now)
    [run] = await store.claim(node, now, now + MINUTE, [LaneDemand(lane.lane, 1)])
    await store.begin(LeaseKey(run.id, run.attempt))
    await store.reap(now + 2 * MINUTE, 10, settle_lost)
    await store.settle([SettledAttempt(settle(run, Succeeded(), now, RETRY_PRESETS["none"]), node, now)])

    shown = (await api.client.get(f"/api/v1/runs/{run.id}")).json()
    assert (shown["state"], shown["reason"], shown["late_success"]) == ("failed", "lost", 1)
    assert [(each["outcome"], each["late_outcome"]) for each in shown["attempts"]] == [("lost", "succeeded")]
    at = shown["scheduled_at"]
    explained = (await api.client.get("/api/v1/explain", params={"job": "report", "at": at})).json()
    assert "attempt 1 succeeded" in explained["sentence"]
    assert explained["data"]["run"]["late_success"] == 1


async def test_lists_are_paged(api: Whole) -> None:
    for number in range(5):
        await api.job(f"job-{number}")

    first = (await api.client.get(JOBS, params={"limit": 3})).json()
    second = (await api.client.get(JOBS, params={"limit": 3, "cursor": first["next_cursor"]})).json()

    names = [job["name"] for job in first["items"] + second["items"]]
    assert (names, second["next_cursor"]) == ([f"job-{number}" for number in range(5)], None)


@pytest.mark.parametrize(
    "query",
    [
        {"q": "rep"},
        {"tag": "billing"},
        {"state": "active"},
        {"target": "http"},
        {"managed_by": "api"},
        {"next_before": "2026-03-03T00:00:00Z"},
        {"sort": "next_at"},
    ],
)
async def test_filters_find_only_the_matching_job(api: Whole, query: dict[str, str]) -> None:
    await api.job(tags=["billing"])

    found = await api.client.get(JOBS, params=query)

    assert [job["name"] for job in found.json()["items"]] == ["report"]


async def test_an_unknown_parameter_is_refused(api: Whole) -> None:
    answer = await api.client.get(JOBS, params={"tga": "billing"})

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/query/tga")


async def test_a_forbidden_literal_address_is_refused_at_once(api: Whole) -> None:
    answer = await api.client.post(JOBS, json=a_job(target={"type": "http", "url": "http://10.0.0.1/"}))

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/target/url")


async def test_schedules_is_an_alias_of_jobs(api: Whole) -> None:
    made = await api.client.post("/api/v1/schedules", json=a_job())

    assert made.status_code == 201
    assert (await api.client.get(f"{JOBS}/report")).json()["id"] == made.json()["id"]


async def test_the_same_idempotency_key_creates_one_job(api: Whole) -> None:
    headers = {"Idempotency-Key": "k1"}

    first = await api.client.post(JOBS, json=a_job(), headers=headers)
    again = await api.client.post(JOBS, json=a_job(), headers=headers)
    other = await api.client.post(JOBS, json=a_job("other"), headers=headers)

    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 422)
    assert (again.headers["Idempotency-Replayed"], again.json()["id"]) == ("true", first.json()["id"])


async def test_an_import_answers_with_one_result_per_line(api: Whole) -> None:
    await api.job("old", schedule="0 9 * * *")
    lines = b"""{"name": "old", "schedule": "0 10 * * *", "target": {"type": "http", "url": "https://example.com/hook"}}
{"name": "new", "schedule": "0 9 * * *", "target": {"type": "http", "url": "https://example.com/hook"}}
{"name": "bad", "schedule": "nonsense", "target": {"type": "http", "url": "https://example.com/hook"}}
not json
"""

    answer = await api.client.post(f"{JOBS}/import", content=lines, headers={"content-type": "application/x-ndjson"})

    results = [json.loads(line)["result"] for line in answer.text.splitlines()]
    assert results == ["changed", "created", "refused", "refused"]


async def test_a_run_shows_what_it_waits_for(api: Whole) -> None:
    await api.job("report", target={"type": "task", "name": "reports.weekly"})
    run = (await api.client.post("/api/v1/jobs/report/trigger")).json()["run"]
    assert run["waits_for"].startswith("no node has the task reports.weekly; it waits until one does")

    now = api.time.now()
    node = Node(UUID(int=7), "host", now, ("task:*",), "2026a")
    await api.database.engine().heartbeat(node, now, now, ())
    found = (await api.client.get(f"/api/v1/runs/{run['id']}")).json()
    assert found["waits_for"] == "a free slot in the lane task:reports.weekly"

    await api.client.post(f"/api/v1/runs/{run['id']}/cancel")
    assert (await api.client.get(f"/api/v1/runs/{run['id']}")).json()["waits_for"] is None


async def test_a_job_that_never_fires_again_is_created_with_a_warning(api: Whole) -> None:
    made = await api.job("late", schedule="at 2020-01-01T00:00:00")

    assert "never_fires" in [warning["code"] for warning in made["warnings"]]


async def test_a_run_of_a_deleted_job_is_not_replayed_and_the_error_explains_why(api: Whole) -> None:
    await api.job("report")
    run = (await api.client.post("/api/v1/jobs/report/trigger")).json()["run_id"]
    await api.client.delete("/api/v1/jobs/report")

    answer = await api.client.post(f"/api/v1/runs/{run}/replay")

    assert (answer.status_code, answer.json()["code"]) == (409, "job_deleted")
    assert "discard" in answer.json()["detail"]


async def test_a_run_id_derived_from_a_key_begins_with_the_time_of_the_key(api: Whole) -> None:
    first, second = [{"Idempotency-Key": f"019cadc6-9a8{digit}-7000-8000-000000000000"} for digit in (0, 1)]
    job = (await api.client.post(JOBS, json=a_job(), headers=first)).json()["id"]
    run = (await api.client.post(f"{JOBS}/report/trigger", headers=second)).json()["run_id"]
    other = (await api.client.post(f"{JOBS}/report/trigger", headers={"Idempotency-Key": "order-7"})).json()["run_id"]

    assert (job[:15], run[:15]) == ("019cadc6-9a80-8", "019cadc6-9a81-8")
    assert UUID(other).version == 5  # nothing is known of its time


async def test_a_key_whose_record_has_expired_still_makes_one_run(api: Whole) -> None:
    key = {"Idempotency-Key": "019cadc6-9a80-7000-8000-000000000000"}
    await api.job()
    made = await api.client.post(f"{JOBS}/report/trigger", headers=key)
    await api.database.access().forget_keys(api.time.now() + DAY, 10)

    again = await api.client.post(f"{JOBS}/report/trigger", headers=key)

    assert (made.status_code, again.status_code, again.json()["code"]) == (201, 409, "idempotency_key_reused")
    assert len(await api.database.rows("runs")) == 1


async def waits(api: Whole, **query: str) -> dict[str, str | None]:
    """Return the `waits_for` of listed runs, by id."""
    listed = (await api.client.get("/api/v1/runs", params=query)).json()["items"]
    return {run["id"]: run["waits_for"] for run in listed}


async def test_a_list_of_runs_shows_what_each_waits_for(api: Whole) -> None:
    now, engine = api.time.now(), api.database.engine()
    await engine.heartbeat(Node(UUID(int=7), "host", now, ("task:a",), "2026a"), now, now, ())
    await api.job("queued", target={"type": "task", "name": "a"}, overlap="queue_all")
    await api.job("unserved", target={"type": "task", "name": "b"})
    first, second = [(await api.client.post(f"{JOBS}/queued/trigger")).json()["run_id"] for _ in range(2)]
    if first > second:  # of two at one moment
        first, second = second, first
    other = (await api.client.post(f"{JOBS}/unserved/trigger")).json()["run_id"]

    found = await waits(api)
    assert found.pop(other, "").startswith("no node has the task b; it waits until one does")
    assert found == {first: "a free slot in the lane task:a", second: f"run {first} of the same job to end"}
    assert await waits(api, job="queued") == found
    [run] = await engine.claim(UUID(int=7), now, now + HOUR, [LaneDemand("task:a", 1)])
    assert (str(run.id), (await waits(api))[first]) == (first, None)
    settlement = settle(run, Failed("no"), now, a_definition().retry)
    await engine.settle([SettledAttempt(settlement, UUID(int=7), now)])
    assert (await waits(api))[first] == "its next attempt, 2026-03-02T08:00:30Z"
    assert (await waits(api, state="retrying")) == {first: "its next attempt, 2026-03-02T08:00:30Z"}


async def test_a_dead_node_is_listed_as_stale(api: Whole) -> None:
    now, engine = api.time.now(), api.database.engine()
    for number, beat in ((1, now - timedelta(minutes=2)), (2, now), (3, now - 2 * DAY)):
        await engine.heartbeat(Node(UUID(int=number), "host", now, ("task:*",), "2026a"), beat, beat, ())

    listed = (await api.client.get("/api/v1/nodes")).json()["items"]
    assert [(UUID(node["id"]).int, node["stale"]) for node in listed] == [(1, True), (2, False)]


async def test_a_job_that_has_fired_for_the_last_time_is_done(api: Whole) -> None:
    await api.job("once", schedule="at 2026-03-02T09:00:00", target={"type": "task", "name": "a"})
    await api.job("daily")
    before = (await api.client.get(f"{JOBS}/once")).json()["state"]
    await plan_all(api.database.engine(), T0 + 2 * HOUR)
    await run_and_finish(api.database.engine(), now=T0 + 2 * HOUR)

    done = (await api.client.get(JOBS, params={"state": "done"})).json()["items"]
    active = (await api.client.get(JOBS, params={"state": "active"})).json()["items"]
    assert (before, [(job["name"], job["state"]) for job in done]) == ("active", [("once", "done")])
    assert [job["name"] for job in active] == ["daily"]


async def a_deleted_job(api: Whole) -> str:
    """The id of a job that ran once, and was deleted."""
    made = await api.job("report", target={"type": "task", "name": "a"})
    await plan_all(api.database.engine(), T0 + 2 * HOUR)
    await run_and_finish(api.database.engine(), now=T0 + 2 * HOUR)
    await api.client.delete(f"{JOBS}/report")
    api.advance(3 * HOUR)
    return str(made["id"])


async def test_the_history_of_a_deleted_job_can_be_read_by_its_id(api: Whole) -> None:
    job = await a_deleted_job(api)

    paths = [f"{JOBS}/{job}/{what}" for what in ("runs", "skips", "versions", "stats")]
    answers = [await api.client.get(path) for path in (*paths, f"/api/v1/runs?job={job}")]
    assert [answer.status_code for answer in answers] == [200] * 5
    runs, _, versions, stats, listed = [answer.json() for answer in answers]
    assert (len(runs["items"]), len(listed["items"]), len(versions["items"])) == (1, 1, 1)
    assert (stats["job"], stats["total"], stats["totals"]["succeeded"]) == ("report", 1, 1)
    by_name = [await api.client.get(path.replace(job, "report")) for path in paths]
    assert [answer.status_code for answer in by_name] == [404] * 4
    assert (await api.client.get(f"{JOBS}/{job}")).status_code == 404


async def test_purging_a_deleted_job_removes_its_history(api: Whole) -> None:
    job = await a_deleted_job(api)

    purged = await api.client.delete(f"{JOBS}/{job}", params={"purge": "true"})
    assert purged.status_code == 204
    assert [(await api.client.get(f"{JOBS}/{job}/{what}")).status_code for what in ("runs", "stats")] == [404, 404]
    audit = (await api.client.get("/api/v1/audit", params={"subject": job})).json()["items"]
    assert [row["action"] for row in audit] == ["job.purge", "job.delete", "job.create"]


async def test_a_job_with_an_active_run_is_neither_deleted_nor_purged(api: Whole) -> None:
    await api.job("report", target={"type": "task", "name": "a"})
    await api.client.post(f"{JOBS}/report/trigger")
    now = api.time.now()
    await api.database.engine().claim(UUID(int=7), now, now + HOUR, [LaneDemand("task:a", 1)])

    refused = await api.client.delete(f"{JOBS}/report", params={"purge": "true"})
    assert (refused.status_code, refused.json()["code"]) == (409, "runs_running")
    assert (await api.client.get(f"{JOBS}/report")).status_code == 200


async def test_purging_needs_an_admin(api: Whole) -> None:
    await api.job("report")
    editor, admin = [{"Authorization": f"Bearer {await api.token(role)}"} for role in (Role.EDITOR, Role.ADMIN)]

    answers = [
        await api.client.delete(f"{JOBS}/report", params={"purge": "true"}, headers=headers)
        for headers in (editor, admin)
    ]
    assert [answer.status_code for answer in answers] == [403, 204]
