"""Secrets are stored sealed, expire as requested, and never appear in the audit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID, uuid4

import pytest

from hourbell.core.job.definition import Definition, Job
from hourbell.core.job.secret_headers import OriginChange
from hourbell.sealing import Sealed
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.control.bundles import Bundle, JobEntry, NewSecret, Rights
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict
from tests.contract.steps import BY, DAY, HOUR, MINUTE, T0, add_job
from tests.database import Database

pytestmark = pytest.mark.anyio


GOOD, NEW = "https://good.example:443", "https://new.example:443"


def sealed(
    job: Job, text: bytes = b"sealed", field: str = "signing", key_id: str = "key", origin: str | None = None
) -> Sealed:
    return Sealed(uuid4(), job.id, field, key_id, text, origin)


async def put(database: Database, secret: Sealed, now: datetime = T0, keep: datetime | None = None) -> None:
    await database.secrets().put_secret(NewSecret(secret, keep or now, keep or now), Actor(BY, now))


async def test_a_secret_is_read_with_its_job(store: EngineStore, control: ControlStore, database: Database) -> None:
    job, other = await add_job(control), await add_job(control, "other")
    secret = sealed(job)
    await put(database, secret)

    assert await store.secrets([job.id, other.id], T0) == {job.id: (secret,)}


async def test_the_old_secret_is_valid_until_then_and_comes_second(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    old, new = sealed(job, b"old"), sealed(job, b"new")
    await put(database, old)
    await put(database, new, T0 + HOUR, keep=T0 + DAY)

    assert (await store.secrets([job.id], T0 + 2 * HOUR))[job.id] == (new, replace(old, valid_until=T0 + DAY))
    assert (await store.secrets([job.id], T0 + DAY))[job.id] == (new,)


async def test_a_second_rotation_does_not_lengthen_the_life_of_the_first_secret(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    first, second, third = sealed(job, b"1"), sealed(job, b"2"), sealed(job, b"3")
    await put(database, first)
    await put(database, second, T0 + MINUTE, keep=T0 + HOUR)
    await put(database, third, T0 + 2 * MINUTE, keep=T0 + DAY)

    kept = replace(second, valid_until=T0 + DAY)
    assert (await store.secrets([job.id], T0 + HOUR))[job.id] == (third, kept)


async def test_a_field_of_another_name_is_left_alone(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    header, signing = sealed(job, field="header:X-Key"), sealed(job)
    await put(database, header)
    await put(database, signing, T0 + HOUR)

    assert (await store.secrets([job.id], T0 + HOUR))[job.id] == (header, signing)


async def test_a_removed_secret_is_gone_at_once(store: EngineStore, control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await put(database, sealed(job))

    assert await database.secrets().remove_secret(job.id, "signing", Actor(BY, T0))
    assert not await database.secrets().remove_secret(job.id, "signing", Actor(BY, T0))
    assert await store.secrets([job.id], T0) == {}
    assert await database.rows("secrets") == []


async def test_a_job_that_is_not_there_gets_no_secret(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await control.delete_job(job.id, Actor(BY, T0))

    with pytest.raises(Conflict, match="no such job"):
        await put(database, sealed(job))


async def test_secrets_are_listed_without_what_they_say(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await put(database, sealed(job, b"old"))
    await put(database, sealed(job, b"new"), T0 + HOUR, keep=T0 + DAY)

    rows = await database.secrets().list_secrets([job.id], T0 + 2 * HOUR)
    assert [(row.field, row.created_at, row.valid_until) for row in rows] == [
        ("signing", T0 + HOUR, None),
        ("signing", T0, T0 + DAY),
    ]


async def test_secrets_of_many_jobs_are_listed_by_job(control: ControlStore, database: Database) -> None:
    jobs = [await add_job(control, name) for name in ("first", "second", "without")]
    for job in jobs[:2]:
        await put(database, sealed(job, field="header:X-Key"))
        await put(database, sealed(job))

    rows = await database.secrets().list_secrets([job.id for job in jobs], T0)
    expected = [(job.id, field) for job in jobs[:2] for field in ("header:X-Key", "signing")]
    assert [(row.job_id, row.field) for row in rows] == sorted(expected)
    assert await database.secrets().list_secrets([], T0) == []


async def test_each_change_of_a_secret_is_audited_by_name_only(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    await put(database, sealed(job, b"canary"))
    await database.secrets().remove_secret(job.id, "signing", Actor(BY, T0))

    rows = [row for row in await database.rows("audit") if row["action"].startswith("secret.")]
    assert [(row["action"], row["actor"], row["subject"]) for row in rows] == [
        ("secret.put", BY, str(job.id)),
        ("secret.remove", BY, str(job.id)),
    ]
    assert "canary" not in str(rows)


async def test_resealing_goes_in_batches_until_none_is_left(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    jobs = [await add_job(control, f"job-{number}") for number in range(5)]
    for job in jobs:
        await put(database, sealed(job, key_id="old"))

    def again(secret: Sealed) -> Sealed:
        return Sealed(secret.id, secret.job_id, secret.field, "new", secret.sealed + b"!")

    counts = [await database.secrets().reseal("new", 2, again, Actor(BY, T0)) for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    found = await store.secrets([job.id for job in jobs], T0)
    assert {(each.key_id, each.sealed) for [each] in found.values()} == {("new", b"sealed!")}


async def test_the_canary_is_kept(database: Database) -> None:
    assert await database.secrets().canary() is None
    kept = [await database.secrets().set_canary(text) for text in ("one", "two")]
    first = await database.secrets().canary()
    kept.append(await database.secrets().set_canary("three", replace=True))

    assert (first, await database.secrets().canary()) == ("one", "three")
    assert kept == ["one", "one", "three"]


async def test_a_job_whose_receiver_is_gone_is_paused_with_a_note(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)

    assert await store.pause_gone(job.id, job.version, T0 + MINUTE, "gone")
    [row] = await database.rows("jobs")
    assert (bool(row["enabled"]), row["paused_note"], row["paused_by"]) == (False, "gone", "engine")
    assert len(await database.rows("runs")) == 1  # what was due is planned first


@pytest.mark.parametrize("version", [2, 0])
async def test_a_job_that_changed_since_is_not_paused(
    store: EngineStore, control: ControlStore, database: Database, version: int
) -> None:
    job = await add_job(control)

    assert not await store.pause_gone(job.id, version, T0, "gone")
    assert not await store.pause_gone(UUID(int=5), 1, T0, "gone")
    assert (await database.rows("jobs"))[0]["paused_note"] is None


async def test_a_header_for_another_origin_leaves_the_old_one_to_runs_that_wait(
    store: EngineStore, control: ControlStore, database: Database
) -> None:
    job = await add_job(control)
    old = sealed(job, b"old", "header:Authorization", origin=GOOD)
    new = sealed(job, b"new", "header:authorization", origin=NEW)
    again = sealed(job, b"again", "header:Authorization", origin=NEW)
    secrets = database.secrets()
    await secrets.put_secret(NewSecret(old, T0, T0 + DAY), Actor(BY, T0))
    await secrets.put_secret(NewSecret(new, T0, T0 + DAY), Actor(BY, T0))

    assert set((await store.secrets([job.id], T0 + HOUR))[job.id]) == {new, replace(old, valid_until=T0 + DAY)}
    await secrets.put_secret(NewSecret(again, T0 + HOUR, T0 + 2 * DAY), Actor(BY, T0 + HOUR))
    assert set((await store.secrets([job.id], T0 + HOUR))[job.id]) == {again, replace(old, valid_until=T0 + DAY)}
    assert (await store.secrets([job.id], T0 + DAY))[job.id] == (again,)


async def test_a_secret_for_a_removed_version_is_refused(control: ControlStore, database: Database) -> None:
    job = await add_job(control)
    header = sealed(job, field="header:X-Key", origin=GOOD)

    with pytest.raises(Conflict, match="version"):
        await database.secrets().put_secret(NewSecret(header, T0, T0), Actor(BY, T0), expect_version=job.version + 1)
    assert await database.rows("secrets") == []


class TestOrigins:
    """An edit that goes to another origin takes the rule of secret headers with it, inside its transaction."""

    @staticmethod
    def hook(job: Job, url: str = "https://new.example/hook") -> Definition:
        return replace(job.definition, target={"type": "http", "url": url})

    async def job_with_header(self, control: ControlStore, database: Database) -> Job:
        definition = Definition("hook", "0 9 * * *", {"type": "http", "url": "https://good.example/"})
        job = (await control.create_job(definition, uuid4(), Actor(BY, T0))).job
        await put(database, sealed(job, field="header:Authorization", origin=GOOD))
        return job

    async def move(self, control: ControlStore, job: Job, how: OriginChange, secrets: Sequence[NewSecret] = ()) -> Job:
        now = T0 + HOUR
        return (await control.edit_job(job.id, self.hook, Actor(BY, now), moving=how, secrets=secrets)).job

    @pytest.mark.parametrize(
        ("how", "code"), [(OriginChange(), "not_allowed"), (OriginChange(is_admin=True), "secrets_bound")]
    )
    async def test_it_is_refused(self, control: ControlStore, database: Database, how: OriginChange, code: str) -> None:
        job = await self.job_with_header(control, database)
        with pytest.raises(Conflict) as refusal:
            await self.move(control, job, how)

        assert refusal.value.code == code
        assert await control.get_job(job.id) == job

    async def test_headers_that_are_given_up_serve_runs_that_wait(
        self, store: EngineStore, control: ControlStore, database: Database
    ) -> None:
        job = await self.job_with_header(control, database)
        await self.move(control, job, OriginChange(is_admin=True, drop=True))

        [left] = (await store.secrets([job.id], T0 + HOUR))[job.id]
        assert (left.origin, left.valid_until) == (GOOD, T0 + HOUR + job.definition.max_age)

    async def test_new_values_come_with_the_edit(
        self, store: EngineStore, control: ControlStore, database: Database
    ) -> None:
        job = await self.job_with_header(control, database)
        new = sealed(job, b"new", "header:Authorization", origin=NEW)
        given = OriginChange(is_admin=True, given=frozenset(["authorization"]))
        await self.move(control, job, given, [NewSecret(new, T0 + HOUR, T0 + DAY)])

        found = (await store.secrets([job.id], T0 + HOUR))[job.id]
        assert {each.origin: each.valid_until for each in found} == {NEW: None, GOOD: T0 + DAY}

    async def test_a_secret_sealed_for_another_origin_than_the_edits_is_refused(
        self, control: ControlStore, database: Database
    ) -> None:
        job = await self.job_with_header(control, database)
        other = sealed(job, b"new", "header:Authorization", origin="https://other.example:443")
        given = OriginChange(is_admin=True, given=frozenset(["authorization"]))

        with pytest.raises(Conflict, match="meanwhile"):
            await self.move(control, job, given, [NewSecret(other, T0, T0)])
        assert await control.get_job(job.id) == job

    async def test_another_path_of_the_same_origin_needs_nobody(
        self, control: ControlStore, database: Database
    ) -> None:
        job = await self.job_with_header(control, database)
        edited = (
            await control.edit_job(job.id, lambda old: self.hook(old, "https://GOOD.example:443/b"), Actor(BY, T0))
        ).job
        assert edited.version == 2

    async def test_an_import_refuses_that_job_and_no_other(self, control: ControlStore, database: Database) -> None:
        job = await self.job_with_header(control, database)
        other = Definition("other", "0 9 * * *", {"type": "http", "url": "https://new.example/"})
        results = await control.import_jobs(
            [JobEntry(self.hook(job), uuid4()), JobEntry(other, uuid4())], Actor(BY, T0)
        )

        assert [(each.result, each.code) for each in results] == [("refused", "not_allowed"), ("created", None)]

    async def test_a_bundle_is_refused(self, control: ControlStore, database: Database) -> None:
        job = await self.job_with_header(control, database)
        bundle = Bundle([JobEntry(self.hook(job), uuid4())], "api", "")
        applied = await control.apply_jobs(bundle, Actor(BY, T0), rights=Rights(moving=OriginChange(is_admin=True)))

        assert [each.code for each in applied.refused.values()] == ["secrets_bound"]
