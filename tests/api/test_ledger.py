"""The ledger of a job through the API: its scheduled times with their fates, and figures about them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.whole import Whole, whole_api
from tests.contract.test_times import a_mixture
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


async def test_a_page_of_a_rare_fate_gives_up_and_its_cursor_leads_on(
    mixed: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = await items(mixed, f"{JOBS}/a/times", fate="late")
    monkeypatch.setattr("hourbell.control.ledger.MAX_SCANNED", 2)
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
