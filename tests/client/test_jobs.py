"""Jobs through the client, against a real server."""

from datetime import UTC, datetime, timedelta

import pytest

from hourbell.client import Conflict, Intention, Job, NotFound, VersionMismatch
from tests.api.whole import T0, a_job
from tests.client.served import Served

pytestmark = pytest.mark.anyio


async def test_a_created_job_is_read_with_its_types(server: Served) -> None:
    made = await server.client.jobs.create(a_job(tags=["billing"], starts_at=T0))
    read = await server.client.jobs.get("report")

    assert (read.id, read.version, read.tags, read.starts_at) == (made.id, 1, ("billing",), T0)
    assert (read.next_at, read.max_age) == (datetime(2026, 3, 2, 9, tzinfo=UTC), "1d")
    assert read.raw["target"]["url"] == "https://example.com/hook"


async def test_putting_back_a_job_as_it_was_read_changes_nothing(server: Served) -> None:
    await server.client.jobs.create(a_job())
    read = await server.client.jobs.get("report")

    assert (await server.client.jobs.replace(read.id, read.raw)).version == 1


async def test_a_dry_run_returns_the_result_and_changes_nothing(server: Served) -> None:
    intended: Intention = await server.client.jobs.preview_create(a_job())

    assert (intended.action, intended.fires_now, len(intended.after)) == ("create", False, 10)
    with pytest.raises(NotFound, match="report"):
        await server.client.jobs.get("report")


async def test_a_change_that_expects_another_version_is_refused(server: Served) -> None:
    jobs = server.client.jobs
    await jobs.create(a_job())
    assert (await jobs.patch("report", {"description": "new"}, expect_version=1)).version == 2

    for call in (
        jobs.patch("report", {"description": "old"}, expect_version=1),
        jobs.delete("report", expect_version=1),
    ):
        with pytest.raises(VersionMismatch) as caught:
            await call
        assert (caught.value.status, caught.value.code, caught.value.is_in_doubt) == (412, "version_mismatch", False)


async def test_a_job_is_paused_resumed_and_deleted(server: Served) -> None:
    jobs = server.client.jobs
    await jobs.create(a_job())

    paused = await jobs.pause("report", note="maintenance", until=T0 + timedelta(hours=1))
    assert paused.paused is not None
    assert (paused.state, paused.paused.note, paused.paused.until) == ("paused", "maintenance", T0 + timedelta(hours=1))
    assert (await jobs.resume("report")).state == "active"
    await jobs.delete("report")
    assert [job async for job in jobs.list()] == []


async def test_runs_of_a_job_are_created_and_read(server: Served) -> None:
    jobs = server.client.jobs
    made = await jobs.create(a_job())
    triggered = await jobs.trigger("report", payload={"days": 1}, key="once")
    again = await jobs.trigger("report", payload={"days": 1}, key="once")

    assert triggered.run_id == again.run_id == triggered.run.id
    [run] = [run async for run in jobs.runs(made.id)]
    assert (run.payload, run.kind, run.has_ended) == ({"days": 1}, "manual", False)
    assert [entry.action async for entry in server.client.audit(subject=made.id, limit=1)] != []
    assert (await jobs.stats("report")).total == 0


async def test_a_dry_run_of_a_backfill_lists_its_times(server: Served) -> None:
    await server.client.jobs.create(a_job())
    start, end = T0 - timedelta(days=3), T0

    intended = await server.client.jobs.preview_backfill("report", start, end)
    done = await server.client.jobs.backfill("report", start, end)

    assert (len(intended.instants), intended.runs) == (3, ())
    assert (done.instants, len(done.runs)) == (intended.instants, 3)


async def test_a_secret_is_returned_once_and_hidden_in_every_repr(server: Served) -> None:
    target = {"type": "http", "url": "https://example.com/hook", "secret": "generate"}
    made = await server.client.jobs.create(a_job(target=target))
    rotated = await server.client.jobs.rotate_secret("report", keep_old=timedelta(hours=1))

    assert made.generated_secret is not None
    assert made.generated_secret not in repr(made)
    assert rotated.secret not in repr(rotated)
    assert rotated.old_valid_until == T0 + timedelta(hours=1)
    assert len((await server.client.jobs.get("report")).secrets) == 2


async def test_times_skips_and_versions_are_listed(server: Served) -> None:
    jobs = server.client.jobs
    await jobs.create(a_job())
    await jobs.patch("report", {"schedule": "0 10 * * *"})

    upcoming = await jobs.upcoming("report", count=2)
    assert [each.at.hour for each in upcoming] == [10, 10]
    assert [each.version async for each in jobs.versions("report")] == [2, 1]
    assert [each async for each in jobs.skips("report")] == []


async def test_iterating_reads_all_pages(server: Served) -> None:
    lines = [a_job(f"job-{number:03}") for number in range(450)]
    assert {each.result async for each in server.client.jobs.import_jobs(lines)} == {"created"}

    for limit, requests in ((0, 0), (1, 1), (200, 1), (201, 2), (450, 3), (None, 3)):
        server.weather.seen.clear()
        found = [job.name async for job in server.client.jobs.list(limit=limit)]

        assert found == [f"job-{number:03}" for number in range(450 if limit is None else limit)]
        assert len(server.weather.seen) == requests


async def test_a_page_leads_to_the_next(server: Served) -> None:
    for name in "abc":
        await server.client.jobs.create(a_job(name))
    listed = server.client.jobs.list(state="active")

    first = await listed.page(limit=2)
    second = await listed.page(limit=2, cursor=first.next_cursor)

    assert ([job.name for job in first], [job.name for job in second]) == (["a", "b"], ["c"])
    assert (first.raw["next_cursor"], second.next_cursor, first[0].name, len(second)) == (
        first.next_cursor,
        None,
        "a",
        1,
    )


async def test_a_duplicate_name_is_a_conflict(server: Served) -> None:
    await server.client.jobs.create(a_job())

    with pytest.raises(Conflict) as caught:
        await server.client.jobs.create(a_job())
    assert (caught.value.code, caught.value.request_id) == ("name_taken", "made-id")


async def test_an_unusual_name_is_escaped_in_the_path(server: Served) -> None:
    await server.client.jobs.create(a_job())

    for ref in ("", ".", "..", "a/b", "a?b=c", "ü", "%2e%2e", "import"):
        with pytest.raises((ValueError, NotFound)):
            await server.client.jobs.delete(ref)
    assert isinstance(await server.client.jobs.get("report"), Job)


async def test_ids_created_by_the_client_begin_with_the_time(server: Served) -> None:
    before = datetime.now(UTC)
    job = await server.client.jobs.create(a_job())
    triggered = await server.client.jobs.trigger("report")
    replayed = await server.client.runs.replay(triggered.run_id)
    after = datetime.now(UTC)

    for made in (job.id, triggered.run_id, replayed.run_id):
        time = datetime.fromtimestamp((made.int >> 80) / 1_000, UTC)
        assert before - timedelta(milliseconds=1) <= time <= after


async def test_many_jobs_are_changed_in_one_call(server: Served) -> None:
    jobs = server.client.jobs
    for name in ("first", "second"):
        await jobs.create(a_job(name, tags=["billing"]))

    counted = await jobs.preview_bulk("pause", filter={"tag": "billing"})
    done = await jobs.bulk("pause", filter={"tag": "billing"}, expect=counted.matched, note="why")

    assert (counted.matched, counted.done) == (2, ())
    assert [each.name for each in done.done] == ["first", "second"]
    assert (await jobs.get("first")).state == "paused"
