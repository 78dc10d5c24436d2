"""Jobs that need attention and the rows of the time line, on every database."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.attention import GROUPS, Attention
from hourbell.core.run.settle import Failed
from hourbell.core.run.states import RunState, SkipReason
from hourbell.core.run.timeline import RunCount, Window
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import JobQuery, ListPosition
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.timeline import AttentionCounts, JobFacts, RetryingRun
from hourbell.store.sqlite.values import microseconds
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    T0,
    a_waiting_job,
    add_job,
    changed,
    claim,
    finish,
    new_run,
    put_runs,
    run_and_finish,
)
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio
PERMANENT = Failed("HTTP 503", retryable=False)


async def lose(database: Database, job: Job, at: datetime, reason: str = "overlap", count: int = 1) -> None:
    """Add a skip of a job that ends at an instant."""
    is_postgres = isinstance(database, PostgresDatabase)
    job_id, moment = (f"'{job.id}'", f"'{at}'") if is_postgres else (f"x'{job.id.hex}'", microseconds(at))
    await database.sql(
        "insert into hourbell.skips (job_id, first_at, last_at, count, reason)"
        f" values ({job_id}, {moment}, {moment}, {count}, '{reason}')"
    )


async def names(lists: ListStore, attention: Attention, now: datetime, limit: int = 10) -> list[str]:
    found = await lists.jobs(JobQuery(attention=attention), limit, None, now)
    if len(found) < limit:
        assert await lists.count_jobs(JobQuery(attention=attention), 1_000, now) == len(found)
    return [view.job.definition.name for view in found]


async def facts_of(lists: ListStore, now: datetime, *jobs: Job) -> Mapping[UUID, JobFacts]:
    sets = await lists.attention_sets(now, [Attention.RETRYING])
    return (await lists.timeline_rows(jobs, sets, Window.of(T0, T0 + DAY), 1)).facts


async def fail(store: EngineStore, count: int = 1, now: datetime = T0 + HOUR) -> None:
    await finish(store, await claim(store, free=count, now=now), PERMANENT, now=now)


async def test_a_job_fails_until_a_run_succeeds(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    await a_waiting_job(store, control, "bad", count=2)
    await fail(store)

    assert await names(lists, Attention.FAILING, T0 + HOUR) == ["bad"]
    await run_and_finish(store)
    assert await names(lists, Attention.FAILING, T0 + HOUR) == []


async def test_a_job_is_retrying_from_a_failed_attempt_to_the_end_of_the_run(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, "flaky")
    await a_waiting_job(store, control, "calm", lane="b")
    [run] = await claim(store, free=1)
    assert await names(lists, Attention.RETRYING, T0 + HOUR) == []

    await finish(store, [run], Failed("HTTP 503"))

    assert await names(lists, Attention.RETRYING, T0 + HOUR) == ["flaky"]
    assert await names(lists, Attention.FAILING, T0 + HOUR) == []
    assert (await lists.attention_counts(T0 + HOUR)).retrying == 1
    facts = (await facts_of(lists, T0 + HOUR, job))[job.id]
    assert facts.retrying is not None
    assert facts.retrying == RetryingRun(run.id, 1, facts.retrying.ready_at, is_running=False)
    assert facts.retrying.ready_at > T0 + HOUR
    assert facts.retry_error == "HTTP 503"

    [again] = await claim(store, free=1, now=T0 + 2 * HOUR)
    assert await names(lists, Attention.RETRYING, T0 + 2 * HOUR) == ["flaky"]
    facts = (await facts_of(lists, T0 + 2 * HOUR, job))[job.id]
    assert facts.retrying is not None
    assert (facts.retrying.run_id, facts.retrying.attempt, facts.retrying.is_running) == (run.id, 2, True)
    assert facts.retry_error == "HTTP 503"

    await finish(store, [again], now=T0 + 2 * HOUR)
    assert await names(lists, Attention.RETRYING, T0 + 2 * HOUR) == []


async def test_the_run_with_the_next_attempt_is_shown_of_several_that_retry(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, "flaky", count=2, overlap="allow")
    first, second = await claim(store, free=2)
    await finish(store, [second], Failed("HTTP 503"), now=T0 + HOUR + MINUTE)
    await finish(store, [first], Failed("HTTP 503"), now=T0 + HOUR)

    facts = (await facts_of(lists, T0 + HOUR, job))[job.id]

    assert facts.retrying is not None
    assert facts.retrying.run_id == first.id
    assert (await lists.attention_counts(T0 + HOUR)).retrying == 1


@pytest.mark.parametrize("reason", list(SkipReason))
async def test_a_job_loses_times_for_a_day_by_what_nobody_asked_for(
    control: ControlStore, lists: ListStore, database: Database, reason: SkipReason
) -> None:
    job = await add_job(control, "loser")
    await add_job(control, "calm")
    await lose(database, job, T0 + 30 * MINUTE, reason)

    expected = ["loser"] if reason not in (SkipReason.PAUSED, SkipReason.EDITED) else []
    day_after = T0 + 30 * MINUTE + DAY
    assert await names(lists, Attention.LOSING, T0 + HOUR) == expected
    assert await names(lists, Attention.LOSING, day_after) == expected
    assert await names(lists, Attention.LOSING, day_after + SECOND) == []


async def test_each_losing_job_is_found_once_whenever_in_the_day_it_lost_times(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    now = T0 + 2 * DAY + 20 * MINUTE
    for number in range(12):
        job = await add_job(control, f"job-{number:02}")
        for hours in (number, 2 * number):
            await lose(database, job, now - hours * HOUR)

    assert await names(lists, Attention.LOSING, now, 50) == [f"job-{number:02}" for number in range(12)]
    assert (await lists.attention_counts(now)).losing == 12


async def test_a_job_is_late_while_a_run_waits_past_its_limit(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, "slow", late_after=10 * MINUTE)
    await a_waiting_job(store, control, "patient", late_after=DAY)

    assert await names(lists, Attention.LATE, T0 + 10 * MINUTE) == []
    assert await names(lists, Attention.LATE, T0 + 10 * MINUTE + SECOND) == ["slow"]
    sets = await lists.attention_sets(T0 + HOUR, [Attention.LATE])
    assert list(sets.late.values()) == [T0]
    await run_and_finish(store, count=2)
    assert await names(lists, Attention.LATE, T0 + HOUR) == []


async def test_paused_and_due_jobs_are_found(control: ControlStore, lists: ListStore) -> None:
    held = await add_job(control, "held")
    await add_job(control, "soon")
    await add_job(control, "later", schedule="0 20 * * *")
    await control.pause_job(held.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)

    assert await names(lists, Attention.PAUSED, T0) == ["held"]
    assert await names(lists, Attention.DUE, T0) == ["soon"]
    assert await names(lists, Attention.DUE, T0 + 12 * HOUR) == ["later", "soon"]


@pytest.mark.parametrize("attention", list(Attention))
async def test_a_deleted_job_needs_no_attention(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database, attention: Attention
) -> None:
    job = await a_waiting_job(store, control, count=2)
    await fail(store)
    await lose(database, job, T0)
    await control.delete_job(job.id, Actor(BY, T0 + HOUR))

    assert await names(lists, attention, T0 + HOUR) == []
    counts = await lists.attention_counts(T0 + HOUR)
    assert counts == AttentionCounts(failing=0, retrying=0, losing=0, late=0, due_within_hour=0, at_least=[])


async def test_each_job_is_in_the_group_of_its_first_reason_by_name(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    now = T0 + HOUR
    await a_waiting_job(store, control, "bad", count=2)
    await fail(store)
    await a_waiting_job(store, control, "flaky", lane="b")
    await finish(store, await claim(store, lane="b"), Failed("HTTP 503"))
    loser = await add_job(control, "loser")
    await a_waiting_job(store, control, "slow")
    held = [await add_job(control, name) for name in ("held-b", "held-a", "held-loser")]
    await add_job(control, "calm")
    for job in held:
        await control.pause_job(job.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    for job in (loser, held[2]):
        await lose(database, job, T0)

    sets = await lists.attention_sets(now, GROUPS)
    found = []
    for group in GROUPS:
        views = await lists.chosen_jobs(JobQuery(), sets, 10, groups=[group])
        found.append([view.job.definition.name for view in views])

    assert found == [["bad"], ["flaky"], ["held-loser", "loser"], ["slow"], ["held-a", "held-b"], ["calm"]]
    after = ListPosition("held-a", UUID(int=0))
    [last] = await lists.chosen_jobs(JobQuery(), sets, 10, after, groups=[Attention.PAUSED])
    assert last.job.definition.name == "held-b"


async def test_facts_of_a_job_are_its_last_end_its_losses_and_its_durations(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await a_waiting_job(store, control, count=4)
    for minutes in (1, 3):
        begun = T0 + HOUR
        await finish(store, await claim(store), now=begun + minutes * MINUTE, begun_at=begun)
    await fail(store, now=T0 + HOUR)
    await lose(database, job, T0, "overlap", 3)
    await lose(database, job, T0 + HOUR, "missed")
    await lose(database, job, T0 - DAY, "missed")

    facts = (await facts_of(lists, T0 + HOUR, job))[job.id]
    assert (facts.last_state, facts.last_error, facts.paused_at) == ("failed", "HTTP 503", None)
    assert facts.lost == {SkipReason.OVERLAP: 3, SkipReason.MISSED: 1}
    assert sorted(facts.durations) == [MINUTE, 3 * MINUTE]


async def test_a_paused_job_keeps_the_start_of_its_pause_when_it_is_edited(
    control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control)
    await control.pause_job(job.id, Actor(BY, T0 + HOUR), note="", until=None, cancel_waiting=False)

    await control.edit_job(job.id, lambda job: changed(job, description="new"), Actor(BY, T0 + 2 * HOUR))

    view = await lists.job(job.id)
    assert view is not None
    assert (await facts_of(lists, T0 + DAY, view.job))[job.id].paused_at == T0 + HOUR


async def test_a_streak_counts_the_failures_since_the_last_success(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, count=6)
    other = await a_waiting_job(store, control, "never", lane="b")
    await fail(store)
    await run_and_finish(store)
    await fail(store, count=3)

    facts = await facts_of(lists, T0 + HOUR, job, other)
    assert {job_id: each.streak for job_id, each in facts.items()} == {job.id: 3, other.id: 0}
    assert await facts_of(lists, T0 + HOUR) == {}


async def test_the_rows_of_a_window_are_the_oldest_of_each_job(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await a_waiting_job(store, control, count=5)
    other = await a_waiting_job(store, control, "other", lane="b")
    await fail(store)
    for minutes in (-1, 1, 2, 9):
        await lose(database, job, T0 + minutes * MINUTE)

    sets = await lists.attention_sets(T0, [])
    rows = await lists.timeline_rows([job, other], sets, Window.of(T0 + SECOND, T0 + 4 * SECOND), 2)
    assert [run.scheduled_at - T0 for run in rows.runs[job.id]] == [SECOND, 2 * SECOND]
    assert other.id not in rows.runs
    whole = await lists.timeline_rows([job, other], sets, Window.of(T0, T0 + 5 * MINUTE), 100)
    assert (len(whole.runs[job.id]), len(whole.runs[other.id])) == (5, 1)
    first = whole.runs[job.id][0]
    assert (first.state, first.error, first.late_after) == (RunState.FAILED, "HTTP 503", 5 * MINUTE)
    assert [skip.last_at - T0 for skip in whole.skips[job.id]] == [MINUTE, 2 * MINUTE]


async def test_runs_are_counted_by_bucket_and_fate(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    job = await a_waiting_job(store, control, count=25)
    await fail(store, count=2, now=T0 + MINUTE)
    await run_and_finish(store, count=20, now=T0 + MINUTE)
    window = Window(T0 + 5 * SECOND, T0 + 24 * SECOND, 10 * SECOND)

    found = (await lists.timeline_buckets({job.id: 45 * SECOND}, window))[job.id]
    assert not found.is_sampled
    assert sorted(found.counts, key=lambda count: (count.at, count.state, count.is_late)) == [
        RunCount(T0, RunState.SUCCEEDED, True, 5),
        RunCount(T0 + 10 * SECOND, RunState.SUCCEEDED, False, 5),
        RunCount(T0 + 10 * SECOND, RunState.SUCCEEDED, True, 5),
        RunCount(T0 + 20 * SECOND, RunState.PENDING, False, 2),
        RunCount(T0 + 20 * SECOND, RunState.SUCCEEDED, False, 2),
    ]
    assert await lists.timeline_buckets({}, window) == {}


async def test_the_oldest_ready_run_that_may_begin_leads_its_lane(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    busy = await add_job(control, "busy", overlap="queue_all")
    await put_runs(store, busy, [new_run(busy, number) for number in range(2)])
    assert [(head.lane, head.ready_at) for head in await lists.ready_heads(T0 + HOUR)] == [("task:a", T0)]
    await claim(store)

    assert await lists.ready_heads(T0 + HOUR) == []
    await a_waiting_job(store, control, "free", count=1)
    assert [(head.lane, head.ready_at) for head in await lists.ready_heads(T0 + HOUR)] == [("task:a", T0)]
    assert await lists.ready_heads(T0 - SECOND) == []


async def test_more_jobs_than_are_chosen_by_key_are_found_by_name(
    store: EngineStore, control: ControlStore, lists: ListStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hourbell.store.lists.timeline_reader.MAX_CHOSEN_JOBS", 2)
    for name in "abcd":
        await a_waiting_job(store, control, name)
    await fail(store, count=3)

    sets = await lists.attention_sets(T0 + HOUR, GROUPS)
    assert sets.failing is None
    failing = await names(lists, Attention.FAILING, T0 + HOUR)
    [rest] = [name for name in "abcd" if name not in failing]
    assert len(failing) == 3
    for group, expected in ((Attention.FAILING, failing), (Attention.LATE, [rest]), (None, [])):
        views = await lists.chosen_jobs(JobQuery(), sets, 10, groups=[group])
        assert [view.job.definition.name for view in views] == expected


async def test_the_planner_is_due_at_the_oldest_time(control: ControlStore, lists: ListStore) -> None:
    assert await lists.oldest_due_at() is None
    await add_job(control, "soon", schedule="30 9 * * *")
    await add_job(control, "later", schedule="0 20 * * *")

    assert await lists.oldest_due_at() == T0 + timedelta(minutes=30)
