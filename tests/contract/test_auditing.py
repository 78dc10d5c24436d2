"""Every change leaves exactly one row in the audit with the call behind it, and acts once for a key."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.settle import Failed
from hourbell.sealing import Sealed
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor, Request
from hourbell.store.control.bundles import JobEntry, NewSecret
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import AlreadyAsked, Conflict
from tests.contract.steps import (
    BY,
    HOUR,
    MINUTE,
    PASS,
    T0,
    a_job,
    a_waiting_job,
    add_job,
    changed,
    claim,
    finish,
    occurrence,
    plan_all,
)
from tests.database import Database, Row

pytestmark = pytest.mark.anyio
LATER = T0 + HOUR
CALL = Request(id="request-1", token_id=UUID(int=9), ip="192.0.2.1", key="key-1", fingerprint=b"what")
NEW = UUID(int=77)


class Case:
    """A job with one run that failed, one that waits, and a secret."""

    def __init__(self, database: Database, job_id: UUID, failed: UUID, waiting: UUID) -> None:
        self.control, self.secrets = database.control(), database.secrets()
        self.job_id, self.failed, self.waiting = job_id, failed, waiting
        self.database = database


Verb = Callable[[Case, Request], Awaitable[Any]]
OCCURRENCE = occurrence(T0 - MINUTE)
VERBS: dict[str, Verb] = {
    "job.create": lambda case, call: case.control.create_job(a_job("new"), NEW, Actor(BY, LATER, call)),
    "job.edit": lambda case, call: case.control.edit_job(
        case.job_id, lambda job: changed(job, description="new"), Actor(BY, LATER, call)
    ),
    "job.pause": lambda case, call: case.control.pause_job(
        case.job_id, Actor(BY, LATER, call), note="", until=None, cancel_waiting=True
    ),
    "job.resume": lambda case, call: case.control.resume_job(case.job_id, Actor(BY, LATER, call), catch_up=False),
    "job.delete": lambda case, call: case.control.delete_job(case.job_id, Actor(BY, LATER, call)),
    "job.trigger": lambda case, call: case.control.trigger_job(case.job_id, NEW, Actor(BY, LATER, call)),
    "job.backfill": lambda case, call: case.control.backfill_job(
        case.job_id, [OCCURRENCE], Actor(BY, LATER, call), spacing=MINUTE, pruned_until=None
    ),
    "job.import": lambda case, call: case.control.import_jobs([JobEntry(a_job("new"), NEW)], Actor(BY, LATER, call)),
    "job.prune": lambda case, call: case.control.prune_jobs(NEW, "api", "", Actor(BY, LATER, call), limit=10),
    "run.replay": lambda case, call: case.control.replay_run(case.failed, NEW, Actor(BY, LATER, call)),
    "run.cancel": lambda case, call: case.control.cancel_run(case.waiting, Actor(BY, LATER, call)),
    "run.discard": lambda case, call: case.control.discard_run(case.failed, Actor(BY, LATER, call)),
    "secret.put": lambda case, call: case.secrets.put_secret(
        NewSecret(a_secret(case.job_id), LATER, LATER), Actor(BY, LATER, call)
    ),
    "secret.remove": lambda case, call: case.secrets.remove_secret(case.job_id, "signing", Actor(BY, LATER, call)),
}
SUBJECTS = {"job.create": NEW, "job.import": "jobs", "job.prune": NEW}


def a_secret(job_id: UUID) -> Sealed:
    return Sealed(uuid4(), job_id, "signing", "key", b"sealed")


@pytest.fixture
async def case(store: EngineStore, control: ControlStore, database: Database) -> Case:
    job = await a_waiting_job(store, control, count=2)
    [run] = await claim(store, now=T0 + MINUTE)
    await finish(store, [run], Failed("no", retryable=False))
    [waiting] = [row["id"] for row in await database.rows("runs") if row["state"] == "pending"]
    await database.secrets().put_secret(NewSecret(a_secret(job.id), T0, T0), Actor(BY, T0))
    return Case(database, job.id, run.id, waiting)


async def audit_after(database: Database, count: int) -> list[Row]:
    return (await database.rows("audit", "id"))[count:]


@pytest.mark.parametrize("action", VERBS)
async def test_a_change_is_audited_once_with_the_call_behind_it(case: Case, action: str) -> None:
    before = len(await case.database.rows("audit"))

    await VERBS[action](case, CALL)

    [row] = await audit_after(case.database, before)
    subject = case.failed if action in ("run.replay", "run.discard") else case.job_id
    expected = case.waiting if action == "run.cancel" else SUBJECTS.get(action, subject)
    assert (row["action"], row["subject"], row["actor"], row["at"]) == (action, str(expected), BY, LATER)
    assert (row["token_id"], row["ip"], row["request_id"]) == (CALL.token_id, CALL.ip, CALL.id)


@pytest.mark.parametrize("action", VERBS)
async def test_a_change_acts_once_for_a_key(case: Case, action: str) -> None:
    await VERBS[action](case, CALL)
    before = await everything(case.database)

    with pytest.raises(AlreadyAsked):
        await VERBS[action](case, CALL)
    assert await everything(case.database) == before
    [row] = await case.database.rows("idempotency")
    assert (row["key"], bytes(row["fingerprint"]), row["created_at"]) == ("key-1", b"what", LATER)


async def everything(database: Database) -> list[list[Row]]:
    tables = ("jobs", "job_versions", "runs", "audit", "secrets", "imports", "idempotency", "cancels")
    return [await database.rows(table) for table in tables]


@pytest.mark.parametrize("action", ["job.create", "job.trigger", "run.replay"])
async def test_finding_an_existing_object_is_not_audited_again(case: Case, action: str) -> None:
    await VERBS[action](case, Request())
    before = await everything(case.database)

    await VERBS[action](case, Request())
    assert await everything(case.database) == before


async def test_asking_a_run_to_stop_twice_is_audited_once(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    await a_waiting_job(store, control)
    [run] = await claim(store)

    for _ in range(2):
        await control.cancel_run(run.id, Actor(BY, LATER))
    assert [row["action"] for row in await database.rows("audit", "id")] == ["job.create", "run.cancel"]


async def test_a_change_that_is_refused_leaves_its_key_free(control: ControlStore, database: Database) -> None:
    await add_job(control)
    with pytest.raises(Conflict):
        await control.create_job(a_job(), uuid4(), Actor(BY, T0, CALL))

    assert ((await control.create_job(a_job("other"), NEW, Actor(BY, T0, CALL))).job).id == NEW
    assert len(await database.rows("audit")) == 2


async def test_two_concurrent_calls_under_one_key_are_one_change(control: ControlStore, database: Database) -> None:
    job = await add_job(control)

    def trigger(at: datetime) -> Awaitable[object]:
        return database.control().trigger_job(job.id, uuid4(), Actor(BY, at, CALL))

    answers = await asyncio.gather(trigger(T0), trigger(T0), trigger(T0), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyAsked", "AlreadyAsked", "Run"]
    assert len(await database.rows("runs")) == 1


async def test_the_audit_says_what_was_created(case: Case) -> None:
    for action in ("job.trigger", "job.backfill", "job.import"):
        await VERBS[action](case, Request())

    found = {row["action"]: row["after"] for row in await case.database.rows("audit")}
    at = OCCURRENCE.at.isoformat()
    assert found["job.trigger"] == {"run": str(NEW)}
    assert found["job.backfill"] == {"runs": 1, "first": at, "last": at}
    assert found["job.import"] == {"created": 1}


async def test_the_key_of_many_changes_is_taken_once(control: ControlStore, database: Database) -> None:
    await control.take_key(Actor(BY, T0, Request(key="k")))

    with pytest.raises(AlreadyAsked):
        await control.take_key(Actor(BY, T0, Request(key="k")))
    await control.take_key(Actor(BY, T0, Request()))
    await control.take_key(Actor(BY, T0, Request()))

    assert (len(await database.rows("idempotency")), await database.rows("audit")) == (1, [])


async def unasked(database: Database) -> list[tuple[str, str, str | None, str | None]]:
    """Return the audit entries beyond those expected: actor, action, and the descriptions before and after."""
    rows = [row for row in await database.rows("audit") if row["actor"] in ("sql", "engine")]
    return [(row["actor"], row["action"], described(row["before"]), described(row["after"])) for row in rows]


def described(definition: Any) -> str | None:
    return None if definition is None else f"{definition['description']} {definition['enabled']}"


async def plan_now(store: EngineStore) -> None:
    await plan_all(store, await store.sample_time())


async def test_a_job_inserted_by_sql_is_audited_when_it_is_adopted(store: EngineStore, database: Database) -> None:
    insert = "insert into hourbell.jobs (name, schedule, target, description)"
    await database.sql(f"""{insert} values ('job', '@daily', '{{"type": "task", "name": "a"}}', 'first')""")
    await database.sql("update hourbell.jobs set description = 'second'")
    await plan_now(store)
    await plan_now(store)

    assert await unasked(database) == [
        ("sql", "job.create", None, "first True"),
        ("sql", "job.edit", "first True", "second True"),
    ]
    rows, [job] = await database.rows("audit"), await database.rows("jobs")
    assert {row["subject"] for row in rows} == {str(job["id"])}


@pytest.mark.parametrize("column", ["timezone = 'Asia/Tokyo'", "priority = 'high'"])
async def test_a_job_updated_by_sql_is_audited_when_it_is_adopted(
    store: EngineStore, control: ControlStore, database: Database, column: str
) -> None:
    await add_job(control, description="first")
    await plan_now(store)
    await database.sql(f"update hourbell.jobs set description = 'second', {column}")
    await plan_all(store, await store.sample_time() + HOUR)

    assert await unasked(database) == [("sql", "job.edit", "first True", "second True")]


async def test_a_job_updated_by_sql_and_then_by_a_call_is_audited_for_each(
    control: ControlStore, database: Database
) -> None:
    job = await add_job(control, description="first")
    await database.sql("update hourbell.jobs set description = 'second'")
    await control.edit_job(job.id, lambda job: changed(job, description="third"), Actor(BY, LATER))

    assert await unasked(database) == [("sql", "job.edit", "first True", "second True")]
    assert [row["actor"] for row in await database.rows("audit")] == [BY, "sql", BY]


async def test_a_pause_that_ends_by_itself_is_audited(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control, description="first")
    await control.pause_job(job.id, Actor(BY, T0), note="", until=T0 + HOUR, cancel_waiting=False)
    await store.plan_due(T0 + HOUR, PASS, plan)
    await store.plan_due(T0 + 2 * HOUR, PASS, plan)

    assert await unasked(database) == [("engine", "job.resume", "first False", "first True")]


async def test_planning_alone_is_not_audited(store: EngineStore, control: ControlStore, database: Database) -> None:
    await add_job(control)
    await store.plan_due(T0 + HOUR, PASS, plan)

    assert await unasked(database) == []
