"""Access that ends while a request is on its way: what arrives afterwards does nothing."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from hourbell.api.session_cookie import COOKIE
from hourbell.control.imports import AT_ONCE
from hourbell.core.access.roles import Role
from tests.api.whole import Whole, a_job, whole_api
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
JSON, NDJSON = {"Content-Type": "application/json"}, {"Content-Type": "application/x-ndjson"}
PAGE = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/api/v1/tokens"): {"name": "heir", "role": "admin"},
    ("POST", JOBS): a_job("late"),
    ("PUT", f"{JOBS}/late"): a_job("late"),
    ("PATCH", f"{JOBS}/report"): {"schedule": "@hourly"},
    ("POST", f"{JOBS}/apply"): {"jobs": [a_job("late")], "source": "late"},
    ("POST", f"{JOBS}/report/trigger"): {"payload": 1},
    ("POST", f"{JOBS}/report/pause"): {"note": "late"},
    ("POST", "/api/v1/runs/cancel"): {"all": True},
}


@pytest.fixture
async def api() -> AsyncIterator[Whole]:
    async with BACKENDS["memory"]() as database, whole_api(database) as made:
        await made.job()
        yield made


async def send(
    api: Whole,
    method: str,
    path: str,
    parts: list[bytes],
    end: Callable[[], Awaitable[object]],
    headers: dict[str, str],
) -> httpx.Response:
    """Send a body, and end the caller's access before its last part."""

    async def body() -> AsyncIterator[bytes]:
        for part in parts[:-1]:
            yield part
        await end()
        yield parts[-1]

    return await api.client.request(method, path, content=body(), headers=headers)


async def audited(api: Whole) -> list[str]:
    rows = await api.database.lists().audit(100)
    return [row.action for row in rows if not row.action.startswith(("token.", "session."))]


@pytest.mark.parametrize(("method", "path"), BODIES)
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "once"}], ids=["plain", "keyed"])
async def test_a_token_revoked_before_the_body_is_complete_is_refused(
    api: Whole, method: str, path: str, key: dict[str, str]
) -> None:
    await api.token(Role.ADMIN, "other")
    token, text = await api.control.access.create("stolen", Role.ADMIN, "test")
    headers = {"Authorization": f"Bearer {text.reveal()}", **JSON, **key}
    body = json.dumps(BODIES[method, path]).encode()
    answer = await send(
        api, method, path, [body[:5], body[5:]], lambda: api.control.access.revoke(token.id, "test"), headers
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert await audited(api) == ["job.create"]
    assert [each.name for each in await api.control.access.list()] == ["stolen", "other"]


async def test_a_session_ended_before_the_body_is_complete_is_refused(api: Whole) -> None:
    await api.client.post("/api/v1/session", json={"token": await api.token(Role.ADMIN)}, headers=PAGE)
    cookie = {"Cookie": f"{COOKIE}={api.client.cookies[COOKIE]}"}
    csrf = (await api.client.get("/api/v1/session", headers=cookie)).json()["csrf_token"]
    headers = {**cookie, **PAGE, **JSON, "X-CSRF-Token": csrf}
    answer = await send(
        api,
        "POST",
        f"{JOBS}/report/pause",
        [b"{", b"}"],
        lambda: api.client.delete("/api/v1/session", headers=headers),
        headers,
    )

    assert answer.status_code == 401
    assert await audited(api) == ["job.create"]


async def test_the_first_token_refuses_open_requests_still_sending_their_body(api: Whole) -> None:
    answer = await send(
        api, "POST", "/api/v1/runs/cancel", [b'{"all": ', b"true}"], lambda: api.token(Role.ADMIN), JSON
    )

    assert answer.status_code == 401


async def test_a_late_body_in_one_part_is_checked_again(api: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hourbell.api.access._AT_ONCE_SECONDS", 0.0)
    answer = await send(api, "POST", "/api/v1/runs/cancel", [b'{"all": true}'], lambda: api.token(Role.ADMIN), JSON)

    assert answer.status_code == 401


def lines(first: int, count: int) -> bytes:
    return b"".join(json.dumps(a_job(f"job-{number}")).encode() + b"\n" for number in range(first, first + count))


async def test_an_import_ends_with_the_token_and_reports_what_is_stored(api: Whole) -> None:
    token, text = await api.control.access.create("stolen", Role.EDITOR, "test")
    headers = {"Authorization": f"Bearer {text.reveal()}", **NDJSON}
    parts = [lines(0, 2_000), lines(2_000, 500), lines(2_500, 3_000)]
    answer = await send(
        api, "POST", f"{JOBS}/import", parts, lambda: api.control.access.revoke(token.id, "test"), headers
    )
    results = [json.loads(line) for line in answer.text.splitlines()]
    other = {"Authorization": f"Bearer {await api.token(Role.VIEWER)}"}

    assert [each["result"] for each in results] == ["created"] * (2_500 - AT_ONCE) + ["refused"]
    assert (results[-1]["line"], results[-1]["code"]) == (None, "not_authenticated")
    assert "lines with a result are stored" in results[-1]["message"]
    assert (await api.client.get(f"{JOBS}/job-{2_500 - AT_ONCE - 1}", headers=other)).status_code == 200
    assert (await api.client.get(f"{JOBS}/job-2500", headers=other)).status_code == 404


@pytest.mark.parametrize("last", [b"\n", b""], ids=["a part", "the end"])
async def test_an_import_without_results_is_refused_and_prunes_nothing(api: Whole, last: bytes) -> None:
    token, text = await api.control.access.create("stolen", Role.EDITOR, "test")
    headers = {"Authorization": f"Bearer {text.reveal()}", **NDJSON}
    path = f"{JOBS}/import?source=shop&prune=true"
    await api.client.post(path, content=lines(0, 2), headers=headers)
    answer = await send(
        api, "POST", path, [lines(5, 1), last], lambda: api.control.access.revoke(token.id, "test"), headers
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert await audited(api) == ["job.import", "job.create"]
