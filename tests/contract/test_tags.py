"""The table of tags follows the jobs, however they are changed, and what cannot be a tag is an error of its job."""

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.policies import RETRY_PRESETS
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import JobQuery
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import BY, PASS, T0, add_job, changed, refusal
from tests.database import Database, PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio


async def tags(database: Database) -> list[tuple[str, str]]:
    return [(row["tag"], row["name"]) for row in await database.rows("job_tags", "tag, name")]


async def test_tags_follow_a_job_from_its_making_to_its_end(control: ControlStore, database: Database) -> None:
    job = await add_job(control, tags=("a", "b"))
    assert await tags(database) == [("a", "job"), ("b", "job")]

    await control.edit_job(job.id, lambda job: changed(job, name="new", tags=("b", "c", "c")), Actor(BY, T0))
    assert await tags(database) == [("b", "new"), ("c", "new")]

    await control.delete_job(job.id, Actor(BY, T0))
    assert await tags(database) == []


async def test_tags_follow_plain_sql(control: ControlStore, database: Database) -> None:
    await add_job(control, tags=("a",))

    value = "{x,y}" if isinstance(database, PostgresDatabase) else '["x", "y"]'
    await database.sql(f"update hourbell.jobs set tags = '{value}'")
    assert await tags(database) == [("x", "job"), ("y", "job")]
    await database.sql("update hourbell.jobs set name = 'renamed'")
    assert await tags(database) == [("x", "renamed"), ("y", "renamed")]


async def test_tags_are_listed_once_each_in_pages_in_order(
    control: ControlStore, lists: ListStore, database: Database
) -> None:
    del database
    for name, given in (("one", ("b", "a")), ("two", ("b", "Z")), ("three", ())):
        await add_job(control, name=name, tags=given)

    assert await lists.tags(10) == ["Z", "a", "b"]
    assert await lists.tags(2) == ["Z", "a"]
    assert await lists.tags(2, "a") == ["b"]


ODD = {
    "nested": ("{{a,b},{c,d}}", '[["a", "b"], ["c", "d"]]'),
    "empty": ('{a,""}', '["a", ""]'),
    "twice": ("{a,a}", '["a", "a"]'),
    "with a comma": ('{"a,b"}', '["a,b"]'),
    "with a line break": ('{"a\nb"}', '["a\\nb"]'),
    "too long": ("{" + "a" * 101 + "}", f'["{"a" * 101}"]'),
    "too many": (
        "{" + ",".join(map(str, range(51))) + "}",
        str([str(number) for number in range(51)]).replace("'", '"'),
    ),
}
ODD_IN_JSON = {
    "null": "[null]",
    "number": "[1, 2.5, true]",
    "object": '[{"a": 1}]',
    "half a pair": r'["\ud800"]',
    "nested deep": "[" * 990 + "]" * 990,
    "many digits": "[" + "1" * 5_000 + "]",
}
INSERT = """
    insert into hourbell.jobs (name, schedule, target, tags)
    values ('odd', '* * * * *', '{{"type": "task", "name": "a"}}', '{}'),
           ('fine', '* * * * *', '{{"type": "task", "name": "a"}}', '{}')
"""


async def shown_tags(database: Database) -> list[tuple[str, ...]]:
    """The tags of every job, as lists and single answers show them."""
    listed = [view.job.definition.tags for view in await database.lists().jobs(JobQuery(), PASS)]
    found = [await database.control().get_job(name) for name in ("odd", "fine")]
    return [*listed, *(job.definition.tags for job in found if job is not None)]


async def check_odd(database: Database) -> None:
    """The odd job gets its error and the other its plan; all can be read, and the odd one fixed."""
    assert all(isinstance(tag, str) for tags in await shown_tags(database) for tag in tags)
    planned = await database.engine().plan_due(await database.engine().sample_time(), PASS, plan)
    assert [(name, error[:5]) for name, error in planned.errors] == [("odd", "/tags")]
    assert all(isinstance(tag, str) for tags in await shown_tags(database) for tag in tags)

    odd, fine = [await database.control().get_job(name) for name in ("odd", "fine")]
    assert odd is not None
    assert fine is not None
    assert (odd.next_at, fine.error, fine.definition.tags) == (None, None, ("x", "a b"))
    await database.control().pause_job(odd.id, Actor(BY, T0), note="", until=None, cancel_waiting=False)
    fixed = (await database.control().edit_job(odd.id, lambda job: changed(job, tags=("x",)), Actor(BY, T0))).job
    assert (fixed.error, fixed.definition.tags) == (None, ("x",))


@pytest.mark.parametrize("case", ODD)
async def test_tags_by_sql_that_the_api_would_refuse_are_the_error_of_their_job(database: Database, case: str) -> None:
    in_array, in_json = ODD[case]
    is_postgres = isinstance(database, PostgresDatabase)
    fine = '{x,"a b"}' if is_postgres else '["x", "a b"]'

    await database.sql(INSERT.format(in_array if is_postgres else in_json, fine))

    await check_odd(database)


@pytest.mark.parametrize("case", ODD_IN_JSON)
async def test_tags_in_sqlite_that_are_no_texts_are_the_error_of_their_job(case: str) -> None:
    async with SqliteDatabase.in_file() as database:
        await database.sql(INSERT.format(ODD_IN_JSON[case], '["x", "a b"]'))

        await check_odd(database)


async def test_errors_of_several_tags_are_joined_into_one_line(database: Database) -> None:
    tags = '{"a,b","",x,x}' if isinstance(database, PostgresDatabase) else '["a,b", "", "x", "x"]'
    await database.sql(INSERT.format(tags, "{x}" if isinstance(database, PostgresDatabase) else '["x"]'))

    planned = await database.engine().plan_due(await database.engine().sample_time(), PASS, plan)

    [(_, error)] = planned.errors
    assert [problem.split(":")[0] for problem in error.split("; /")] == ["/tags/0", "tags/1", "tags/3"]
    assert "\n" not in error


async def test_tags_that_an_update_by_sql_spoils_are_the_error_of_the_job(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, tags=("a",), retry=RETRY_PRESETS["none"])
    value = "{{a,b}}" if isinstance(database, PostgresDatabase) else '[["a", "b"]]'
    await database.sql(f"update hourbell.jobs set tags = '{value}'")

    now = await store.sample_time()
    await store.plan_due(now, PASS, plan)  # the version before the update
    planned = await store.plan_due(now, PASS, plan)

    broken = await control.get_job(job.id)
    assert broken is not None
    assert (planned.runs, [name for name, _ in planned.errors]) == (0, ["job"])
    assert (broken.definition.tags, broken.definition.retry) == ((), RETRY_PRESETS["none"])
    assert await refusal(control.trigger_job(job.id, job.id, Actor(BY, now))) == "job_in_error"
