"""plan_due: every due instant becomes a run or part of a skip, once."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan, Skip, plan
from hourbell.core.run.policies import CatchUp, Overlap
from hourbell.core.run.run import scheduled_run_id
from hourbell.core.run.states import SkipReason
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    PASS,
    SECOND,
    T0,
    add_backlog,
    add_job,
    claim,
    new_run,
    plan_all,
    put_runs,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio


async def test_a_due_instant_becomes_a_run(store: EngineStore, control: ControlStore, database: Database) -> None:
    job = await add_job(control)

    planned = await store.plan_due(T0 + MINUTE, PASS, plan)

    [run] = await database.rows("runs")
    assert (planned.jobs, planned.runs, planned.lanes) == (1, 1, frozenset({"task:a"}))
    assert (run["id"], run["state"]) == (scheduled_run_id(job.id, T0 + MINUTE), "pending")
    assert run["local_at"] == (T0 + MINUTE).replace(tzinfo=None)
    assert run["expires_at"] == T0 + MINUTE + DAY


async def test_nothing_is_planned_before_its_time(store: EngineStore, control: ControlStore) -> None:
    await add_job(control)

    planned = await store.plan_due(T0 + MINUTE - SECOND, PASS, plan)

    assert (planned.jobs, planned.next_plan_at) == (0, T0 + MINUTE)


async def test_without_jobs_there_is_no_next_time(store: EngineStore) -> None:
    assert (await store.plan_due(T0, PASS, plan)).next_plan_at is None


async def test_a_pass_returns_the_time_of_the_next_due_job(store: EngineStore, control: ControlStore) -> None:
    await add_job(control, "hourly", schedule="0 * * * *")
    await add_job(control, "minutely")

    planned = await store.plan_due(T0 + MINUTE, PASS, plan)

    assert planned.next_plan_at == T0 + 2 * MINUTE


async def test_after_a_full_pass_there_may_be_more_at_once(store: EngineStore, control: ControlStore) -> None:
    for number in range(3):
        await add_job(control, f"job-{number}", now=T0 - number * SECOND)

    passes = [await store.plan_due(T0 + MINUTE + SECOND, 2, plan) for _ in range(2)]
    assert [(each.jobs, each.next_plan_at) for each in passes] == [(2, T0 + MINUTE + SECOND), (1, T0 + 2 * MINUTE)]


@pytest.mark.parametrize("limit", [2, PASS])
async def test_a_deleted_job_has_no_turn_whatever_its_row_says(
    store: EngineStore, control: ControlStore, database: Database, limit: int
) -> None:
    await add_job(control, "gone")
    await add_job(control, "hourly", schedule="0 * * * *")
    await database.sql("update hourbell.jobs set deleted_at = created_at where name = 'gone'")
    await database.sql("update hourbell.jobs set plan_at = created_at where name = 'gone'")

    planned = [await store.plan_due(T0 + minutes * MINUTE, limit, plan) for minutes in (1, 60)]
    assert [(each.jobs, each.runs, each.next_plan_at) for each in planned] == [
        (0, 0, T0 + HOUR),
        (1, 1, T0 + 2 * HOUR),
    ]


async def test_the_longest_due_come_first(store: EngineStore, control: ControlStore) -> None:
    for minute in (3, 1, 2):
        await add_job(control, f"job-{minute}", schedule=f"{minute} * * * *")
    seen: list[str] = []

    def decide(job: Job, now: datetime) -> Plan:
        seen.append(job.definition.name)
        return plan(job, now)

    await store.plan_due(T0 + 5 * MINUTE, 2, decide)
    assert seen == ["job-1", "job-2"]


async def test_planning_twice_at_a_moment_changes_nothing(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    await plan_all(store, T0 + HOUR)
    before = await database.rows("jobs"), await database.rows("runs")

    await plan_all(store, T0 + HOUR)

    assert (await database.rows("jobs"), await database.rows("runs")) == before


async def test_a_run_that_exists_is_left_alone(store: EngineStore, control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await put_runs(store, job, [new_run(job, 1)])
    await run_and_finish(store)
    await database.sql("update hourbell.jobs set plan_at = cursor_at")

    planned = await store.plan_due(T0, PASS, lambda job, _: Plan(job, T0, None, None, runs=(new_run(job, 1),)))

    [run] = await database.rows("runs")
    assert (planned.runs, planned.lanes, run["state"]) == (0, frozenset(), "succeeded")


async def test_a_scheduled_time_gets_one_run_whatever_its_id(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    first, second = new_run(job, 1), new_run(job, 2)
    twin = type(second)(second.id, first.scheduled_at, first.local_at, first.ready_at, first.expires_at, first.rank)

    await put_runs(store, job, [first, twin])

    assert [run["id"] for run in await database.rows("runs")] == [first.id]


async def test_eight_planners_make_each_run_once(control: ControlStore, database: Database) -> None:
    jobs = [await add_backlog(control, f"job-{number}") for number in range(40)]
    planners = [database.engine() for _ in range(8)]

    await asyncio.gather(*(plan_all(planner, T0 + 2 * HOUR) for planner in planners))
    await plan_all(planners[0], T0 + 2 * HOUR)

    runs = await database.rows("runs")
    expected = {(job.id, T0 + minute * MINUTE) for job in jobs for minute in range(1, 121)}
    assert len(runs) == len(expected)
    assert {(run["job_id"], run["scheduled_at"]) for run in runs} == expected


async def test_a_job_another_node_plans_is_passed_over(control: ControlStore, database: Database) -> None:
    await add_job(control, "first")
    await add_job(control, "second")
    seen: list[UUID] = []

    def note(job: Job, now: datetime) -> Plan:
        seen.append(job.id)
        return plan(job, now)

    await asyncio.gather(*(database.engine().plan_due(T0 + MINUTE, 1, note) for _ in range(4)))
    assert len(seen) == len(set(seen))


async def test_a_cursor_never_moves_back(store: EngineStore, control: ControlStore, database: Database) -> None:
    await add_job(control)
    await plan_all(store, T0 + HOUR)
    await database.sql("update hourbell.jobs set plan_at = created_at")

    await store.plan_due(T0 + MINUTE, PASS, lambda job, _: Plan(job, T0 + MINUTE, None, None))

    [job] = await database.rows("jobs")
    assert job["cursor_at"] == T0 + HOUR


async def test_missed_instants_are_one_skip(store: EngineStore, control: ControlStore, database: Database) -> None:
    job = await add_job(control)

    planned = await store.plan_due(T0 + HOUR, PASS, plan)

    [skip] = await database.rows("skips")
    assert planned.skipped == {"missed": 59}
    assert (skip["job_id"], skip["reason"], skip["count"]) == (job.id, "missed", 59)
    assert (skip["first_at"], skip["last_at"]) == (T0 + MINUTE, T0 + 59 * MINUTE)


async def test_a_skip_that_continues_the_last_one_extends_it(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control, overlap=Overlap.SKIP)
    for minute in range(1, 6):
        await store.plan_due(T0 + minute * MINUTE, PASS, plan)

    [skip] = await database.rows("skips")
    assert (skip["reason"], skip["count"]) == ("overlap", 4)
    assert (skip["first_at"], skip["last_at"]) == (T0 + 2 * MINUTE, T0 + 5 * MINUTE)


@pytest.mark.parametrize("since_last", [0 * SECOND, SECOND])
async def test_a_skip_from_before_an_edit_is_not_extended(
    store: EngineStore, control: ControlStore, database: Database, since_last: timedelta
) -> None:
    job = await add_job(control, overlap=Overlap.SKIP)
    for minute in range(1, 6):
        await store.plan_due(T0 + minute * MINUTE, PASS, plan)
    every_five = replace(job.definition, schedule="*/5 * * * *")
    await control.edit_job(job.id, lambda _: every_five, Actor(BY, T0 + 5 * MINUTE + since_last))

    await store.plan_due(T0 + 10 * MINUTE, PASS, plan)  # the instant before, by the new schedule, is the last that was

    skips = [(skip["first_at"], skip["last_at"], skip["count"]) for skip in await database.rows("skips", "first_at")]
    assert skips == [(T0 + 2 * MINUTE, T0 + 5 * MINUTE, 4), (T0 + 10 * MINUTE, T0 + 10 * MINUTE, 1)]


async def test_skips_of_other_reasons_or_with_a_run_between_stay_separate(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)

    def skips(minute: int, reason: SkipReason) -> Skip:
        instant = T0 + minute * MINUTE
        return Skip(instant, instant, 1, reason, instant - MINUTE)

    reported = {1: skips(1, SkipReason.MISSED), 2: skips(2, SkipReason.WINDOW), 3: skips(4, SkipReason.WINDOW)}

    def decide(job: Job, now: datetime) -> Plan:
        return Plan(job, now, None, now + MINUTE, skips=(reported[(now - T0) // MINUTE],))

    for minute in reported:
        await store.plan_due(T0 + minute * MINUTE, PASS, decide)

    found = [(skip["reason"], skip["count"]) for skip in await database.rows("skips", "first_at")]
    assert found == [("missed", 1), ("window", 1), ("window", 1)]


async def test_cancel_running_stops_the_run_and_the_waiting_one(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control, overlap=Overlap.CANCEL_RUNNING)
    await store.plan_due(T0 + MINUTE, PASS, plan)
    [running] = await claim(store)
    await store.plan_due(T0 + 2 * MINUTE, PASS, plan)
    await store.plan_due(T0 + 3 * MINUTE, PASS, plan)

    assert [run["state"] for run in await database.rows("runs", "scheduled_at")] == ["running", "cancelled", "pending"]
    assert [cancel["run_id"] for cancel in await database.rows("cancels")] == [running.id]


async def test_the_backlog_of_a_job_is_planned_in_passes(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    passes = [(await store.plan_due(T0 + 250 * MINUTE, PASS, plan)).runs for _ in range(4)]

    assert passes == [100, 100, 50, 0]
    assert len(await database.rows("runs")) == 250


async def test_a_job_with_a_thousand_runs_waiting_waits_itself(store: EngineStore, control: ControlStore) -> None:
    await add_backlog(control)
    passes = [await store.plan_due(T0 + DAY, PASS, plan) for _ in range(11)]
    held_back = passes[-1]

    await run_and_finish(store, count=7, now=T0 + DAY)
    drained = await store.plan_due(T0 + DAY + MINUTE, PASS, plan)
    assert (held_back.jobs, held_back.runs, drained.runs) == (1, 0, 7)


async def test_a_pause_that_is_over_ends_by_itself(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await control.pause_job(job.id, Actor("me", T0), note="", until=T0 + HOUR, cancel_waiting=False)

    await store.plan_due(T0 + HOUR, PASS, plan)

    [row] = await database.rows("jobs")
    [skip] = await database.rows("skips")
    assert (row["enabled"], row["version"], row["paused_until"], row["paused_by"]) == (True, 3, None, None)
    assert (skip["reason"], skip["count"]) == ("paused", 60)
    assert (await store.definitions([(job.id, 3)]))[job.id, 3].enabled


@pytest.mark.parametrize("catch_up", [CatchUp.LATEST, CatchUp.NONE], ids=["a run", "a skip"])
@pytest.mark.parametrize("behind", [True, False], ids=["clock went back", "clock goes on"])
async def test_a_job_without_a_cursor_begins_now_and_never_before_its_history(
    store: EngineStore, control: ControlStore, database: Database, catch_up: CatchUp, behind: bool
) -> None:
    job = await add_job(control, catch_up=catch_up, late_after=timedelta(0))
    await plan_all(store, T0 + 10 * MINUTE + SECOND)
    await control.trigger_job(job.id, UUID(int=7), Actor(BY, T0 + HOUR))  # no time of its schedule
    await database.sql("update hourbell.jobs set cursor_at = null, plan_at = created_at")
    now = T0 + (5 if behind else 20) * MINUTE
    begins_at = T0 + 10 * MINUTE if behind else now

    await store.plan_due(now, PASS, plan)
    [row] = await database.rows("jobs")
    assert (row["cursor_at"], row["next_at"]) == (begins_at, begins_at + MINUTE)

    await database.sql("update hourbell.jobs set cursor_at = null")
    await control.edit_job(job.id, lambda found: replace(found.definition, schedule="30 * * * *"), Actor(BY, now))
    [row] = await database.rows("jobs")
    assert (row["cursor_at"], row["next_at"]) == (begins_at, T0 + 30 * MINUTE)


async def test_manual_runs_are_not_skipped_by_overlap(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, overlap=Overlap.CANCEL_RUNNING)
    await store.plan_due(T0 + MINUTE, PASS, plan)
    await control.trigger_job(job.id, UUID(int=7), Actor(BY, T0 + MINUTE))
    await store.plan_due(T0 + 2 * MINUTE, PASS, plan)

    runs = await database.rows("runs", "scheduled_at")
    by_kind = [(run["kind"], run["scheduled_at"] - T0, run["state"]) for run in runs]
    assert sorted(by_kind) == [
        ("manual", MINUTE, "pending"),
        ("scheduled", MINUTE, "cancelled"),
        ("scheduled", 2 * MINUTE, "pending"),
    ]
    assert await database.rows("cancels") == []  # of those that are running
