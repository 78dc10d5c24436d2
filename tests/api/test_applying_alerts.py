"""Applying channels and alert policies with the jobs of a file: one plan, one transaction, and secrets that stay."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hourbell.core.access.roles import Role
from hourbell.core.access.signing import new_secret
from tests.api.whole import Whole, a_job, whole_api
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
APPLY, CHANNELS, POLICIES = "/api/v1/jobs/apply", "/api/v1/channels", "/api/v1/alert-policies"
OPS = {"type": "webhook", "url": "https://example.com/alerts", "secret": new_secret(bytes(range(32)))}
OTHER = new_secret(bytes(range(1, 33)))
CHAT = {"type": "slack", "url": "https://hooks.slack.com/services/xyzzy"}
NTFY = {"type": "ntfy", "topic": "xyzzy-topic", "token": "tk_xyzzy", "url": "https://ntfy.example.com"}
REPORTS = {"on": ["failed"], "notify": ["ops"]}
Json = dict[str, Any]


@pytest.fixture
async def api() -> AsyncIterator[Whole]:
    async with SqliteDatabase.in_memory() as database, whole_api(database) as made:
        yield made


async def send(api: Whole, *, dry_run: bool = False, **wish: Any) -> httpx.Response:
    body = {"source": "billing", "jobs": [], **wish}
    return await api.client.post(APPLY, json=body, params={"dry_run": "true"} if dry_run else {})


async def apply(api: Whole, **wish: Any) -> Json:
    answer = await send(api, **wish)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def actions(plan: Json) -> dict[str, str]:
    return {each["name"]: each["action"] for kind in ("jobs", "channels", "alert_policies") for each in plan[kind]}


def changes(entry: Json) -> list[tuple[str, object, object]]:
    return [(each["field"], each["before"], each["after"]) for each in entry["fields"]]


async def errors_of(api: Whole, code: str, **wish: Any) -> list[tuple[str, str]]:
    answer = await send(api, **wish)
    assert (answer.status_code in (409, 422), answer.json()["code"]) == (True, code), answer.text
    return [(each["pointer"], each["message"]) for each in answer.json().get("errors", [])]


async def secret_ids(api: Whole, channel: str) -> dict[str, str]:
    """The ids of a channel's stored secrets, by field: a secret that is sealed again has another one."""
    views = await api.control.alerts.channels()
    [job_id] = [view.channel.job_id for view in views if view.channel.name == channel]
    rows = await api.control.secrets.list_by_job([job_id], api.time.moment)
    return {row.field: str(row.id) for row in rows.get(job_id, ())}


async def test_a_file_makes_its_channels_policies_and_jobs_in_one_step(api: Whole) -> None:
    wish = {
        "jobs": [a_job("report", alert_policy="reports")],
        "alert_policies": {"reports": REPORTS},
        "channels": {"ops": OPS, "chat": CHAT},
    }
    planned = await apply(api, dry_run=True, **wish)
    assert (await api.client.get(CHANNELS)).json()["items"] == []
    done = await apply(api, expect=planned["state"], **wish)

    assert actions(planned) == actions(done) == dict.fromkeys(["report", "ops", "chat", "reports"], "create")
    channel = (await api.client.get(f"{CHANNELS}/chat")).json()
    assert (channel["managed_by"], channel["source"]) == ("file", "billing")
    assert channel["origin"] == "https://hooks.slack.com:443"
    policy = (await api.client.get(f"{POLICIES}/reports")).json()
    assert (policy["notify"], policy["managed_by"], policy["source"]) == (["ops"], "file", "billing")
    assert (await api.client.get("/api/v1/jobs/report")).json()["alert_policy"] == "reports"
    again = await apply(api, **wish)
    assert set(actions(again).values()) == {"none"}
    assert all(not each["fields"] for each in again["channels"] + again["alert_policies"])


async def test_no_answer_and_no_audit_entry_shows_a_secret(api: Whole) -> None:
    token = {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}
    bodies = []
    for wish in ({"ops": OPS, "chat": CHAT, "team": NTFY}, {"chat": {**CHAT, "url": CHAT["url"] + "/plugh"}}):
        for dry_run in ("true", "false"):
            body = {"source": "billing", "jobs": [], "channels": wish}
            answer = await api.client.post(APPLY, json=body, params={"dry_run": dry_run}, headers=token)
            assert answer.status_code == 200, answer.text
            bodies.append(answer.text)
    bodies += [(await api.client.get(path, headers=token)).text for path in (CHANNELS, "/api/v1/audit")]

    assert not [body for body in bodies if "xyzzy" in body or "plugh" in body or OPS["secret"] in body]


async def test_a_secret_that_is_not_given_stays_sealed_as_it_is(api: Whole) -> None:
    await apply(api, channels={"ops": OPS, "chat": CHAT, "team": NTFY})
    before = [await secret_ids(api, name) for name in ("ops", "chat", "team")]

    without = {
        "ops": {"type": "webhook", "url": OPS["url"]},
        "chat": {"type": "slack"},
        "team": {"type": "ntfy", "url": NTFY["url"]},
    }
    plan = await apply(api, channels=without)

    assert set(actions(plan).values()) == {"none"}
    assert [await secret_ids(api, name) for name in ("ops", "chat", "team")] == before
    notes = {each["name"]: each["notes"] for each in plan["channels"]}
    assert notes == {
        "ops": [],
        "chat": ["its url is not in the file, and stays"],
        "team": ["its token is not in the file, and stays", "its topic is not in the file, and stays"],
    }


async def test_a_given_secret_replaces_only_the_one_of_its_field(api: Whole) -> None:
    await apply(api, channels={"ops": OPS, "team": NTFY})
    before = await secret_ids(api, "team")

    plan = await apply(api, channels={"ops": {**OPS, "secret": OTHER}, "team": {**NTFY, "token": "tk_plugh"}})

    fields = {each["name"]: changes(each) for each in plan["channels"]}
    assert fields == {
        "ops": [("secret", "(hidden)", "(hidden, another)")],
        "team": [("token", "(hidden)", "(hidden, another)")],
    }
    after = await secret_ids(api, "team")
    assert (after["topic"] == before["topic"], after["token"] == before["token"]) == (True, False)
    assert set(actions(await apply(api, channels={"ops": {**OPS, "secret": OTHER}})).values()) == {"none"}


async def test_a_secret_does_not_follow_its_channel_to_another_origin(api: Whole) -> None:
    await apply(api, channels={"ops": OPS, "team": NTFY})
    moved = {"type": "ntfy", "url": "https://elsewhere.example.com"}

    assert await errors_of(api, "invalid_body", channels={"team": moved}) == [
        ("/channels/team/token", "token was set for https://ntfy.example.com:443"),
        ("/channels/team/topic", "topic was set for https://ntfy.example.com:443"),
    ]
    await apply(api, channels={"team": {**NTFY, **moved}, "ops": {"type": "webhook", "url": "https://b.example.com"}})
    rows = await api.control.alerts.channels()
    assert {view.channel.name: view.channel.origin for view in rows} == {
        "ops": "https://b.example.com:443",
        "team": "https://elsewhere.example.com:443",
    }
    assert set(await secret_ids(api, "team")) == {"token", "topic"}
    assert set(await secret_ids(api, "ops")) == {"signing"}


async def test_another_type_keeps_no_secret(api: Whole) -> None:
    await apply(api, channels={"ops": OPS})

    plan = await apply(api, channels={"ops": CHAT})
    assert set(await secret_ids(api, "ops")) == {"url"}
    assert plan["channels"][0]["action"] == "change"
    assert await errors_of(api, "invalid_body", channels={"ops": {"type": "ntfy"}}) == [
        ("/channels/ops/topic", "topic: it is missing")
    ]


async def test_a_webhook_without_a_secret_gets_one_that_is_shown_once(api: Whole) -> None:
    wish = {"channels": {"ops": {"type": "webhook", "url": OPS["url"]}}}
    planned = await apply(api, dry_run=True, **wish)
    made = await apply(api, **wish)
    again = await apply(api, **wish)

    secrets = [plan["channels"][0]["generated_secret"] for plan in (planned, made, again)]
    assert secrets[1].startswith("whsec_")
    assert (secrets[0], secrets[2]) == (None, None)
    assert set(await secret_ids(api, "ops")) == {"signing"}


async def test_a_plan_needs_no_secrets_of_new_channels_but_applying_them_does(api: Whole) -> None:
    wish = {"channels": {"chat": {"type": "slack", "url": None}}}
    planned = await apply(api, dry_run=True, **wish)

    assert [(each["action"], each["notes"]) for each in planned["channels"]] == [
        ("create", ["its url is not known here; it is needed to apply this"])
    ]
    error = [("/channels/chat/url", "url: write a URL, as in https://example.com/hook")]
    assert await errors_of(api, "invalid_body", **wish) == error
    assert await errors_of(api, "invalid_body", dry_run=True, channels={"chat": {"type": "slack"}}) == error


async def test_all_errors_of_jobs_channels_and_policies_are_reported_at_once(api: Whole) -> None:
    found = await errors_of(
        api,
        "invalid_body",
        jobs=[a_job("report", schedule="0 25 * * *")],
        channels={"a b": OPS, "ops": {"type": "pigeon"}, "web": {**OPS, "url": "ftp://x", "urk": 1}, "n": 1},
        alert_policies={"none": {}, "x": {"after": 0, "repat": "1h"}, "y": []},
    )

    assert sorted(pointer for pointer, _ in found) == [
        "/alert_policies/none/name",
        "/alert_policies/x/after",
        "/alert_policies/x/repat",
        "/alert_policies/y",
        "/channels/a b/name",
        "/channels/n",
        "/channels/ops/type",
        "/channels/web/urk",
        "/channels/web/url",
        "/jobs/0/schedule",
    ]
    assert (await api.client.get(CHANNELS)).json()["items"] == []


async def test_if_one_policy_is_refused_nothing_is_applied(api: Whole) -> None:
    wish = {"jobs": [a_job("report")], "channels": {"ops": OPS}, "alert_policies": {"x": {"notify": ["pager"]}}}

    assert await errors_of(api, "plan_refused", **wish) == [("/alert_policies/x", "there is no channel pager")]
    assert (await api.client.get(CHANNELS)).json()["items"] == []
    assert (await api.client.get("/api/v1/jobs/report")).status_code == 404


@pytest.mark.parametrize("kind", ["channel", "policy"])
async def test_an_entry_of_another_owner_is_changed_only_by_taking_it_over(api: Whole, kind: str) -> None:
    await api.client.put(f"{CHANNELS}/ops", json=OPS)
    await api.client.put(f"{POLICIES}/x", json={})
    wish: Json = {"channels": {"ops": OPS}} if kind == "channel" else {"alert_policies": {"x": {}}}
    pointer = "/channels/ops" if kind == "channel" else "/alert_policies/x"

    assert await errors_of(api, "plan_refused", **wish) == [(pointer, "it belongs to api")]
    plan = await apply(api, take_over=True, **wish)
    [entry] = plan["channels"] + plan["alert_policies"]
    assert (entry["action"], changes(entry)) == ("change", [("owner", "api", "file:billing")])


@pytest.mark.parametrize("path", [f"{CHANNELS}/ops", f"{POLICIES}/x"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_an_entry_of_a_file_is_changed_otherwise_only_by_taking_it_over(
    api: Whole, method: str, path: str
) -> None:
    await apply(api, channels={"ops": OPS}, alert_policies={"x": {}})
    body = None if method == "DELETE" else OPS if "channels" in path else {"after": 1}

    refused = await api.client.request(method, path, json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "owned_by_another")
    assert "file:billing" in refused.json()["detail"]
    taken = await api.client.request(method, path, json=body, params={"take_over": "true"})
    assert taken.status_code in (200, 204)
    if method == "PUT":
        assert (taken.json()["managed_by"], taken.json()["source"]) == ("api", "")


async def test_pruning_deletes_what_the_file_no_longer_names_and_nothing_else(api: Whole) -> None:
    await api.client.put(f"{CHANNELS}/theirs", json=OPS)
    await api.client.put(f"{POLICIES}/theirs", json={"notify": ["theirs"]})
    await apply(api, source="other", channels={"others": OPS})
    whole = {"channels": {"ops": OPS, "chat": CHAT}, "alert_policies": {"reports": REPORTS, "x": {}}}
    await apply(api, jobs=[a_job("report")], **whole)

    left = {"jobs": [a_job("report")], "channels": {"ops": OPS}, "alert_policies": {"reports": REPORTS}}
    assert "delete" not in actions(await apply(api, **left)).values()
    planned = await apply(api, prune=True, dry_run=True, **left)
    done = await apply(api, prune=True, expect=planned["state"], **left)

    assert actions(planned) == actions(done)
    assert {name: action for name, action in actions(done).items() if action != "none"} == {
        "chat": "delete",
        "x": "delete",
    }
    names = {each["name"] for each in (await api.client.get(CHANNELS)).json()["items"]}
    assert names == {"ops", "theirs", "others"}
    last = await apply(api, prune=True, jobs=[a_job("report")])
    assert actions(last) == {"report": "none", "ops": "delete", "reports": "delete"}


async def test_pruning_by_an_empty_file_is_refused_and_a_file_may_have_channels_alone(api: Whole) -> None:
    await apply(api, jobs=[a_job("report")], channels={"ops": OPS})

    assert [pointer for pointer, _ in await errors_of(api, "invalid_job", prune=True)] == ["/jobs"]
    assert actions(await apply(api, prune=True, channels={"ops": OPS})) == {"ops": "none"}
    assert (await api.client.get("/api/v1/jobs/report")).status_code == 404


async def test_a_channel_that_a_remaining_policy_names_is_not_deleted(api: Whole) -> None:
    await apply(api, channels={"ops": OPS, "chat": CHAT}, alert_policies={"mine": {"notify": ["chat"]}})
    await api.client.put(f"{POLICIES}/theirs", json={"notify": ["chat"]})

    kept = {"channels": {"ops": OPS}, "alert_policies": {"mine": {"notify": ["ops"]}}}
    assert await errors_of(api, "plan_refused", prune=True, **kept) == [
        ("/channels/chat", "these alert policies name it: theirs")
    ]
    await api.client.delete(f"{POLICIES}/theirs")
    assert actions(await apply(api, prune=True, **kept)) == {"ops": "none", "chat": "delete", "mine": "change"}


async def test_a_policy_that_a_remaining_job_names_is_not_deleted(api: Whole) -> None:
    mine = a_job("mine", alert_policy="x")
    await apply(api, jobs=[mine], channels={"ops": OPS}, alert_policies={"x": {}, "default": {}})
    await api.job("theirs", alert_policy="x")

    wish = {"prune": True, "channels": {"ops": OPS}}
    assert await errors_of(api, "plan_refused", jobs=[a_job("mine")], **wish) == [
        ("/alert_policies/x", "these jobs name it: theirs")
    ]
    await api.client.delete("/api/v1/jobs/theirs")
    assert ("/alert_policies/x", "these jobs name it: mine") in await errors_of(
        api, "plan_refused", jobs=[mine], **wish
    )
    assert actions(await apply(api, jobs=[a_job("mine")], **wish)) == {
        "mine": "change",
        "ops": "none",
        "x": "delete",
        "default": "delete",
    }


@pytest.mark.parametrize("changed", ["channel", "secret", "policy", "new channel", "new policy", "deleted"])
async def test_a_plan_is_outdated_once_any_of_it_has_changed(api: Whole, changed: str) -> None:
    await apply(api, channels={"ops": OPS}, alert_policies={"x": {}})
    wish = {
        "jobs": [a_job("report")],
        "channels": {"ops": {**OPS, "url": "https://example.com/b"}, "new": CHAT},
        "alert_policies": {"x": {"after": 2}, "y": {}},
        "take_over": True,
    }
    planned = await apply(api, dry_run=True, **wish)
    path, body = {
        "channel": (f"{CHANNELS}/ops", {**OPS, "url": "https://example.com/c"}),
        "secret": (f"{CHANNELS}/ops", {**OPS, "secret": OTHER}),
        "policy": (f"{POLICIES}/x", {"after": 5}),
        "new channel": (f"{CHANNELS}/new", CHAT),
        "new policy": (f"{POLICIES}/y", {"after": 5}),
        "deleted": (f"{POLICIES}/x", None),
    }[changed]
    method = "PUT" if body is not None else "DELETE"
    answer = await api.client.request(method, path, json=body, params={"take_over": "true"})
    assert answer.status_code in (200, 201, 204)

    refused = await send(api, expect=planned["state"], **wish)
    assert (refused.status_code, refused.json()["code"]) == (409, "plan_outdated")
    assert (await api.client.get("/api/v1/jobs/report")).status_code == 404
    assert (await send(api, **wish)).status_code == 200


async def test_the_limits_of_channels_and_policies_hold(api: Whole) -> None:
    channels = {
        f"c{number}": {"type": "webhook", "url": "https://example.com", "secret": OTHER} for number in range(100)
    }
    policies: Json = {f"p{number}": {} for number in range(200)}
    await apply(api, channels=channels, alert_policies=policies)

    more = {"channels": {"c0": channels["c0"], "one": OPS, "two": OPS}, "alert_policies": {"p0": {}, "one": {}}}
    assert await errors_of(api, "plan_refused", **more) == [
        ("/channels/one", "there are 100 channels"),
        ("/channels/two", "there are 100 channels"),
        ("/alert_policies/one", "there are 200 policies"),
    ]
    assert set(actions(await apply(api, prune=True, jobs=[a_job("report")], **more)).values()) >= {"create", "delete"}
    many: Json = {f"x{number}": {} for number in range(201)}
    assert await errors_of(api, "invalid_body", alert_policies=many) == [("/alert_policies", "these are 201")]


async def test_a_job_whose_name_a_channel_needs_is_a_conflict_and_nothing_is_applied(api: Whole) -> None:
    await api.job("hourbell-channel-ops")

    refused = await send(api, channels={"ops": OPS}, alert_policies={"x": {}})
    assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
    assert [each["name"] for each in (await api.client.get(POLICIES)).json()["items"]] == ["default"]


async def test_a_repeated_request_applies_once(api: Whole) -> None:
    wish = {"source": "billing", "jobs": [], "channels": {"ops": OPS}, "alert_policies": {"x": {}}}
    answers = [await api.client.post(APPLY, json=wish, headers={"Idempotency-Key": "a"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    entries = (await api.client.get("/api/v1/audit")).json()["items"]
    assert sorted(each["action"] for each in entries) == ["alert_policy.create", "channel.create"]
