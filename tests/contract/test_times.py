"""The scheduled times of jobs are listed with their runs and skips, each by its own time and in pages that meet."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.fates import Fate
from hourbell.core.run.plan import Plan, Skip
from hourbell.core.run.settle import Failed
from hourbell.core.run.states import RunState, SkipReason
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import ListPosition, RunList, RunQuery
from hourbell.store.lists.reader import ListStore
from hourbell.store.lists.times import RunTime, SkipTime
from tests.contract.steps import BY, HOUR, MINUTE, PASS, SECOND, T0, add_job, claim, finish, new_run, put_runs
from tests.database import Database

pytestmark = pytest.mark.anyio
END = T0 + HOUR
SKIPS = [
    Skip(T0 + 20 * SECOND, T0 + 25 * SECOND, 6, SkipReason.MISSED),
    Skip(T0 + 30 * SECOND, T0 + 30 * SECOND, 1, SkipReason.OVERLAP),
    Skip(T0 + 40 * SECOND, T0 + 49 * SECOND, 10, SkipReason.PAUSED),
]


async def a_mixture(store: EngineStore, control: ControlStore, name: str = "a") -> Job:
    """A job with runs of every state in the first twelve seconds, and skips after them."""
    job = await add_job(control, name, lane=name, late_after=5 * MINUTE)
    await put_all(store, job, [new_run(job, number) for number in range(12)], SKIPS)
    in_time, late = await claim(store, lane=name), await claim(store, lane=name)
    await finish(store, in_time, now=END, begun_at=T0 + 2 * MINUTE)
    await finish(store, late, now=END, begun_at=T0 + 6 * MINUTE)
    await finish(store, await claim(store, lane=name, free=2), Failed("no such host", retryable=False), now=END)
    await finish(store, await claim(store, lane=name), Failed("later"), now=END)
    await claim(store, lane=name, free=2)
    await control.cancel_run(new_run(job, 11).id, Actor(BY, END))
    return job


async def put_all(store: EngineStore, job: Job, runs: list[Any], skips: list[Skip]) -> None:
    def decide(due: Job, _: datetime) -> Plan:
        if due.id != job.id:
            return Plan(due, due.cursor_at, due.next_at, due.plan_at)
        return Plan(due, due.cursor_at, None, None, runs=tuple(runs), skips=tuple(skips))

    assert job.plan_at is not None
    await store.plan_due(job.plan_at, PASS, decide)


async def all_runs(lists: ListStore, job: Job, size: int, **window: Any) -> list[RunTime]:
    found: list[RunTime] = []
    while page := await lists.run_times(
        job.id, size, after=ListPosition(found[-1].scheduled_at, found[-1].id) if found else None, **window
    ):
        assert len(page) <= size
        found += page
    return found


async def all_skips(lists: ListStore, job: Job, size: int, **window: Any) -> list[SkipTime]:
    found: list[SkipTime] = []
    while page := await lists.skip_times(
        job.id, size, before=(found[-1].last_at, found[-1].id) if found else None, **window
    ):
        assert len(page) <= size
        found += page
    return found


@pytest.mark.parametrize("size", [1, 5, 50])
@pytest.mark.parametrize(
    "window",
    [{}, {"since": T0 + 3 * SECOND}, {"until": T0 + 9 * SECOND}, {"since": T0 + SECOND, "until": T0 + 2 * SECOND}],
)
async def test_runs_of_a_job_are_listed_by_scheduled_time_newest_first(
    store: EngineStore, control: ControlStore, lists: ListStore, size: int, window: dict[str, Any]
) -> None:
    job, _ = await a_mixture(store, control), await a_mixture(store, control, "b")

    found = await all_runs(lists, job, size, **window)

    since, until = window.get("since", T0), window.get("until", END)
    numbers = [number for number in reversed(range(12)) if since <= T0 + number * SECOND < until]
    assert [run.id for run in found] == [new_run(job, number).id for number in numbers]


@pytest.mark.parametrize(
    "states",
    [
        {RunState.FAILED},
        {RunState.CANCELLED},
        {RunState.FAILED, RunState.CANCELLED},
        {RunState.RUNNING},
        {RunState.PENDING, RunState.RETRYING},
        {RunState.PENDING, RunState.RUNNING, RunState.FAILED},
    ],
)
async def test_runs_of_a_job_are_listed_by_states(
    store: EngineStore, control: ControlStore, lists: ListStore, states: Collection[RunState]
) -> None:
    job = await a_mixture(store, control)
    every = await all_runs(lists, job, 50)

    found = await all_runs(lists, job, 2, states=states)

    assert found == [run for run in every if run.state in states]
    assert {run.state for run in found} == set(states)


async def test_a_run_has_its_fate_its_lateness_and_the_error_of_its_last_attempt(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_mixture(store, control)

    found = {run.id: run for run in await all_runs(lists, job, 50)}

    fates = [found[new_run(job, number).id].fate for number in range(12)]
    assert fates[:4] == [Fate.SUCCEEDED, Fate.LATE, Fate.FAILED, Fate.FAILED]
    assert sorted(fates[4:]) == sorted([Fate.WAITING, Fate.RUNNING, Fate.RUNNING, *[Fate.WAITING] * 4, Fate.CANCELLED])
    late, failed = found[new_run(job, 1).id], found[new_run(job, 2).id]
    assert (late.lateness, late.duration, late.is_late) == (6 * MINUTE - SECOND, 54 * MINUTE, True)
    assert (failed.error, failed.reason, failed.attempt) == ("no such host", "permanent", 1)
    assert (late.late_after, late.local_at) == (5 * MINUTE, (T0 + SECOND).replace(tzinfo=None))


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize(
    ("window", "reasons"),
    [
        ({}, ["paused", "overlap", "missed"]),
        ({"since": T0 + 26 * SECOND}, ["paused", "overlap"]),
        ({"since": T0 + 25 * SECOND, "until": T0 + 31 * SECOND}, ["overlap", "missed"]),
        ({"until": T0 + 41 * SECOND}, ["paused", "overlap", "missed"]),  # it begins before that
        ({"until": T0 + 40 * SECOND}, ["overlap", "missed"]),
        ({"since": T0 + 42 * SECOND, "until": T0 + 43 * SECOND}, ["paused"]),  # it covers the window
        ({"since": T0 + 26 * SECOND, "until": T0 + 29 * SECOND}, []),
    ],
)
async def test_skips_with_times_in_a_window_are_listed_newest_first(
    store: EngineStore,
    control: ControlStore,
    lists: ListStore,
    size: int,
    window: dict[str, Any],
    reasons: list[str],
) -> None:
    job, _ = await a_mixture(store, control), await a_mixture(store, control, "b")

    found = await all_skips(lists, job, size, **window)

    assert [skip.reason for skip in found] == reasons
    assert [(skip.first_at, skip.count) for skip in found if skip.reason == "missed"] == [
        (T0 + 20 * SECOND, 6) for reason in reasons if reason == "missed"
    ]


async def test_the_newest_times_of_several_jobs_are_read_together(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    jobs = [await a_mixture(store, control, name) for name in ("a", "b")]
    idle = await add_job(control, "idle")

    found = await lists.recent_times([*(job.id for job in jobs), idle.id, UUID(int=5)], 3)

    assert list(found) == [*(job.id for job in jobs), idle.id, UUID(int=5)]
    for job in jobs:
        newest = await lists.run_times(job.id, 3)
        plain = [replace(run, reason=None, local_at=None, error=None) for run in newest]
        assert (list(found[job.id].runs), list(found[job.id].skips)) == (plain, await lists.skip_times(job.id, 3))
        assert (await lists.recent_runs([job.id], 2))[job.id] == plain[:2]
    assert (found[idle.id].runs, found[idle.id].skips) == ((), ())
    assert await lists.recent_times([], 3) == {}


async def test_the_newest_ended_runs_are_listed(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    job = await a_mixture(store, control)

    found = await lists.ended_times(job.id, 3)

    assert [run.id for run in found] == [new_run(job, number).id for number in (11, 3, 2)]


async def test_versions_are_known_by_the_time_of_their_change(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job)])
    later = replace(job.definition, description="new")
    await control.edit_job(job.id, lambda _: later, Actor(BY, T0 + HOUR))

    assert await lists.version_times(job.id) == [(2, T0 + HOUR), (1, T0)]


async def test_a_version_whose_late_after_cannot_be_read_has_no_late_runs(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await a_mixture(store, control)
    await database.sql("""update hourbell.job_versions set definition = '{"late_after": "soon"}'""")

    found = await all_runs(lists, job, 50)

    assert {run.fate for run in found} >= {Fate.SUCCEEDED, Fate.FAILED}
    assert Fate.LATE not in {run.fate for run in found}


async def test_failed_runs_are_listed_with_their_errors_in_pages_that_meet(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job, _ = await a_mixture(store, control), await a_mixture(store, control, "b")
    await control.discard_run(new_run(job, 2).id, Actor(BY, END))
    query = RunQuery(RunList.ENDED, RunState.FAILED)

    every = await lists.failed_runs(query, 50)
    of_job = await lists.failed_runs(RunQuery(RunList.OF_JOB, RunState.FAILED, job.id), 50)

    assert [run.job_name for run in every].count("b") == 2
    assert {(run.error, run.reason) for run in every} == {("no such host", "permanent")}
    assert [run.id for run in every if run.job_id == job.id] == [new_run(job, 3).id]
    assert [(run.id, run.cleared_at) for run in of_job] == [(new_run(job, 3).id, None), (new_run(job, 2).id, END)]
    rest = await lists.failed_runs(query, 50, ListPosition(every[0].finished_at, every[0].id))
    assert rest == every[1:]


async def test_runs_and_skips_are_counted_by_local_day(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_mixture(store, control)
    offset = 15 * HOUR - 10 * SECOND  # local midnight is ten seconds after T0
    day = (T0 - datetime(1970, 1, 1, tzinfo=UTC)).days

    runs = await lists.run_days(job.id, T0, END, offset, 50)
    newest = await lists.run_days(job.id, T0, END, offset, 3)
    skips = await lists.skip_days(job.id, T0, END, offset + 10 * SECOND - 44 * SECOND, 50)

    assert sum(each.runs for each in runs if each.day == day) == 10
    assert {(each.state, each.is_late): each.runs for each in runs if each.day == day + 1} == {
        (RunState.PENDING, False): 1,
        (RunState.CANCELLED, False): 1,
    }
    assert [each.runs for each in runs if each.is_late and each.state is RunState.SUCCEEDED] == [1]
    assert sum(each.runs for each in newest) == 3
    by_day = {(each.first_day - day, each.day - day): (each.count, each.records) for each in skips}
    assert by_day == {(0, 0): (7, 2), (0, 1): (10, 1)}
