"""Tokens, idempotency keys and the key of sessions."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from hourbell.core.access.roles import Role
from hourbell.store.control.access import AccessStore, EndedSession, Token
from hourbell.store.control.actor import Actor, Request
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import AlreadyAsked
from tests.contract.steps import BY, DAY, HOUR, MINUTE, T0, a_job
from tests.database import Database

pytestmark = pytest.mark.anyio
DIGEST = b"\x00digest\xff"


def a_token(name: str = "ci", **more: object) -> Token:
    return replace(Token(uuid4(), name, Role.EDITOR, T0, T0 + DAY), **more)  # type: ignore[arg-type]


async def test_a_token_is_found_by_its_digest_and_by_its_id(access: AccessStore) -> None:
    token = a_token()
    await access.add_token(token, DIGEST, Actor(BY, token.created_at))

    assert await access.token_by_digest(DIGEST) == token
    assert await access.token(token.id) == token
    assert (await access.token_by_digest(b"other"), await access.token(uuid4())) == (None, None)


async def test_tokens_are_listed_newest_first(access: AccessStore) -> None:
    for number in range(3):
        await access.add_token(
            a_token(f"token-{number}", created_at=T0 + number * MINUTE), bytes([number]), Actor(BY, T0)
        )

    assert [token.name for token in await access.tokens()] == ["token-2", "token-1", "token-0"]


async def test_a_revoked_token_is_shown_but_not_valid(access: AccessStore) -> None:
    token = a_token()
    await access.add_token(token, DIGEST, Actor(BY, token.created_at))

    assert await access.revoke_token(token.id, Actor(BY, T0 + HOUR))
    found = await access.token_by_digest(DIGEST)
    assert found == replace(token, revoked_at=T0 + HOUR)
    assert not found.is_valid(T0 + HOUR)


async def test_a_token_is_revoked_once(access: AccessStore, database: Database) -> None:
    token = a_token()
    await access.add_token(token, DIGEST, Actor(BY, token.created_at))
    await access.revoke_token(token.id, Actor(BY, T0 + HOUR))

    assert not await access.revoke_token(token.id, Actor(BY, T0 + 2 * HOUR))
    assert not await access.revoke_token(uuid4(), Actor(BY, T0 + 2 * HOUR))
    assert [row["action"] for row in await database.rows("audit")] == ["token.create", "token.revoke"]


async def test_access_is_open_until_a_token_was_made_and_stays_closed_however_it_ends(access: AccessStore) -> None:
    assert await access.is_open()
    expired, revoked = a_token(expires_at=T0 + HOUR), a_token(expires_at=None)
    await access.add_token(expired, b"1", Actor(BY, expired.created_at))
    assert not await access.is_open()
    await access.add_token(revoked, b"2", Actor(BY, revoked.created_at))
    await access.revoke_token(revoked.id, Actor(BY, T0))
    await access.revoke_token(expired.id, Actor(BY, T0 + DAY))

    assert not await access.is_open()


async def test_access_is_opened_when_no_token_is_valid_any_more(access: AccessStore, database: Database) -> None:
    expired, unlimited = a_token(expires_at=T0 + HOUR), a_token(expires_at=None)
    await access.add_token(expired, b"1", Actor(BY, expired.created_at))
    await access.add_token(unlimited, b"2", Actor(BY, unlimited.created_at))
    assert await access.open_access(Actor(BY, T0)) == 2
    await access.revoke_token(unlimited.id, Actor(BY, T0))
    assert (await access.open_access(Actor(BY, T0)), await access.is_open()) == (1, False)

    assert (await access.open_access(Actor(BY, T0 + HOUR)), await access.is_open()) == (0, True)
    assert (await access.open_access(Actor(BY, T0 + HOUR)), await access.is_open()) == (0, True)
    found = await access.token(expired.id)
    assert found is not None
    assert found.revoked_at == T0 + HOUR
    opened = [row for row in await database.rows("audit") if row["action"] == "access.open"]
    assert [(row["actor"], row["at"], row["after"]) for row in opened] == [
        (BY, T0 + HOUR, {"expired_tokens_revoked": 1}),
        (BY, T0 + HOUR, {"expired_tokens_revoked": 0}),
    ]


async def test_the_next_token_closes_access_and_its_end_does_not_open_it(access: AccessStore) -> None:
    await access.open_access(Actor(BY, T0))
    token = a_token()
    await access.add_token(token, b"1", Actor(BY, token.created_at))
    assert not await access.is_open()
    await access.revoke_token(token.id, Actor(BY, T0 + HOUR))

    assert not await access.is_open()


async def test_the_digests_of_valid_tokens_are_read_newest_first(access: AccessStore) -> None:
    revoked = a_token()
    for number, token in enumerate(
        [a_token(), a_token(expires_at=T0 + HOUR), a_token(expires_at=None, created_at=T0 + MINUTE), revoked]
    ):
        await access.add_token(token, bytes([number]), Actor(BY, token.created_at))
    await access.revoke_token(revoked.id, Actor(BY, T0))

    assert await access.valid_digests(T0 + HOUR, 10) == [b"\x02", b"\x00"]
    assert await access.valid_digests(T0 + HOUR, 1) == [b"\x02"]


async def test_a_session_is_ended_once_and_forgotten_when_it_has_expired(
    access: AccessStore, database: Database
) -> None:
    token, ids = uuid4(), [uuid4() for _ in range(3)]
    assert not await access.is_session_ended(ids[0])
    for number, each in enumerate([*ids, ids[0]]):
        await access.end_session(EndedSession(each, token, T0 + number * HOUR), Actor(BY, T0, Request("call")))

    assert [await access.is_session_ended(each) for each in ids] == [True] * 3
    assert [(row["action"], row["subject"]) for row in await database.rows("audit")] == [
        ("session.end", str(token))
    ] * 3
    assert [await access.forget_sessions(T0 + HOUR, 1) for _ in range(3)] == [1, 1, 0]
    assert [await access.is_session_ended(each) for each in ids] == [False, False, True]


async def test_the_last_use_of_a_token_never_moves_back(access: AccessStore, database: Database) -> None:
    one, other = a_token(), a_token()
    await access.add_token(one, b"1", Actor(BY, one.created_at))
    await access.add_token(other, b"2", Actor(BY, other.created_at))
    await access.touch_tokens({one.id: T0 + HOUR, other.id: T0 + MINUTE, uuid4(): T0})
    await access.touch_tokens({one.id: T0, other.id: T0 + HOUR})
    await access.touch_tokens({})

    assert {token.last_used_at for token in await access.tokens()} == {T0 + HOUR}
    assert len(await database.rows("audit")) == 2


async def test_the_audit_says_what_token_was_made_but_not_its_digest(access: AccessStore, database: Database) -> None:
    token = a_token()
    request = Request("request-1", UUID(int=9), "192.0.2.1")
    await access.add_token(token, DIGEST, Actor(BY, token.created_at, request))

    [row] = await database.rows("audit")
    assert (row["actor"], row["action"], row["subject"]) == (BY, "token.create", str(token.id))
    assert row["after"] == {"name": "ci", "role": "editor", "expires": "2026-03-03T09:00:00+00:00"}
    assert (row["token_id"], row["ip"], row["request_id"]) == (UUID(int=9), "192.0.2.1", "request-1")


async def test_a_key_adds_and_revokes_once(access: AccessStore, database: Database) -> None:
    token = a_token()
    await access.add_token(token, DIGEST, Actor(BY, token.created_at, Request(key="add")))
    await access.revoke_token(token.id, Actor(BY, T0, Request(key="revoke")))

    with pytest.raises(AlreadyAsked):
        await access.add_token(a_token(), b"2", Actor(BY, T0, Request(key="add")))
    with pytest.raises(AlreadyAsked):
        await access.revoke_token(token.id, Actor(BY, T0, Request(key="revoke")))
    assert (len(await access.tokens()), len(await database.rows("audit"))) == (1, 2)


async def test_an_answer_is_kept_under_the_key_of_its_change(access: AccessStore, control: ControlStore) -> None:
    request = Request(key="key", fingerprint=b"\x00print")
    await control.create_job(a_job(), uuid4(), Actor(BY, T0, request))
    before = await access.idempotency_record("key")
    await access.keep_answer("key", {"status": 201, "body": {"name": "é"}})

    after = await access.idempotency_record("key")
    assert before is not None
    assert after is not None
    assert (before.fingerprint, before.answer) == (b"\x00print", None)
    assert (after.fingerprint, after.answer) == (b"\x00print", {"status": 201, "body": {"name": "é"}})


async def test_an_answer_without_a_change_is_not_kept(access: AccessStore) -> None:
    await access.keep_answer("key", {"status": 201})

    assert await access.idempotency_record("key") is None


async def test_old_keys_are_forgotten_in_batches(access: AccessStore) -> None:
    for number in range(4):
        made = a_token(created_at=T0 + number * HOUR)
        await access.add_token(made, bytes([number]), Actor(BY, made.created_at, Request(key=f"key-{number}")))

    counts = [await access.forget_keys(T0 + 3 * HOUR, 2) for _ in range(3)]
    assert counts == [2, 1, 0]
    assert await access.idempotency_record("key-3") is not None
    assert await access.idempotency_record("key-2") is None


async def test_the_first_key_of_sessions_stays(access: AccessStore, database: Database) -> None:
    first = await access.session_key(b"\x00one")

    assert (first, await database.access().session_key(b"two")) == (b"\x00one", b"\x00one")
