"""examine: a database that only Hourbell wrote to has no finding, and each kind of damage is found by its name."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import apsw
import pytest

from hourbell.core.access.roles import Role
from hourbell.core.doctor.facts import RunMark
from hourbell.core.doctor.findings import Finding
from hourbell.core.job.conflicts import JobConflict
from hourbell.core.run.policies import CatchUp, Overlap
from hourbell.core.run.refresh import refresh
from hourbell.core.run.settle import Failed
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.store.base import EngineStore, LaneDemand, Node
from hourbell.store.control.access import Token
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.doctor import MAX_JOB_ROWS, DoctorStore, Expectations, examine, since_skips
from hourbell.store.migrations import load_migrations
from hourbell.store.postgres.doctor import PostgresDoctorStore
from hourbell.store.sqlite.doctor import SqliteDoctorStore
from hourbell.store.sqlite.migrate import migrate
from hourbell.store.sqlite.writer import WriterThread
from tests.contract.steps import (
    BY,
    DAY,
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    PASS,
    SECOND,
    T0,
    a_job,
    add_backlog,
    add_job,
    changed,
    claim,
    claim_suspect,
    finish,
    lose,
    occurrence,
    plan_all,
)
from tests.database import Database, PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
# Past the clock of any machine that runs this, so that rows inserted by SQL are due at once.
START = datetime(2040, 1, 2, 9, tzinfo=UTC)
TRIGGERS = {"trigger_disabled", "object_missing"}  # what had to be switched off to do the damage
INSERT = (
    """insert into hourbell.jobs (name, schedule, target) values ('{}', '* * * * *', '{{"type":"task","name":"a"}}')"""
)
SPARE = "00000000-0000-4000-8000-00000000abcd"


def doctor_of(database: Database) -> DoctorStore:
    if isinstance(database, PostgresDatabase):
        return PostgresDoctorStore(database.connections())
    assert isinstance(database, SqliteDatabase)
    return SqliteDoctorStore(database.path)


async def examined(database: Database, now: datetime, **more: object) -> dict[str, Finding]:
    """Findings by name, but for the unsafe settings of the server and the chain that no loop extends here."""
    kind = "postgres" if isinstance(database, PostgresDatabase) else "sqlite"
    expected = {
        "migrations": load_migrations(f"hourbell.store.{kind}"),
        "tzdata": TZDATA_VERSION,
        "retention": 30 * DAY,
        "lease": MINUTE,
        "stuck_after": 10 * MINUTE,
    }
    store = doctor_of(database)
    found = await examine(store, now, Expectations(**(expected | more)))  # type: ignore[arg-type]
    await store.close()
    left_out = {"setting_unsafe", "audit_unchained"}
    return {finding.check.name: finding for finding in found.findings if finding.check.name not in left_out}


def found_rows(findings: dict[str, Finding], name: str) -> list[str]:
    return findings[name].rows if name in findings else []


async def beat(store: EngineStore, now: datetime, *, started_at: datetime = START, **more: object) -> None:
    facts = {"id": NODE, "host": "here", "started_at": started_at, "lanes": ("task:*",), "tzdata": TZDATA_VERSION}
    await store.heartbeat(Node(**(facts | more)), now, now + MINUTE, [])  # type: ignore[arg-type]


async def live(store: EngineStore, control: ControlStore, database: Database) -> datetime:
    """Two hours with kills, failures, edits, pauses, plain SQL, an outage, time-zone data and retention."""
    await store.check_tzdata(TZDATA_VERSION)
    await add_backlog(control, "all", now=START)
    await add_job(control, "zone", now=START, schedule="*/15 * * * *", timezone="America/New_York")
    await add_job(control, "hashed", now=START, schedule="H/7 * * * *", jitter=20 * SECOND)
    await add_job(control, "finished", now=START, schedule=f"at {(START + 9 * MINUTE).isoformat()}")
    await add_job(control, "window", now=START, schedule="every 20s", ends_at=START + HOUR)
    for overlap in Overlap:
        await add_job(control, overlap, now=START, overlap=overlap, catch_up=CatchUp.LATEST)
    edited, paused = [await add_job(control, name, now=START) for name in ("edited", "paused")]
    await database.set_clock(START)
    await database.sql(INSERT.format("by-sql"))
    for minute in range(120):
        now = START + minute * MINUTE + SECOND
        await database.set_clock(now)
        if 60 <= minute < 75:
            continue  # no node runs
        await plan_all(store, now)
        if minute == 20:
            await control.edit_job(edited.id, lambda job: changed(job, schedule="every 40s"), Actor(BY, now))
        if minute in (25, 80):
            await control.pause_job(paused.id, Actor(BY, now), note="", until=None, cancel_waiting=minute == 80)
        if minute in (40, 95):
            await control.resume_job(paused.id, Actor(BY, now), catch_up=minute == 40)
        if minute == 45:
            await database.sql("update hourbell.jobs set schedule = 'every 2m' where name = 'by-sql'")
        if minute == 50:
            await database.sql("update hourbell.jobs set description = 'words' where name = 'all'")
        if minute == 55:
            await control.trigger_job(edited.id, NODE, Actor(BY, now))
            await control.pause_job(edited.id, Actor(BY, now), note="", until=now + 3 * MINUTE, cancel_waiting=False)
        if minute == 100:
            await store.refresh(TZDATA_VERSION, now, PASS, refresh)
        await lose(store, now)
        runs = await claim(store, now=now, free=30)
        await finish(store, runs[::2], now=now)
        await finish(store, runs[1::4], Failed("no"), now=now)
        while suspects := await claim_suspect(store, now=now):
            await finish(store, suspects, now=now)
        await store.expire(now, PASS)
    await store.prune(now, 30 * MINUTE, 3, 10_000)
    await beat(store, now)
    return now


async def test_a_backfill_of_what_was_skipped_or_never_was_has_no_finding(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await store.check_tzdata(TZDATA_VERSION)
    paused, missed = [await add_job(control, name, now=START) for name in ("paused", "missed")]
    await plan_all(store, START + 5 * MINUTE)
    await control.pause_job(paused.id, Actor(BY, START + 5 * MINUTE), note="", until=None, cancel_waiting=False)
    now = START + HOUR
    await control.resume_job(paused.id, Actor(BY, now), catch_up=False)
    await plan_all(store, now)
    await finish(store, await claim(store, now=now, free=100), now=now)
    past = [occurrence(START + number * MINUTE) for number in range(-10, 61, 2)]

    made = [
        await control.backfill_job(job.id, past, Actor(BY, now), spacing=SECOND, pruned_until=None)
        for job in (paused, missed)
    ]
    await store.refresh(TZDATA_VERSION, now, PASS, refresh)
    await beat(store, now)
    assert await examined(database, now) == {}
    await finish(store, await claim(store, now=now + MINUTE, free=100), now=now + MINUTE)
    await plan_all(store, now + MINUTE)
    await beat(store, now + MINUTE)
    assert await examined(database, now + MINUTE) == {}
    assert min(map(len, made)) > 30


async def test_a_database_after_every_operation_has_no_finding(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await live(store, control, database)

    found = await examined(database, now)

    assert found == {}
    assert len(await database.rows("runs")) > 100
    assert {row["reason"] for row in await database.rows("skips")} >= {"missed", "overlap", "paused"}


async def a_history(store: EngineStore, control: ControlStore) -> datetime:
    """Half an hour of two jobs; at its end one run succeeded a while ago, one runs, one is to be tried again."""
    await store.check_tzdata(TZDATA_VERSION)
    await store.refresh(TZDATA_VERSION, START, PASS, refresh)
    await add_backlog(control, "all", now=START)
    await add_job(control, "alone", now=START, overlap=Overlap.SKIP, lane="b")
    await add_job(control, "late", now=START, schedule="every 5m", lane="c", catch_up=CatchUp.NONE)
    for minute in range(1, 31):
        now = START + minute * MINUTE + SECOND
        if not 10 <= minute <= 20:
            await plan_all(store, now)
        runs = await claim(store, now=now, free=9)
        await finish(store, runs, Failed("no") if minute == 30 else None, now=now)
        await finish(store, await claim(store, now=now, lane="c", free=9), now=now)
        if minute in (5, 25):
            await finish(store, await claim(store, now=now, lane="b"), now=now)
    await claim(store, now=now, lane="b")
    await beat(store, now)
    return now


@dataclass
class Damage:
    """A change by SQL, the finding it causes, and whether the shown statement repairs it."""

    sql: str
    found: set[str]
    heals: bool = True
    unguarded: bool = False  # the triggers that hold runs to their moves had to go

    def __str__(self) -> str:
        return min(self.found)


ONE = "(select id from hourbell.runs where job_id = (select id from hourbell.jobs where name = 'all') "
ENDED = ONE + "and state = 'succeeded' order by scheduled_at desc limit 1)"
RETRYING = ONE + "and state = 'retrying' order by scheduled_at limit 1)"
COPY = f"""insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank,
    lane, planned_at, exclusive, state, attempt, lease_owner, lease_until)
    select '{SPARE}', job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane, planned_at,
    exclusive, {{}} from hourbell.runs where """
DAMAGES = [
    Damage(f"delete from hourbell.runs where id = {ENDED}", {"instant_lost"}),
    Damage(
        "delete from hourbell.runs where job_id = (select id from hourbell.jobs where name = 'all') "
        f"and scheduled_at > (select scheduled_at from hourbell.runs where id = {ENDED})",
        {"instant_lost"},
    ),
    Damage("delete from hourbell.skips where reason = 'missed'", {"instant_lost"}, heals=False),
    Damage("update hourbell.skips set count = count + 1 where reason = 'overlap'", {"skip_miscounted"}),
    Damage(
        "insert into hourbell.skips (job_id, first_at, last_at, count, reason) "
        f"select job_id, scheduled_at, scheduled_at, 1, 'missed' from hourbell.runs where id = {ENDED}",
        {"instant_twice"},
        heals=False,
    ),
    Damage(
        f"update hourbell.runs set id = '{SPARE}' where id = {RETRYING}",
        {"run_id_wrong"},
        heals=False,
    ),
    Damage(
        "drop index hourbell.runs_once; "
        + COPY.format("'pending', 0, null, null")
        + f"id = (select max_id from (select id as max_id from hourbell.runs where id = {ENDED}) as x)",
        {"run_twice", "run_id_wrong", "object_missing"},
        heals=False,
    ),
    Damage(
        "drop index hourbell.runs_exclusive; drop index hourbell.runs_once; "
        + COPY.format("'running', 1, lease_owner, lease_until")
        + "state = 'running' and exclusive",
        {"exclusive_twice", "run_twice", "run_id_wrong", "object_missing"},
        heals=False,
    ),
    Damage("update hourbell.runs set lease_until = null where state = 'running'", {"run_without_lease"}),
    Damage("update hourbell.runs set lease_owner = null where state = 'running' and exclusive", {"run_without_lease"}),
    Damage(
        "update hourbell.runs set attempt = 0 where state = 'running' and exclusive",
        {"run_running_unclaimed"},
        heals=False,
        unguarded=True,
    ),
    Damage(f"update hourbell.runs set finished_at = ready_at where id = {RETRYING}", {"waiting_with_traces"}),
    Damage(
        f"update hourbell.runs set finished_at = null where id = {ENDED}",
        {"ended_without_time"},
        unguarded=True,
    ),
    Damage(
        f"update hourbell.runs set lease_until = ready_at where id = {ENDED}",
        {"ended_with_lease"},
        heals=False,
        unguarded=True,
    ),
    Damage(
        f"update hourbell.runs set reason = 'lost' where id = {ENDED}", {"reason_wrong"}, heals=False, unguarded=True
    ),
    Damage(f"update hourbell.runs set attempt = 0 where id = {RETRYING}", {"attempt_ahead"}),
    Damage(f"delete from hourbell.attempts where run_id = {ENDED}", {"attempt_missing"}, heals=False),
    Damage(
        "delete from hourbell.job_versions where job_id = (select id from hourbell.jobs where name = 'all')",
        {"run_without_version"},
        heals=False,
    ),
    Damage(
        f"update hourbell.runs set job_id = '{SPARE}', kind = 'manual' where id = {RETRYING}",
        {"run_without_job", "instant_lost"},
        heals=False,
    ),
    Damage("update hourbell.jobs set plan_at = null where name = 'all'", {"job_never_planned"}),
    Damage(
        "update hourbell.jobs set error = 'no such zone', plan_at = null where name = 'all'",
        {"job_in_error"},
        heals=False,
    ),
    Damage("update hourbell.jobs set plan_at = created_at where name = 'all'", {"job_overdue"}, heals=False),
    Damage("drop index hourbell.runs_line", {"object_missing"}, heals=False),
    Damage("drop table hourbell.cancels", {"object_missing"}, heals=False),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
async def test_damage_is_found_by_its_name_and_the_statement_shown_repairs_it(
    damage: Damage, store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    assert await examined(database, now) == {}
    if damage.unguarded:
        for trigger in ("runs_moves", "runs_one_claim"):
            await switch_off(database, "runs", trigger)
    await database.sql(damage.sql)

    found = await examined(database, now)
    assert set(found) - (TRIGGERS if damage.unguarded else set()) == damage.found
    for finding in found.values() if damage.heals else ():
        either = 2 if finding.check.name == "instant_lost" else 1  # run it, or put it on record
        for statement in finding.sql[::either]:
            await database.sql(statement)
    assert damage.heals != bool(damage.found & set(await examined(database, now + SECOND)))


@pytest.mark.parametrize("names_id", [False, True], ids=["by its name", "by its id"])
async def test_a_row_that_was_replaced_is_found_by_what_it_left(names_id: bool) -> None:
    """SQLite's `insert or replace` removes a row, and no trigger sees what it was."""
    async with SqliteDatabase.in_file() as database:
        store, control = database.engine(), database.control()
        job = await add_job(control, now=START)
        await plan_all(store, START + MINUTE)
        await finish(store, await claim(store, now=START + MINUTE), now=START + MINUTE)
        await database.set_clock(START + 10 * MINUTE)
        row_id = f"'{job.id}'" if names_id else "randomblob(16)"
        await database.sql(
            "insert or replace into hourbell.jobs (id, name, schedule, target) "
            f"""values ({row_id}, 'job', '*/2 * * * *', '{{"type": "task", "name": "a"}}')"""
        )
        now = START + 11 * MINUTE
        await plan_all(store, now)
        await beat(store, now)

        found = await examined(database, now)

        assert (set(found), found["job_replaced"].count) == ({"job_replaced"}, 1)
        assert (START + MINUTE).isoformat() in found["job_replaced"].rows[0]
        await plan_all(store, START + 12 * MINUTE)
        [replaced] = [row for row in await database.rows("jobs") if row["name"] == "job"]
        run, *_ = await database.rows("runs", "scheduled_at desc")
        assert (run["scheduled_at"], run["job_version"]) == (START + 12 * MINUTE, replaced["version"])
        found_versions = await store.definitions([(run["job_id"], run["job_version"])])
        assert [each.schedule for each in found_versions.values()] == ["*/2 * * * *"]


async def switch_off(database: Database, table: str, trigger: str) -> None:
    is_postgres = isinstance(database, PostgresDatabase)
    off = (
        f"alter table hourbell.{table} disable trigger {trigger}" if is_postgres else f"drop trigger hourbell.{trigger}"
    )
    await database.sql(off)


async def test_a_run_that_nobody_takes_over_is_found_once_a_node_had_the_time(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    later = await a_history(store, control) + 4 * MINUTE
    await plan_all(store, later)
    await store.retire(NODE)
    await beat(store, later, started_at=later - MINUTE)
    soon = await examined(database, later)
    await store.retire(NODE)
    await beat(store, later)

    assert "lease_expired" not in soon
    assert (await examined(database, later))["lease_expired"].count == 1


async def test_lanes_are_judged_by_who_is_alive(store: EngineStore, control: ControlStore, database: Database) -> None:
    now = await a_history(store, control)
    await add_backlog(control, "waits", now=now, lane="d")
    planned_at = now + 15 * MINUTE
    await plan_all(store, planned_at)
    await beat(store, planned_at)
    at_once = await examined(database, planned_at)
    await beat(store, planned_at + 11 * MINUTE, lanes=("task:a", "task:b", "task:c"))
    unserved = await examined(database, planned_at + 11 * MINUTE)
    await beat(store, planned_at + 11 * MINUTE, lanes=("task:*",))
    stuck = await examined(database, planned_at + 11 * MINUTE)

    assert [row for row in found_rows(at_once, "runs_stuck") if "task:d" in row] == []
    assert (unserved["lane_unserved"].count, unserved["lane_unserved"].rows[0][:13]) == (15, "lane task:d: ")
    assert stuck["runs_stuck"].count > 15


async def test_overdue_work_is_an_error_while_no_node_is_alive(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await add_job(control, "once", now=now, schedule=f"at {(now + MINUTE).isoformat()}", lane="d")
    await plan_all(store, now + MINUTE)
    soon = await examined(database, now + 3 * MINUTE)
    gone = await examined(database, now + HOUR)
    await beat(store, now + HOUR, started_at=now + HOUR, id=OTHER_NODE)
    back = await examined(database, now + HOUR)

    assert {"no_live_node", "job_unattended", "runs_unattended"} & set(soon) == {"no_live_node"}
    assert (gone["job_unattended"].is_error, gone["runs_unattended"].is_error) == (True, True)
    assert [row[:13] for row in gone["runs_unattended"].rows if "task:d" in row] == ["lane task:d: "]
    assert gone["job_unattended"].count == 3
    assert {"job_unattended", "runs_unattended", "job_overdue"} & set(back) == set()


async def test_a_run_behind_another_of_its_job_is_not_stuck(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await add_backlog(control, "line", now=now, lane="d", overlap=Overlap.QUEUE_ALL)
    await plan_all(store, now + MINUTE)
    later = now + HOUR
    [run] = await store.claim(NODE, now + MINUTE, later + MINUTE, [LaneDemand("task:d", 1)])
    await plan_all(store, later)
    await beat(store, later)

    rows = (await examined(database, later))["runs_stuck"].rows
    assert run.state == "running"
    assert [row for row in rows if "task:d" in row] == []


async def test_a_run_whose_turn_has_just_come_is_not_stuck(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await add_backlog(control, "line", now=now, lane="d", overlap=Overlap.QUEUE_ALL)
    await plan_all(store, now + HOUR)
    await finish(store, await claim(store, now=now + HOUR, lane="d"), now=now + HOUR)
    await beat(store, now + HOUR)
    rows = (await examined(database, now + HOUR))["runs_stuck"].rows
    await beat(store, now + 2 * HOUR)
    later = (await examined(database, now + 2 * HOUR))["runs_stuck"].rows

    assert [[row[:14] for row in each if "task:d" in row] for each in (rows, later)] == [[], ["lane task:d: 1"]]


async def test_a_run_is_stuck_although_the_one_before_it_ended_in_the_future(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await add_backlog(control, "line", now=now, lane="d", overlap=Overlap.QUEUE_ALL)
    await plan_all(store, now + HOUR)
    await finish(store, await claim(store, now=now + 5 * HOUR, lane="d"), now=now + 5 * HOUR)
    stepped_back = now + 2 * HOUR
    await beat(store, stepped_back)

    rows = (await examined(database, stepped_back))["runs_stuck"].rows
    assert [row[:14] for row in rows if "task:d" in row] == ["lane task:d: 1"]


async def test_nodes_are_judged_by_their_time_zone_data_and_their_clocks(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await beat(store, now + MINUTE, id=OTHER_NODE, tzdata="2001a")
    found = await examined(database, now)
    elsewhere = await examined(database, now, tzdata="2001a")
    await store.check_tzdata("2999a")

    assert set(found) == {"tzdata_mixed", "beat_in_future"}
    assert str(OTHER_NODE) in found["tzdata_mixed"].rows[0]
    assert set(elsewhere) == {"tzdata_mixed", "beat_in_future", "tzdata_here"}
    assert set(await examined(database, now)) == {"tzdata_mixed", "beat_in_future", "tzdata_unfinished", "tzdata_here"}


async def test_jobs_planned_before_the_clock_stepped_back_are_found(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await beat(store, now - HOUR)

    assert (await examined(database, now - HOUR))["cursor_ahead"].count == 3


async def test_retention_leaves_nothing_to_find_whatever_the_settings_say(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    for keep in (5, 1, 0):
        await store.prune(now, 12 * MINUTE, keep, 7)
        assert await examined(database, now) == {}


async def test_findings_older_than_the_configured_retention_are_left_out(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    now = await a_history(store, control)
    await database.sql(f"delete from hourbell.runs where id = {ENDED}")

    assert set(await examined(database, now)) == {"instant_lost"}
    assert await examined(database, now, retention=SECOND) == {}


async def test_newer_time_zone_data_hides_what_came_before(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    """A country changes its clocks at short notice: runs were planned for local times that no longer exist."""
    await add_job(control, "zone", now=START, schedule="30 * * * *", timezone="Europe/Paris")
    for hour in range(1, 13):
        now = START + hour * HOUR
        await plan_all(store, now)
        await finish(store, await claim(store, now=now), now=now)
    await beat(store, now)
    await database.sql(f"delete from hourbell.runs where {scheduled_at(4)} or {scheduled_at(8)}")
    with_todays_data = await examined(database, now)
    await switch_off(database, "runs", "runs_moves")
    hour = "interval '1 hour'" if isinstance(database, PostgresDatabase) else "3600000000"
    await database.sql(f"update hourbell.runs set local_at = local_at + {hour} where {scheduled_at(6)}")

    assert with_todays_data["instant_lost"].count == 2
    assert (await examined(database, now))["instant_lost"].rows == ["job zone, 2040-01-02T17:30:00+00:00"]


def scheduled_at(index: int) -> str:
    """The condition that picks a run by its place in time."""
    return f"scheduled_at = (select scheduled_at from hourbell.runs order by 1 limit 1 offset {index})"


async def test_a_database_without_hourbell_is_one_finding(empty_database: Database) -> None:
    assert set(await examined(empty_database, START)) == {"migration_pending"}


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (
            "insert into hourbell.migrations (number, name, checksum, applied_at) "
            "select 9999, 'later', 'x', max(applied_at) from hourbell.migrations",
            "schema_newer",
        ),
        ("update hourbell.migrations set checksum = 'x'", "migration_changed"),
        ("delete from hourbell.migrations", "migration_pending"),
    ],
)
async def test_another_schema_is_not_checked(sql: str, name: str, database: Database) -> None:
    await database.sql(sql)

    assert set(await examined(database, START)) == {name}


async def test_the_doctor_writes_nothing(store: EngineStore, control: ControlStore, database: Database) -> None:
    now = await a_history(store, control)
    tables = ("jobs", "job_versions", "runs", "attempts", "skips", "job_stats", "nodes", "meta")
    before = [await database.rows(table) for table in tables]
    await examined(database, now)

    assert [await database.rows(table) for table in tables] == before


async def test_unsafe_settings_triggers_and_indexes_of_postgresql_are_found(postgres: PostgresDatabase) -> None:
    store = PostgresDoctorStore(postgres.connections())
    name = await postgres.connection.fetchval("select current_database()")
    for setting in ("fsync", "full_page_writes"):
        assert await postgres.connection.fetchval(f"show {setting}") == "off", "the tests' server is a quick one"
    await postgres.sql(f"alter database {name} set synchronous_commit = on")
    await postgres.sql("alter table hourbell.jobs disable trigger jobs_changed")
    await postgres.sql("update pg_index set indisvalid = false where indexrelid = 'hourbell.runs_once'::regclass")
    migrations = load_migrations("hourbell.store.postgres")
    found = {
        finding.check.name: finding
        for finding in (await examine(store, START, Expectations(migrations, "", DAY, MINUTE, HOUR))).findings
    }

    assert found["setting_unsafe"].rows == ["fsync is off", "full_page_writes is off"]
    assert found["trigger_disabled"].rows == ["trigger jobs_changed of jobs"]
    assert found["index_invalid"].rows == ["index runs_once"]
    for statement in found["trigger_disabled"].sql + found["index_invalid"].sql:
        await postgres.sql(statement)
    assert {"trigger_disabled", "index_invalid"} & set(await examined(postgres, START)) == set()


@pytest.mark.parametrize("database", ["sqlite", "memory"], indirect=True)  # PostgreSQL looks after its files itself
async def test_damage_in_a_sqlite_file_is_found(control: ControlStore, database: Database) -> None:
    await add_job(control, now=START)
    await database.sql("pragma ignore_check_constraints = on; update hourbell.jobs set priority = 'odd'")
    found = await examined(database, START)

    assert set(found) == {"database_damaged", "job_in_error", "no_live_node"}
    assert found["database_damaged"].rows == ["CHECK constraint failed in hourbell_jobs"]


async def test_a_sqlite_file_without_wal_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "hourbell.db")
    runner = WriterThread(path)
    await migrate(runner)
    await runner.close()
    connection = apsw.Connection(path)
    connection.pragma("journal_mode", "delete")
    connection.close()
    store = SqliteDoctorStore(path)
    expected = Expectations(load_migrations("hourbell.store.sqlite"), TZDATA_VERSION, DAY, MINUTE, HOUR)
    found = [finding.check.name for finding in (await examine(store, START, expected)).findings]
    await store.close()

    assert found == ["journal_mode", "no_live_node"]


def test_runs_older_than_the_skips_that_were_read_are_not_judged() -> None:
    def run(number: int) -> RunMark:
        at = T0 + number * MINUTE
        return RunMark(at, at.replace(tzinfo=None), 1, "scheduled", at, at)

    skips = [(T0 + number * MINUTE, T0 + number * MINUTE, 1, "missed") for number in range(MAX_JOB_ROWS + 5, 5, -1)]

    assert since_skips([run(1), run(20_000)], skips) == (run(20_000),)
    assert since_skips([run(1), run(20_000)], skips[1:]) == (run(1), run(20_000))


async def test_text_that_is_not_utf_8_does_not_stop_the_examination() -> None:
    async with SqliteDatabase.in_file() as database:
        await add_job(database.control(), now=START)
        await database.sql("update hourbell_jobs set schedule = cast(x'436166e9' as text), version = version + 1")
        await plan_all(database.engine(), START + MINUTE)

        assert "job_in_error" in await examined(database, START + MINUTE)


async def test_a_job_that_a_program_defines_and_somebody_else_has_is_an_error(database: Database) -> None:
    control = database.control()
    for name, managed_by, source in (("a", "api", ""), ("b", "code", "old"), ("c", "code", "shop")):
        await control.create_job(a_job(name, "@yearly", managed_by=managed_by, source=source), uuid4(), Actor(BY, T0))
    await database.engine().heartbeat(Node(NODE, "host", T0, ("task:a",), TZDATA_VERSION), T0, T0 + MINUTE, ())
    await control.note_program(NODE, "shop", ["a", "b", "c", "missing"])

    found = (await examined(database, T0))["job_conflict"]
    assert found.is_error
    assert [row.split(";")[0] for row in found.rows] == [
        "job a: code:shop defines it, api has it",
        "job b: code:shop defines it, code:old has it",
    ]
    assert all(f"hourbell job delete {name} --take-over" in row for name, row in zip("ab", found.rows, strict=True))
    assert await database.lists().conflicts(T0 - MINUTE) == [
        JobConflict("a", "api", "code:shop"),
        JobConflict("b", "code:old", "code:shop"),
    ]
    assert "job_conflict" not in await examined(database, T0 + HOUR)
    assert await database.lists().conflicts(T0) == []


async def test_access_is_judged_by_the_tables_alone(database: Database) -> None:
    store, access = doctor_of(database), database.access()
    first = await store.access(T0)
    token = Token(uuid4(), "ci", Role.ADMIN, T0, T0 + HOUR)
    await access.add_token(token, b"digest", Actor(BY, token.created_at))
    seen = [await store.access(now) for now in (T0, T0 + HOUR)]
    await access.open_access(Actor(BY, T0 + HOUR))
    last = await store.access(T0 + HOUR)
    await store.close()

    assert [(each.is_open, each.valid_tokens) for each in (first, *seen, last)] == [
        (True, 0),
        (False, 1),
        (False, 0),
        (True, 0),
    ]
