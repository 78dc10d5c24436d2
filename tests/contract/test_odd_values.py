"""Values that a database can store and Python cannot represent: one such row must not hide the others."""

from contextlib import suppress

import apsw
import asyncpg
import pytest

from hourbell.core.run.plan import plan
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import JobQuery
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import BY, MINUTE, PASS, T0, a_job, add_job
from tests.database import Database, PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

INSTANTS = ["cursor_at", "next_at", "plan_at", "paused_until", "starts_at", "ends_at", "created_at", "updated_at"]
TEXTS = ["description", "schedule", "timezone", "source", "paused_note", "lane"]
MANY = 600  # so many are planned ahead


def far_instants(database: Database) -> tuple[str, str]:
    """Instants that only the database has: before the first year, and after the last."""
    if isinstance(database, PostgresDatabase):
        return "'0044-03-15 BC'", "'20000-01-01'"
    return "-9000000000000000000", "9000000000000000000"


@pytest.mark.parametrize("column", INSTANTS)
async def test_a_time_outside_the_calendar_is_refused_or_blocks_nobody(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database, column: str
) -> None:
    for name in ("first", "odd", "last"):
        await add_job(control, name)
    minute = 0
    for far in far_instants(database):
        for rest in ("", ", version = version + 1"):
            with suppress(apsw.ConstraintError, asyncpg.CheckViolationError):
                await database.sql(f"update hourbell.jobs set {column} = {far}{rest} where name = 'odd'")
            minute += 1
            planned = await store.plan_due(T0 + minute * MINUTE, PASS, plan)
            assert planned.runs >= 2
            assert len(await lists.jobs(JobQuery(), 10)) == 3


async def test_postgresql_checks_which_times_are_valid(postgres: PostgresDatabase) -> None:
    await add_job(postgres.control())

    with pytest.raises(asyncpg.CheckViolationError, match="between_1900_and_9000"):
        await postgres.sql("update hourbell.jobs set paused_until = 'infinity'")


@pytest.mark.parametrize("count", [2, MANY])
@pytest.mark.parametrize("column", TEXTS)
async def test_text_that_is_not_utf_8_blocks_nobody_on_sqlite(column: str, count: int) -> None:
    async with SqliteDatabase.in_file() as database:
        control = database.control()
        for number in range(count):
            await add_job(control, f"job-{number:03}")
        latin = f"update hourbell_jobs set {column} = cast(x'436166e9' as text), version = version + 1"
        await database.sql(f"{latin} where name = 'job-001'")

        planned = await database.engine().plan_due(T0 + MINUTE, PASS, plan)

        assert planned.runs >= count - 1
        assert len(await database.lists().jobs(JobQuery(), PASS)) == count


async def test_text_that_is_not_utf_8_is_shown_and_can_be_fixed() -> None:
    async with SqliteDatabase.in_file() as database:
        control = database.control()
        odd = await add_job(control, "odd")
        await database.sql("update hourbell_jobs set schedule = cast(x'436166e9' as text), version = version + 1")

        store = database.engine()
        await store.plan_due(T0 + MINUTE, PASS, plan)  # the version before the change
        planned = await store.plan_due(T0 + MINUTE, PASS, plan)

        [view] = await database.lists().jobs(JobQuery(), PASS)
        assert [name for name, _ in planned.errors] == ["odd"]
        assert view.job.definition.schedule == "Caf\N{REPLACEMENT CHARACTER}"
        fixed = (await control.edit_job(odd.id, lambda _: a_job("odd"), Actor(BY, T0 + MINUTE))).job
        assert (fixed.error, fixed.definition.schedule) == (None, "* * * * *")
