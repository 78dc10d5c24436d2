"""Rows that plain SQL inserts or changes while no node runs: every due time is a run or a skip of its version."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from hourbell.control.explain import Verdict, explain
from hourbell.core.job.definition import Job
from hourbell.core.run.plan import Plan, plan
from hourbell.core.run.policies import Overlap
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import RunList, RunQuery
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import BY, DAY, HOUR, MINUTE, PASS, SECOND, T0, add_backlog, add_job, plan_all
from tests.database import Database, PostgresDatabase, Row

pytestmark = pytest.mark.anyio
TASK = '{{"type": "task", "name": "{}"}}'


async def at(database: Database, moment: datetime, statement: str) -> None:
    """Execute a statement at a moment of the database's clock."""
    await database.set_clock(moment)
    await database.sql(statement)


async def insert(database: Database, moment: datetime, schedule: str = "0 * * * *", **more: str) -> None:
    columns = {"name": "job", "schedule": schedule, "target": TASK.format("a")} | more
    values = ", ".join(f"'{value}'" for value in columns.values())
    await at(database, moment, f"insert into hourbell.jobs ({', '.join(columns)}) values ({values})")


async def the_job(database: Database) -> Row:
    [job] = await database.rows("jobs")
    return job


async def planned(database: Database) -> list[tuple[datetime, int]]:
    """The scheduled time and version of each run."""
    return [(run["scheduled_at"], run["job_version"]) for run in await database.rows("runs", "scheduled_at")]


async def skipped(database: Database) -> list[tuple[datetime, datetime, int, str]]:
    rows = await database.rows("skips", "first_at")
    return [(row["first_at"], row["last_at"], row["count"], row["reason"]) for row in rows]


async def test_a_job_inserted_before_its_time_runs_when_a_node_starts_after_it(
    store: EngineStore, database: Database
) -> None:
    await insert(database, T0 - 10 * MINUTE)  # due at T0, an hour's first minute

    await plan_all(store, T0 + 30 * MINUTE)

    assert (await planned(database), await skipped(database)) == ([(T0, 1)], [])


async def test_a_schedule_changed_while_no_node_runs_leaves_no_gap(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control, schedule="0 * * * *")
    await at(database, T0 + 150 * MINUTE, "update hourbell.jobs set schedule = '30 * * * *'")

    await plan_all(store, T0 + 4 * HOUR)

    old = [(T0 + HOUR, 1), (T0 + 2 * HOUR, 1)]
    assert await planned(database) == [*old, (T0 + 210 * MINUTE, 2)]
    assert await skipped(database) == []


async def test_several_changes_during_one_outage_lose_nothing(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control, schedule="0 * * * *")  # of each version, the newest time runs
    await at(database, T0 + 150 * MINUTE, "update hourbell.jobs set schedule = '*/10 * * * *'")
    await at(database, T0 + 185 * MINUTE, f"update hourbell.jobs set target = '{TASK.format('b')}'")
    await at(database, T0 + 215 * MINUTE, "update hourbell.jobs set schedule = '5 * * * *', catch_up = 'all'")

    await plan_all(store, T0 + 6 * HOUR)

    minutes = [(120, 1), (180, 2), (210, 3), (245, 4), (305, 4)]
    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in minutes]
    assert await skipped(database) == [
        (T0 + HOUR, T0 + HOUR, 1, "missed"),
        (T0 + 160 * MINUTE, T0 + 170 * MINUTE, 2, "missed"),
        (T0 + 190 * MINUTE, T0 + 200 * MINUTE, 2, "missed"),
    ]
    lanes = {run["job_version"]: run["lane"] for run in await database.rows("runs")}
    assert lanes == {1: "task:a", 2: "task:a", 3: "task:b", 4: "task:b"}


async def test_a_backlog_of_several_passes_is_planned_by_the_old_version_first(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    await at(database, T0 + 250 * MINUTE, "update hourbell.jobs set schedule = '0 0 1 1 *'")

    await plan_all(store, T0 + 5 * HOUR)

    assert await planned(database) == [(T0 + n * MINUTE, 1) for n in range(1, 251)]


async def test_times_due_before_a_job_was_disabled_run_and_the_rest_is_skipped(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set enabled = false")
    await at(database, T0 + 5 * MINUTE, "update hourbell.jobs set enabled = true")

    await plan_all(store, T0 + 7 * MINUTE)

    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in ((1, 1), (2, 1), (6, 3), (7, 3))]
    assert await skipped(database) == [(T0 + 3 * MINUTE, T0 + 5 * MINUTE, 3, "paused")]


async def test_a_pause_that_ended_before_the_change_was_over_then(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await control.pause_job(job.id, Actor(BY, T0), note="", until=T0 + 2 * MINUTE, cancel_waiting=False)
    await at(database, T0 + 4 * MINUTE, "update hourbell.jobs set enabled = true, schedule = '0 0 1 1 *'")

    await plan_all(store, T0 + HOUR)

    assert await planned(database) == [(T0 + 3 * MINUTE, 2), (T0 + 4 * MINUTE, 2)]
    assert await skipped(database) == [(T0 + MINUTE, T0 + 2 * MINUTE, 2, "paused")]


@pytest.mark.parametrize(
    ("damage", "skips"),
    [
        ("schedule = '61 * * * *'", []),
        ("target = '{}'", [(T0 + 3 * MINUTE, T0 + 5 * MINUTE, 3, "edited")]),
    ],
    ids=["a schedule that names no times", "a target that cannot be called"],
)
async def test_an_invalid_version_between_two_others_stops_neither(
    store: EngineStore, control: ControlStore, database: Database, damage: str, skips: Sequence[object]
) -> None:
    await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, f"update hourbell.jobs set {damage}")
    fixed = f"schedule = '* * * * *', target = '{TASK.format('a')}'"
    await at(database, T0 + 5 * MINUTE, f"update hourbell.jobs set {fixed}")

    await plan_all(store, T0 + 6 * MINUTE)

    assert await planned(database) == [(T0 + MINUTE, 1), (T0 + 2 * MINUTE, 1), (T0 + 6 * MINUTE, 3)]
    assert (await skipped(database), (await the_job(database))["error"]) == (skips, None)


async def test_a_job_that_was_in_error_is_accounted_for_when_it_is_fixed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)
    await at(database, T0, "update hourbell.jobs set target = '{}'")
    await plan_all(store, T0 + MINUTE)
    assert (await the_job(database))["error"] is not None
    await at(database, T0 + 3 * MINUTE, f"update hourbell.jobs set target = '{TASK.format('a')}'")

    await plan_all(store, T0 + 4 * MINUTE)

    assert await planned(database) == [(T0 + 4 * MINUTE, 3)]
    assert await skipped(database) == [(T0 + MINUTE, T0 + 3 * MINUTE, 3, "edited")]


async def test_an_old_version_that_the_tables_refuse_does_not_stop_the_job(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set schedule = '*/5 * * * *'")

    def decide(job: Job, now: datetime) -> Plan:
        if job.superseded_at is not None and job.error is None:
            raise OverflowError("date value out of range")
        return plan(job, now)

    while (await store.plan_due(T0 + 6 * MINUTE, PASS, decide)).jobs:
        pass

    assert await planned(database) == [(T0 + 5 * MINUTE, 2)]
    assert await skipped(database) == [(T0 + MINUTE, T0 + 2 * MINUTE, 2, "edited")]


@pytest.mark.parametrize("version", ["version + 1", "version", "1", "version - 1", "7"])
async def test_a_statement_that_sets_the_version_is_a_change_like_any_other(
    store: EngineStore, control: ControlStore, database: Database, version: str
) -> None:
    await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, f"update hourbell.jobs set schedule = '*/5 * * * *', version = {version}")

    await plan_all(store, T0 + 6 * MINUTE)

    number = 7 if version == "7" else 2
    assert await planned(database) == [(T0 + MINUTE, 1), (T0 + 2 * MINUTE, 1), (T0 + 5 * MINUTE, number)]
    versions = {row["version"]: row["definition"]["schedule"] for row in await database.rows("job_versions")}
    assert versions == {1: "* * * * *", number: "*/5 * * * *"}


async def test_a_version_is_never_reused_for_another_definition(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await control.edit_job(job.id, lambda found: replace(found.definition, description="second"), Actor(BY, T0))
    await at(database, T0, "update hourbell.jobs set version = 1")

    await plan_all(store, T0 + MINUTE)

    [(_, version)] = await planned(database)
    assert (version, (await store.definitions([(job.id, version)]))[job.id, version].description) == (3, "second")


async def test_each_version_is_written_down_since_its_statement(store: EngineStore, database: Database) -> None:
    await insert(database, T0 - HOUR)
    await at(database, T0 + MINUTE, "update hourbell.jobs set description = 'second'")
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set description = 'third'")

    await plan_all(store, T0 + DAY)

    rows = await database.rows("job_versions", "version")
    assert [(row["changed_at"], row["definition"]["description"]) for row in rows] == [
        (T0 - HOUR, ""),
        (T0 + MINUTE, "second"),
        (T0 + 2 * MINUTE, "third"),
    ]
    assert await database.rows("job_changes") == []


async def test_a_statement_that_changes_nothing_leaves_no_change(control: ControlStore, database: Database) -> None:
    await add_job(control)
    await database.sql("update hourbell.jobs set schedule = schedule, priority = 'normal', next_at = next_at")

    assert (await database.rows("job_changes"), (await the_job(database))["has_changes"]) == ([], False)


async def test_changes_by_hourbell_itself_leave_none(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    await control.edit_job(job.id, lambda found: replace(found.definition, schedule="0 * * * *"), Actor(BY, T0))
    await control.pause_job(job.id, Actor(BY, T0), note="", until=T0 + HOUR, cancel_waiting=False)
    await plan_all(store, T0 + 2 * HOUR)
    await control.pause_job(job.id, Actor(BY, T0 + 2 * HOUR), note="", until=None, cancel_waiting=False)
    await control.resume_job(job.id, Actor(BY, T0 + 3 * HOUR), catch_up=False)
    await control.delete_job(job.id, Actor(BY, T0 + 3 * HOUR))

    assert await database.rows("job_changes") == []
    assert (await the_job(database))["version"] == 6


async def test_an_edit_behind_changes_that_are_not_planned_takes_its_turn(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set schedule = '*/5 * * * *'")

    edited = (
        await control.edit_job(
            job.id, lambda found: replace(found.definition, schedule="*/7 * * * *"), Actor(BY, T0 + 11 * MINUTE)
        )
    ).job
    await plan_all(store, T0 + 15 * MINUTE)

    minutes = [(1, 1), (2, 1), (5, 2), (10, 2), (14, 3)]
    assert (edited.version, await planned(database)) == (3, [(T0 + n * MINUTE, version) for n, version in minutes])


async def test_a_pause_and_its_end_behind_changes_take_their_turns(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set schedule = '*/2 * * * *'")
    await control.pause_job(job.id, Actor(BY, T0 + 5 * MINUTE), note="", until=None, cancel_waiting=False)
    await control.resume_job(job.id, Actor(BY, T0 + 9 * MINUTE), catch_up=False)

    await plan_all(store, T0 + 12 * MINUTE)

    minutes = [(1, 1), (2, 1), (4, 2), (10, 4), (12, 4)]
    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in minutes]
    assert await skipped(database) == [(T0 + 6 * MINUTE, T0 + 8 * MINUTE, 2, "paused")]


async def test_a_job_paused_behind_a_change_stays_paused(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_backlog(control)
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set enabled = false")
    await control.pause_job(job.id, Actor(BY, T0 + 3 * MINUTE), note="", until=T0 + 5 * MINUTE, cancel_waiting=False)

    await plan_all(store, T0 + 6 * MINUTE)

    assert [instant for instant, _ in await planned(database)] == [T0 + n * MINUTE for n in (1, 2, 6)]
    assert await skipped(database) == [(T0 + 3 * MINUTE, T0 + 5 * MINUTE, 3, "paused")]


async def test_the_old_version_is_planned_until_a_change_that_a_node_is_not_at_yet(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control, schedule="every 1s")
    await at(database, T0 + 5 * SECOND, "update hourbell.jobs set schedule = 'every 2s'")

    await plan_all(store, T0 + 3 * SECOND)
    early = await planned(database)
    await plan_all(store, T0 + 8 * SECOND)

    assert early == [(T0 + n * SECOND, 1) for n in (1, 2, 3)]
    assert await planned(database) == [(T0 + n * SECOND, 1 if n <= 5 else 2) for n in (1, 2, 3, 4, 5, 6, 8)]


async def test_a_change_made_before_the_clock_went_back_counts_from_now(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    await at(database, T0 + HOUR, "update hourbell.jobs set schedule = '*/2 * * * *'")

    await plan_all(store, T0 + 3 * MINUTE)
    await plan_all(store, T0 + 6 * MINUTE)

    minutes = [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2)]
    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in minutes]


async def test_a_change_before_the_cursor_plans_nothing_again(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control)
    await plan_all(store, T0 + 5 * MINUTE)
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set schedule = '*/2 * * * *'")

    await plan_all(store, T0 + 6 * MINUTE)

    assert await planned(database) == [(T0 + n * MINUTE, 1 if n < 6 else 2) for n in range(1, 7)]


async def test_the_overlap_of_the_old_version_holds_for_its_times(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_backlog(control, overlap=Overlap.SKIP)
    await at(database, T0 + 3 * MINUTE, "update hourbell.jobs set overlap = 'allow'")

    await plan_all(store, T0 + 5 * MINUTE)

    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in ((1, 1), (4, 2), (5, 2))]
    assert await skipped(database) == [(T0 + 2 * MINUTE, T0 + 3 * MINUTE, 2, "overlap")]


async def test_a_row_is_accounted_for_from_its_insert_whatever_cursor_it_names(
    store: EngineStore, database: Database
) -> None:
    long_ago = T0 - DAY
    is_postgres = isinstance(database, PostgresDatabase)
    moment = str(long_ago) if is_postgres else str(int(long_ago.timestamp()) * 1_000_000)
    await insert(database, T0 - 10 * MINUTE, catch_up="all", cursor_at=moment, created_at=moment, plan_at=moment)

    await plan_all(store, T0 + 30 * MINUTE)

    assert (await planned(database), await skipped(database)) == ([(T0, 1)], [])


async def verdicts(lists: ListStore, database: Database, now: datetime, minutes: Sequence[int]) -> list[Verdict]:
    """Return the explanations of the times this many minutes after T0."""
    job_id = (await the_job(database))["id"]
    found = []
    for minute in minutes:
        instant = T0 + minute * MINUTE
        facts = await lists.instant(job_id, instant)
        assert facts is not None
        found.append(explain(facts, instant, now).verdict)
    return found


async def test_every_time_of_each_version_is_explained_before_and_after_a_node_starts(
    store: EngineStore, lists: ListStore, database: Database
) -> None:
    await insert(database, T0, "*/10 * * * *")
    await at(database, T0 + 25 * MINUTE, "update hourbell.jobs set schedule = '*/7 * * * *'")
    await at(database, T0 + 50 * MINUTE, "update hourbell.jobs set enabled = false")
    await at(database, T0 + 60 * MINUTE, "update hourbell.jobs set enabled = true, schedule = '5 * * * *'")
    minutes, others = [10, 20, 28, 35, 42, 49, 65], [7, 30, 70]
    now = T0 + 70 * MINUTE

    assert await verdicts(lists, database, now, minutes) == [Verdict.NOT_PLANNED_YET] * 7
    assert await verdicts(lists, database, now, [56]) == [Verdict.PAUSED]
    assert await verdicts(lists, database, now, others) == [Verdict.NOT_AN_INSTANT] * 3
    await plan_all(store, now)

    skipped, waiting = Verdict.SKIPPED, Verdict.WAITING
    assert await verdicts(lists, database, now, minutes) == [skipped, waiting, *[skipped] * 3, waiting, waiting]
    assert await verdicts(lists, database, now, [56]) == [Verdict.SKIPPED]
    assert await verdicts(lists, database, now, others) == [Verdict.NOT_AN_INSTANT] * 3


UPSERT = """
insert into hourbell.jobs (name, schedule, target) values ('job', '{}', '{}')
on conflict (name) do update set schedule = excluded.schedule, target = excluded.target
"""


async def test_a_row_is_inserted_or_updated_by_its_name(store: EngineStore, database: Database) -> None:
    for minute, schedule in ((0, "* * * * *"), (3, "*/5 * * * *"), (4, "*/5 * * * *")):
        await at(database, T0 + minute * MINUTE, UPSERT.format(schedule, TASK.format("a")))

    await plan_all(store, T0 + 6 * MINUTE)

    job = await the_job(database)
    assert (job["version"], job["error"], await database.rows("job_changes")) == (2, None, [])
    assert await planned(database) == [(T0 + 3 * MINUTE, 1), (T0 + 5 * MINUTE, 2)]
    assert await skipped(database) == [(T0 + MINUTE, T0 + 2 * MINUTE, 2, "missed")]


async def test_a_deleted_job_gives_its_name_free_and_keeps_it_for_its_history(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    old = await add_job(control)
    await plan_all(store, T0 + MINUTE)
    await control.delete_job(old.id, Actor(BY, T0 + MINUTE))

    await at(database, T0 + 2 * MINUTE, UPSERT.format("* * * * *", TASK.format("b")))
    await plan_all(store, T0 + 3 * MINUTE)

    new, deleted = await control.get_job("job"), await lists.job(old.id, deleted=True)
    assert new is not None
    assert new.id != old.id
    assert deleted is not None
    assert deleted.job.definition.name == "job"
    assert {run.job_name for run in await lists.runs(RunQuery(RunList.OF_JOB, job_id=old.id), 10)} == {"job"}
    rows = {row["id"]: (row["name"], row["deleted_name"]) for row in await database.rows("jobs")}
    assert rows[new.id] == ("job", None)
    assert rows[old.id][1] == "job"
    assert rows[old.id][0].startswith("deleted-")


async def test_a_job_that_is_deleted_by_plain_sql_gives_its_name_free_too(
    control: ControlStore, database: Database
) -> None:
    old = await add_job(control)
    await database.sql("update hourbell.jobs set deleted_at = created_at, plan_at = null")

    new = await add_job(control)

    assert new.id != old.id
    await control.delete_job(new.id, Actor(BY, T0))
    assert {row["deleted_name"] for row in await database.rows("jobs")} == {"job"}


async def test_several_statements_of_one_transaction_are_changes_one_by_one(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await add_job(control)
    await database.sql("begin")
    await at(database, T0 + 2 * MINUTE, "update hourbell.jobs set description = 'a', schedule = '*/3 * * * *'")
    await at(database, T0 + 4 * MINUTE, "update hourbell.jobs set description = 'b', schedule = '*/5 * * * *'")
    await database.sql("commit")

    await plan_all(store, T0 + 5 * MINUTE)

    assert await planned(database) == [(T0 + n * MINUTE, version) for n, version in ((2, 1), (3, 2), (5, 3))]
