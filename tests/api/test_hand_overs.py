"""A change makes few calls to the database: their number on each database."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hourbell.core.access.roles import Role
from hourbell.store.postgres.connections import Connections
from hourbell.store.sqlite.writer import InlineExecutor, WriterThread
from tests.api.whole import Whole, whole_api
from tests.backends import EACH
from tests.database import BACKENDS, Database

pytestmark = pytest.mark.anyio
MAX_HAND_OVERS = 3
# What each store calls for a transaction: the thread of a file, memory, and a connection of the pool.
HAND_OVERS = ((WriterThread, "_hand_over"), (InlineExecutor, "_run"), (Connections, "connection"))


@pytest.fixture(params=EACH)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with BACKENDS[request.param]() as made:
        yield made


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


@pytest.fixture
def hand_overs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the database so far; tests clear it."""
    counted: list[str] = []

    def counting(inner: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            counted.append(name)
            return inner(*arguments, **named)

        return call

    for owner, name in HAND_OVERS:
        monkeypatch.setattr(owner, name, counting(getattr(owner, name), f"{owner.__name__}.{name}"))
    return counted


@pytest.mark.parametrize("by", ["id", "name"])
async def test_a_patch_uses_at_most_three_thread_hand_overs(api: Whole, hand_overs: list[str], by: str) -> None:
    job = await api.job()
    hand_overs.clear()

    answer = await api.client.patch(f"/api/v1/jobs/{job[by]}", json={"description": "new"})
    assert (answer.status_code, answer.json()["version"], answer.json()["description"]) == (200, 2, "new")
    assert 1 <= len(hand_overs) <= MAX_HAND_OVERS


async def test_a_patch_with_a_token_not_yet_cached_uses_no_more_hand_overs(api: Whole, hand_overs: list[str]) -> None:
    job = await api.job()
    token = await api.token(Role.EDITOR)
    hand_overs.clear()

    headers = {"Authorization": f"Bearer {token}"}
    answer = await api.client.patch(f"/api/v1/jobs/{job['id']}", json={"description": "new"}, headers=headers)
    assert answer.status_code == 200
    assert len(hand_overs) <= MAX_HAND_OVERS


async def test_setting_a_secret_header_uses_two_more_hand_overs(api: Whole, hand_overs: list[str]) -> None:
    job = await api.job()
    hand_overs.clear()

    answer = await api.client.patch(f"/api/v1/jobs/{job['id']}", json={"secret_headers": {"X-Key": "canary"}})
    assert answer.status_code == 200
    assert len(hand_overs) <= MAX_HAND_OVERS + 2


async def test_a_patch_that_changes_nothing_uses_no_more_hand_overs(api: Whole, hand_overs: list[str]) -> None:
    job = await api.job(description="the same")
    hand_overs.clear()

    answer = await api.client.patch(f"/api/v1/jobs/{job['id']}", json={"description": "the same"})
    assert (answer.status_code, answer.json()["version"]) == (200, 1)
    assert len(hand_overs) <= MAX_HAND_OVERS


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_a_pause_and_a_resume_use_no_more_hand_overs(api: Whole, hand_overs: list[str], action: str) -> None:
    job = await api.job()
    await api.client.post(f"/api/v1/jobs/{job['id']}/pause")
    hand_overs.clear()

    answer = await api.client.post(f"/api/v1/jobs/{job['id']}/{action}")
    assert (answer.status_code, answer.json()["version"]) == (200, 3)
    assert len(hand_overs) <= MAX_HAND_OVERS


async def test_a_change_answers_with_the_job_as_a_get_shows_it(api: Whole) -> None:
    job = await api.job()
    patched = await api.client.patch(f"/api/v1/jobs/{job['id']}", json={"tags": ["a"], "payload": {"n": 1}})
    paused = await api.client.post(f"/api/v1/jobs/{job['id']}/pause", json={"note": "tea"})

    shown = (await api.client.get(f"/api/v1/jobs/{job['id']}")).json()
    assert {**paused.json(), "secrets": []} == shown
    assert patched.json()["tags"] == ["a"]
    assert set(patched.json()) - {"warnings", "generated_secret"} == set(paused.json())
