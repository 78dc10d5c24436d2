"""Concurrent changes: each happens once, one caller wins, and the others get an error."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.api.whole import HOOK, Whole, a_job, whole_api
from tests.database import Database

# On both, although control is between: who wins at the same moment, the database says.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("database", ["postgres", "sqlite"], indirect=True)]

JOBS = "/api/v1/jobs"
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Whole]:
    async with whole_api(database) as made:
        yield made


def reported(answers: list[httpx.Response]) -> Counter[tuple[int, str | None]]:
    """Count the answers by status, with the code of a refusal."""
    return Counter((each.status_code, each.json().get("code")) for each in answers)


async def jobs_in(api: Whole) -> list[str]:
    return sorted(row["name"] for row in await api.database.rows("jobs"))


async def test_twenty_simultaneous_calls_with_one_key_create_one_job(api: Whole) -> None:
    headers = {"Idempotency-Key": "k"}

    answers = await asyncio.gather(*(api.client.post(JOBS, json=a_job(), headers=headers) for _ in range(20)))

    good = [each for each in answers if each.status_code == 201]
    assert await jobs_in(api) == ["report"]
    assert len(await api.database.rows("audit")) == 1
    assert len({each.json()["id"] for each in good}) == 1
    assert reported(answers).keys() <= {(201, None), (409, "already_done")}


async def test_twenty_simultaneous_calls_with_one_key_trigger_one_run(api: Whole) -> None:
    await api.job()
    headers = {"Idempotency-Key": "k"}

    answers = await asyncio.gather(*(api.client.post(f"{JOBS}/report/trigger", headers=headers) for _ in range(20)))

    assert len(await api.database.rows("runs")) == 1
    assert reported(answers).keys() <= {(201, None), (409, "already_done")}


async def test_one_of_two_concurrent_bodies_under_one_key_is_accepted(api: Whole) -> None:
    headers = {"Idempotency-Key": "k"}

    answers = await asyncio.gather(
        *(api.client.post(JOBS, json=a_job(f"job-{number % 2}"), headers=headers) for number in range(20))
    )

    [made] = await jobs_in(api)
    assert {each.json()["name"] for each in answers if each.status_code == 201} == {made}
    assert all(each.status_code != 201 for each in answers if made.encode() not in each.request.content)


async def test_one_of_twenty_calls_with_one_key_gets_the_secret(api: Whole) -> None:
    headers, body = {"Idempotency-Key": "k"}, a_job(target={**HOOK, "secret": "generate"})

    answers = await asyncio.gather(*(api.client.post(JOBS, json=body, headers=headers) for _ in range(20)))

    secrets = [each.json()["generated_secret"] for each in answers if each.json().get("generated_secret")]
    assert (len(secrets), await jobs_in(api)) == (1, ["report"])
    assert {each.status_code for each in answers} <= {201, 409}


async def test_one_of_ten_changes_that_expect_one_version_succeeds(api: Whole) -> None:
    await api.job()

    answers = await asyncio.gather(
        *(
            api.client.patch(f"{JOBS}/report", json={"description": f"by {number}"}, headers={"If-Match": '"1"'})
            for number in range(10)
        )
    )

    assert reported(answers) == {(200, None): 1, (412, "version_mismatch"): 9}
    assert (await api.client.get(f"{JOBS}/report")).json()["version"] == 2


async def test_one_of_ten_deletions_that_expect_one_version_succeeds(api: Whole) -> None:
    await api.job()

    answers = await asyncio.gather(
        *(api.client.delete(f"{JOBS}/report", headers={"If-Match": '"1"'}) for _ in range(10))
    )

    assert Counter(each.status_code for each in answers) == {204: 1, 404: 9}


async def test_one_of_ten_creations_with_one_name_succeeds(api: Whole) -> None:
    answers = await asyncio.gather(*(api.client.post(JOBS, json=a_job()) for _ in range(10)))

    assert reported(answers) == {(201, None): 1, (409, "name_taken"): 9}


async def test_ten_simultaneous_puts_create_one_job(api: Whole) -> None:
    answers = await asyncio.gather(*(api.client.put(f"{JOBS}/report", json=a_job()) for _ in range(10)))

    assert await jobs_in(api) == ["report"]
    assert reported(answers).keys() <= {(201, None), (200, None), (409, "name_taken")}


async def test_two_simultaneous_imports_create_each_job_once(api: Whole) -> None:
    lines = [json.dumps(a_job(f"job-{number:03}")).encode() for number in range(300)]

    one, other = await asyncio.gather(
        api.client.post(f"{JOBS}/import", content=b"\n".join(lines), headers=NDJSON),
        api.client.post(f"{JOBS}/import", content=b"\n".join(reversed(lines)), headers=NDJSON),
    )

    results = Counter(json.loads(line)["result"] for line in (one.text + other.text).splitlines())
    assert results == {"created": 300, "unchanged": 300}
    assert len(await jobs_in(api)) == 300


async def test_two_concurrent_pruning_imports_leave_the_jobs_of_one(api: Whole) -> None:
    owner = {"managed_by": "file", "source": "jobs", "prune": "true"}
    bodies = [b"\n".join(json.dumps(a_job(f"{who}-{number}")).encode() for number in range(20)) for who in ("a", "b")]

    answers = await asyncio.gather(
        *(api.client.post(f"{JOBS}/import", content=body, headers=NDJSON, params=owner) for body in bodies)
    )

    left = {row["name"][0] for row in await api.database.rows("jobs") if row["deleted_at"] is None}
    assert ([each.status_code for each in answers], len(left) <= 1) == ([200, 200], True)
