"""Runs, tokens, audit and server information, through the client."""

from datetime import timedelta

import pytest

from hourbell.client import Invalid, NotFound
from tests.api.failing import fail_waiting_runs
from tests.api.whole import T0, a_job
from tests.client.served import Served

pytestmark = pytest.mark.anyio


async def failed_runs(server: Served, count: int) -> None:
    await server.client.jobs.create(a_job())
    for _ in range(count):
        await server.client.jobs.trigger("report")
    await fail_waiting_runs(server.api, "report")


async def test_a_failed_run_is_read_with_its_attempts(server: Served) -> None:
    await failed_runs(server, 1)
    [listed] = [run async for run in server.client.runs.list(state="failed", job="report")]

    run = await server.client.runs.get(listed.id)

    assert (run.state, run.has_ended, run.job_name, listed.attempts) == ("failed", True, "report", ())
    assert [attempt.number for attempt in run.attempts] == [1]


async def test_dead_letters_are_counted_before_they_are_replayed(server: Served) -> None:
    await failed_runs(server, 3)

    counted = await server.client.runs.preview_replay_all(job="report")
    done = await server.client.runs.replay_all(job="report", limit=2, per_minute=1)

    assert (counted.dry_run, counted.matched, counted.done) == (True, 3, ())
    assert (done.matched, done.has_more, len({each.new_run_id for each in done.done})) == (2, True, 2)
    assert (await server.client.runs.discard_all(since=T0 - timedelta(days=1))).matched == 1
    assert (await server.client.overview()).dead_letters == 0


async def test_an_action_on_many_runs_acts_once_for_its_key(server: Served) -> None:
    await server.client.jobs.create(a_job())
    for _ in range(3):
        await server.client.jobs.trigger("report")
    server.weather.coming = ["drop-the-answer"]

    cancelled = await server.client.runs.cancel_all(everything=True, limit=2)

    assert (cancelled.matched, cancelled.has_more) == (2, True)
    assert len([run async for run in server.client.runs.list(state="pending")]) == 1


@pytest.mark.parametrize("action", ["replay_all", "cancel_all", "discard_all"])
async def test_acting_on_all_runs_must_be_asked_for(server: Served, action: str) -> None:
    await failed_runs(server, 1)
    act = getattr(server.client.runs, action)

    with pytest.raises(Invalid) as refused:
        await act(limit=1)

    assert refused.value.errors[0].hint == 'write state, job, since or until, or "all": true'
    assert (await act(everything=True)).has_more is False


async def test_one_run_is_replayed_and_discarded(server: Served) -> None:
    await failed_runs(server, 2)
    first, second = [run.id async for run in server.client.runs.list(state="failed")]

    assert (await server.client.runs.replay(first)).replay_of == first
    await server.client.runs.discard(second)
    assert [run async for run in server.client.runs.list(state="failed")] == []


async def test_waiting_for_a_run_ends_when_it_has_ended(server: Served) -> None:
    await server.client.jobs.create(a_job())
    run = (await server.client.jobs.trigger("report")).run_id

    with pytest.raises(TimeoutError, match="has not ended within 5 s; it is pending"):
        await server.client.runs.wait(run, timeout=5)
    assert sum(server.pauses.waits) == pytest.approx(5)
    await server.client.runs.cancel(run)
    assert (await server.client.runs.wait(run)).state == "cancelled"


async def test_stuck_orphaned_and_late_runs_are_listed(server: Served) -> None:
    await server.client.jobs.create(a_job())
    run = (await server.client.jobs.trigger("report")).run_id
    server.api.advance(timedelta(hours=2))

    assert [each.id for each in await server.client.runs.stuck()] == [run]
    assert [each.id for each in await server.client.runs.orphans(limit=5)] == [run]
    assert len(await server.client.runs.late()) == 0


async def test_schedules_are_previewed(server: Served) -> None:
    shown = await server.client.preview("0 9 * * 1-5", timezone="Europe/Paris", count=2, after=T0)

    assert [each.local for each in shown.upcoming] == ["2026-03-03T09:00:00+01:00", "2026-03-04T09:00:00+01:00"]
    with pytest.raises(Invalid) as caught:
        await server.client.preview("99 * * * *")
    assert caught.value.errors[0].pointer == "/schedule"


async def test_the_timeline_is_read_with_its_types(server: Served) -> None:
    for name in ("one", "two"):
        await server.client.jobs.create(a_job(name))

    found = await server.client.timeline(start=T0, until=T0 + timedelta(days=2), job=["one", "two"], limit=1)
    rest = await server.client.timeline(start=T0, job=["one", "two"], cursor=found.next_cursor)

    [item] = found.items
    assert (found.start, found.until, item.job.name) == (T0, T0 + timedelta(days=2), "one")
    assert (len(item.planned), item.buckets) == (2, None)
    assert [each.job.name for each in rest.items] == ["two"]


async def test_times_are_explained_and_forecast(server: Served) -> None:
    await server.client.jobs.create(a_job())

    reported = await server.client.explain("report", T0 + timedelta(hours=1))
    forecast = await server.client.forecast(start=T0, bucket=timedelta(hours=12), buckets=4)

    assert (reported.verdict, reported.at) == ("not_due_yet", T0 + timedelta(hours=1))
    assert [bucket.count for bucket in forecast.buckets] == [1, 0, 1, 0]
    assert forecast.bucket_seconds == 43_200
    with pytest.raises(NotFound):
        await server.client.explain("nobody", T0)


async def test_health_and_server_information_are_read(server: Served) -> None:
    await server.client.jobs.create(a_job())

    overview = await server.client.overview()
    assert (overview.jobs, overview.since, len(await server.client.nodes())) == (1, T0 - timedelta(days=1), 0)
    [entry] = [entry async for entry in server.client.audit()]
    assert (entry.action, entry.actor, entry.request_id) == ("job.create", "local", "made-id")


async def test_a_time_without_a_zone_is_refused_before_sending(server: Served) -> None:
    server.weather.seen.clear()
    with pytest.raises(ValueError, match="with a zone"):
        await server.client.explain("report", T0.replace(tzinfo=None))
    assert server.weather.seen == []
