"""Functions for users with a SQL prompt on PostgreSQL."""

import json
from decimal import Decimal

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.policies import Overlap, Priority
from hourbell.core.run.settle import Cancelled, Failed, Succeeded
from hourbell.core.schedule.zones import local_time_at
from hourbell.store.control.actor import Actor
from tests.contract.steps import HOUR, MINUTE, PASS, T0, a_waiting_job, add_job, claim, finish
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio
INSERT = """insert into hourbell.jobs (name, schedule, target) values ('job', '* * * * *', '{}')"""


async def trigger(postgres: PostgresDatabase, name: str) -> dict[str, object]:
    answer: dict[str, object] = await postgres.connection.fetchval("select hourbell.trigger_job($1)", name)
    return answer


async def test_a_job_can_be_triggered(postgres: PostgresDatabase) -> None:
    job = await add_job(postgres.control(), priority=Priority.HIGH, overlap=Overlap.SKIP)

    answer = await trigger(postgres, "job")

    [run] = await postgres.rows("runs")
    assert answer == {"success": True, "run_id": str(run["id"]), "job_name": "job"}
    assert (run["job_id"], run["kind"], run["rank"], run["exclusive"]) == (job.id, "manual", 0, True)
    assert (await postgres.rows("jobs"))[0]["cursor_at"] == T0
    [claimed] = await claim(postgres.engine(), now=run["ready_at"])
    assert claimed.id == run["id"]


async def test_an_unknown_job_cannot_be_triggered(postgres: PostgresDatabase) -> None:
    assert await trigger(postgres, "nobody") == {"success": False, "job_name": "nobody", "message": "no such job"}


async def test_a_job_not_adopted_yet_answers_so(postgres: PostgresDatabase) -> None:
    await postgres.sql(INSERT.replace("{}", json.dumps({"type": "task", "name": "a"})))
    early = await trigger(postgres, "job")
    store = postgres.engine()
    await store.plan_due(await store.sample_time(), PASS, plan)

    assert (early["success"], str(early["message"])[:15]) == (False, "not adopted yet")
    assert (await trigger(postgres, "job"))["success"] is True


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York", "UTC"])
async def test_a_triggered_run_has_the_local_time_of_its_job(postgres: PostgresDatabase, zone: str) -> None:
    job = await add_job(postgres.control(), timezone=zone)
    await trigger(postgres, "job")
    [by_sql] = await postgres.rows("runs")
    at = by_sql["scheduled_at"]
    await postgres.control().trigger_job(job.id, job.id, Actor("me", at))

    assert {row["local_at"] for row in await postgres.rows("runs")} == {local_time_at(zone, at)[0]}


async def test_a_zone_that_postgresql_does_not_know_is_no_obstacle(postgres: PostgresDatabase) -> None:
    await add_job(postgres.control())
    await postgres.sql("update hourbell.jobs set timezone = 'Mars/Olympus', version = version")
    await postgres.sql("update hourbell.jobs set saved_version = version, error = null, lane = 'task:a'")
    made = await trigger(postgres, "job")

    [run] = await postgres.rows("runs")
    assert (made["success"], run["local_at"]) == (True, run["scheduled_at"].replace(tzinfo=None))


async def test_the_status_of_a_job_shows_a_run_from_its_start(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    await a_waiting_job(store, control)
    await claim(store, now=T0 + HOUR)

    [status] = await postgres.rows("job_status", "name")
    assert (status["last_run_at"], status["last_run_success"]) == (T0 + HOUR, None)


async def test_the_status_of_jobs_is_a_view(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    await a_waiting_job(store, control, "ran", count=5)
    await add_job(control, "waits", now=T0 + HOUR)
    runs = await claim(store, free=5)
    await finish(store, runs[:1], Cancelled(), T0 + HOUR)
    await finish(store, runs[1:3], Failed("no", retryable=False), T0 + HOUR)
    await finish(store, runs[3:4], Succeeded(), T0 + HOUR + MINUTE, begun_at=T0 + HOUR)

    ran, waits = await postgres.rows("job_status", "name")

    assert (ran["enabled"], ran["last_run_at"], ran["last_run_success"]) == (True, T0 + HOUR, True)  # from its start
    assert (ran["total_runs"], ran["success_rate_percent"]) == (4, Decimal("33.3"))
    assert (waits["total_runs"], waits["last_run_at"], waits["success_rate_percent"]) == (0, None, None)
    assert waits["next_at"] == T0 + HOUR + MINUTE


async def test_a_deleted_job_has_no_status(postgres: PostgresDatabase) -> None:
    job = await add_job(postgres.control())
    await postgres.control().delete_job(job.id, Actor("me", T0))

    assert await postgres.rows("job_status") == []


@pytest.mark.parametrize(
    "change",
    ["max_age = interval '1000000 years'", "starts_at = 'infinity'", "ends_at = '20000-01-01'", "jitter = '-1s'"],
)
async def test_times_that_no_node_could_read_are_refused(postgres: PostgresDatabase, change: str) -> None:
    await add_job(postgres.control())

    with pytest.raises(Exception, match="violates check constraint"):
        await postgres.sql(f"update hourbell.jobs set {change}")
