"""Many jobs on SQLite are decided before the transaction that writes them: the result is the same."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from datetime import datetime
from threading import Thread
from typing import Any
from uuid import UUID

import pytest

from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan, plan
from hourbell.store.control.actor import Actor
from hourbell.store.sqlite.engine import SqliteEngineStore
from tests.contract.steps import BY, HOUR, MINUTE, PASS, T0, add_backlog, add_job
from tests.engine.virtual import VirtualTime, run_virtually
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
HALF = 500


@pytest.fixture
async def database() -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase.in_file() as made:
        yield made


@pytest.fixture
def store(database: SqliteDatabase) -> SqliteEngineStore:
    return database.engine()


class Meanwhile:
    """Decides as the engine does, and lets something happen when it is first asked."""

    def __init__(self, happen: Callable[[], object]) -> None:
        self._happen: Callable[[], object] | None = happen
        self.asked: Counter[UUID] = Counter()

    def __call__(self, job: Job, now: datetime) -> Plan:
        self.asked[job.id] += 1
        if self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        return plan(job, now)


def elsewhere(verb: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Do it in another thread, as another process would."""
    thread = Thread(target=lambda: asyncio.run(verb()))
    thread.start()
    thread.join()


async def planned_runs(database: SqliteDatabase) -> list[tuple[UUID, datetime, int]]:
    runs = await database.rows("runs", "scheduled_at")
    return [(run["job_id"], run["scheduled_at"], run["job_version"]) for run in runs]


async def test_an_early_pass_returns_the_time_of_the_next_due_job(
    database: SqliteDatabase, store: SqliteEngineStore
) -> None:
    nothing = await store.plan_due(T0, PASS, plan)
    await add_job(database.control())
    soon = await store.plan_due(T0, PASS, plan)

    assert [(each.jobs, each.runs, each.next_plan_at) for each in (nothing, soon)] == [
        (0, 0, None),
        (0, 0, T0 + MINUTE),
    ]


def test_a_batch_does_not_wait_for_locked_jobs() -> None:
    async def main(time: VirtualTime) -> tuple[int, float]:
        async with SqliteDatabase.in_memory() as database:
            await add_job(database.control())
            planned = await database.engine().plan_due(T0 + MINUTE, PASS, plan)
            return planned.runs, time.elapsed()

    assert run_virtually(main) == (1, pytest.approx(0.0, abs=0.01))


@pytest.mark.parametrize(
    "change",
    [
        "update hourbell_jobs set deleted_at = 1, plan_at = null where name = 'changed'",
        "update hourbell_jobs set deleted_at = 1 where name = 'changed'",
        "update hourbell_jobs set enabled = 0 where name = 'changed'",
        "update hourbell_jobs set schedule = '0 0 1 1 *', version = version + 1 where name = 'changed'",
    ],
    ids=["deleted", "deleted on its turn", "paused", "another schedule"],
)
async def test_a_job_that_changes_meanwhile_is_planned_as_it_is_then(
    database: SqliteDatabase, store: SqliteEngineStore, change: str
) -> None:
    await add_job(database.control(), "changed")
    other = await add_job(database.control(), "other")
    await database.set_clock(T0 + MINUTE / 2)  # before it is due
    decide = Meanwhile(lambda: database.connection.execute(change).fetchall())

    result = await store.plan_due(T0 + MINUTE, PASS, decide)
    await store.plan_due(T0 + MINUTE, PASS, plan)

    assert await planned_runs(database) == [(other.id, T0 + MINUTE, 1)]
    assert (result.runs, decide.asked[other.id]) == (1, 2)


async def test_a_time_that_a_change_planned_is_not_planned_again_by_the_old_version(
    database: SqliteDatabase, store: SqliteEngineStore
) -> None:
    job = await add_job(database.control())
    edit = replace(job.definition, schedule="*/2 * * * *")
    now = T0 + 3 * MINUTE
    decide = Meanwhile(lambda: elsewhere(lambda: database.control().edit_job(job.id, lambda _: edit, Actor(BY, now))))

    await store.plan_due(now, PASS, decide)
    await store.plan_due(T0 + 4 * MINUTE, PASS, plan)

    assert await planned_runs(database) == [(job.id, now, 1), (job.id, T0 + 4 * MINUTE, 2)]


async def test_a_backlog_that_another_node_planned_meanwhile_is_accounted_for_once(
    database: SqliteDatabase, store: SqliteEngineStore
) -> None:
    job = await add_backlog(database.control(), catch_up_window=4 * HOUR)
    now = T0 + 5 * HOUR
    await store.plan_due(now, 1, plan)  # its turn comes again at the same moment, and only the cursor differs
    decide = Meanwhile(lambda: elsewhere(lambda: database.engine().plan_due(now, 1, plan)))

    await store.plan_due(now, PASS, decide)
    runs, skips = await database.rows("runs"), await database.rows("skips")

    assert decide.asked[job.id] == 2
    assert len(runs) + sum(skip["count"] for skip in skips) == 300
    assert len({run["scheduled_at"] for run in runs}) == len(runs)


async def test_batches_under_way_at_once_have_no_job_in_common(
    database: SqliteDatabase, store: SqliteEngineStore
) -> None:
    for number in range(2 * HALF + 20):
        await add_job(database.control(), f"job-{number}")
    decide = Meanwhile(lambda: None)

    results = await asyncio.gather(*(store.plan_due(T0 + MINUTE, HALF, decide) for _ in range(3)))

    assert sorted(result.jobs for result in results) == [20, HALF, HALF]
    assert set(decide.asked.values()) == {1}
    assert len(await database.rows("runs")) == 2 * HALF + 20


async def test_a_batch_that_is_cut_off_is_planned_by_the_next(
    database: SqliteDatabase, store: SqliteEngineStore
) -> None:
    await add_job(database.control())
    cut_off = asyncio.ensure_future(store.plan_due(T0 + MINUTE, PASS, Meanwhile(lambda: cut_off.cancel())))
    with pytest.raises(asyncio.CancelledError):
        await cut_off

    await store.plan_due(T0 + MINUTE, PASS, plan)

    assert len(await database.rows("runs")) == 1
