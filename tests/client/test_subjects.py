"""A job's subject, through the client and the API: defined, shown, kept in versions, and asked for in lists."""

import pytest

from hourbell.client import Invalid
from tests.api.whole import a_job
from tests.client.served import Served

pytestmark = pytest.mark.anyio

SUBJECT = "customer 17 & sons"


async def test_jobs_and_runs_are_listed_by_the_subject_of_the_job(server: Served) -> None:
    for name, subject in (("a", SUBJECT), ("b", "other"), ("c", SUBJECT), ("d", "")):
        await server.client.jobs.create(a_job(name, subject=subject))
        await server.client.jobs.trigger(name)

    jobs = [job async for job in server.client.jobs.list(subject=SUBJECT)]
    runs = [run async for run in server.client.runs.list(subject=SUBJECT)]
    waiting = [run async for run in server.client.runs.list(subject="other", state="pending")]

    assert [(job.name, job.subject) for job in jobs] == [("a", SUBJECT), ("c", SUBJECT)]
    assert {run.job_name for run in runs} == {"a", "c"}
    assert [run.job_name for run in waiting] == ["b"]
    assert [run async for run in server.client.runs.list(subject=SUBJECT, job="b")] == []


async def test_a_subject_can_be_changed_and_removed_and_versions_record_it(server: Served) -> None:
    await server.client.jobs.create(a_job(subject="before"))
    changed = await server.client.jobs.patch("report", {"subject": "after"})
    without = await server.client.jobs.patch("report", {"subject": None})
    versions = [each async for each in server.client.jobs.versions("report")]

    assert (changed.subject, without.subject) == ("after", "")
    assert [each.definition["subject"] for each in versions] == ["", "after", "before"]
    assert changed.next_at == without.next_at


@pytest.mark.parametrize("subject", ["", "x" * 201])
async def test_an_invalid_subject_is_refused_as_a_filter(server: Served, subject: str) -> None:
    with pytest.raises(Invalid, match=r"subject is (empty|too long)"):
        [job async for job in server.client.jobs.list(subject=subject)]
    with pytest.raises(Invalid, match=r"subject is (empty|too long)"):
        [run async for run in server.client.runs.list(subject=subject)]
