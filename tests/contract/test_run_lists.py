"""Runs are listed by state, by job and by time, each list in its own order, in pages that meet."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.policies import Overlap
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.core.run.states import ENDS, WAITING, RunState
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import ListPosition, RunList, RunQuery, RunView
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import (
    BY,
    HOUR,
    MINUTE,
    NODE,
    SECOND,
    T0,
    a_waiting_job,
    add_job,
    claim,
    finish,
    new_run,
    put_runs,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
END = T0 + HOUR
PERMANENT = Failed("no", retryable=False)
KEYS: dict[RunList, Callable[[Any], Any]] = {
    RunList.RUNNING: lambda row: row["scheduled_at"],
    RunList.WAITING: lambda row: row["expires_at"],
    RunList.ENDED: lambda row: row["finished_at"],
    RunList.OF_JOB: lambda row: row["scheduled_at"],
    RunList.OF_SUBJECT: lambda row: row["scheduled_at"],
}
SUBJECT = "customer 17"


def belongs(row: Any, query: RunQuery) -> bool:
    """Return True if a row of `runs` belongs to the list."""
    state = RunState(row["state"])
    of_list = {
        RunList.RUNNING: state is RunState.RUNNING,
        RunList.WAITING: state in WAITING,
        RunList.ENDED: state in ENDS,
        RunList.OF_JOB: row["job_id"] == query.job_id,
        RunList.OF_SUBJECT: True,
    }
    is_cleared = query.runs is RunList.ENDED and query.state is RunState.FAILED and row["cleared_at"] is not None
    shown_at = row["finished_at"] or row["scheduled_at"]
    return (
        of_list[query.runs]
        and not is_cleared
        and query.state in (None, state)
        and (query.since is None or shown_at >= query.since)
        and (query.until is None or shown_at < query.until)
    )


async def walked(lists: ListStore, query: RunQuery, size: int = 3) -> list[UUID]:
    found: list[RunView] = []
    while page := await lists.runs(query, size, position_of(query, found[-1]) if found else None):
        assert len(page) <= size
        found += page
    return [view.id for view in found]


def position_of(query: RunQuery, view: RunView) -> ListPosition:
    return ListPosition(
        KEYS[query.runs](
            {"scheduled_at": view.scheduled_at, "expires_at": view.expires_at, "finished_at": view.finished_at}
        ),
        view.id,
    )


async def a_mixture(store: EngineStore, control: ControlStore) -> list[Job]:
    """Two jobs of a subject with runs in every state, at the same instants, several of which ended at one moment."""
    jobs = []
    for name in ("a", "b"):
        job = await add_job(control, name, lane=name, subject=SUBJECT)
        await put_runs(store, job, [new_run(job, number) for number in range(14)])
        for count, outcome, after in ENDINGS:
            taken = await claim(store, lane=name, free=count)
            await finish(store, taken, outcome, now=END + after)
        await claim(store, lane=name, free=2)
        await control.cancel_run(new_run(job, 13).id, Actor(BY, END))  # it was not claimed
        jobs.append(job)
    return jobs


ENDINGS: list[tuple[int, Outcome, timedelta]] = [
    (3, Succeeded(), MINUTE),
    (2, PERMANENT, MINUTE),
    (1, PERMANENT, 2 * MINUTE),
    (2, Failed("later"), MINUTE),
    (1, Succeeded(), 3 * MINUTE),
]


QUERIES = [
    *(RunQuery(RunList.RUNNING, state=state) for state in (None, RunState.RUNNING)),
    *(RunQuery(RunList.WAITING, state=state) for state in (None, *sorted(WAITING))),
    *(RunQuery(RunList.ENDED, state=state) for state in (None, *sorted(ENDS))),
    *(RunQuery(RunList.OF_JOB, state=state) for state in (None, *RunState)),
    *(RunQuery(RunList.OF_SUBJECT, state=state, subject=SUBJECT) for state in (None, *RunState)),
]
WINDOWS = [{}, {"since": END + MINUTE}, {"until": END + 2 * MINUTE}, {"since": T0 + SECOND, "until": END + MINUTE}]


@pytest.mark.parametrize("window", WINDOWS)
async def test_every_list_has_what_belongs_to_it_in_its_order(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database, window: dict[str, Any]
) -> None:
    jobs = await a_mixture(store, control)
    [cleared, *_] = [row["id"] for row in await database.rows("runs") if row["state"] == "failed"]
    await control.discard_run(cleared, Actor(BY, END))
    rows = await database.rows("runs")

    for query in QUERIES:
        job_id = jobs[0].id if query.runs is RunList.OF_JOB else None
        asked = RunQuery(query.runs, query.state, job_id, **window, subject=query.subject)
        is_newest_first = query.runs in (RunList.ENDED, RunList.OF_JOB, RunList.OF_SUBJECT)
        keys = {row["id"]: KEYS[asked.runs](row) for row in rows if belongs(row, asked)}
        by_id = sorted(keys, key=lambda run_id: (keys[run_id], run_id.bytes), reverse=is_newest_first)
        found = await walked(lists, asked, 1)
        assert await walked(lists, asked, 4) == found, asked
        if asked.runs is RunList.WAITING:  # of those that expire together, who comes first is the database's business
            assert sorted(found, key=by_id.index) == by_id, asked
            assert [keys[run_id] for run_id in found] == sorted(keys.values()), asked
        else:
            assert found == by_id, asked


async def test_the_mixture_has_something_in_every_list(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    jobs = await a_mixture(store, control)

    asked = [replace(query, job_id=jobs[0].id) for query in QUERIES]
    assert min([len(await lists.runs(query, 100)) for query in asked]) > 0


async def test_runs_of_a_subject_are_those_of_its_jobs_also_of_deleted_ones(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    jobs = [
        await a_waiting_job(store, control, name, count=3, subject=subject)
        for name, subject in (("a", "x"), ("b", "y"), ("c", "x"), ("d", ""), ("e", "x"))
    ]
    await control.delete_job(jobs[4].id, Actor(BY, T0))

    def ids(*numbers: int) -> set[UUID]:
        return {new_run(jobs[number], count).id for number in numbers for count in range(3)}

    assert set(await walked(lists, RunQuery(RunList.OF_SUBJECT, subject="x"), 2)) == ids(0, 2, 4)
    assert set(await walked(lists, RunQuery(RunList.OF_SUBJECT, subject="y"), 2)) == ids(1)
    for subject in ("", "X", "nobody", "a\0"):
        assert await walked(lists, RunQuery(RunList.OF_SUBJECT, subject=subject)) == []
    assert set(await walked(lists, RunQuery(RunList.OF_JOB, job_id=jobs[0].id, subject="x"))) == ids(0)
    assert await walked(lists, RunQuery(RunList.OF_JOB, job_id=jobs[0].id, subject="y")) == []


async def test_a_busy_job_does_not_hide_the_others_of_its_subject(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    counts = {"quiet": 1, "busy": 20, "usual": 5}
    jobs = [await a_waiting_job(store, control, name, count, subject="x") for name, count in counts.items()]
    runs = [new_run(job, number) for job in jobs for number in range(counts[job.definition.name])]
    newest_first = sorted(runs, key=lambda run: (run.scheduled_at, run.id.bytes), reverse=True)

    for size in (1, 3, 7, 50):
        found = await walked(lists, RunQuery(RunList.OF_SUBJECT, subject="x"), size)
        assert found == [run.id for run in newest_first]


async def test_a_run_is_shown_with_its_job_and_the_version_it_was_planned_with(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control)
    [held] = await claim(store)

    run = await lists.run(held.id)
    assert run is not None
    assert (run.job_name, run.job_version, run.definition) == ("job", 1, job.definition)
    assert (run.state, run.attempt, run.lease_owner) == (RunState.RUNNING, 1, NODE)
    assert (run.local_at, run.lane) == (T0.replace(tzinfo=None), "task:a")
    assert await lists.runs(RunQuery(RunList.RUNNING), 10) == [run]
    assert await lists.run(uuid4()) is None


async def test_a_run_of_a_deleted_job_still_has_its_name(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control)
    await control.delete_job(job.id, Actor(BY, T0))

    [run] = await lists.runs(RunQuery(RunList.ENDED), 10)
    assert (run.job_name, run.state) == ("job", RunState.CANCELLED)


async def test_a_run_with_a_requested_cancellation_shows_it(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control)
    [held] = await claim(store)
    before = await lists.run(held.id)
    await control.cancel_run(held.id, Actor(BY, T0))

    after = await lists.run(held.id)
    assert before is not None
    assert after is not None
    assert (before.is_cancel_requested, after.is_cancel_requested) == (False, True)


@pytest.mark.parametrize(("payload", "has_payload"), [({"n": [1]}, True), (None, False)])
async def test_a_payload_of_null_differs_from_no_payload(
    control: ControlStore, lists: ListStore, payload: object, has_payload: bool
) -> None:
    job = await add_job(control)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0), payload)

    [run] = await lists.runs(RunQuery(RunList.WAITING), 10)
    assert (run.payload, run.has_payload) == (payload, has_payload)


async def test_the_result_of_a_run_is_shown(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    await a_waiting_job(store, control)
    [held] = await claim(store)
    await finish(store, [held], Succeeded({"rows": 3}))

    run = await lists.run(held.id)
    assert run is not None
    assert run.result == {"rows": 3}


async def test_attempts_are_listed_in_order(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    await a_waiting_job(store, control)
    [first] = await claim(store)
    await finish(store, [first], Failed("busy"))
    [second] = await claim(store, now=END + HOUR)
    await finish(store, [second], now=END + HOUR)

    attempts = await lists.attempts(first.id)
    assert [(each.number, each.outcome, each.error, each.node) for each in attempts] == [
        (1, "failed", "busy", NODE),
        (2, "succeeded", None, NODE),
    ]
    assert attempts[0].phases == {}
    assert await lists.attempts(uuid4()) == []


async def test_a_missing_or_invalid_version_leaves_its_run_in_lists(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await a_waiting_job(store, control)
    for change in ("update hourbell.job_versions set definition = '[1]'", "delete from hourbell.job_versions"):
        await database.sql(change)
        [run] = await lists.runs(RunQuery(RunList.WAITING), 10)
        assert (run.job_id, run.definition) == (job.id, None)


async def test_a_run_that_must_not_overlap_names_the_run_it_waits_for(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, count=3, overlap=Overlap.QUEUE_ALL)
    await a_waiting_job(store, control, "free", count=2, lane="b")
    first, second, third = [run.id for run in await lists.runs(RunQuery(RunList.WAITING), 10) if run.job_name == "job"]

    async def blocked() -> dict[UUID, UUID | None]:
        listed = {run.id: run.blocked_by for run in await lists.runs(RunQuery(RunList.WAITING), 10)}
        stuck = {run.id: run.blocked_by for run in await lists.stuck_runs(END, 10)}
        alone = [await lists.run(run_id) for run_id in listed]
        assert listed == stuck == {run.id: run.blocked_by for run in alone if run is not None}
        return {run_id: by for run_id, by in listed.items() if run_id in (first, second, third) or by is not None}

    assert await blocked() == {first: None, second: first, third: first}
    [running] = await claim(store)
    assert (running.id, await blocked()) == (first, {second: first, third: first})
    await finish(store, [running])
    assert await blocked() == {second: None, third: second}
