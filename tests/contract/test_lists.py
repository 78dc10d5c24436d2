"""Jobs are listed by every filter and in every order, in pages that meet without a gap and without a job twice."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.settle import Failed
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import JobQuery, JobSort, JobState, JobView, ListPosition
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    T0,
    a_job,
    a_waiting_job,
    add_job,
    claim,
    finish,
    new_run,
    plan_all,
    put_runs,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
HTTP = {"type": "http", "url": "https://example.com/"}
FUNCTION = {"type": "task", "name": "a"}
OWNERS = [("api", ""), ("code", "app"), ("code", "other"), ("file", "jobs.yaml"), ("api", "")]
# Filters, each with what it asks of a job.
FILTERS: list[tuple[dict[str, Any], Callable[[JobView], bool]]] = [
    ({"prefix": "a"}, lambda view: view.job.definition.name.startswith("a")),
    ({"prefix": "a_"}, lambda view: view.job.definition.name.startswith("a_")),
    ({"tag": "red"}, lambda view: "red" in view.job.definition.tags),
    ({"tag": "none"}, lambda _: False),
    ({"state": JobState.ACTIVE}, lambda view: view.job.definition.enabled and view.job.error is None and goes_on(view)),
    (
        {"state": JobState.DONE},
        lambda view: view.job.definition.enabled and view.job.error is None and not goes_on(view),
    ),
    ({"state": JobState.PAUSED}, lambda view: not view.job.definition.enabled),
    ({"state": JobState.ERROR}, lambda view: view.job.error is not None),
    ({"target": "http"}, lambda view: view.job.definition.target["type"] == "http"),
    ({"target": "task"}, lambda view: view.job.definition.target["type"] == "task"),
    ({"managed_by": "api"}, lambda view: view.job.definition.managed_by == "api"),
    ({"managed_by": "code"}, lambda view: view.job.definition.managed_by == "code"),
    ({"source": "app"}, lambda view: view.job.definition.source == "app"),
    ({"subject": "Ada"}, lambda view: view.job.definition.subject == "Ada"),
    ({"last_result": "failed"}, lambda view: view.totals.last_state == "failed"),
    ({"next_before": T0 + 5 * MINUTE}, lambda view: fires(view) and (view.job.next_at or T0) < T0 + 5 * MINUTE),
]
SORT_KEYS: dict[JobSort, Callable[[JobView], Any]] = {
    JobSort.NAME: lambda view: view.job.definition.name.encode(),
    JobSort.NEXT: lambda view: (view.job.plan_at, view.job.id.bytes),
    JobSort.ID: lambda view: view.job.id.bytes,
}


def goes_on(view: JobView) -> bool:
    return view.job.next_at is not None or view.job.plan_at is not None or view.job.cursor_at is None


def fires(view: JobView) -> bool:
    job = view.job
    return job.definition.enabled and job.error is None and job.next_at is not None and job.plan_at is not None


def position_of(sort: JobSort, view: JobView) -> ListPosition:
    keys: dict[JobSort, str | datetime | None] = {
        JobSort.NAME: view.job.definition.name,
        JobSort.NEXT: view.job.plan_at,
    }
    return ListPosition(keys.get(sort), view.job.id)


async def walked(lists: ListStore, query: JobQuery, size: int = 3) -> list[str]:
    """The names of all that a query finds, read page by page."""
    found: list[JobView] = []
    while page := await lists.jobs(query, size, position_of(query.sort, found[-1]) if found else None):
        assert len(page) <= size
        found += page
    return [view.job.definition.name for view in found]


async def a_mixture(control: ControlStore, database: Database) -> None:
    """Two dozen jobs of every kind, several at the same instant, and one that was deleted."""
    for number in range(24):
        name = f"{'aAbZ'[number % 4]}{['', '_', '-'][number % 3]}{number}"
        managed_by, source = OWNERS[number % len(OWNERS)]
        definition = replace(
            a_job(name, f"{number // 3} * * * *"),
            target=HTTP if number % 7 else FUNCTION,
            tags=("red", "blue") if number % 5 == 0 else (),
            managed_by=managed_by,
            source=source,
            subject=("", "Ada", "Grace")[number % 3],
        )
        job = (await control.create_job(definition, uuid4(), Actor(BY, T0))).job
        result = "failed" if number % 4 == 1 else "succeeded"
        await database.sql(f"insert into hourbell.job_stats (job_id, last_state) values ('{job.id}', '{result}')")
        if number % 11 == 2:
            await pause(control, job)
        if number % 9 == 4:
            await database.sql(f"update hourbell.jobs set error = 'odd', plan_at = null where id = '{job.id}'")
        if number % 8 == 6:
            await database.sql(f"update hourbell.jobs set next_at = null, plan_at = null where id = '{job.id}'")
        if number == 20:
            await control.delete_job(job.id, Actor(BY, T0))


async def pause(control: ControlStore, job: Job) -> None:
    await control.pause_job(job.id, Actor(BY, T0), note="for now", until=T0 + DAY, cancel_waiting=False)


@pytest.mark.parametrize("sort", JobSort)
async def test_every_pair_of_filters_finds_just_what_fits_both(
    control: ControlStore, lists: ListStore, database: Database, sort: JobSort
) -> None:
    await a_mixture(control, database)
    ids = [row["id"] for row in await database.rows("jobs") if row["deleted_at"] is None]
    views = sorted([view for each in ids if (view := await lists.job(each))], key=lambda view: view.job.id.bytes)
    if sort is JobSort.NEXT:
        views = [view for view in views if fires(view)]
    views.sort(key=SORT_KEYS[sort])

    assert await walked(lists, JobQuery(sort)) == [view.job.definition.name for view in views]
    for (asked, fits), (also_asked, also_fits) in combinations(FILTERS, 2):
        if len(asked | also_asked) == 2:
            expected = [view.job.definition.name for view in views if fits(view) and also_fits(view)]
            assert await walked(lists, JobQuery(sort, **asked, **also_asked), 5) == expected
            assert await lists.count_jobs(JobQuery(sort, **asked, **also_asked), 100, T0) == len(expected)


async def test_pages_meet_whatever_their_size(control: ControlStore, lists: ListStore, database: Database) -> None:
    await a_mixture(control, database)
    query = JobQuery(JobSort.NEXT)

    assert await walked(lists, query, 1) == await walked(lists, query, 50)


async def test_each_filter_finds_some_and_leaves_others(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    await a_mixture(control, database)
    views = await lists.jobs(JobQuery(), 100)

    for asked, fits in FILTERS:
        expected = [view.job.definition.name for view in views if fits(view)]
        assert await walked(lists, JobQuery(**asked)) == expected
        assert (0 < len(expected) < len(views)) or asked == {"tag": "none"}


async def test_an_owner_with_many_sources_is_listed_by_name(control: ControlStore, lists: ListStore) -> None:
    names = [f"job-{number:03}" for number in range(60)]
    for number, name in enumerate(names):
        await add_job(control, name, managed_by="code", source=f"source-{number * 7 % 60}")

    assert await walked(lists, JobQuery(managed_by="code"), 25) == names
    assert await lists.count_jobs(JobQuery(managed_by="code"), 100, T0) == 60
    assert await lists.count_jobs(JobQuery(managed_by="code"), 25, T0) == 25


async def test_a_job_is_found_by_id_and_by_name(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)

    for view in (await lists.job(job.id), await lists.job("job")):
        assert view is not None
        assert (view.job, view.created_at, view.updated_at, view.deleted_at) == (job, T0, T0, None)
    assert (await lists.job("another"), await lists.job(uuid4())) == (None, None)


async def test_a_deleted_job_is_found_by_id_if_asked_for(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0 + HOUR))

    assert (await lists.job(job.id), await lists.job("job", deleted=True)) == (None, None)
    view = await lists.job(job.id, deleted=True)
    assert view is not None
    assert view.deleted_at == T0 + HOUR


async def test_a_pause_is_shown_with_who_and_why(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)
    await pause(control, job)

    view = await lists.job(job.id)
    assert view is not None
    assert (view.paused_note, view.paused_by, view.job.paused_until) == ("for now", BY, T0 + DAY)


async def test_a_job_comes_with_how_its_runs_ended(store: EngineStore, control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)
    assert await totals(lists, job.id) == (None, None, 0)
    await put_runs(store, job, [new_run(job)])
    [run] = await run_and_finish(store)

    assert await totals(lists, job.id) == (run.id, "succeeded", 1)
    [listed] = await lists.jobs(JobQuery(), 10)
    assert listed == await lists.job(job.id)


async def totals(lists: ListStore, job_id: UUID) -> tuple[UUID | None, str | None, int]:
    view = await lists.job(job_id)
    assert view is not None
    return view.totals.last_run_id, view.totals.last_state, view.totals.succeeded


async def test_an_invalid_job_does_not_break_the_list(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await add_job(control)
    await add_job(control, "other")
    await database.sql(f"update hourbell.jobs set retry = '[]' where id = '{job.id}'")

    assert await walked(lists, JobQuery()) == ["job", "other"]


async def test_a_renamed_job_keeps_its_tags(control: ControlStore, lists: ListStore, database: Database) -> None:
    job = await add_job(control, tags=("red",))
    await database.sql(f"update hourbell.jobs set name = 'zebra' where id = '{job.id}'")

    assert await walked(lists, JobQuery(tag="red")) == ["zebra"]


async def test_quotes_in_what_is_asked_for_are_only_text(control: ControlStore, lists: ListStore) -> None:
    await add_job(control, tags=("it's",))

    assert await walked(lists, JobQuery(tag="it's")) == ["job"]
    assert await walked(lists, JobQuery(prefix="' or 1=1 --", tag=":limit", source="$1", target="%")) == []


@pytest.mark.parametrize("text", ["a\0", "\ud800"])
async def test_nothing_has_text_that_cannot_be_kept(control: ControlStore, lists: ListStore, text: str) -> None:
    await add_job(control, managed_by="code")

    assert await lists.job(text) is None
    assert await lists.audit(10, subject=text) == []
    for name in ("prefix", "tag", "target", "managed_by", "source", "last_result"):
        assert await lists.jobs(replace(JobQuery(), **{name: text}), 10) == []  # type: ignore[arg-type]
    assert await lists.jobs(JobQuery(managed_by="code"), 10, ListPosition(text, uuid4())) == []


async def test_a_position_beyond_all_numbers_is_accepted(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control)

    assert len(await lists.versions(job.id, 10, before=10**30)) == len(await lists.audit(10, before=10**30)) == 1
    assert await lists.versions(job.id, 10, before=-(10**30)) == []
    assert await lists.audit(10, before=-(10**30)) == []
    assert await lists.skips(job.id, 10, (T0, 10**30)) == []


ONCE = "at 2026-03-02T09:30:00"
NEVER = "0 0 30 2 *"


async def state_of(lists: ListStore, name: str = "job") -> JobState:
    """The state of a job, which the filters by state agree on."""
    view = await lists.job(name)
    assert view is not None
    for state in JobState:
        assert (name in await walked(lists, JobQuery(state=state))) == (state is view.state), state
    return view.state


async def test_a_one_shot_job_is_done_when_its_run_has_ended(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await add_job(control, schedule=ONCE)
    states = [await state_of(lists)]
    await plan_all(store, T0 + HOUR)
    states.append(await state_of(lists))
    runs = await claim(store)
    states.append(await state_of(lists))
    await finish(store, runs)
    states.append(await state_of(lists))

    assert states == [JobState.ACTIVE, JobState.ACTIVE, JobState.ACTIVE, JobState.DONE]


async def test_a_job_that_never_fires_is_done_unless_somebody_runs_it_or_pauses_it(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    job = await add_job(control, schedule=NEVER)
    before = await state_of(lists)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0))
    waiting = await state_of(lists)
    await finish(store, await claim(store))
    after = await state_of(lists)
    await control.pause_job(job.id, Actor(BY, T0 + HOUR), note="", until=None, cancel_waiting=False)

    assert (before, waiting, after) == (JobState.DONE, JobState.ACTIVE, JobState.DONE)
    assert await state_of(lists) is JobState.PAUSED


async def test_a_job_that_plain_sql_made_is_active_until_it_is_adopted(lists: ListStore, database: Database) -> None:
    await database.sql("""insert into hourbell.jobs (name, schedule, target)
                          values ('job', '0 0 30 2 *', '{"type": "task", "name": "a"}')""")

    assert await state_of(lists) is JobState.ACTIVE


async def last_run(lists: ListStore) -> tuple[UUID | None, datetime | None, str | None, str | None]:
    view = await lists.job("job")
    assert view is not None
    [listed] = await lists.jobs(JobQuery(), 10)
    assert listed == view
    totals = view.totals
    return totals.last_run_id, totals.last_run_at, totals.last_state, totals.last_error


async def test_the_last_run_of_a_job_counts_from_its_start(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control, count=2)
    first, second = T0 + HOUR, T0 + 2 * HOUR
    [run] = await claim(store, now=first)
    assert await last_run(lists) == (run.id, first, "running", None)
    await finish(store, [run], now=first + MINUTE, begun_at=first)
    assert await last_run(lists) == (run.id, first, "succeeded", None)

    [run] = await claim(store, now=second)
    assert await last_run(lists) == (run.id, second, "running", None)


async def test_the_last_error_shows_while_a_run_is_retried(
    store: EngineStore, control: ControlStore, lists: ListStore
) -> None:
    await a_waiting_job(store, control)
    first, second = T0 + HOUR, T0 + 2 * HOUR
    [run] = await claim(store, now=first)
    await finish(store, [run], Failed("HTTP 503"), now=first + MINUTE, begun_at=first)
    assert await last_run(lists) == (run.id, first, "retrying", "HTTP 503")
    [run] = await claim(store, now=second)
    assert await last_run(lists) == (run.id, first, "running", "HTTP 503")

    await finish(store, [run], now=second + MINUTE, begun_at=second)
    assert await last_run(lists) == (run.id, first, "succeeded", "HTTP 503")
