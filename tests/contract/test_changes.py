"""Changes by users: a job never fires for the past, and every scheduled time is accounted for."""

from collections.abc import Awaitable
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.run.plan import plan
from hourbell.core.run.policies import CatchUp, Delivery, Overlap, Priority, RetryPolicy
from hourbell.core.schedule import ScheduleError
from hourbell.sealing import Sealed
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    PASS,
    SECOND,
    T0,
    a_job,
    a_waiting_job,
    add_backlog,
    add_job,
    changed,
    claim,
    finish,
    plan_all,
    refusal,
    run_and_finish,
)
from tests.database import Database

pytestmark = pytest.mark.anyio


async def skips_of(database: Database) -> list[tuple[str, int]]:
    return [(skip["reason"], skip["count"]) for skip in await database.rows("skips", "first_at")]


async def instants(database: Database) -> list[datetime]:
    return [run["scheduled_at"] for run in await database.rows("runs", "scheduled_at")]


async def edit(control: ControlStore, job: Job, now: datetime = T0, **changes: object) -> Job:
    return (await control.edit_job(job.id, lambda job: changed(job, **changes), Actor(BY, now))).job


async def test_a_new_job_fires_from_now_on(store: EngineStore, control: ControlStore, database: Database) -> None:
    job = await add_job(control, now=T0 + HOUR)
    await plan_all(store, T0 + HOUR + MINUTE)

    assert (job.version, job.cursor_at, job.next_at) == (1, T0 + HOUR, T0 + HOUR + MINUTE)
    assert (await instants(database), await skips_of(database)) == ([T0 + HOUR + MINUTE], [])


async def test_a_job_is_found_as_it_was_made(control: ControlStore) -> None:
    definition = Definition(
        name="every-column",
        schedule="0 9 * * 1-5",
        target={"type": "task", "name": "x", "args": {"n": [1, None, "é"]}},
        timezone="Europe/Paris",
        dst="wall",
        payload=["a", {"b": 1.5}],
        description="say 'hi'",
        catch_up=CatchUp.ALL,
        catch_up_window=DAY,
        overlap=Overlap.QUEUE_ONE,
        retry=RetryPolicy(7, (SECOND, MINUTE), 0.25),
        delivery=Delivery.AT_MOST_ONCE,
        max_age=HOUR,
        late_after=SECOND,
        priority=Priority.HIGH,
        jitter=MINUTE,
        starts_at=T0,
        ends_at=T0 + DAY,
        tags=("a", "b c"),
        lane="task:x",
        managed_by="file",
        source="jobs.toml",
    )
    made = (await control.create_job(definition, uuid4(), Actor(BY, T0))).job

    assert made.definition == definition
    assert await control.get_job(made.id) == await control.get_job("every-column") == made


async def test_a_name_is_unique(control: ControlStore) -> None:
    await add_job(control)

    assert await refusal(add_job(control)) == "name_taken"


async def test_creating_a_job_again_under_its_id_returns_it(control: ControlStore, database: Database) -> None:
    made = (await control.create_job(a_job(), UUID(int=5), Actor(BY, T0))).job

    assert (await control.create_job(a_job(), UUID(int=5), Actor(BY, T0 + HOUR))).job == made
    assert len(await database.rows("job_versions")) == len(await database.rows("audit")) == 1


async def test_a_job_with_an_invalid_schedule_is_not_created(control: ControlStore, database: Database) -> None:
    with pytest.raises(ScheduleError):
        await add_job(control, schedule="61 * * * *")

    assert await database.rows("jobs") == []


async def test_an_unknown_job_is_none(control: ControlStore) -> None:
    assert await control.get_job("nobody") is None
    assert await control.get_job(uuid4()) is None


async def test_an_edit_is_a_new_version(store: EngineStore, control: ControlStore) -> None:
    job = await add_job(control, description="old")

    after = await edit(control, job, description="new")

    assert (after.version, after.definition.description) == (2, "new")
    assert await control.get_job(job.id) == after
    versions = await store.definitions([(job.id, 1), (job.id, 2)])
    assert [versions[job.id, number].description for number in (1, 2)] == ["old", "new"]


async def test_an_edit_of_anything_else_leaves_what_is_due_to_the_old_version(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)

    after = await edit(control, job, T0 + 3 * MINUTE, priority=Priority.HIGH, target={"type": "task", "name": "b"})
    await plan_all(store, T0 + 4 * MINUTE)

    assert (after.cursor_at, after.next_at, after.plan_at) == (T0 + 3 * MINUTE, T0 + 4 * MINUTE, T0 + 4 * MINUTE)
    assert after.definition.lane == "task:b"
    runs = await database.rows("runs", "scheduled_at")
    assert [run["job_version"] for run in runs] == [1, 1, 1, 2]
    assert [run["lane"] for run in runs][-2:] == [runs[0]["lane"], "task:b"]


async def test_an_edit_of_the_schedule_first_plans_the_old_one(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)

    after = await edit(control, job, T0 + 3 * MINUTE, schedule="0 * * * *")
    await plan_all(store, T0 + HOUR)

    assert (after.cursor_at, after.next_at) == (T0 + 3 * MINUTE, T0 + HOUR)
    assert await instants(database) == [T0 + minute * MINUTE for minute in (1, 2, 3, 60)]
    assert [run["job_version"] for run in await database.rows("runs", "scheduled_at")] == [1, 1, 1, 2]


async def test_an_edit_while_instants_remain_is_refused(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)

    assert await refusal(edit(control, job, T0 + 150 * MINUTE, schedule="0 * * * *")) == "job_catching_up"
    assert await instants(database) == []
    await plan_all(store, T0 + 150 * MINUTE)
    assert (await edit(control, job, T0 + 150 * MINUTE, schedule="0 * * * *")).version == 2


async def test_an_edit_that_drops_the_backlog_records_a_skip(control: ControlStore, database: Database) -> None:
    job = await add_backlog(control)

    def hourly(job: Job) -> Definition:
        return changed(job, schedule="0 * * * *")

    await control.edit_job(job.id, hourly, Actor(BY, T0 + 150 * MINUTE), drop_backlog=True)

    assert len(await instants(database)) == 100
    assert await skips_of(database) == [("edited", 50)]


async def test_an_edit_expects_a_version(control: ControlStore) -> None:
    job = await add_job(control)
    await edit(control, job, description="first")

    late = control.edit_job(job.id, lambda job: changed(job, description="second"), Actor(BY, T0), expect_version=1)
    assert await refusal(late) == "version_mismatch"


async def test_an_edit_cannot_take_the_name_of_another(control: ControlStore) -> None:
    await add_job(control, "first")
    second = await add_job(control, "second")

    assert await refusal(edit(control, second, name="first")) == "name_taken"


async def test_an_edit_with_a_clock_that_went_back_moves_no_cursor_back(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await plan_all(store, T0 + HOUR)

    after = await edit(control, job, T0 + 30 * MINUTE, schedule="*/2 * * * *")

    [row] = await database.rows("jobs")
    assert (after.cursor_at, row["cursor_at"]) == (T0 + HOUR, T0 + HOUR)
    assert after.next_at == row["next_at"] == T0 + HOUR + 2 * MINUTE


async def test_a_job_in_error_can_be_listed_fixed_and_deleted(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await database.sql("update hourbell.jobs set target = '{}', version = 2")
    await plan_all(store, T0 + MINUTE)

    found = await control.get_job("job")
    assert found is not None
    assert found.error is not None
    fixed = await edit(control, job, T0 + HOUR, target={"type": "task", "name": "a"})
    assert (fixed.error, fixed.plan_at) == (None, T0 + HOUR + MINUTE)
    await control.delete_job(job.id, Actor(BY, T0 + HOUR))


async def test_a_paused_job_plans_nothing_more(store: EngineStore, control: ControlStore, database: Database) -> None:
    job = await add_backlog(control)

    paused = (
        await control.pause_job(job.id, Actor(BY, T0 + 2 * MINUTE), note="tea", until=None, cancel_waiting=False)
    ).job
    await plan_all(store, T0 + HOUR)

    [row] = await database.rows("jobs")
    assert (paused.definition.enabled, paused.plan_at, paused.version) == (False, None, 2)
    assert (row["paused_note"], row["paused_by"], row["paused_until"]) == ("tea", BY, None)
    assert await instants(database) == [T0 + MINUTE, T0 + 2 * MINUTE]


async def test_pausing_may_cancel_what_waits(control: ControlStore, database: Database) -> None:
    job = await add_backlog(control)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0))

    await control.pause_job(job.id, Actor(BY, T0 + 2 * MINUTE), note="", until=None, cancel_waiting=True)

    assert [run["state"] for run in await database.rows("runs")] == ["cancelled"] * 3
    [stats] = await database.rows("job_stats")
    assert stats["cancelled"] == 3


@pytest.mark.parametrize(("cancel_waiting", "scheduled"), [(True, "cancelled"), (False, "pending")])
async def test_due_times_of_a_retired_job_are_a_skip_and_waiting_runs_may_be_cancelled(
    store: EngineStore, control: ControlStore, database: Database, cancel_waiting: bool, scheduled: str
) -> None:
    job = await add_backlog(control)
    await plan_all(store, T0 + MINUTE)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0))

    retired = (
        await control.retire_job(
            job.id, Actor(BY, T0 + HOUR), note="gone", cancel_waiting=cancel_waiting, expect_version=1
        )
    ).job
    await plan_all(store, T0 + 2 * HOUR)

    [row] = await database.rows("jobs")
    assert (retired.definition.enabled, retired.plan_at, retired.version) == (False, None, 2)
    assert (row["paused_note"], row["paused_by"], row["cursor_at"]) == ("gone", BY, T0 + HOUR)
    states = {run["kind"]: run["state"] for run in await database.rows("runs")}
    assert (await skips_of(database), states) == ([("paused", 59)], {"scheduled": scheduled, "manual": "pending"})


async def test_resuming_records_what_the_pause_swallowed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await control.pause_job(job.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)

    resumed = (await control.resume_job(job.id, Actor(BY, T0 + HOUR), catch_up=False)).job
    await plan_all(store, T0 + HOUR)

    assert (resumed.cursor_at, resumed.next_at) == (T0 + HOUR, T0 + HOUR + MINUTE)
    assert (await skips_of(database), await instants(database)) == ([("paused", 60)], [])
    [row] = await database.rows("jobs")
    assert (row["enabled"], row["paused_note"], row["paused_by"]) == (True, None, None)


async def test_resuming_with_catch_up_plans_it_as_missed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await control.pause_job(job.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)

    await control.resume_job(job.id, Actor(BY, T0 + 5 * MINUTE), catch_up=True)
    await plan_all(store, T0 + 5 * MINUTE)

    assert (await skips_of(database), len(await instants(database))) == ([], 5)


async def test_resuming_an_active_job_changes_no_cursor(control: ControlStore, database: Database) -> None:
    job = await add_job(control)

    after = (await control.resume_job(job.id, Actor(BY, T0 + HOUR), catch_up=False)).job

    assert (after.cursor_at, after.next_at, after.plan_at) == (job.cursor_at, job.next_at, job.plan_at)
    assert await skips_of(database) == []


async def test_a_deleted_job_is_gone_and_its_history_stays(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await plan_all(store, T0 + MINUTE)

    await control.delete_job(job.id, Actor(BY, T0 + MINUTE))

    assert await control.get_job("job") is None
    assert [run["state"] for run in await database.rows("runs")] == ["cancelled"]
    assert (await store.plan_due(T0 + DAY, PASS, plan)).jobs == 0
    assert (await add_job(control)).id != job.id


async def test_a_deleted_job_cannot_be_changed(control: ControlStore) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0))

    assert await refusal(edit(control, job, description="x")) == "no_such_job"
    assert await refusal(control.delete_job(job.id, Actor(BY, T0))) == "no_such_job"
    assert await refusal(control.trigger_job(job.id, uuid4(), Actor(BY, T0))) == "no_such_job"


async def test_a_triggered_run_is_ready_now_and_moves_no_cursor(control: ControlStore, database: Database) -> None:
    job = await add_job(control, priority=Priority.HIGH, timezone="Asia/Tokyo")

    run = await control.trigger_job(job.id, UUID(int=3), Actor(BY, T0 + 30 * SECOND), {"a": 1})

    [row] = await database.rows("runs")
    assert (run.id, run.kind, run.ready_at, run.payload) == (UUID(int=3), "manual", T0 + 30 * SECOND, {"a": 1})
    assert (row["rank"], row["lane"], row["expires_at"]) == (0, "task:a", T0 + 30 * SECOND + DAY)
    assert await control.get_job(job.id) == job


async def test_triggering_again_under_an_id_returns_the_same_run(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    first = await control.trigger_job(job.id, UUID(int=3), Actor(BY, T0), {"a": 1})

    assert await control.trigger_job(job.id, UUID(int=3), Actor(BY, T0 + HOUR), {"a": 2}) == first
    assert len(await database.rows("runs")) == 1


async def test_runs_triggered_at_one_moment_are_each_a_run(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    for _ in range(2):
        await control.trigger_job(job.id, uuid4(), Actor(BY, T0 + MINUTE))

    assert await instants(database) == [T0 + MINUTE] * 2


async def test_a_paused_job_can_be_triggered(control: ControlStore, database: Database) -> None:
    job = await add_job(control, enabled=False)
    await control.trigger_job(job.id, uuid4(), Actor(BY, T0))

    assert len(await database.rows("runs")) == 1


async def test_every_change_of_a_job_is_audited(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await edit(control, job, description="new")
    await control.pause_job(job.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    await control.resume_job(job.id, Actor(BY, T0), catch_up=False)
    await control.delete_job(job.id, Actor(BY, T0))

    audit = await database.rows("audit", "id")
    actions = ["job.create", "job.edit", "job.pause", "job.resume", "job.delete"]
    assert [(row["action"], row["actor"], row["subject"]) for row in audit] == [
        (each, BY, str(job.id)) for each in actions
    ]
    assert (audit[1]["before"]["description"], audit[1]["after"]["description"]) == ("", "new")


async def test_times_are_kept_to_the_microsecond_and_in_utc(control: ControlStore) -> None:
    starts_at = datetime(2026, 3, 2, 9, 0, 0, 123456, tzinfo=UTC)
    job = await add_job(control, starts_at=starts_at)

    found = await control.get_job(job.id)
    assert found is not None
    assert found.definition.starts_at == starts_at
    assert found.cursor_at is not None
    assert found.cursor_at.utcoffset() == T0.utcoffset()


async def test_every_change_may_expect_a_version(control: ControlStore) -> None:
    job = await add_job(control)
    await edit(control, job, description="new")

    changes = (
        control.resume_job(job.id, Actor(BY, T0), catch_up=False, expect_version=1),
        control.delete_job(job.id, Actor(BY, T0), expect_version=1),
        control.pause_job(job.id, Actor(BY, T0), note="", until=None, cancel_waiting=False, expect_version=1),
        control.retire_job(job.id, Actor(BY, T0), note="", cancel_waiting=False, expect_version=1),
    )
    assert [await refusal(change) for change in changes] == ["version_mismatch"] * 4
    await control.delete_job(job.id, Actor(BY, T0), expect_version=2)


async def test_a_job_is_made_with_its_secrets_or_not_at_all(control: ControlStore, database: Database) -> None:
    sealed = [Sealed(uuid4(), UUID(int=number), "signing", "key", b"sealed") for number in (1, 2)]
    await control.create_job(a_job(), UUID(int=1), Actor(BY, T0), secrets=sealed[:1])

    assert await refusal(control.create_job(a_job(), UUID(int=2), Actor(BY, T0), secrets=sealed[1:])) == "name_taken"
    assert [row["job_id"] for row in await database.rows("secrets")] == [UUID(int=1)]


async def test_an_id_that_is_taken_twice_is_not_called_a_name(control: ControlStore) -> None:
    sealed = Sealed(uuid4(), UUID(int=1), "signing", "key", b"sealed")

    with pytest.raises(Exception, match=r"(?i)unique") as caught:
        await control.create_job(a_job(), UUID(int=1), Actor(BY, T0), secrets=[sealed, sealed])
    assert not isinstance(caught.value, Conflict)
    assert await control.get_job("job") is None


async def test_purging_a_deleted_job_leaves_nothing_of_it_but_the_audit(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control, tags=("red",))
    await plan_all(store, T0 + 5 * MINUTE)
    await run_and_finish(store, count=3)
    await control.delete_job(job.id, Actor(BY, T0 + HOUR))
    other = await add_job(control, "other", now=T0 + HOUR)
    answers = [await control.purge_job(job.id, Actor(BY, T0 + HOUR), limit=2) for _ in range(3)]

    assert answers == [False, False, True]
    for table in ("runs", "attempts", "cancels", "job_stats", "job_tags", "skips"):
        assert await database.rows(table) == [], table
    assert [row["id"] for row in await database.rows("jobs")] == [other.id]
    assert [row["job_id"] for row in await database.rows("job_versions")] == [other.id]
    last = (await database.rows("audit", "id"))[-1]
    assert (last["action"], last["subject"], last["actor"]) == ("job.purge", str(job.id), BY)


async def test_only_a_deleted_job_of_which_nothing_runs_is_purged(store: EngineStore, control: ControlStore) -> None:
    job = await a_waiting_job(store, control)

    def purge() -> Awaitable[bool]:
        return control.purge_job(job.id, Actor(BY, T0), limit=10)

    assert await refusal(purge()) == "job_not_deleted"
    runs = await claim(store)
    await control.delete_job(job.id, Actor(BY, T0))
    assert await refusal(purge()) == "runs_running"
    await finish(store, runs)
    assert await purge()
    assert await refusal(purge()) == "no_such_job"
