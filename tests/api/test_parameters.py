"""Unknown parameters and fields cost little, and nothing is done for a caller without a token."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hourbell.api import users
from hourbell.core.access.roles import Role
from hourbell.core.values import field_errors
from tests.api.document import distinct_operations
from tests.api.whole import Whole, a_job, whole_api
from tests.database import BACKENDS

pytestmark = pytest.mark.anyio

JOBS = "/api/v1/jobs"
TAKE_OVER = "&".join(f"take_ove{number}=" for number in range(1_000))


@pytest.fixture(scope="module")
async def api() -> AsyncIterator[Whole]:
    async with BACKENDS["memory"]() as database, whole_api(database) as made:
        yield made


@pytest.fixture(scope="module")
async def admin(api: Whole) -> dict[str, str]:
    """Headers of a request with a token, and required ones."""
    return {"Authorization": f"Bearer {await api.token(Role.ADMIN)}"}


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every name for which a suggestion was looked for, which is what takes time."""
    seen: list[str] = []

    def read(name: str, _known: object, **_more: object) -> list[str]:
        seen.append(name)
        return []

    monkeypatch.setattr(users, "get_close_matches", read)
    monkeypatch.setattr(field_errors, "get_close_matches", read)
    return seen


@pytest.mark.parametrize("path", [f"{JOBS}/session", "/api/v1/schedules/session", "/api/v1/session"])
async def test_delete_of_a_path_that_ends_in_session_needs_a_token_first(
    api: Whole, admin: dict[str, str], comparisons: list[str], path: str
) -> None:
    del admin
    answer = await api.client.delete(f"{path}?{TAKE_OVER}")

    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert comparisons == []


@pytest.mark.parametrize("operation", distinct_operations(), ids=lambda operation: operation.name)
async def test_unknown_names_are_not_compared_for_a_caller_without_a_token(
    api: Whole, admin: dict[str, str], comparisons: list[str], operation: Any
) -> None:
    del admin
    answer = await api.client.request(operation.method, f"{operation.path}?{TAKE_OVER}")

    assert answer.status_code in ((400,) if operation.name == "create_session" else (401, 200, 404))
    assert comparisons == []


async def test_a_request_has_at_most_100_parameters(api: Whole, admin: dict[str, str], comparisons: list[str]) -> None:
    answer = await api.client.delete(f"{JOBS}/session?{TAKE_OVER}", headers=admin)

    assert (answer.status_code, answer.json()["code"]) == (400, "too_many_parameters")
    assert comparisons == []


async def test_100_unknown_parameters_get_suggestions_for_five(
    api: Whole, admin: dict[str, str], comparisons: list[str]
) -> None:
    answer = await api.client.delete(f"{JOBS}/session?{'&'.join(TAKE_OVER.split('&')[:100])}", headers=admin)

    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")
    assert (len(comparisons), len(answer.json()["errors"])) == (5, 100)


async def test_unknown_body_fields_get_suggestions_for_five(
    api: Whole, admin: dict[str, str], comparisons: list[str]
) -> None:
    fields = {f"schedul{number}": 1 for number in range(40_000)}
    answers = [
        await api.client.post(JOBS, json={**a_job(), **fields}, headers=admin),
        await api.client.post("/api/v1/preview", json={"schedule": "@daily", **fields}, headers=admin),
    ]

    assert [answer.status_code for answer in answers] == [422, 422]
    assert [len(answer.json()["errors"]) for answer in answers] == [21, 21]
    assert len(comparisons) == 10
