"""Limits per caller: unknown tokens, triggers, imports and event streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from hourbell.api import access
from hourbell.api.access import Authenticator
from hourbell.api.imports import MAX_LINES
from hourbell.api.limits import HeldBytes, Limits, import_limits, stream_limits
from hourbell.control.history import History
from hourbell.core.access.roles import Role
from hourbell.core.access.token_text import token_text
from hourbell.store.lists.query import Overview
from tests.api.failing import fail_waiting_runs
from tests.api.house import House
from tests.api.test_events import LiveApi, live_api  # noqa: F401 - a fixture
from tests.api.whole import Whole, a_job, whole_api
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
ECHO = "/api/v1/echo"
JSON_BODY = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def api() -> AsyncIterator[Whole]:
    async with BACKENDS["memory"]() as database, whole_api(database) as made:
        yield made


def change_authenticator(api: Whole, **changes: Any) -> None:
    authenticator: Authenticator = api.app.state.authenticator
    replace(authenticator, **changes).install(api.app)


async def test_unknown_tokens_are_refused_without_a_database_query(house: House) -> None:
    good = await house.token()
    wrong = [token_text(number.to_bytes(32, "big")) for number in range(200)]
    answers = [await house.ask("GET", "/api/v1/things", token=each) for each in wrong]

    assert [each.status_code for each in answers] == [401] * 25 + [429] * 175
    assert answers[-1].headers["retry-after"] == "1"
    assert (await house.ask("GET", "/api/v1/things", token=good)).status_code == 200  # from the same address
    house.client_ip = "127.0.0.2"
    assert (await house.ask("GET", "/api/v1/things", token=wrong[-1])).status_code == 401


async def test_triggers_of_one_token_are_limited_without_affecting_other_tokens(api: Whole) -> None:
    change_authenticator(api, triggers=Limits(2, elapsed=api.time.elapsed))
    await api.job()
    admin, other = [{"Authorization": f"Bearer {await api.token(Role.ADMIN, name)}"} for name in ("one", "two")]
    answers = [await api.client.post(f"{JOBS}/report/trigger", headers=admin) for _ in range(11)]
    run = answers[0].json()["run_id"]

    assert [answer.status_code for answer in answers] == [201] * 10 + [429]
    assert answers[-1].headers["retry-after"] == "1"
    assert (await api.client.post("/api/v1/schedules/report/trigger", headers=admin)).status_code == 429
    assert (await api.client.post(f"/api/v1/runs/{run}/replay", headers=admin)).status_code == 429
    assert (await api.client.get(f"{JOBS}/report", headers=admin)).status_code == 200
    assert (await api.client.post(f"{JOBS}/report/trigger", headers=other)).status_code == 201


async def test_jobs_triggered_in_bulk_count_one_by_one(api: Whole) -> None:
    change_authenticator(api, triggers=Limits(2, elapsed=api.time.elapsed))
    admin = {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}
    names = [f"bulk-{number}" for number in range(30)]
    for name in names:
        await api.client.put(f"{JOBS}/{name}", json=a_job(name), headers=admin)
    body = {"action": "trigger", "jobs": names}

    tried = await api.client.post(f"{JOBS}/bulk?dry_run=true", json=body, headers=admin)
    first = await api.client.post(f"{JOBS}/bulk", json=body, headers=admin)
    second = await api.client.post(f"{JOBS}/bulk", json=body, headers=admin)
    alone = await api.client.post(f"{JOBS}/bulk-0/trigger", headers=admin)

    assert (tried.status_code, first.status_code, len(first.json()["done"])) == (200, 200, 30)
    assert (second.status_code, alone.status_code) == (429, 429)


async def test_concurrent_bulk_triggers_of_one_token_share_its_limit(api: Whole) -> None:
    change_authenticator(api, triggers=Limits(2, elapsed=api.time.elapsed))
    admin = {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}
    names = [f"bulk-{number}" for number in range(30)]
    for name in names:
        await api.client.put(f"{JOBS}/{name}", json=a_job(name), headers=admin)
    body = {"action": "trigger", "jobs": names}

    answers = await asyncio.gather(*(api.client.post(f"{JOBS}/bulk", json=body, headers=admin) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [429] * 7


async def test_runs_replayed_in_bulk_count_as_triggers(api: Whole) -> None:
    await api.job()
    for _ in range(9):
        await api.client.post(f"{JOBS}/report/trigger")
    assert len(await fail_waiting_runs(api, "report")) == 9
    change_authenticator(api, triggers=Limits(1, elapsed=api.time.elapsed))
    admin = {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}
    body = {"all": True, "per_minute": 60_000}

    tried = await api.client.post("/api/v1/runs/replay?dry_run=true", json=body, headers=admin)
    first = await api.client.post("/api/v1/runs/replay", json=body, headers=admin)
    second = await api.client.post("/api/v1/runs/replay", json=body, headers=admin)
    assert (tried.json()["matched"], len(first.json()["done"]), second.status_code) == (9, 9, 429)


async def test_a_bulk_trigger_cannot_multiply_a_large_payload(api: Whole) -> None:
    admin = {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}
    names = [f"bulk-{number}" for number in range(20)]
    for name in names:
        await api.client.put(f"{JOBS}/{name}", json=a_job(name), headers=admin)
    body = {"action": "trigger", "jobs": names, "payload": "x" * 900_000}

    refused = await api.client.post(f"{JOBS}/bulk", json=body, headers=admin)
    fewer = await api.client.post(f"{JOBS}/bulk", json={**body, "jobs": names[:2]}, headers=admin)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/payload")
    assert (fewer.status_code, len(fewer.json()["done"])) == (200, 2)


async def test_requests_of_one_token_wait_while_four_are_handled(api: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.job()
    one, two = [{"Authorization": f"Bearer {await api.token(Role.ADMIN, name)}"} for name in ("one", "two")]
    begun, go_on = [], asyncio.Event()
    overview = History.overview

    async def slow(history: History, since: datetime) -> Overview:
        begun.append(since)
        await go_on.wait()
        return await overview(history, since)

    monkeypatch.setattr(History, "overview", slow)
    asked = [asyncio.create_task(api.client.get("/api/v1/stats", headers=one)) for _ in range(10)]
    asked.append(asyncio.create_task(api.client.post(f"{JOBS}/report/trigger", headers=one)))
    for _ in range(200):
        await asyncio.sleep(0)
    other = await api.client.get(f"{JOBS}/report", headers=two)
    assert (len(begun), [task.done() for task in asked], other.status_code) == (4, [False] * 11, 200)

    go_on.set()
    assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * 10 + [201]


async def test_a_token_revoked_while_its_request_waits_is_refused(api: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.job()
    await api.token(Role.ADMIN, "other")
    token, text = await api.control.access.create("one", Role.ADMIN, "test")
    one = {"Authorization": f"Bearer {text.reveal()}"}
    go_on = asyncio.Event()
    overview = History.overview

    async def slow(history: History, since: datetime) -> Overview:
        await go_on.wait()
        return await overview(history, since)

    monkeypatch.setattr(History, "overview", slow)
    asked = [asyncio.create_task(api.client.get("/api/v1/stats", headers=one)) for _ in range(4)]
    waiting = [
        asyncio.create_task(api.client.get("/api/v1/stats", headers=one)),
        asyncio.create_task(api.client.post(f"{JOBS}/report/trigger", headers=one)),
    ]
    for _ in range(200):
        await asyncio.sleep(0)
    monkeypatch.setattr(access.clock, "elapsed", lambda: 1e12)
    await api.control.access.revoke(token.id, "test")
    go_on.set()

    assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [401, 401]
    await asyncio.gather(*asked)


async def test_tests_of_channels_count_as_triggers(api: Whole) -> None:
    change_authenticator(api, triggers=Limits(2, elapsed=api.time.elapsed))
    admin = {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}
    channel = {"type": "webhook", "url": "https://example.com/alerts"}
    assert (await api.client.put("/api/v1/channels/ops", json=channel, headers=admin)).status_code == 201

    answers = [await api.client.post("/api/v1/channels/ops/test", headers=admin) for _ in range(11)]

    assert [answer.status_code for answer in answers] == [202] * 10 + [429]


async def test_an_import_with_a_too_large_content_length_is_refused_at_once(api: Whole) -> None:
    change_authenticator(api, import_bytes=1_000)
    answer = await api.client.post(f"{JOBS}/import", content=b" " * 1_001, headers=NDJSON)

    assert (answer.status_code, answer.json()["code"]) == (413, "import_too_large")
    assert "HOURBELL_IMPORT_MAX_MIB" in answer.json()["detail"]


async def test_an_import_over_the_size_limit_is_cut_off_with_an_error(api: Whole) -> None:
    change_authenticator(api, import_bytes=1_000)

    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 100

    answer = await api.client.post(f"{JOBS}/import", content=lines(), headers=NDJSON)

    assert (answer.status_code, answer.json()["code"]) == (413, "import_too_large")


async def test_an_import_is_limited_in_lines(api: Whole) -> None:
    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield b"\n" * 1_000_000

    answer = await api.client.post(f"{JOBS}/import", content=lines(), headers=NDJSON)

    assert MAX_LINES > 1_000_000
    assert (answer.status_code, answer.json()["code"]) == (413, "import_too_large")


async def test_lines_imported_before_the_limit_stay_stored(api: Whole) -> None:
    one = json.dumps(a_job("one")).encode() + b"\n"
    change_authenticator(api, import_bytes=len(one) * 3_500)

    async def lines() -> AsyncIterator[bytes]:
        for number in range(10_000):
            yield one.replace(b"one", f"o{number % 10}e".encode())
            await asyncio.sleep(0)

    answer = await api.client.post(f"{JOBS}/import", content=lines(), headers=NDJSON)
    results = [json.loads(line) for line in answer.text.splitlines()]

    assert answer.status_code == 200
    assert (results[0]["result"], results[-1]["code"]) == ("created", "import_too_large")


async def test_imports_of_a_token_are_limited(api: Whole) -> None:
    change_authenticator(api, imports=import_limits(per_caller=1, total=2))
    one, two, three = [await api.token(Role.EDITOR, name) for name in ("one", "two", "three")]
    sent = asyncio.Event()

    async def import_as(token: str) -> tuple[int, str]:
        async def lines() -> AsyncIterator[bytes]:
            await sent.wait()
            yield json.dumps(a_job("one")).encode() + b"\n"

        headers = {**NDJSON, "Authorization": f"Bearer {token}"}
        answer = await api.client.post(f"{JOBS}/import", content=lines(), headers=headers)
        return answer.status_code, answer.json().get("code", "")

    first, second = [asyncio.create_task(import_as(token)) for token in (one, two)]
    while api.app.state.authenticator.imports._open.total() < 2:
        await asyncio.sleep(0)
    refused = [await import_as(one), await import_as(three)]
    sent.set()

    assert refused == [(429, "too_many_imports"), (503, "too_many_imports")]
    assert {await first, await second} == {(200, "")}
    assert await import_as(three) == (200, "")


async def test_event_streams_of_a_token_are_limited(live_api: LiveApi) -> None:  # noqa: F811
    change_authenticator(live_api.api, streams=stream_limits(3, 500))
    one, two = [await live_api.api.token(Role.VIEWER, name) for name in ("one", "two")]
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(live_api.listening(token=one))
        refused = await live_api.http.get("/api/v1/events", headers={"Authorization": f"Bearer {one}"})
        await stack.enter_async_context(live_api.listening(token=two))
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        assert refused.headers["retry-after"] == "30"

    async with asyncio.timeout(30):
        while live_api.api.app.state.authenticator.streams._open:  # until the server has seen that they left
            await asyncio.sleep(0.05)
    async with live_api.listening(token=one):
        pass


async def test_the_request_bodies_of_one_caller_are_limited_in_bytes(house: House) -> None:
    change_held(house, HeldBytes(per_caller=100_000, total=150_000))
    one, two, three = [await house.token(role) for role in (Role.ADMIN, Role.EDITOR, Role.OPERATOR)]
    go_on = asyncio.Event()

    async def slowly(size: int) -> AsyncIterator[bytes]:
        yield b'"' + b"x" * (size - 2)
        await go_on.wait()
        yield b'"'

    async def send(token: str, size: int) -> int:
        async with asyncio.timeout(30):
            answer = await house.ask("POST", ECHO, token=token, content=slowly(size), headers=JSON_BODY)
        return answer.status_code

    held = asyncio.create_task(send(one, 80_000))
    await settle_tasks()
    assert await send(one, 30_000) == 429
    other = asyncio.create_task(send(two, 60_000))
    await settle_tasks()
    assert await send(three, 30_000) == 503
    assert (await house.ask("POST", ECHO, token=one, content=b'"x"', headers=JSON_BODY)).status_code == 200
    go_on.set()

    assert [await held, await other] == [200, 200]
    assert [await send(one, 90_000), await send(one, 90_000)] == [200, 200]  # given back when a request has ended


async def test_a_refused_body_frees_the_bytes_it_held(house: House) -> None:
    change_held(house, HeldBytes(per_caller=100_000, total=100_000))
    for _ in range(3):
        answer = await house.ask("POST", ECHO, content=b"{" + b" " * 90_000, headers=JSON_BODY)
        assert answer.status_code == 400


def change_held(house: House, held: HeldBytes) -> None:
    replace(house.authenticator, held=held).install(house.app)


async def settle_tasks() -> None:
    for _ in range(200):
        await asyncio.sleep(0.001)
