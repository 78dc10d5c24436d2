"""The alert policies that jobs name exist, whichever way a job comes in, and cannot be deleted while jobs name them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from hourbell.core.alerts.policy import parse_policy
from hourbell.core.job.definition import Definition
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.store.alerts.verbs import AlertVerbs
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Bundle, ImportResult, JobEntry
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import BY, HOUR, MINUTE, SECOND, T0, a_job, add_job, changed, plan_all, refusal
from tests.contract.test_doctor import START, examined, found_rows
from tests.database import Database, PostgresDatabase

pytestmark = pytest.mark.anyio
BY_SOMEBODY = Actor(BY, T0)
CODE: dict[str, Any] = {"managed_by": "code", "source": "shop"}


@pytest.fixture
def people(database: Database) -> AlertVerbs:
    return database.alert_control()


async def create(control: ControlStore, definition: Definition) -> ImportResult | None:
    await control.create_job(definition, uuid4(), BY_SOMEBODY)
    return None


async def edit(control: ControlStore, definition: Definition) -> ImportResult | None:
    if await control.get_job(definition.name) is None:
        await control.create_job(replace(definition, alert_policy=""), uuid4(), BY_SOMEBODY)
    await control.edit_job(definition.name, lambda _: definition, BY_SOMEBODY)
    return None


async def import_new(control: ControlStore, definition: Definition) -> ImportResult | None:
    [result] = await control.import_jobs([JobEntry(definition, uuid4())], BY_SOMEBODY)
    return result


async def import_known(control: ControlStore, definition: Definition) -> ImportResult | None:
    await import_new(control, replace(definition, alert_policy=""))
    return await import_new(control, definition)


async def apply_new(control: ControlStore, definition: Definition) -> ImportResult | None:
    bundle = Bundle([JobEntry(definition, uuid4())], definition.managed_by, definition.source)
    applied = await control.apply_jobs(bundle, BY_SOMEBODY)
    return applied.refused.get(0)


async def apply_known(control: ControlStore, definition: Definition) -> ImportResult | None:
    await apply_new(control, replace(definition, alert_policy=""))
    return await apply_new(control, definition)


async def plan_to_apply(control: ControlStore, definition: Definition) -> ImportResult | None:
    bundle = Bundle([JobEntry(definition, uuid4())], definition.managed_by, definition.source)
    applied = await control.apply_jobs(bundle, BY_SOMEBODY, dry_run=True)
    return applied.refused.get(0)


async def intend(control: ControlStore, definition: Definition) -> ImportResult | None:
    await control.refuse_unknown_policy(definition)
    return None


WAYS = (create, edit, import_new, import_known, apply_new, apply_known, plan_to_apply, intend)
Way = Callable[[ControlStore, Definition], Awaitable[ImportResult | None]]


async def errors_of(way: Way, control: ControlStore, definition: Definition) -> tuple[FieldError, ...]:
    try:
        result = await way(control, definition)
    except BodyError as error:
        return error.errors
    if result is None or result.result != "refused":
        return ()
    assert result.code == "no_such_alert_policy"
    return result.errors


@pytest.mark.parametrize("way", WAYS)
async def test_a_job_cannot_come_to_name_a_policy_that_does_not_exist(
    control: ControlStore, people: AlertVerbs, way: Way
) -> None:
    await people.put_policy("billing", parse_policy({}), BY_SOMEBODY)

    [error] = await errors_of(way, control, a_job(alert_policy="biling"))

    assert (error.pointer, error.message) == ("/alert_policy", "there is no alert policy 'biling'")
    assert error.hint is not None
    assert error.hint.startswith("write none, billing, default, or create it")
    job = await control.get_job("job")
    assert job is None or job.definition.alert_policy == ""


@pytest.mark.parametrize("policy", ["", "default", "none", "billing"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_job_can_name_one_that_exists(control: ControlStore, people: AlertVerbs, way: Way, policy: str) -> None:
    await people.put_policy("billing", parse_policy({}), BY_SOMEBODY)

    assert await errors_of(way, control, a_job(alert_policy=policy)) == ()


async def test_one_that_plain_sql_wrote_is_found_and_keeps_nobody_from_other_edits(
    control: ControlStore, store: EngineStore, database: Database
) -> None:
    await add_job(control, now=START)
    await add_job(control, "other", now=START)
    await database.set_clock(START)
    await database.sql("update hourbell.jobs set alert_policy = 'gone' where name = 'job'")
    await plan_all(store, START + MINUTE + SECOND)

    assert len(await database.rows("runs")) == 2  # it still fires
    await control.edit_job("job", lambda job: changed(job, description="about"), Actor(BY, START + HOUR))
    [error] = await errors_of(edit, control, a_job("other", alert_policy="gone"))
    assert error.pointer == "/alert_policy"
    findings = await examined(database, START + MINUTE)
    assert found_rows(findings, "policy_unknown") == ["alert policy gone, named by job job"]


async def test_a_program_may_name_any_and_learns_which_do_not_exist(control: ControlStore) -> None:
    entries = [JobEntry(a_job(name, alert_policy=name, **CODE), uuid4()) for name in ("none", "gone")]

    for _ in range(2):  # created, then unchanged
        applied = await control.apply_jobs(Bundle(entries, "code", "shop", any_policy=True), BY_SOMEBODY)
        assert applied.refused == {}
        assert applied.unknown_policies == {"gone"}
    assert await control.get_job("gone") is not None


async def test_a_policy_that_jobs_name_is_deleted_only_by_force(control: ControlStore, people: AlertVerbs) -> None:
    for name in ("billing", "default"):
        await people.put_policy(name, parse_policy({}), BY_SOMEBODY)
    for number in range(7):
        await add_job(control, f"job-{number}", alert_policy="billing")
    await add_job(control, "plain", alert_policy="default")
    await control.delete_job((await add_job(control, "deleted", alert_policy="billing")).id, BY_SOMEBODY)

    with pytest.raises(
        Conflict, match="7 jobs name it: job-0, job-1, job-2, job-3, job-4 and 2 more; give them"
    ) as error:
        await people.delete_policy("billing", BY_SOMEBODY)
    assert error.value.code == "alert_policy_in_use"
    assert await people.delete_policy("default", BY_SOMEBODY)  # the built-in one takes its place
    assert await people.delete_policy("billing", BY_SOMEBODY, force=True)
    assert await people.alert_policies() == []


async def test_a_policy_cannot_be_deleted_while_a_job_comes_to_name_it(database: Database) -> None:
    control, people = database.control(), database.alert_control()
    for round_number in range(5):
        await people.put_policy("billing", parse_policy({}), BY_SOMEBODY)
        made, deleted = await asyncio.gather(
            create(control, a_job(f"job-{round_number}", alert_policy="billing")),
            people.delete_policy("billing", BY_SOMEBODY),
            return_exceptions=True,
        )
        assert isinstance(made, BodyError) is (deleted is True), (made, deleted)
        if deleted is not True:
            assert isinstance(deleted, Conflict)
            job = await control.get_job(f"job-{round_number}")
            assert job is not None
            await control.delete_job(job.id, BY_SOMEBODY)
            await people.delete_policy("billing", BY_SOMEBODY)


async def test_names_of_channels_and_policies_that_make_no_sense_are_found(
    people: AlertVerbs, database: Database
) -> None:
    policy = '{"notify": ["gone", "away"]}'
    at = f"'{START.isoformat()}'" if isinstance(database, PostgresDatabase) else "0"
    for name, definition in (("billing", policy), ("odd", '{"on": ["nonsense"]}')):
        await database.sql(
            "insert into hourbell.alert_policies (name, definition, updated_at, updated_by) "
            f"values ('{name}', '{definition}', {at}, 'sql')"
        )

    findings = await examined(database, START)

    assert found_rows(findings, "channel_unknown") == [
        "alert policy billing names the channel away",
        "alert policy billing names the channel gone",
    ]
    assert "odd" in found_rows(findings, "policy_unreadable")[0]
    assert (
        await refusal(people.put_policy("other", parse_policy({"notify": ["gone"]}), BY_SOMEBODY)) == "no_such_channel"
    )
