"""import_jobs and prune_jobs: the jobs of an owner are made equal to an import, and other jobs stay."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import CatchUp
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Imported, ImportResult, JobEntry, Rights
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import BY, DAY, HOUR, MINUTE, T0, a_job, add_job, plan_all
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio
LATER = T0 + HOUR
IMPORT = UUID(int=5)
FILE: dict[str, Any] = {"managed_by": "file", "source": "jobs.yaml"}


def a_file_job(name: str = "job", **more: Any) -> Definition:
    return a_job(name, **(FILE | more))


async def import_all(control: ControlStore, *definitions: Definition, **more: Any) -> list[ImportResult]:
    entries = [JobEntry(definition, uuid4()) for definition in definitions]
    return await control.import_jobs(entries, Actor(BY, more.pop("now", LATER)), **more)


async def prune(control: ControlStore, **more: Any) -> list[str]:
    return await control.prune_jobs(IMPORT, "file", "jobs.yaml", Actor(BY, LATER), **{"limit": 10} | more)


async def found(control: ControlStore, name: str = "job") -> Job:
    job = await control.get_job(name)
    assert job is not None
    return job


def short(results: list[ImportResult]) -> list[tuple[str, str, str | None]]:
    return [(result.name, result.result, result.code) for result in results]


async def test_a_new_job_is_created_as_if_alone(control: ControlStore, database: Database) -> None:
    definition = a_file_job(tags=('a "b"', "c\\d", "{e f}", "null"), payload={"n": [1, None]}, catch_up_window=DAY)
    job_id = uuid4()

    [result] = await control.import_jobs([JobEntry(replace(definition, lane=""), job_id)], Actor(BY, LATER))

    assert result == ImportResult("job", Imported.CREATED, job_id, 1)
    job = await found(control)
    assert (job.definition, job.cursor_at, job.next_at) == (definition, LATER, LATER + MINUTE)
    [version] = await database.rows("job_versions")
    assert (version["version"], version["changed_by"], version["definition"]["name"]) == (1, BY, "job")


async def test_jobs_that_differ_are_edited_and_others_are_not(control: ControlStore, database: Database) -> None:
    await import_all(control, a_file_job("same", payload={"a": [1, 1e23, True]}), a_file_job("other"), now=T0)

    results = await import_all(
        control, a_file_job("other", description="new"), a_file_job("same", payload={"a": [1.0, 1e23, True]})
    )
    assert [(each.name, each.result, each.version) for each in results] == [
        ("other", Imported.CHANGED, 2),
        ("same", Imported.UNCHANGED, 1),
    ]
    assert (await found(control, "other")).definition.description == "new"
    assert len(await database.rows("job_versions")) == 3


@pytest.mark.parametrize("payload", [{"a": 1}, {"a": "true"}, {"a": [True]}, {"b": True}, None, [True]])
async def test_a_payload_that_only_looks_alike_is_a_change(control: ControlStore, payload: object) -> None:
    await import_all(control, a_file_job(payload={"a": True}), now=T0)

    [result] = await import_all(control, a_file_job(payload=payload))
    assert (result.result, (await found(control)).definition.payload) == (Imported.CHANGED, payload)


async def test_due_times_belong_to_the_previous_version(
    control: ControlStore, store: EngineStore, database: Database
) -> None:
    await import_all(control, *(a_file_job(name, catch_up=CatchUp.ALL) for name in ("a", "b")), now=T0)

    await import_all(control, *(a_file_job(name, schedule="0 0 * * *") for name in ("a", "b")), now=T0 + 2 * MINUTE)
    await plan_all(store, LATER)
    runs = await database.rows("runs", "scheduled_at")
    assert [(run["scheduled_at"], run["job_version"]) for run in runs] == [
        (T0 + number * MINUTE, 1) for number in (1, 1, 2, 2)
    ]


async def test_another_owners_job_and_the_second_of_a_name_are_refused_and_keep_no_other(
    control: ControlStore,
) -> None:
    await add_job(control, "theirs")

    results = await import_all(
        control, a_file_job("theirs"), a_file_job("mine"), a_file_job("mine", description="again")
    )
    assert short(results) == [
        ("theirs", "refused", "owned_by_another"),
        ("mine", "created", None),
        ("mine", "refused", "duplicate_name"),
    ]
    assert results[0].message == "the job belongs to api; delete it there, or use another name"
    assert (await found(control, "mine")).definition.description == ""
    assert (await found(control, "theirs")).version == 1


async def test_a_definition_that_the_database_cannot_run_is_refused(control: ControlStore, database: Database) -> None:
    target = {"type": "sql", "function": "public.work"}
    own = Definition("job", "* * * * *", target, lane=lane_of(target), **FILE)

    results = await import_all(control, own, a_file_job("other"), replace(a_file_job("odd"), target={"type": "no"}))
    refused = ("refused", "target_refused")
    own_result = ("created", None) if isinstance(database, PostgresDatabase) else refused
    assert short(results) == [("job", *own_result), ("other", "created", None), ("odd", *refused)]


async def test_a_job_that_is_catching_up_is_refused_and_another_is_not(control: ControlStore) -> None:
    await import_all(control, a_file_job("busy", schedule="every 1s", catch_up=CatchUp.ALL), a_file_job("idle"), now=T0)

    changes = [a_file_job("busy", schedule="every 2s"), a_file_job("idle", schedule="every 2s")]
    results = await import_all(control, *changes, now=T0 + DAY)
    assert short(results) == [("busy", "refused", "job_catching_up"), ("idle", "changed", None)]


async def test_a_paused_job_stays_paused_with_its_note(control: ControlStore, database: Database) -> None:
    await import_all(control, a_file_job(), now=T0)
    await control.pause_job((await found(control)).id, Actor(BY, T0), note="tea", until=None, cancel_waiting=False)

    assert short(await import_all(control, a_file_job())) == [("job", "unchanged", None)]
    assert short(await import_all(control, a_file_job(description="new"))) == [("job", "changed", None)]
    [row] = await database.rows("jobs")
    assert (bool(row["enabled"]), row["paused_note"], row["description"]) == (False, "tea", "new")


async def test_a_dry_run_returns_every_result_and_changes_nothing(control: ControlStore, database: Database) -> None:
    await import_all(control, a_file_job("old"), now=T0)
    tables = ("jobs", "job_versions", "audit", "idempotency")
    before = [await database.rows(table) for table in tables]

    results = await import_all(control, a_file_job("new"), a_file_job("old", description="x"), dry_run=True)
    assert short(results) == [("new", "created", None), ("old", "changed", None)]
    assert [await database.rows(table) for table in tables] == before


async def test_a_thousand_jobs_are_one_change(control: ControlStore, database: Database) -> None:
    names = [f"job-{number}" for number in range(1_000)]

    results = await import_all(control, *(a_file_job(name, tags=(name,)) for name in names))
    assert [(result.name, result.result) for result in results] == [(name, Imported.CREATED) for name in names]
    changed = await import_all(control, *(a_file_job(name, description="new") for name in names), now=LATER + MINUTE)
    assert {result.result for result in changed} == {Imported.CHANGED}
    assert [row["after"] for row in await database.rows("audit", "id")] == [{"created": 1_000}, {"changed": 1_000}]
    assert len(await database.rows("job_versions")) == 2_000


async def test_an_import_of_nothing_is_no_change(control: ControlStore, database: Database) -> None:
    assert (await import_all(control), await database.rows("audit")) == ([], [])


async def test_an_id_that_was_used_before_is_refused(control: ControlStore) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0))

    assert short(await control.import_jobs([JobEntry(a_file_job(), job.id)], Actor(BY, LATER))) == [
        ("job", "refused", "id_taken")
    ]


async def test_two_imports_of_the_same_jobs_at_once_create_each_once(database: Database) -> None:
    definitions = [a_file_job(f"job-{number}") for number in range(50)]

    both = await asyncio.gather(
        import_all(database.control(), *definitions), import_all(database.control(), *reversed(definitions))
    )
    results = [result.result for each in both for result in each]
    assert (results.count(Imported.CREATED), results.count(Imported.UNCHANGED)) == (50, 50)
    assert len(await database.rows("jobs")) == 50


async def test_jobs_missing_from_an_import_are_pruned_for_its_owner_only(
    control: ControlStore, database: Database
) -> None:
    await add_job(control, "theirs")
    await import_all(
        control, a_file_job("gone"), a_file_job("kept"), a_file_job("elsewhere", source="other.yaml"), now=T0
    )

    await import_all(control, a_file_job("kept"), a_file_job("new"), import_id=IMPORT)
    assert await prune(control) == ["gone"]
    left = [row["name"] for row in await database.rows("jobs", "name") if row["deleted_at"] is None]
    assert left == ["elsewhere", "kept", "new", "theirs"]
    assert await database.rows("imports") == []


async def test_pruning_continues_in_batches_until_the_import_is_forgotten(
    control: ControlStore, database: Database
) -> None:
    await import_all(control, *(a_file_job(name) for name in "abc"), now=T0)
    await import_all(control, a_file_job("d"), import_id=IMPORT)

    assert await prune(control, limit=2) == ["a", "b"]
    assert [row["job_id"] for row in await database.rows("imports")] == [(await found(control, "d")).id]
    assert (await prune(control, limit=2), await database.rows("imports")) == (["c"], [])
    prunes = [row["before"] for row in await database.rows("audit", "id") if row["action"] == "job.prune"]
    assert prunes == [{"jobs": ["a", "b"]}, {"jobs": ["c"]}]


async def test_a_pruned_job_is_deleted_with_what_waits(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await import_all(control, a_file_job(), now=T0)
    await plan_all(store, T0 + MINUTE)

    await prune(control)
    assert [row["state"] for row in await database.rows("runs")] == ["cancelled"]
    assert await control.get_job("job") is None


async def test_a_job_whose_change_was_refused_is_not_pruned(control: ControlStore) -> None:
    await import_all(control, a_file_job("busy", schedule="every 1s", catch_up=CatchUp.ALL), now=T0)

    [result] = await import_all(control, a_file_job("busy", schedule="every 2s"), now=T0 + DAY, import_id=IMPORT)
    assert (result.code, await prune(control)) == ("job_catching_up", [])


async def test_a_dry_run_of_pruning_lists_the_jobs_to_delete(control: ControlStore) -> None:
    await import_all(control, a_file_job("gone"), a_file_job("kept"), now=T0)

    await import_all(control, a_file_job("kept"), a_file_job("new"), import_id=IMPORT, dry_run=True)
    assert await prune(control, dry_run=True) == ["gone"]
    assert (await found(control, "gone")).version == 1


async def test_imports_that_nobody_ended_are_forgotten_after_a_day(control: ControlStore, database: Database) -> None:
    await import_all(control, a_file_job(), import_id=uuid4(), now=LATER - DAY - MINUTE)
    await import_all(control, a_file_job(), import_id=uuid4(), now=LATER - DAY + MINUTE)

    await prune(control, limit=1)
    await prune(control, limit=1)
    assert len(await database.rows("imports")) == 1


async def test_a_job_that_may_not_be_changed_is_neither_changed_nor_pruned(control: ControlStore) -> None:
    await import_all(control, a_file_job("a"), a_file_job("b"), now=T0)

    results = await import_all(
        control, a_file_job("a", description="new"), rights=Rights(lambda _: False), import_id=IMPORT
    )
    with pytest.raises(Conflict) as refused:
        await prune(control, may_change=lambda definition: definition.name != "b")

    assert short(results) == [("a", "refused", "not_allowed")]
    assert (refused.value.code, (await found(control, "b")).version) == ("not_allowed", 1)
