"""Migrations are applied once, however many nodes apply them, and never to a schema that does not match."""

import asyncio
from uuid import UUID, uuid4

import asyncpg
import pytest

from hourbell.store.errors import StoreUnavailable
from hourbell.store.migrations import Migration, MigrationError, load_migrations, pending
from hourbell.store.postgres import migrate as postgres
from hourbell.store.postgres.migrate import migrate, status
from hourbell.store.sqlite import migrate as sqlite
from tests.contract.steps import add_job
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio


async def test_an_empty_database_gets_every_migration(empty_database: Database) -> None:
    done = await empty_database.migrate()

    applied = await empty_database.rows("migrations")
    assert [(each.number, each.name, each.checksum) for each in done] == [
        (row["number"], row["name"], row["checksum"]) for row in applied
    ]
    assert done[0].replaces
    await add_job(empty_database.control())


async def test_migrating_twice_is_migrating_once(empty_database: Database) -> None:
    await empty_database.migrate()
    before = await empty_database.rows("migrations")

    assert await empty_database.migrate() == []
    assert await empty_database.rows("migrations") == before


async def test_many_nodes_may_migrate_at_once(empty_database: Database) -> None:
    done = await asyncio.gather(*(empty_database.migrate() for _ in range(8)))

    ran = [migration.number for each in done for migration in each]
    assert sorted(ran) == [row["number"] for row in await empty_database.rows("migrations", "number")]


async def test_a_migration_that_was_changed_is_refused(database: Database) -> None:
    await database.sql("update hourbell.migrations set checksum = 'other' where number = 15")

    with pytest.raises(MigrationError, match="0015 was changed"):
        await database.migrate()


async def test_a_newer_schema_is_refused(database: Database) -> None:
    await database.sql("update hourbell.migrations set number = 999 where number = 15")

    with pytest.raises(MigrationError, match=r"schema version 999.*upgrade Hourbell"):
        await database.migrate()


def test_missing_migrations_run_in_order() -> None:
    known = [Migration(number, "x", "select 1") for number in (1, 2, 3)]

    assert pending(known, {1: known[0].checksum}) == known[1:]


def test_numbers_may_be_left_out() -> None:
    known = [Migration(number, "x", "select 1") for number in (1, 4)]

    assert pending(known, {1: known[0].checksum, 4: known[1].checksum}) == []


async def test_a_database_that_has_jobs_gets_alerts(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        for backend in (sqlite, postgres):
            known = [each for each in load_migrations(backend.PACKAGE) if each.number < 19]
            before.setattr(backend, "load_migrations", lambda _, known=known: known)
        await empty_database.migrate()
    insert = "insert into hourbell.jobs (name, schedule, target, managed_by) values ('{0}', '@daily', '{1}', '{0}')"
    target = '{"type": "task", "name": "x"}'
    await empty_database.sql(insert.format("file", target))

    later = [each.number for each in load_migrations(sqlite.PACKAGE) if each.number >= 19]
    assert [each.number for each in await empty_database.migrate()] == later
    [job] = await empty_database.rows("jobs")
    assert (job["name"], job["alert_policy"]) == ("file", "")
    await empty_database.sql(insert.format("system", target))
    with pytest.raises(Exception, match=r"(?i)check"):
        await empty_database.sql(insert.format("other", target))
    await empty_database.sql("update hourbell.jobs set alert_policy = 'none' where name = 'file'")
    assert [row["alert_policy"] for row in await empty_database.rows("job_changes")] == [""]


async def test_a_database_that_has_jobs_accepts_jobs_of_an_application(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = "insert into hourbell.jobs (name, schedule, target, managed_by) values ('{0}', '@daily', '{1}', '{0}')"
    target = '{"type": "task", "name": "x"}'
    with monkeypatch.context() as before:
        for backend in (sqlite, postgres):
            known = [each for each in load_migrations(backend.PACKAGE) if each.number < 22]
            before.setattr(backend, "load_migrations", lambda _, known=known: known)
        await empty_database.migrate()
        await empty_database.sql(insert.format("file", target))
        with pytest.raises(Exception, match=r"(?i)check"):
            await empty_database.sql(insert.format("app", target))

    assert 22 in [each.number for each in await empty_database.migrate()]
    await empty_database.sql(insert.format("app", target))
    with pytest.raises(Exception, match=r"(?i)check"):
        await empty_database.sql(insert.format("other", target))
    assert sorted(row["name"] for row in await empty_database.rows("jobs")) == ["app", "file"]


async def test_messages_and_incidents_outlive_the_change_of_their_tables(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        for backend in (sqlite, postgres):
            known = [each for each in load_migrations(backend.PACKAGE) if each.number < 20]
            before.setattr(backend, "load_migrations", lambda _, known=known: known)
        await empty_database.migrate()
    is_postgres = isinstance(empty_database, PostgresDatabase)
    incident, at = (f"'{UUID(int=7)}'", "'2026-03-02T09:00:00Z'") if is_postgres else (f"x'{UUID(int=7).hex}'", "7")
    await empty_database.sql(
        "insert into hourbell.incidents (id, key, kind, state, policy, opened_at, last_at, notified_at) "
        f"values ({incident}, 'a', 'failed', 'open', 'default', {at}, {at}, {at})"
    )
    columns = "run_id, incident_id, channel, event, step, planned_at"
    for about in (incident, "null"):
        run = f"'{uuid4()}'" if is_postgres else f"x'{uuid4().hex}'"
        values = f"{run}, {about}, 'ops', 'incident.opened', 1, {at}"
        await empty_database.sql(f"insert into hourbell.notifications ({columns}) values ({values})")
    rows = await empty_database.rows("notifications", "run_id")

    await empty_database.migrate()

    assert await empty_database.rows("notifications", "run_id") == rows
    [found] = await empty_database.rows("incidents")
    assert (found["announced_at"], found["quiet_until"]) == (found["opened_at"], None)


async def test_a_migration_that_fails_midway_leaves_nothing(empty_database: Database) -> None:
    if isinstance(empty_database, PostgresDatabase):
        await empty_database.sql("create schema hourbell")
    await empty_database.sql("create table hourbell.audit (x integer)")

    with pytest.raises(Exception, match="already exists"):
        await empty_database.migrate()
    with pytest.raises(Exception, match="jobs"):
        await empty_database.rows("jobs")
    await empty_database.sql("drop table hourbell.audit")
    assert len(await empty_database.migrate()) > 0


async def test_a_migration_killed_midway_is_resumed() -> None:
    async with PostgresDatabase.made(migrated=False) as database:
        await database.sql("create schema hourbell")
        blocker = await asyncpg.connect(database.url)
        await blocker.execute("begin; create table hourbell.audit (x integer)")
        migrating = asyncio.create_task(database.migrate())
        await kill_when_blocked(database)

        with pytest.raises(StoreUnavailable):
            await migrating
        await blocker.close()
        assert len(await database.migrate()) > 0


async def test_the_status_lists_applied_migrations(postgres: PostgresDatabase) -> None:
    async with PostgresDatabase.made(migrated=False) as empty:
        before = await status(empty.connections())
        await migrate(empty.connections())

        assert [done for _, done in before] == [False] * len(before)
        assert [done for _, done in await status(postgres.connections())] == [True] * len(before)


async def kill_when_blocked(database: PostgresDatabase) -> None:
    """Kill the connection that waits for another's table."""
    waits = "from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    while not await database.connection.fetchval(f"select pg_terminate_backend(pid) {waits}"):
        await asyncio.sleep(0.01)
