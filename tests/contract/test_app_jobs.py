"""Jobs that programs create at run time, in the store: their owner, what is kept, and the run on creation."""

from typing import Any
from uuid import uuid4

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.run.run import first_run_id
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Applied, Bundle, JobEntry
from hourbell.store.control.store import ControlStore
from tests.contract.steps import BY, HOUR, T0, a_job, add_job
from tests.database import Database

pytestmark = pytest.mark.anyio
APP = {"managed_by": "app", "source": "shop"}


def an_app_job(name: str = "job", **more: Any) -> Definition:
    return a_job(name, **(APP | more))


async def apply(
    control: ControlStore, *definitions: Definition, runs: bool = False, dry_run: bool = False, **more: Any
) -> Applied:
    entries = [JobEntry(definition, uuid4(), run_on_create=runs) for definition in definitions]
    bundle = Bundle(entries, "app", "shop", **more)
    return await control.apply_jobs(bundle, Actor(BY, T0 + HOUR), dry_run=dry_run)


def results(applied: Applied) -> list[str]:
    return [job.result.result.value for job in applied.jobs]


async def test_a_new_job_gets_its_first_run_in_the_same_transaction(database: Database) -> None:
    job_id = uuid4()
    for _ in range(2):  # the second one is a repeat after a lost response
        await database.control().create_job(an_app_job(), job_id, Actor(BY, T0), run_on_create=True)

    [run] = await database.rows("runs")
    assert (run["id"], run["kind"], run["state"], run["job_version"]) == (first_run_id(job_id), "manual", "pending", 1)
    assert [row["action"] for row in await database.rows("audit")] == ["job.create", "job.trigger"]


async def test_a_job_gets_no_first_run_unless_asked(database: Database) -> None:
    await database.control().create_job(an_app_job(), uuid4(), Actor(BY, T0))

    assert await database.rows("runs") == []


async def test_only_the_new_jobs_of_a_bundle_get_a_first_run(database: Database) -> None:
    control = database.control()
    await apply(control, an_app_job("old"))

    assert results(await apply(control, an_app_job("old", priority="high"), an_app_job("dry"), runs=True, dry_run=True))
    assert await database.rows("runs") == []
    applied = await apply(control, an_app_job("old", description="x"), an_app_job("new"), runs=True)

    assert results(applied) == ["changed", "created"]
    [run] = await database.rows("runs")
    assert run["id"] == first_run_id(applied.jobs[1].result.job_id or uuid4())


async def test_a_kept_job_stays_as_it_is_and_one_of_another_owner_is_refused(database: Database) -> None:
    control = database.control()
    await apply(control, an_app_job("mine"))
    await add_job(control, "theirs")

    kept = await apply(control, an_app_job("mine", schedule="0 4 * * *"), keep=True)
    refused = await apply(control, an_app_job("theirs"), keep=True)

    assert (results(kept), results(refused)) == (["unchanged"], ["refused"])
    stored = await control.get_job("mine")
    assert stored is not None
    assert (stored.definition.schedule, stored.version) == ("* * * * *", 1)


@pytest.mark.parametrize("by", ["app:shop", BY])
async def test_a_pause_stays_whoever_made_it(database: Database, by: str) -> None:
    control = database.control()
    await apply(control, an_app_job())
    job = await control.get_job("job")
    assert job is not None
    await control.pause_job(job.id, Actor(by, T0 + HOUR), note="", until=None, cancel_waiting=False)

    await apply(control, an_app_job(description="changed"))

    stored = await control.get_job("job")
    assert stored is not None
    assert (stored.definition.description, stored.definition.enabled) == ("changed", False)


async def test_jobs_of_an_application_are_never_undefined(database: Database) -> None:
    control = database.control()
    await apply(control, an_app_job())

    assert await control.undefined_jobs("shop", T0) == []
    bundle = Bundle([JobEntry(a_job("job", managed_by="code", source="shop"), uuid4())], "code", "shop")
    applied = await control.apply_jobs(bundle, Actor(BY, T0 + HOUR))
    assert applied.refused[0].owner == "app:shop"
