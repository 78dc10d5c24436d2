"""The table of tags follows the jobs, however they are changed."""

import pytest

from hourbell.store.control import ControlStore
from tests.contract.steps import BY, T0, add_job, changed
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio


async def tags(database: Database) -> list[tuple[str, str]]:
    return [(row["tag"], row["name"]) for row in await database.rows("job_tags", "tag, name")]


async def test_tags_follow_a_job_from_its_making_to_its_end(control: ControlStore, database: Database) -> None:
    job = await add_job(control, tags=("a", "b"))
    assert await tags(database) == [("a", "job"), ("b", "job")]

    await control.edit_job(job.id, lambda job: changed(job, name="new", tags=("b", "c", "c")), T0, BY)
    assert await tags(database) == [("b", "new"), ("c", "new")]

    await control.delete_job(job.id, T0, BY)
    assert await tags(database) == []


async def test_tags_follow_plain_sql(control: ControlStore, database: Database) -> None:
    await add_job(control, tags=("a",))

    value = "{x,y}" if isinstance(database, PostgresDatabase) else '["x", "y"]'
    await database.sql(f"update hourbell.jobs set tags = '{value}'")
    assert await tags(database) == [("x", "job"), ("y", "job")]
    await database.sql("update hourbell.jobs set name = 'renamed'")
    assert await tags(database) == [("x", "renamed"), ("y", "renamed")]
