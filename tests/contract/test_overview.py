"""Overviews for users: counts, live nodes, audit entries, and changes."""

from uuid import UUID, uuid4

import pytest

from hourbell.core.run.settle import Failed
from hourbell.core.run.states import RunState
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor, Request
from hourbell.store.control.bundles import JobEntry
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import ChangedJob, ChangedRun, ChangeMark, Changes, Overview
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    T0,
    a_job,
    a_node,
    a_waiting_job,
    add_job,
    changed,
    claim,
    finish,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
PERMANENT = Failed("no", retryable=False)


async def test_an_empty_database_has_nothing(lists: ListStore) -> None:
    assert await lists.overview(T0) == Overview(0, 0, 0, 0, 0, 0, {})


async def test_the_overview_counts_jobs_without_the_deleted(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    jobs = [await add_job(control, f"job-{number}") for number in range(5)]
    await control.pause_job(jobs[0].id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    await database.sql(f"update hourbell.jobs set error = 'odd' where id = '{jobs[1].id}'")
    await control.delete_job(jobs[2].id, Actor(BY, T0))

    overview = await lists.overview(T0)
    assert (overview.jobs, overview.paused, overview.in_error) == (4, 1, 1)


async def test_the_overview_counts_runs_by_what_becomes_of_them(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, count=8)
    await run_and_finish(store, count=2)
    failed = await claim(store, free=2)
    await finish(store, failed, PERMANENT)
    await control.discard_run(failed[0].id, Actor(BY, T0 + HOUR))
    await claim(store)

    overview = await lists.overview(T0)
    assert (overview.waiting, overview.running, overview.dead_letters) == (3, 1, 1)
    assert overview.ended == {RunState.SUCCEEDED: 2, RunState.FAILED: 2}


async def test_the_overview_counts_what_ended_since_then(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, count=3)
    for hours in (1, 2, 3):
        await run_and_finish(store, now=T0 + hours * HOUR)

    assert (await lists.overview(T0 + 2 * HOUR)).ended == {RunState.SUCCEEDED: 2}


async def test_jobs_with_the_same_times_are_one_group(control: ControlStore, lists: ListStore) -> None:
    for number in range(3):
        await add_job(control, f"hourly-{number}", schedule="0 * * * *")
    await add_job(control, "elsewhere", schedule="0 * * * *", timezone="Europe/Berlin")
    await add_job(control, "ending", schedule="0 * * * *", ends_at=T0 + DAY)

    groups, left_out = await lists.schedules(2)
    found = [(group.definition.name, group.definition.schedule, group.jobs) for group in groups]
    assert found == [("hourly-0", "0 * * * *", 3), ("elsewhere", "0 * * * *", 1)]
    assert left_out == 1


async def test_a_schedule_spread_by_name_is_a_group_of_its_own(control: ControlStore, lists: ListStore) -> None:
    for schedule in ("H * * * *", "@hourly"):
        for number in range(2):
            await add_job(control, f"{schedule[-1]}{number}".replace("*", "h"), schedule=schedule)

    groups, left_out = await lists.schedules(10)
    assert ([(group.definition.schedule, group.jobs) for group in groups], left_out) == (
        [("@hourly", 2), ("H * * * *", 1), ("H * * * *", 1)],
        0,
    )


async def test_jobs_that_will_not_fire_are_in_no_group(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    paused, broken, deleted = [await add_job(control, name) for name in ("paused", "broken", "deleted")]
    await add_job(control, "over", ends_at=T0)
    await control.pause_job(paused.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    await database.sql(f"update hourbell.jobs set error = 'odd' where id = '{broken.id}'")
    await control.delete_job(deleted.id, Actor(BY, T0))

    assert await lists.schedules(10) == ([], 0)


async def test_nodes_are_listed_with_what_they_hold(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, count=3)
    for node, now in ((NODE, T0), (OTHER_NODE, T0 + MINUTE), (UUID(int=3), T0 - DAY)):
        await store.heartbeat(a_node("task:a", node=node), now, now + MINUTE, [])
    await claim(store, node=OTHER_NODE, free=2)

    nodes = await lists.nodes(T0)
    assert [(node.id, node.running, node.beat_at) for node in nodes] == [(NODE, 0, T0), (OTHER_NODE, 2, T0 + MINUTE)]
    assert (nodes[0].host, nodes[0].lanes, nodes[0].tzdata) == ("here", ("task:a",), "2026a")


async def test_the_audit_is_listed_newest_first_in_pages(control: ControlStore, lists: ListStore) -> None:
    for number in range(3):
        await add_job(control, f"job-{number}")

    first = await lists.audit(2)
    rest = await lists.audit(2, before=first[-1].id)
    names = [row.after["name"] for row in [*first, *rest] if isinstance(row.after, dict)]
    assert names == ["job-2", "job-1", "job-0"]


async def test_the_audit_of_a_subject_leaves_out_the_others(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)
    await add_job(control, "other")
    call = Request("request-1", UUID(int=5), "192.0.2.1")
    await control.delete_job(job.id, Actor(BY, T0 + HOUR, call))

    deleted, created = await lists.audit(10, subject=str(job.id))
    assert (deleted.action, deleted.at, deleted.actor, deleted.after) == ("job.delete", T0 + HOUR, BY, None)
    assert (deleted.token_id, deleted.ip, deleted.request_id) == (UUID(int=5), "192.0.2.1", "request-1")
    assert (created.action, created.before, created.token_id) == ("job.create", None, None)
    assert await lists.audit(10, before=created.id, subject=str(job.id)) == []


async def test_without_a_mark_changes_return_only_the_starting_position(
    control: ControlStore, lists: ListStore
) -> None:
    empty = await lists.changes(None, T0, 10)
    await add_job(control)

    assert empty == Changes((), (), True, ChangeMark(T0, 0))
    begun = await lists.changes(None, T0 + HOUR, 10)
    assert (begun.jobs, begun.mark.at, begun.mark.audit_id > 0) == ((), T0 + HOUR, True)


async def test_jobs_made_edited_and_deleted_are_changes_once(control: ControlStore, lists: ListStore) -> None:
    _, edited, deleted = [await add_job(control, name) for name in ("old", "edited", "deleted")]
    mark = (await lists.changes(None, T0, 10)).mark
    made = await add_job(control, "made", now=T0 + SECOND)
    for text in ("one", "two"):
        await control.edit_job(edited.id, lambda job, text=text: changed(job, description=text), Actor(BY, T0 + SECOND))  # type: ignore[misc]
    await control.delete_job(deleted.id, Actor(BY, T0 + SECOND))

    changes = await lists.changes(mark, T0 + MINUTE, 10)
    expected = {ChangedJob(made.id, 1), ChangedJob(edited.id, 3), ChangedJob(deleted.id, None)}
    assert (set(changes.jobs), len(changes.jobs), changes.is_whole) == (expected, 3, True)
    later = await lists.changes(changes.mark, T0 + HOUR, 10)
    assert (later.jobs, later.runs, later.is_whole) == ([], [], True)


async def test_runs_that_began_or_ended_are_changes(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, count=4)
    await run_and_finish(store, now=T0 + MINUTE)
    await claim(store, now=T0 + MINUTE)
    mark = (await lists.changes(None, T0 + MINUTE, 10)).mark
    [ended] = await run_and_finish(store, now=T0 + HOUR)
    [begun] = await claim(store, now=T0 + HOUR)

    changes = await lists.changes(mark, T0 + DAY, 10)
    assert changes.runs == [
        ChangedRun(ended.id, job.id, RunState.SUCCEEDED),
        ChangedRun(begun.id, job.id, RunState.RUNNING),
    ]


async def test_more_changes_than_fit_are_not_the_whole(control: ControlStore, lists: ListStore) -> None:
    mark = (await lists.changes(None, T0 - SECOND, 10)).mark
    for number in range(3):
        await add_job(control, f"job-{number}")

    cut, whole = await lists.changes(mark, T0, 2), await lists.changes(mark, T0, 3)
    assert (len(cut.jobs), cut.is_whole) == (2, False)
    assert (len(whole.jobs), whole.is_whole) == (3, True)


async def test_jobs_that_an_import_pruned_are_not_named_so_that_is_not_the_whole(
    control: ControlStore, lists: ListStore
) -> None:
    import_id = uuid4()
    entries = [JobEntry(a_job(name, managed_by="file", source="x"), uuid4()) for name in ("a", "b")]
    await control.import_jobs(entries, Actor(BY, T0))
    mark = (await lists.changes(None, T0, 10)).mark
    await control.import_jobs(entries[:1], Actor(BY, T0), import_id=import_id)
    await control.prune_jobs(import_id, "file", "x", Actor(BY, T0), limit=10)

    assert not (await lists.changes(mark, T0 + MINUTE, 10)).is_whole
