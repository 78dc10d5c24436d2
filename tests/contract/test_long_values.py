"""Lists leave out payloads, results, targets and audit diffs that are long, and say so; the single object has them."""

from collections.abc import Mapping
from uuid import uuid4

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.settle import Succeeded
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import MAX_LISTED_BYTES, JobQuery, JobSort, RunList, RunQuery, RunView
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import BY, DAY, HOUR, MINUTE, T0, a_waiting_job, add_job, changed, claim, finish

pytestmark = pytest.mark.anyio
LONG = {"text": "x" * MAX_LISTED_BYTES}
SHORT = {"text": "y" * (MAX_LISTED_BYTES - 100)}
HOOK = "https://example.com/hook"


async def listed_run(lists: ListStore, job: Job) -> RunView:
    [found] = await lists.runs(RunQuery(RunList.OF_JOB, job_id=job.id), 10)
    return found


async def run_alone(lists: ListStore, run: RunView) -> RunView:
    found = await lists.run(run.id)
    assert found is not None
    return found


@pytest.mark.parametrize("sort", [JobSort.NAME, JobSort.NEXT])
async def test_a_long_payload_of_a_job_is_left_out_of_lists(
    control: ControlStore, lists: ListStore, sort: JobSort
) -> None:
    await add_job(control, "long", payload=LONG)
    await add_job(control, "short", payload=SHORT)
    await add_job(control, "without")

    found = {view.job.definition.name: view for view in await lists.jobs(JobQuery(sort), 10)}
    assert [found[name].omitted for name in ("long", "short", "without")] == [("payload",), (), ()]
    assert [found[name].job.definition.payload for name in ("long", "short", "without")] == [None, SHORT, None]
    alone = await lists.job("long")
    assert alone is not None
    assert (alone.job.definition.payload, alone.omitted) == (LONG, ())


@pytest.mark.parametrize("member", [{"body": LONG}, {"headers": {"X-Long": "x" * MAX_LISTED_BYTES}}])
async def test_a_long_target_is_listed_by_its_short_members(
    control: ControlStore, lists: ListStore, member: Mapping[str, object]
) -> None:
    target = {"type": "http", "url": HOOK, **member}
    await control.create_job(Definition("long", "* * * * *", target, payload={"days": 30}), uuid4(), Actor(BY, T0))

    [found] = await lists.jobs(JobQuery(), 10)
    assert (found.job.definition.target, found.omitted) == ({"type": "http", "url": HOOK}, ("target",))
    assert found.job.definition.payload == {"days": 30}
    alone = await lists.job("long")
    assert alone is not None
    assert (alone.job.definition.target, alone.omitted) == (target, ())


async def test_runs_are_listed_without_the_long_payload_of_their_version(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, payload=LONG, description="kept")

    run = await listed_run(lists, job)
    assert run.definition is not None
    assert (run.omitted, run.has_payload, run.definition.payload) == (("payload",), False, None)
    assert (run.definition.schedule, run.definition.description) == (job.definition.schedule, "kept")
    alone = await run_alone(lists, run)
    assert alone.definition is not None
    assert (alone.omitted, alone.definition.payload) == ((), LONG)


async def test_a_long_definition_with_a_short_payload_shows_it_in_the_list_of_runs(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await a_waiting_job(store, control, payload=SHORT, description="d" * MAX_LISTED_BYTES)

    run = await listed_run(lists, job)
    assert run.definition is not None
    assert (run.omitted, run.definition.payload, run.definition.description) == ((), SHORT, "d" * MAX_LISTED_BYTES)


@pytest.mark.parametrize("of_job", [None, SHORT, LONG], ids=["no default", "short default", "long default"])
async def test_a_run_lists_its_own_payload_before_that_of_its_job(
    control: ControlStore, lists: ListStore, of_job: object
) -> None:
    job = await add_job(control, payload=of_job)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0), LONG)

    run = await listed_run(lists, job)
    assert (run.omitted, run.payload, run.has_payload) == (("payload",), None, True)
    assert (await run_alone(lists, run)).payload == LONG


async def test_a_short_payload_of_its_own_is_listed_though_the_default_is_long(
    control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control, payload=LONG)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0), SHORT)

    run = await listed_run(lists, job)
    assert (run.omitted, run.payload, run.has_payload) == ((), SHORT, True)


async def test_a_long_result_is_left_out_of_lists(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    job = await a_waiting_job(store, control, count=1)
    await finish(store, await claim(store), Succeeded(result=LONG))

    run = await listed_run(lists, job)
    assert (run.omitted, run.result) == (("result",), None)
    assert (await run_alone(lists, run)).result == LONG


async def test_late_and_stuck_runs_leave_out_long_payloads(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, count=2, payload=LONG)
    stuck = await lists.stuck_runs(T0 + DAY, 10)
    await finish(store, await claim(store, free=2))

    late = await lists.late_runs(T0 + DAY, 10)
    assert [run.omitted for run in [*stuck, *late]] == [("payload",)] * 4


async def test_versions_leave_out_what_is_long(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control, payload={"days": 1})

    def lengthen(current: Job) -> Definition:
        return changed(current, payload=LONG, target={"type": "task", "name": "a", "args": LONG})

    await control.edit_job(job.id, lengthen, Actor(BY, T0 + MINUTE))

    new, old = await lists.versions(job.id, 10)
    assert (old.omitted, old.definition.payload) == ((), {"days": 1})
    assert new.omitted == ("definition.payload", "definition.target")
    assert (new.definition.payload, new.definition.target) == (None, {"type": "task", "name": "a"})
    alone = await lists.version(job.id, 2)
    assert alone is not None
    assert (alone.omitted, alone.definition.payload, alone.definition.target["args"]) == ((), LONG, LONG)
    assert await lists.version(job.id, 3) is None
    assert await lists.version(job.id, 2**40) is None


async def test_the_audit_leaves_out_what_is_long(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control, payload={"days": 1})
    await control.edit_job(job.id, lambda current: changed(current, payload=LONG), Actor(BY, T0 + MINUTE))

    edited, created = await lists.audit(10)
    assert (created.omitted, edited.omitted) == ((), ("after",))
    assert isinstance(edited.before, dict)
    assert edited.after is None
    for subject in (None, str(job.id)):
        assert [entry.omitted for entry in await lists.audit(10, subject=subject)] == [("after",), ()]
    alone = await lists.audit_entry(edited.id)
    assert alone is not None
    assert isinstance(alone.after, dict)
    assert (alone.omitted, alone.after["payload"]) == ((), LONG)
    assert await lists.audit_entry(10**6) is None


async def test_the_forecast_reads_no_payloads(control: ControlStore, lists: ListStore) -> None:
    await add_job(control, payload=LONG)

    [group], left_out = await lists.schedules(10)
    assert (group.definition.payload, group.definition.schedule, left_out) == (None, "* * * * *", 0)


async def test_pages_of_stuck_and_of_late_runs_meet(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    from hourbell.store.lists.query import Late, ListPosition

    await a_waiting_job(store, control, count=5)
    stuck = await lists.stuck_runs(T0 + DAY, 10)
    position = ListPosition(stuck[1].expires_at, stuck[1].id)
    assert [run.id for run in await lists.stuck_runs(T0 + DAY, 10, after=position)] == [run.id for run in stuck[2:]]

    await finish(store, await claim(store, free=5, now=T0 + HOUR))
    late = await lists.late_runs(T0 + DAY, 10)
    assert len(late) == 5
    assert late[1].started_at is not None
    after = Late(late[1].started_at - late[1].scheduled_at, late[1].id)
    assert [run.id for run in await lists.late_runs(T0 + DAY, 10, after)] == [run.id for run in late[2:]]
