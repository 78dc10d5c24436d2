"""Secrets are created, rotated, set and removed; each is shown once, and opens only with the right keys."""

import os
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from hourbell.control.secrets import Secrets, WrongKeys, check_keys
from hourbell.core.access.signing import secret_bytes
from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import OriginChange
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.sealing import KeyRing, Plain
from hourbell.store.base import EngineStore
from hourbell.store.control.actor import Actor
from hourbell.store.errors import Conflict
from hourbell.targets.http.target import HttpTarget
from tests.contract.steps import BY, DAY, HOUR, MINUTE, T0, add_job
from tests.database import Database
from tests.targets.http.steps import ScriptedTransport, a_call, a_definition

pytestmark = pytest.mark.anyio
OLD, NEW = KeyRing([b"o" * 32], os.urandom), KeyRing([b"n" * 32], os.urandom)
BOTH = KeyRing([b"n" * 32, b"o" * 32], os.urandom)


def secrets_of(database: Database, keys: KeyRing = OLD) -> Secrets:
    return Secrets(database.secrets(), database.control(), keys, new_id=uuid4, random_bytes=os.urandom)


@pytest.fixture
async def secrets(database: Database) -> Secrets:
    target = {"type": "http", "url": "https://example.com"}
    await database.control().create_job(Definition("hook", "* * * * *", target), uuid4(), Actor(BY, T0))
    return secrets_of(database)


async def opened(store: EngineStore, database: Database, now: timedelta, keys: KeyRing = OLD) -> list[str]:
    job = await database.control().get_job("hook")
    assert job is not None
    found = await store.secrets([job.id], T0 + now)
    return [keys.open(each).reveal() for each in found.get(job.id, ())]


async def test_a_new_secret_is_what_signs(secrets: Secrets, store: EngineStore, database: Database) -> None:
    made = (await secrets.create("hook", Actor(BY, T0))).reveal()

    assert len(secret_bytes(made)) == 32
    assert await opened(store, database, MINUTE) == [made]


async def test_a_job_that_signs_is_rotated_not_created_again(secrets: Secrets) -> None:
    await secrets.create("hook", Actor(BY, T0))
    with pytest.raises(Conflict, match="rotate it"):
        await secrets.create("hook", Actor(BY, T0))


async def test_after_a_rotation_both_sign_for_a_day(secrets: Secrets, store: EngineStore, database: Database) -> None:
    old = (await secrets.create("hook", Actor(BY, T0))).reveal()
    new = (await secrets.rotate("hook", Actor(BY, T0 + HOUR))).reveal()

    assert await opened(store, database, 2 * HOUR) == [new, old]
    assert await opened(store, database, DAY + 2 * HOUR) == [new]


async def test_a_secret_that_leaked_is_replaced_at_once(
    secrets: Secrets, store: EngineStore, database: Database
) -> None:
    await secrets.create("hook", Actor(BY, T0))
    new = (await secrets.rotate("hook", Actor(BY, T0 + HOUR), keep_old=timedelta(0))).reveal()

    assert await opened(store, database, HOUR) == [new]


async def test_a_secret_header_may_be_set(secrets: Secrets, store: EngineStore, database: Database) -> None:
    await secrets.put("hook", "header:Authorization", Plain("Bearer x"), Actor(BY, T0))
    await secrets.put("hook", "header:Authorization", Plain("Bearer y"), Actor(BY, T0 + MINUTE))

    assert await opened(store, database, MINUTE) == ["Bearer y"]


@pytest.mark.parametrize(
    ("field", "text", "hint"),
    [
        ("signing", "canary", "whsec_ and base64"),
        ("header:Host", "canary", "set by Hourbell"),
        ("header:X", "canary\n", "printable ASCII"),
        ("header:", "canary", "not the name of a header"),
        ("password", "canary", "write signing, or header:"),
    ],
)
async def test_an_invalid_secret_is_refused_without_being_shown(
    secrets: Secrets, field: str, text: str, hint: str
) -> None:
    with pytest.raises(ValueError, match=hint) as caught:
        await secrets.put("hook", field, Plain(text), Actor(BY, T0))
    assert "canary" not in str(caught.value)


async def test_only_webhooks_have_secrets(secrets: Secrets, database: Database) -> None:
    await add_job(database.control(), "task")
    with pytest.raises(Conflict, match="http target"):
        await secrets.create("task", Actor(BY, T0))
    with pytest.raises(Conflict, match="no job named 'nobody'"):
        await secrets.create("nobody", Actor(BY, T0))


async def test_a_secret_is_removed_once(secrets: Secrets) -> None:
    await secrets.create("hook", Actor(BY, T0))
    await secrets.remove("hook", "signing", Actor(BY, T0))

    assert await secrets.list("hook", T0) == []
    with pytest.raises(Conflict, match="has no secret 'signing'"):
        await secrets.remove("hook", "signing", Actor(BY, T0))


async def test_keys_are_checked_once_there_is_a_secret(secrets: Secrets, database: Database) -> None:
    await check_keys(database.secrets(), None)
    await secrets.create("hook", Actor(BY, T0))

    await check_keys(database.secrets(), OLD)
    for keys in (NEW, None):
        with pytest.raises(WrongKeys, match="sealed"):
            await check_keys(database.secrets(), keys)


async def test_a_process_with_another_key_seals_nothing(secrets: Secrets, database: Database) -> None:
    await secrets.create("hook", Actor(BY, T0))
    with pytest.raises(WrongKeys):
        await secrets_of(database, NEW).rotate("hook", Actor(BY, T0))


async def test_keys_are_rotated_without_a_moment_in_which_nothing_opens(
    secrets: Secrets, store: EngineStore, database: Database
) -> None:
    made = (await secrets.create("hook", Actor(BY, T0))).reveal()

    assert await opened(store, database, MINUTE, BOTH) == [made]
    assert await secrets_of(database, BOTH).rotate_keys(Actor(BY, T0)) == 1
    assert await opened(store, database, MINUTE, NEW) == [made]
    await check_keys(database.secrets(), NEW)
    assert await secrets_of(database, NEW).rotate_keys(Actor(BY, T0)) == 0


async def test_rotating_keys_is_audited_and_locks_nobody_out(secrets: Secrets, database: Database) -> None:
    await secrets_of(database, NEW).rotate_keys(Actor(BY, T0))  # there is nothing to seal: any key will do
    await secrets.create("hook", Actor(BY, T0))
    await secrets_of(database, BOTH).rotate_keys(Actor(BY, T0))

    assert [row["action"] for row in await database.rows("audit")][-2:] == ["secret.put", "secret.reseal"]


async def test_after_the_last_secret_no_key_is_needed(secrets: Secrets, database: Database) -> None:
    await secrets.create("hook", Actor(BY, T0))
    await secrets.remove("hook", "signing", Actor(BY, T0))

    await check_keys(database.secrets(), None)


async def test_a_missing_secret_is_not_rotated(secrets: Secrets) -> None:
    with pytest.raises(Conflict, match="create one"):
        await secrets.rotate("hook", Actor(BY, T0))


async def test_the_secrets_of_a_deleted_job_are_gone(secrets: Secrets, database: Database) -> None:
    await secrets.create("hook", Actor(BY, T0))
    job = await database.control().get_job("hook")
    assert job is not None
    await database.control().delete_job(job.id, Actor(BY, T0))

    assert await database.rows("secrets") == []


class TestOrigins:
    """A header goes where it was set for, also from runs of older versions and after changes by plain SQL."""

    URL = "https://good.example/hook"
    NEW_URL = "https://new.example/hook"

    async def deliver(
        self, store: EngineStore, database: Database, url: str, version: int
    ) -> tuple[Outcome, list[str]]:
        """Send a run of a version of the job; the values of its secret header that left."""
        job = await database.control().get_job("hook")
        assert job is not None
        secrets = (await store.secrets([job.id], T0 + HOUR)).get(job.id, ())
        transport = ScriptedTransport()
        target = HttpTarget(transport, keys=OLD, user_agent="Hourbell", slots=1, elapsed=lambda: 0.0)
        call = a_call(a_definition(url=url), job_id=job.id, job_version=version, secrets=secrets)
        outcome = await target.deliver(call)
        return outcome, [request.headers["X-Key"] for request in transport.requests if "X-Key" in request.headers]

    async def move(self, database: Database, **how: bool) -> None:
        job = await database.control().get_job("hook")
        assert job is not None
        new = replace(job.definition, target={"type": "http", "url": self.NEW_URL})
        await database.control().edit_job(job.id, lambda _: new, Actor(BY, T0), moving=OriginChange(**how))

    async def test_a_waiting_run_of_an_older_version_gets_no_header_that_was_set_later(
        self, secrets: Secrets, store: EngineStore, database: Database
    ) -> None:
        await self.move(database)
        await secrets.put("hook", "header:X-Key", Plain("canary"), Actor(BY, T0))

        old, sent = await self.deliver(store, database, "https://example.com/hook", 1)
        assert (isinstance(old, Failed), sent) == (True, [])
        new, sent = await self.deliver(store, database, self.NEW_URL, 2)
        assert (isinstance(new, Succeeded), sent) == (True, ["canary"])

    async def test_a_run_that_waits_for_the_old_origin_keeps_its_header(
        self, secrets: Secrets, store: EngineStore, database: Database
    ) -> None:
        await secrets.put("hook", "header:X-Key", Plain("old"), Actor(BY, T0))
        await self.move(database, is_admin=True, drop=True)
        await secrets.put("hook", "header:X-Key", Plain("new"), Actor(BY, T0))

        assert (await self.deliver(store, database, "https://example.com/hook", 1))[1] == ["old"]
        assert (await self.deliver(store, database, self.NEW_URL, 2))[1] == ["new"]

    async def test_plain_sql_takes_no_header_to_another_origin(
        self, secrets: Secrets, store: EngineStore, database: Database
    ) -> None:
        await secrets.put("hook", "header:X-Key", Plain("canary"), Actor(BY, T0))

        outcome, sent = await self.deliver(store, database, "https://evil.example/", 2)
        assert isinstance(outcome, Failed)
        assert (outcome.retryable, sent) == (False, [])

    async def test_without_the_key_it_is_known_that_there_are_secrets(
        self, secrets: Secrets, database: Database
    ) -> None:
        await secrets.put("hook", "header:X-Key", Plain("canary"), Actor(BY, T0))
        blind = Secrets(database.secrets(), database.control(), None, new_id=uuid4, random_bytes=os.urandom)

        assert [row.field for row in await blind.list("hook", T0)] == ["header:X-Key"]
        with pytest.raises(Conflict, match="HOURBELL_SECRET_KEY"):
            await blind.put("hook", "header:X-Key", Plain("another"), Actor(BY, T0))
        with pytest.raises(Conflict, match="admin"):
            await self.move(database)

    async def test_new_keys_keep_the_origin(self, secrets: Secrets, store: EngineStore, database: Database) -> None:
        await secrets.put("hook", "header:X-Key", Plain("canary"), Actor(BY, T0))
        await secrets_of(database, BOTH).rotate_keys(Actor(BY, T0))

        assert await opened(store, database, MINUTE, NEW) == ["canary"]
        [row] = await secrets.list("hook", T0)
        assert row.origin == "https://example.com:443"
