"""cancel_run: a waiting run ends, a running one is asked to stop."""

from uuid import uuid4

import pytest

from hourbell.core.run.settle import Cancelled, Failed
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, HOUR, T0, a_waiting_job, claim, finish, refusal, run_and_finish
from tests.database import Database

pytestmark = pytest.mark.anyio


async def test_a_waiting_run_is_cancelled(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control)
    [run] = await database.rows("runs")

    assert await control.cancel_run(run["id"], Actor(BY, T0 + HOUR))

    [run] = await database.rows("runs")
    [stats] = await database.rows("job_stats")
    assert (run["state"], run["finished_at"]) == ("cancelled", T0 + HOUR)
    assert (stats["succeeded"], stats["failed"], stats["cancelled"]) == (0, 0, 1)
    assert await claim(store) == []


async def test_a_run_that_waits_for_its_next_attempt_is_cancelled(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)
    await finish(store, [run], Failed("no"))

    await control.cancel_run(run.id, Actor(BY, T0 + HOUR))

    assert [row["state"] for row in await database.rows("runs")] == ["cancelled"]


async def test_a_running_run_is_asked_to_stop(store: EngineStore, control: ControlStore, database: Database) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)

    assert not await control.cancel_run(run.id, Actor(BY, T0 + HOUR))
    assert not await control.cancel_run(run.id, Actor(BY, T0 + HOUR))

    [row] = await database.rows("runs")
    assert (row["state"], [cancel["run_id"] for cancel in await database.rows("cancels")]) == ("running", [run.id])
    await finish(store, [run], Cancelled())
    assert [row["state"] for row in await database.rows("runs")] == ["cancelled"]


async def test_cancelling_what_ended_or_never_was_is_refused(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    [run] = await run_and_finish(store)
    before = [await database.rows(table) for table in ("runs", "cancels", "audit")]

    assert await refusal(control.cancel_run(run.id, Actor(BY, T0 + HOUR))) == "run_ended"
    assert await refusal(control.cancel_run(uuid4(), Actor(BY, T0 + HOUR))) == "no_such_run"
    assert [await database.rows(table) for table in ("runs", "cancels", "audit")] == before
