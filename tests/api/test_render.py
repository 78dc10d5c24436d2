"""Answers are rendered with exactly the fields of their classes."""

from collections.abc import Mapping
from typing import Any

import pytest

from hourbell.answers import jobs, runs
from hourbell.answers.base import answer_fields
from hourbell.api.render import answer
from tests.api.whole import a_job, whole_api
from tests.sqlite_database import SqliteDatabase


def names_of(kind: Any, *extra: str) -> list[str]:
    return [each.name for each in answer_fields(kind) if not each.doc.is_extra or each.name in extra]


@pytest.mark.anyio
async def test_rendered_jobs_and_runs_have_the_fields_of_their_classes_in_order() -> None:
    async with SqliteDatabase.in_memory() as database, whole_api(database) as api:

        async def get(path: str) -> Mapping[str, Any]:
            found: Mapping[str, Any] = (await api.client.get(f"/api/v1{path}")).json()
            return found

        made = (await api.client.post("/api/v1/jobs", json=a_job())).json()
        run = (await api.client.post("/api/v1/jobs/report/trigger")).json()["run_id"]

        assert list(made) == names_of(jobs.Job, "warnings", "generated_secret")
        assert list(await get("/jobs/report")) == names_of(jobs.Job, "secrets")
        assert list((await get("/jobs"))["items"][0]) == names_of(jobs.Job)
        assert list(await get(f"/runs/{run}")) == names_of(runs.Run, "late_success", "log", "attempts")
        assert list((await get("/runs"))["items"][0]) == names_of(runs.Run)


def test_an_unknown_answer_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Replayed has no run"):
        answer(runs.Replayed, run_id="1", replay_of="2", run="3")
