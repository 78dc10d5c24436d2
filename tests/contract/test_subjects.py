"""The subject of a job is a column like the others: kept, changed by plain SQL as a new version, and limited."""

import pytest

from hourbell.store.base import EngineStore
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.query import JobQuery
from hourbell.store.lists.reader import ListStore
from tests.contract.steps import MINUTE, T0, add_job, plan_all
from tests.database import Database

pytestmark = pytest.mark.anyio


async def test_a_subject_is_kept_with_the_job_and_its_version(control: ControlStore, lists: ListStore) -> None:
    job = await add_job(control, subject="customer 17")

    [listed] = await lists.jobs(JobQuery(subject="customer 17"), 10)
    [version] = await lists.versions(job.id, 10)
    assert (listed.job.definition.subject, version.definition.subject) == ("customer 17", "customer 17")


async def test_a_subject_that_plain_sql_changes_makes_a_version_and_moves_no_instant(
    store: EngineStore, control: ControlStore, lists: ListStore, database: Database
) -> None:
    job = await add_job(control, subject="before")
    await database.sql("update hourbell.jobs set subject = 'after'")
    [kept] = await database.rows("job_changes")
    await plan_all(store, T0 + MINUTE)

    versions = {each.version: each.definition.subject for each in await lists.versions(job.id, 10)}
    found = await lists.job(job.id)
    assert found is not None
    assert (kept["subject"], versions) == ("before", {1: "before", 2: "after"})
    assert found.job.next_at == T0 + 2 * MINUTE


async def test_a_subject_has_at_most_200_characters(control: ControlStore, database: Database) -> None:
    await add_job(control, subject="é" * 200)

    with pytest.raises(Exception, match=r"(?i)check"):
        await database.sql(f"update hourbell.jobs set subject = '{'x' * 201}'")
