"""prune: old history is removed, planning is not affected."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.policies import CatchUp
from hourbell.core.run.settle import Failed
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
    a_node,
    a_waiting_job,
    add_backlog,
    add_job,
    claim,
    finish,
    plan_all,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio
LONG_AFTER = T0 + 100 * DAY
ONCE = "at 2026-03-02T10:00Z"


async def prune_all(store: EngineStore, keep: int = 0, limit: int = 1_000) -> int:
    """Prune everything that may be pruned, in passes; return the number of removed runs."""
    removed, mark = 0, None
    while True:
        pruned = await store.prune(LONG_AFTER, 30 * DAY, keep, limit, mark)
        removed, mark = removed + pruned.removed, pruned.mark
        if mark is None:
            return removed


async def recurring(store: EngineStore, control: ControlStore, minutes: int, name: str = "job") -> None:
    """A recurring job with this many runs that succeeded."""
    await add_backlog(control, name)
    await plan_all(store, T0 + minutes * MINUTE)
    await run_and_finish(store, count=minutes, now=T0 + minutes * MINUTE)


async def test_old_ended_runs_go_with_their_attempts(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await recurring(store, control, minutes=5)

    assert await prune_all(store) == 5
    assert await database.rows("runs") == []
    assert await database.rows("attempts") == []


async def test_runs_younger_than_the_age_stay(store: EngineStore, control: ControlStore) -> None:
    await recurring(store, control, minutes=5)

    assert (await store.prune(T0 + DAY, DAY, keep=0, limit=100)).removed == 0


async def test_the_last_runs_of_each_job_stay(store: EngineStore, control: ControlStore, database: Database) -> None:
    for name in ("first", "second"):
        await a_waiting_job(store, control, name, count=7)
    await database.sql("update hourbell.jobs set next_at = created_at, plan_at = created_at")  # they will fire again
    await run_and_finish(store, count=14)

    assert await prune_all(store, keep=4) == 2 * 3
    assert {row["scheduled_at"] for row in await database.rows("runs")} == {T0 + n * SECOND for n in range(3, 7)}


async def test_unfinished_runs_always_stay(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control, count=3)
    runs = await claim(store, free=2)
    await finish(store, runs[:1], Failed("no"))

    assert await prune_all(store) == 0
    assert sorted(row["state"] for row in await database.rows("runs")) == ["pending", "retrying", "running"]


async def test_pruning_continues_from_its_mark(store: EngineStore, control: ControlStore) -> None:
    await recurring(store, control, minutes=10)

    first = await store.prune(LONG_AFTER, 30 * DAY, keep=10, limit=7)
    second = await store.prune(LONG_AFTER, 30 * DAY, keep=10, limit=7, after=first.mark)

    assert first.mark is not None
    assert second.mark is None
    assert await prune_all(store, keep=6, limit=3) == 4


async def test_planning_does_not_change_when_everything_is_pruned(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await recurring(store, control, minutes=30)
    await prune_all(store)

    assert (await store.plan_due(T0 + 30 * MINUTE, PASS, plan)).runs == 0
    await store.plan_due(T0 + 31 * MINUTE, PASS, plan)
    assert [row["scheduled_at"] for row in await database.rows("runs")] == [T0 + 31 * MINUTE]


async def test_a_one_shot_job_goes_with_its_last_run(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control, schedule=ONCE)
    await plan_all(store, T0 + HOUR)
    await run_and_finish(store)

    assert await prune_all(store, keep=20) == 1
    for table in ("jobs", "job_versions", "job_stats", "runs"):
        assert await database.rows(table) == []


async def test_a_one_shot_job_that_has_not_fired_stays(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, schedule="at 2026-12-24T10:00Z")
    await control.trigger_job(job.id, job.id, Actor(BY, T0))
    await run_and_finish(store)

    assert await prune_all(store) == 1
    assert len(await database.rows("jobs")) == 1


async def test_a_one_shot_job_with_another_run_waiting_stays(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, schedule=ONCE)
    await plan_all(store, T0 + HOUR)
    await run_and_finish(store)
    await control.trigger_job(job.id, job.id, Actor(BY, T0 + HOUR))

    assert await prune_all(store) == 1
    assert len(await database.rows("jobs")) == 1


NOT_OVER = {"in error": "error = 'x'", "not adopted": "cursor_at = null"} | {
    "its turn is to come": "plan_at = created_at",
    "its time is to come": "next_at = created_at",
}


@pytest.mark.parametrize("why", ["paused", *NOT_OVER])
async def test_a_one_shot_job_that_is_not_over_stays_with_its_last_runs(
    why: str, store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, schedule=ONCE)
    await plan_all(store, T0 + HOUR)
    await run_and_finish(store)
    if why == "paused":
        await control.pause_job(job.id, Actor("me", T0 + HOUR), note="", until=None, cancel_waiting=False)
    else:
        await database.sql(f"update hourbell.jobs set {NOT_OVER[why]}")

    assert await prune_all(store, keep=1) == 0
    assert await prune_all(store, keep=0) == 1
    assert len(await database.rows("jobs")) == 1


@pytest.mark.parametrize("ended", [{"ends_at": T0 + 3 * MINUTE}, {"schedule": "0 0 30 2 *"}], ids=["ended", "never"])
async def test_any_other_job_that_fires_no_more_stays_with_its_last_runs(
    ended: dict[str, Any], store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, catch_up=CatchUp.ALL, **ended)
    await plan_all(store, T0 + HOUR)
    for number in range(3):
        await control.trigger_job(job.id, UUID(int=number), Actor(BY, T0 + number * SECOND))
    runs = await run_and_finish(store, count=10)

    assert await prune_all(store, keep=2) == len(runs) - 2 > 0
    assert await prune_all(store, keep=0) == 2
    [row] = await database.rows("jobs")
    assert (row["name"], row["next_at"]) == ("job", None)


async def test_a_paused_job_keeps_its_last_runs(store: EngineStore, control: ControlStore, database: Database) -> None:
    await recurring(store, control, minutes=5)
    job = await control.get_job("job")
    assert job is not None
    await control.pause_job(job.id, Actor("me", T0 + 5 * MINUTE), note="", until=None, cancel_waiting=False)

    assert await prune_all(store, keep=5) == 0
    assert len(await database.rows("jobs")) == 1


async def test_a_deleted_job_goes_with_its_last_run(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await recurring(store, control, minutes=5)
    job = await control.get_job("job")
    assert job is not None
    await control.delete_job(job.id, Actor("me", T0 + 5 * MINUTE))

    assert len(await database.rows("runs")) == 5
    assert await prune_all(store, keep=20) == 5
    assert await database.rows("jobs") == []


async def test_pruned_until_is_a_scheduled_time_of_the_job(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await recurring(store, control, minutes=5)
    job = await control.get_job("job")
    assert job is not None
    await control.trigger_job(job.id, UUID(int=7), Actor(BY, T0 + HOUR))
    await run_and_finish(store, now=T0 + HOUR)

    assert await prune_all(store) == 6
    [stats] = await database.rows("job_stats")
    assert stats["pruned_until"] == T0 + 5 * MINUTE


async def test_nodes_that_fell_silent_long_ago_are_forgotten(store: EngineStore, database: Database) -> None:
    await store.heartbeat(a_node(), T0, T0, [])
    await store.prune(T0 + HOUR, timedelta(0), keep=0, limit=1)
    seen_an_hour_ago = len(await database.rows("nodes"))
    await store.prune(LONG_AFTER, timedelta(0), keep=0, limit=1)

    assert (seen_an_hour_ago, await database.rows("nodes")) == (1, [])
