"""apply_jobs: the jobs of an owner become those of a bundle, all of them or none."""

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Definition
from hourbell.sealing import Sealed
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Applied, Bundle, JobEntry, NewSecret, Rights
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import BY, HOUR, T0, a_job, add_job
from tests.database import Database

pytestmark = pytest.mark.anyio
LATER = T0 + HOUR
SOURCE = "jobs.toml"


def a_file_job(name: str = "job", **more: Any) -> Definition:
    return a_job(name, **({"managed_by": "file", "source": SOURCE} | more))


def a_bundle(*definitions: Definition, **more: Any) -> Bundle:
    return Bundle([JobEntry(definition, uuid4()) for definition in definitions], "file", SOURCE, **more)


async def apply_all(control: ControlStore, *definitions: Definition, **more: Any) -> Applied:
    bundle = a_bundle(*definitions, **{name: more.pop(name) for name in ("prune", "take_over") if name in more})
    return await control.apply_jobs(bundle, Actor(BY, more.pop("now", LATER)), **more)


def results(applied: Applied) -> dict[str, str]:
    return {job.result.name: job.result.result.value for job in applied.jobs}


async def names(control: ControlStore, all_names: Iterable[str]) -> list[str]:
    return [name for name in all_names if await control.get_job(name) is not None]


async def test_a_bundle_makes_changes_and_leaves_alone(database: Database) -> None:
    control = database.control()
    await apply_all(control, a_file_job("same"), a_file_job("other"), now=T0)

    applied = await apply_all(control, a_file_job("same"), a_file_job("other", schedule="0 4 * * *"), a_file_job("new"))

    assert results(applied) == {"same": "unchanged", "other": "changed", "new": "created"}
    changed = applied.jobs[1]
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before.definition.schedule, changed.after.definition.schedule) == ("* * * * *", "0 4 * * *")
    stored = await control.get_job("other")
    assert stored is not None
    assert (stored.version, stored.definition.schedule) == (2, "0 4 * * *")


async def test_one_job_that_is_refused_keeps_out_all(database: Database) -> None:
    control = database.control()
    await add_job(control, "theirs")

    applied = await apply_all(control, a_file_job("mine"), a_file_job("theirs"))

    assert list(applied.refused) == [1]
    assert applied.refused[1].code == "owned_by_another"
    assert await control.get_job("mine") is None


async def test_a_dry_run_returns_the_same_and_changes_nothing(database: Database) -> None:
    control = database.control()
    await apply_all(control, a_file_job("old"), now=T0)

    planned = await apply_all(control, a_file_job("new"), prune=True, dry_run=True)
    assert await names(control, ["old", "new"]) == ["old"]
    done = await apply_all(control, a_file_job("new"), prune=True, expect=planned.state)

    assert results(planned) == results(done) == {"new": "created"}
    assert (
        [job.definition.name for job in planned.undefined] == [job.definition.name for job in done.undefined] == ["old"]
    )
    assert await names(control, ["old", "new"]) == ["new"]


async def test_only_the_owners_jobs_are_deleted(database: Database) -> None:
    control = database.control()
    await add_job(control, "of-the-api")
    await add_job(control, "of-another-file", managed_by="file", source="b.toml")
    await apply_all(control, a_file_job("one"), a_file_job("two"), now=T0)

    await apply_all(control, a_file_job("one"), prune=True)

    assert await names(control, ["of-the-api", "of-another-file", "one", "two"]) == [
        "of-the-api",
        "of-another-file",
        "one",
    ]


async def test_one_of_two_bundles_planned_on_the_same_state_is_applied(database: Database) -> None:
    control = database.control()
    await apply_all(control, a_file_job("job"), now=T0)
    state = (await apply_all(control, a_file_job("job", schedule="0 1 * * *"), dry_run=True)).state

    done = await asyncio.gather(
        *(apply_all(control, a_file_job("job", schedule=f"0 {hour} * * *"), expect=state) for hour in (1, 2)),
        return_exceptions=True,
    )

    [refusal] = [each for each in done if isinstance(each, Conflict)]
    assert refusal.code == "plan_outdated"
    stored = await control.get_job("job")
    assert stored is not None
    assert stored.version == 2


async def test_one_of_two_bundles_that_create_the_same_jobs_is_applied(database: Database) -> None:
    control = database.control()
    state = (await apply_all(control, a_file_job("a"), a_file_job("b"), dry_run=True)).state

    done = await asyncio.gather(
        apply_all(control, a_file_job("a"), a_file_job("b"), expect=state),
        apply_all(control, a_file_job("b"), a_file_job("a"), expect=state),
        return_exceptions=True,
    )

    assert sorted(type(each).__name__ for each in done) == ["Applied", "Conflict"]
    assert await names(control, ["a", "b"]) == ["a", "b"]


async def test_the_state_of_a_plan_changes_with_every_job_it_read(database: Database) -> None:
    control = database.control()
    job = (await apply_all(control, a_file_job("one"), a_file_job("two"), now=T0)).jobs[1].after
    assert job is not None

    first = await apply_all(control, a_file_job("one"), prune=True, dry_run=True)
    again = await apply_all(control, a_file_job("one"), prune=True, dry_run=True)
    await control.pause_job(job.id, Actor(BY, LATER), note="", until=None, cancel_waiting=False)
    changed = await apply_all(control, a_file_job("one"), prune=True, dry_run=True)

    assert first.state == again.state != changed.state


async def test_an_operators_pause_stays_and_the_owners_own_ends(database: Database) -> None:
    control = database.control()
    made = await apply_all(
        control, a_file_job("by-operator"), a_file_job("by-file"), a_file_job("born-paused", enabled=False), now=T0
    )
    operators = made.jobs[0].after
    assert operators is not None
    await control.pause_job(operators.id, Actor(BY, T0), note="hands off", until=None, cancel_waiting=False)
    await apply_all(control, a_file_job("by-file", enabled=False), now=T0)

    await apply_all(
        control, *(a_file_job(name, schedule="@hourly") for name in ("by-operator", "by-file", "born-paused"))
    )

    jobs = {name: await control.get_job(name) for name in ("by-operator", "by-file", "born-paused")}
    assert {name: job.definition.enabled for name, job in jobs.items() if job} == {
        "by-operator": False,
        "by-file": True,
        "born-paused": True,
    }


async def test_jobs_of_others_are_taken_over_when_asked(database: Database) -> None:
    control = database.control()
    job = await add_job(control, "theirs")

    applied = await apply_all(control, a_file_job("theirs"), take_over=True)

    assert results(applied) == {"theirs": "changed"}
    stored = await control.get_job("theirs")
    assert stored is not None
    assert (stored.id, stored.definition.managed_by, stored.definition.source) == (job.id, "file", SOURCE)


async def test_secrets_come_and_go_with_the_bundle(database: Database) -> None:
    control, secrets = database.control(), database.secrets()
    entry = JobEntry(a_file_job("job"), uuid4())
    sealed = Sealed(uuid4(), entry.job_id, "signing", "k", b"one")
    refused = Bundle([entry, JobEntry(a_file_job("job"), uuid4())], "file", SOURCE)
    await control.apply_jobs(refused, Actor(BY, T0), secrets=[NewSecret(sealed, T0, T0)])
    assert await secrets.sealed_secrets([entry.job_id], T0) == []

    planned = await control.apply_jobs(
        Bundle([entry], "file", SOURCE), Actor(BY, T0), secrets=[NewSecret(sealed, T0, T0)]
    )
    other = Sealed(uuid4(), entry.job_id, "signing", "k", b"two")
    await control.apply_jobs(
        Bundle([entry], "file", SOURCE), Actor(BY, LATER), secrets=[NewSecret(other, LATER + HOUR, LATER + HOUR)]
    )

    found = await secrets.sealed_secrets([entry.job_id], LATER)
    assert [each.sealed for each in found] == [b"two", b"one"]
    assert await secrets.sealed_secrets([entry.job_id], LATER + HOUR) == [other]
    later = await control.apply_jobs(Bundle([entry], "file", SOURCE), Actor(BY, LATER), dry_run=True)
    assert later.state != planned.state


async def test_a_job_that_may_not_be_deleted_fails_the_whole_bundle(database: Database) -> None:
    control = database.control()
    await apply_all(control, a_file_job("old"), now=T0)

    with pytest.raises(Conflict) as caught:
        await apply_all(control, a_file_job("new"), prune=True, rights=Rights(lambda job: job.name != "old"))

    assert caught.value.code == "not_allowed"
    assert await names(control, ["old", "new"]) == ["old"]


async def test_each_job_that_changes_is_a_row_of_the_audit(database: Database) -> None:
    control = database.control()
    await apply_all(control, a_file_job("old"), now=T0)
    await apply_all(control, a_file_job("new"), a_file_job("more"), prune=True)
    await apply_all(control, a_file_job("new"), a_file_job("more"), prune=True)  # nothing to do: nothing to write

    rows = await database.lists().audit(10, None)

    assert [row.action for row in rows] == ["job.delete", "job.create", "job.create", "job.create"]
    assert isinstance(rows[0].before, dict)
    assert (rows[0].before["name"], rows[0].after) == ("old", None)
    assert [row.after["name"] for row in rows[1:] if isinstance(row.after, dict)] == ["new", "more", "old"]


def test_an_id_is_not_part_of_a_bundles_names() -> None:
    assert a_bundle(a_file_job("a"), a_file_job("b")).names == ["a", "b"]
    assert Bundle([JobEntry(a_file_job(), UUID(int=1))], "code", "").owner == "code"
