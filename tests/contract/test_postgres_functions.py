"""What PostgreSQL offers people with a SQL prompt besides the tables."""

import json
from decimal import Decimal

import pytest

from hourbell.core.plan import plan
from hourbell.core.policies import Overlap, Priority
from hourbell.core.settle import Cancelled, Failed, Succeeded
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


async def test_the_status_of_jobs_is_a_view(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    await a_waiting_job(store, control, "ran", count=5)
    await add_job(control, "waits", now=T0 + HOUR)
    runs = await claim(store, free=5)
    await finish(store, runs[:1], Cancelled(), T0 + HOUR)
    await finish(store, runs[1:3], Failed("no", retryable=False), T0 + HOUR)
    await finish(store, runs[3:4], Succeeded(), T0 + HOUR + MINUTE)

    ran, waits = await postgres.rows("job_status", "name")

    assert (ran["enabled"], ran["last_run_at"], ran["last_run_success"]) == (True, T0 + HOUR + MINUTE, True)
    assert (ran["total_runs"], ran["success_rate_percent"]) == (4, Decimal("33.3"))
    assert (waits["total_runs"], waits["last_run_at"], waits["success_rate_percent"]) == (0, None, None)
    assert waits["next_at"] == T0 + HOUR + MINUTE


async def test_a_deleted_job_has_no_status(postgres: PostgresDatabase) -> None:
    job = await add_job(postgres.control())
    await postgres.control().delete_job(job.id, T0, "me")

    assert await postgres.rows("job_status") == []


@pytest.mark.parametrize(
    "change",
    ["max_age = interval '1000000 years'", "starts_at = 'infinity'", "ends_at = '20000-01-01'", "jitter = '-1s'"],
)
async def test_times_that_no_node_could_read_are_refused(postgres: PostgresDatabase, change: str) -> None:
    await add_job(postgres.control())

    with pytest.raises(Exception, match="violates check constraint"):
        await postgres.sql(f"update hourbell.jobs set {change}")
