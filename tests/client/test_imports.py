"""Imports stream both ways, and an error on the way is reported completely."""

import io
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from hourbell.client import NotAuthenticated, ServerOutOfReach
from hourbell.core.access.roles import Role
from tests.api.whole import a_job
from tests.client.served import Served

pytestmark = pytest.mark.anyio


def jobs(count: int) -> Iterator[dict[str, object]]:
    return (a_job(f"job-{number:04}") for number in range(count))


async def test_five_thousand_jobs_are_imported_with_a_result_per_line(server: Served) -> None:
    results = [each async for each in server.client.jobs.import_jobs(jobs(5_000))]

    assert [each.line for each in results] == list(range(1, 5_001))
    assert {each.result for each in results} == {"created"}
    assert (await server.client.overview()).jobs == 5_000
    assert results[0].id == (await server.client.jobs.get("job-0000")).id


async def test_files_and_async_iterables_are_sources_too(server: Served) -> None:
    text = "".join(json.dumps(job) + "\n" for job in jobs(3))

    async def some() -> AsyncIterator[dict[str, object]]:
        for job in jobs(4):
            yield job

    for source in (io.StringIO(text), io.BytesIO(text.replace("\n", "\r\n").encode()), text.splitlines()):
        assert len([each async for each in server.client.jobs.import_jobs(source)]) == 3
    results = [each.result async for each in server.client.jobs.import_jobs(some())]
    assert results == ["unchanged", "unchanged", "unchanged", "created"]


async def test_a_refused_line_has_a_reason_and_does_not_affect_others(server: Served) -> None:
    lines = [a_job("good"), a_job("bad", schedule="99 * * * *"), "{not json", a_job("fine")]

    results = [each async for each in server.client.jobs.import_jobs(lines)]

    assert [each.result for each in results] == ["created", "refused", "refused", "created"]
    assert results[1].errors[0].pointer == "/schedule"
    assert (results[2].line, results[2].code is not None) == (3, True)


async def test_a_dry_run_imports_nothing(server: Served) -> None:
    results = [each.result async for each in server.client.jobs.preview_import(jobs(2))]

    assert results == ["created", "created"]
    assert (await server.client.overview()).jobs == 0


async def test_pruning_deletes_jobs_missing_from_the_source(server: Served) -> None:
    how = {"managed_by": "file", "source": "jobs.toml", "prune": True}
    assert len([each async for each in server.client.jobs.import_jobs(jobs(3), **how)]) == 3  # type: ignore[arg-type]

    results = [each async for each in server.client.jobs.import_jobs(jobs(2), **how)]  # type: ignore[arg-type]

    assert [(each.result, each.name) for each in results][-1] == ("pruned", "job-0002")


async def test_an_error_in_the_source_is_raised_and_prunes_nothing(server: Served) -> None:
    how = {"managed_by": "file", "source": "jobs.toml", "prune": True}
    assert len([each async for each in server.client.jobs.import_jobs(jobs(3), **how)]) == 3  # type: ignore[arg-type]

    def broken() -> Iterator[dict[str, object]]:
        yield from jobs(1)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        [each async for each in server.client.jobs.import_jobs(broken(), **how)]  # type: ignore[arg-type]
    assert [job.name async for job in server.client.jobs.list()] == ["job-0000", "job-0001", "job-0002"]


async def test_a_refused_import_sends_nothing(server: Served) -> None:
    await server.api.token(Role.ADMIN)
    read = []

    def source() -> Iterator[dict[str, object]]:
        for job in jobs(10_000):
            read.append(job)
            yield job

    with pytest.raises(NotAuthenticated):
        [each async for each in server.client.jobs.import_jobs(source())]
    assert read == []


async def test_an_import_is_repeated_while_nothing_was_read(server: Served) -> None:
    server.weather.coming = ["503 1", "drop"]

    assert len([each async for each in server.client.jobs.import_jobs(jobs(3))]) == 3
    assert len(server.pauses.waits) == 2


async def test_an_import_whose_results_were_lost_is_in_doubt(server: Served) -> None:
    server.weather.coming = ["drop-the-answer"]

    with pytest.raises(ServerOutOfReach) as caught:
        [each async for each in server.client.jobs.import_jobs(jobs(3))]
    assert caught.value.is_in_doubt
    assert [each.result async for each in server.client.jobs.import_jobs(jobs(3))] == ["unchanged"] * 3


async def test_a_single_job_or_a_text_is_not_a_source(server: Served) -> None:
    for wrong in (a_job(), "jobs.ndjson"):
        with pytest.raises(TypeError, match="an open file"):
            [each async for each in server.client.jobs.import_jobs(wrong)]  # type: ignore[arg-type]
