"""refresh: newer time-zone data puts jobs in their place, a batch at a time."""

from datetime import datetime
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan, Skip, plan
from hourbell.core.run.states import SkipReason
from hourbell.store.base import EngineStore, Tzdata
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, HOUR, MINUTE, PASS, T0, add_job
from tests.database import Database

pytestmark = pytest.mark.anyio
LATER = T0 + HOUR


def an_hour_later(job: Job, _: datetime | None) -> Plan:
    return Plan(job, job.cursor_at, LATER, LATER)


async def test_jobs_are_moved_batch_by_batch_and_listed(store: EngineStore, control: ControlStore) -> None:
    for number in range(5):
        await add_job(control, f"job-{number}")

    moved, after = [], None
    while True:
        refreshed = await store.refresh("2026b", T0, 2, an_hour_later, after)
        moved += refreshed.moved
        after = refreshed.after
        if after is None:
            break

    assert sorted(moved) == [(f"job-{number}", T0 + MINUTE, LATER) for number in range(5)]
    assert {(await control.get_job(f"job-{number}")).next_at for number in range(5)} == {LATER}  # type: ignore[union-attr]


async def test_time_zone_data_is_current_once_every_job_was_replanned(
    store: EngineStore, control: ControlStore
) -> None:
    await add_job(control)

    assert await store.check_tzdata("2026b") is Tzdata.NEWER
    await store.refresh("2026b", T0, 10, lambda *_: None)
    assert await store.check_tzdata("2026b") is Tzdata.CURRENT


async def test_time_zone_data_is_not_current_while_jobs_may_be_left(store: EngineStore, control: ControlStore) -> None:
    await add_job(control)

    refreshed = await store.refresh("2026b", T0, 1, an_hour_later)
    assert (refreshed.after is None, await store.check_tzdata("2026b")) == (False, Tzdata.NEWER)
    refreshed = await store.refresh("2026b", T0, 1, an_hour_later, refreshed.after)
    assert (refreshed.after, await store.check_tzdata("2026b")) == (None, Tzdata.CURRENT)


async def test_a_job_that_is_moved_has_no_new_version_and_nobody_has_changed_it(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)
    before = [len(await database.rows(table)) for table in ("job_versions", "audit")]
    await store.refresh("2026b", T0, 10, an_hour_later)

    assert [len(await database.rows(table)) for table in ("job_versions", "audit")] == before


async def test_the_decision_sees_the_local_time_that_was_served_last(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control)
    await store.plan_due(T0 + MINUTE, PASS, plan)
    await store.plan_due(T0 + 2 * MINUTE, PASS, plan)
    await control.trigger_job(job.id, UUID(int=7), Actor(BY, T0 + HOUR))  # no time of its schedule
    seen: list[datetime | None] = []

    await store.refresh("2026b", T0, 10, lambda _, served: seen.append(served))  # type: ignore[func-returns-value]

    assert seen == [(T0 + 2 * MINUTE).replace(tzinfo=None)]


async def test_an_instant_served_already_is_on_record_as_skipped(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)
    skip = Skip(T0 + MINUTE, T0 + MINUTE, 1, SkipReason.TZDATA)

    await store.refresh("2026b", T0, 10, lambda job, _: Plan(job, T0 + MINUTE, LATER, LATER, skips=(skip,)))

    [row] = await database.rows("skips")
    assert (row["reason"], row["count"], row["first_at"]) == ("tzdata", 1, T0 + MINUTE)


LEFT_ALONE = {
    "in error": "error = 'x'",
    "not adopted": "cursor_at = null",
    "changed by plain SQL": "schedule = '@daily', version = version + 1",
}


@pytest.mark.parametrize("why", ["deleted", "paused", *LEFT_ALONE])
async def test_a_job_that_is_not_planned_as_it_is_is_not_moved(
    why: str, store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, "odd")
    await add_job(control, "other")
    match why:
        case "deleted":
            await control.delete_job(job.id, Actor(BY, T0))
        case "paused":
            await control.pause_job(job.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
        case _:
            await database.sql(f"update hourbell.jobs set {LEFT_ALONE[why]} where name = 'odd'")

    refreshed = await store.refresh("2026b", T0, 10, an_hour_later)

    assert [name for name, *_ in refreshed.moved] == ["other"]
