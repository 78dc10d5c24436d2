"""Channels, alert policies and incidents through the API."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.core.run.settle import Failed
from hourbell.store.alerts.watching import AlertStore
from hourbell.store.base import LaneDemand
from tests.api.whole import HOOK, T0, Whole, whole_api
from tests.contract.steps import HOUR, MINUTE, NODE, finish
from tests.database import Database
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
CHANNELS, POLICIES, INCIDENTS = "/api/v1/channels", "/api/v1/alert-policies", "/api/v1/incidents"
WEBHOOK = {"type": "webhook", "url": "https://example.com/alerts"}
LANE = "https://example.com:443"


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with SqliteDatabase.in_memory() as made:
        yield made


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


async def an_incident(api: Whole) -> dict[str, Any]:
    """The incident of a job that failed twice, seen by a watcher."""
    store, watcher = api.database.engine(), api.database.alerts()
    await api.job("report")
    for _ in range(2):
        await api.client.post("/api/v1/jobs/report/trigger")
        runs = await store.claim(NODE, T0, T0 + HOUR, [LaneDemand(LANE, 1, 0)])
        await finish(store, runs, Failed("HTTP 503", retryable=False), T0)
    await watch(api, watcher)
    [incident] = (await api.client.get(INCIDENTS)).json()["items"]
    return dict(incident)


async def watch(api: Whole, watcher: AlertStore) -> None:
    for _ in range(2):  # the first message about a host waits for its other jobs
        await watcher.watch_jobs(api.time.moment, 100)
        api.advance(MINUTE)


async def test_a_channel_is_created_with_a_secret_that_is_shown_once(api: Whole) -> None:
    made = await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)
    again = await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)
    found = await api.client.get(f"{CHANNELS}/ops")

    assert (made.status_code, again.status_code) == (201, 200)
    secret = made.json()["generated_secret"]
    assert secret.startswith("whsec_")
    assert secret not in found.text
    assert found.json()["config"] == WEBHOOK
    assert found.json()["origin"] == LANE
    assert (await api.client.get(CHANNELS)).json()["items"] == [found.json()]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"type": "pigeon"}, ["/type"]),
        ({"type": "webhook", "url": "ftp://x", "secret": "s", "urll": 1}, ["/urll", "/url", "/secret"]),
        ({"type": "webhook", "url": "http://10.0.0.1/"}, ["/url"]),
        ([], [""]),
    ],
)
async def test_a_channel_that_cannot_work_is_refused_with_all_errors(
    api: Whole, body: object, pointers: list[str]
) -> None:
    answer = await api.client.put(f"{CHANNELS}/ops", json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers


async def test_a_test_message_is_a_run_and_hidden_from_lists(api: Whole) -> None:
    await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)

    tested = await api.client.post(f"{CHANNELS}/ops/test")

    assert tested.status_code == 202
    run = (await api.client.get(f"/api/v1/runs/{tested.json()['run_id']}")).json()
    assert (run["state"], run["payload"]["type"]) == ("pending", "channel.test")
    assert (await api.client.get("/api/v1/jobs")).json()["items"] == []
    assert (await api.client.get("/api/v1/runs")).json()["items"] == []
    assert (await api.client.get("/api/v1/timeline")).json()["items"] == []
    assert (await api.client.get("/api/v1/jobs?managed_by=system")).json()["items"][0]["name"] == "hourbell-channel-ops"
    stats = (await api.client.get("/api/v1/stats")).json()
    assert (stats["jobs"], stats["paused"], stats["waiting"]) == (0, 0, 0)
    assert (await api.client.post(f"{CHANNELS}/nobody/test")).status_code == 404


async def test_a_system_job_cannot_be_changed_and_no_job_can_be_one(api: Whole) -> None:
    await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)
    path = "/api/v1/jobs/hourbell-channel-ops"

    answers = [
        await api.client.delete(path, params={"take_over": "true"}),
        await api.client.patch(path, json={"description": "x"}, params={"take_over": "true"}),
        await api.client.post(f"{path}/trigger"),
        await api.client.post(f"{path}/resume"),
    ]
    made = await api.client.post(
        "/api/v1/jobs", json={"name": "x", "schedule": "@daily", "target": {"type": "channel", "channel": "ops"}}
    )

    assert [answer.status_code for answer in answers] == [409, 409, 409, 409]
    assert {answer.json()["code"] for answer in answers} == {"system_job"}
    assert made.status_code == 422


async def test_a_policy_is_defined_read_and_deleted(api: Whole) -> None:
    await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)
    body = {"on": ["failed", "late"], "after": 2, "notify": ["ops"], "repeat": "4h"}
    body["escalate"] = [{"after": "30m", "notify": ["ops"]}]

    made = await api.client.put(f"{POLICIES}/default", json=body)
    found = (await api.client.get(f"{POLICIES}/default")).json()
    sent_back = await api.client.put(f"{POLICIES}/default", json=found)

    assert (made.status_code, sent_back.status_code) == (201, 200)
    assert {name: found[name] for name in body} == body
    assert (await api.client.delete(f"{CHANNELS}/ops")).json()["code"] == "channel_in_use"
    assert (await api.client.delete(f"{POLICIES}/default")).status_code == 204
    [built_in] = (await api.client.get(POLICIES)).json()["items"]
    assert (built_in["name"], built_in["notify"]) == ("default", None)
    assert (await api.client.delete(f"{CHANNELS}/ops")).status_code == 204


async def test_an_incident_is_listed_with_its_messages_acknowledged_and_resolved(api: Whole) -> None:
    await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)
    incident = await an_incident(api)
    path = f"{INCIDENTS}/{incident['id']}"

    assert (incident["kind"], incident["state"], incident["job_name"]) == ("failed", "open", "report")
    detail = (await api.client.get(path)).json()
    assert detail["jobs"] == ["report"]
    assert [(each["channel"], each["event"]) for each in detail["notifications"]] == [("ops", "incident.opened")]
    taken = await api.client.post(f"{path}/acknowledge")
    assert (taken.json()["state"], taken.json()["acknowledged_by"]) == ("acknowledged", "local")
    assert (await api.client.post(f"{path}/acknowledge")).json()["code"] == "incident_ended"
    until = (api.time.moment + HOUR).isoformat()
    assert (await api.client.post(f"{path}/mute", json={"until": until})).json()["muted_until"] is not None
    assert (await api.client.post(f"{path}/mute", json={"until": T0.isoformat()})).status_code == 422
    assert (await api.client.post(f"{path}/resolve")).json()["resolved_by"] == "local"
    assert (await api.client.get(INCIDENTS, params={"state": ["open", "acknowledged"]})).json()["items"] == []
    assert (await api.client.get(INCIDENTS, params={"job": "report"})).json()["items"][0]["state"] == "resolved"
    actions = [entry["action"] for entry in (await api.client.get("/api/v1/audit")).json()["items"]]
    assert actions[:3] == ["incident.resolve", "incident.mute", "incident.acknowledge"]


async def test_a_job_names_its_policy(api: Whole) -> None:
    await api.client.put(f"{POLICIES}/billing", json={})
    job = await api.job("report", alert_policy="billing", target=HOOK)

    assert job["alert_policy"] == "billing"


async def test_a_channel_is_changed_without_giving_its_secret_again(api: Whole) -> None:
    made = (await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)).json()
    [before] = await api.database.rows("secrets")
    api.advance(MINUTE)

    changed = await api.client.patch(f"{CHANNELS}/ops", json={"url": "https://other.example.com/alerts"})

    assert changed.status_code == 200
    assert changed.json()["config"]["url"] == "https://other.example.com/alerts"
    assert (changed.json()["origin"], changed.json()["generated_secret"]) == ("https://other.example.com:443", None)
    assert await api.database.rows("secrets") == [before]  # a signing secret is sent nowhere
    renewed = (await api.client.patch(f"{CHANNELS}/ops", json={"secret": None})).json()["generated_secret"]
    assert renewed.startswith("whsec_")
    assert renewed != made["generated_secret"]
    [after] = await api.database.rows("secrets")
    assert after["sealed"] != before["sealed"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"url": "nowhere"}, "/url"),
        ({"url": None}, "/url"),
        ({"url": "http://10.0.0.1/"}, "/url"),
        ({"colour": "red"}, "/colour"),
        ({"secret": "weak"}, "/secret"),
        ({"type": "slack"}, "/type"),
        ([], ""),
    ],
)
async def test_a_wrong_change_of_a_channel_is_refused(api: Whole, change: Any, pointer: str) -> None:
    await api.client.put(f"{CHANNELS}/ops", json=WEBHOOK)

    answer = await api.client.patch(f"{CHANNELS}/ops", json=change)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert (await api.client.get(f"{CHANNELS}/ops")).json()["config"] == WEBHOOK
    assert (await api.client.patch(f"{CHANNELS}/none", json={})).status_code == 404


NTFY = {"type": "ntfy", "topic": "secret-topic", "token": "tk_1", "url": "https://ntfy.example.com"}


async def test_secrets_stay_with_their_origin_when_a_channel_is_changed(api: Whole) -> None:
    await api.client.put(f"{CHANNELS}/phone", json=NTFY)

    async def change(**fields: object) -> Any:
        return await api.client.patch(f"{CHANNELS}/phone", json=fields)

    async def fields() -> dict[str, str]:
        return {row["field"]: row["origin"] for row in await api.database.rows("secrets")}

    there = "https://ntfy.example.com:443"
    assert (await change(priority=5)).json()["config"]["priority"] == 5
    assert await fields() == {"topic": there, "token": there}
    moved = await change(url="https://evil.example.com", topic="secret-topic")
    assert (moved.status_code, moved.json()["code"]) == (409, "secrets_bound")
    assert "The token of this channel was given for https://ntfy.example.com" in moved.json()["detail"]
    assert (await change(url="https://ntfy.example.com/path", token=None)).status_code == 200
    assert await fields() == {"topic": there}
    given = await change(url="https://evil.example.com", topic="another-topic")
    assert given.json()["origin"] == "https://evil.example.com:443"
    assert await fields() == {"topic": "https://evil.example.com:443"}
    assert (await change(topic=None)).json()["errors"][0]["pointer"] == "/topic"
    assert (await change(priority=None)).json()["config"]["priority"] == 4


async def test_a_chat_whose_whole_url_is_secret_keeps_it(api: Whole) -> None:
    url = "https://hooks.slack.com/services/T0/B0/x"
    await api.client.put(f"{CHANNELS}/chat", json={"type": "slack", "url": url})

    same = await api.client.patch(f"{CHANNELS}/chat", json={})
    moved = await api.client.patch(f"{CHANNELS}/chat", json={"url": "https://chat.example.com/hooks/y"})

    assert (same.status_code, same.json()["origin"]) == (200, "https://hooks.slack.com:443")
    assert moved.json()["origin"] == "https://chat.example.com:443"
    [row] = await api.database.rows("secrets")
    assert row["origin"] == "https://chat.example.com:443"
