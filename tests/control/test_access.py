"""Tokens are created, shown once, looked up and revoked; a look-up is cached for five seconds at most."""

import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from hourbell.control.access import Access, TooManyUnknown, refuse_to_listen
from hourbell.core.access.roles import Role
from hourbell.core.access.token_text import token_text
from hourbell.settings import Address
from hourbell.store.control.access import AccessStore, Token
from hourbell.store.control.actor import Request
from hourbell.store.errors import AlreadyAsked, Conflict, StoreUnavailable
from hourbell.store.sqlite.session import SqliteSessions
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
T0 = datetime(2026, 11, 16, 9, tzinfo=UTC)


class Counting(AccessStore):
    """Counts the look-ups, and may be unreachable."""

    lookups = 0
    digests_read = 0
    is_away = False

    async def token_by_digest(self, digest: bytes) -> Token | None:
        self.lookups += 1
        return await super().token_by_digest(digest)

    async def token(self, token_id: UUID) -> Token | None:
        self.lookups += 1
        return await super().token(token_id)

    async def valid_digests(self, now: datetime, limit: int) -> list[bytes]:
        self.digests_read += 1
        return await super().valid_digests(now, limit)

    async def touch_tokens(self, used: Mapping[UUID, datetime]) -> None:
        if self.is_away:
            raise StoreUnavailable
        await super().touch_tokens(used)


class Node:
    """A process whose clock the test sets."""

    def __init__(self, store: AccessStore) -> None:
        self.seconds = 0.0
        self.access = Access(store, now=self.now, new_id=uuid4, random_bytes=os.urandom, elapsed=lambda: self.seconds)

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.seconds)


@pytest.fixture
async def database() -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase.in_memory() as made:
        yield made


@pytest.fixture
def store(database: SqliteDatabase) -> Counting:
    return Counting(SqliteSessions(database.runner()))


@pytest.fixture
def node(store: Counting) -> Node:
    return Node(store)


async def test_a_token_opens_for_its_role_until_it_expires(node: Node) -> None:
    token, text = await node.access.create("ci", Role.EDITOR, "test")

    assert await node.access.authenticate(text.reveal()) == token
    assert (token.role, token.expires_at) == (Role.EDITOR, T0 + timedelta(days=90))
    node.seconds = 90 * 86_400 - 0.001
    assert await node.access.authenticate(text.reveal()) is not None
    node.seconds = 90 * 86_400
    assert await node.access.authenticate(text.reveal()) is None


async def test_a_token_may_last_until_it_is_revoked(node: Node) -> None:
    token, text = await node.access.create("ci", Role.VIEWER, "test", expires_in=None)
    node.seconds = 1e9

    assert token.expires_at is None
    assert await node.access.authenticate(text.reveal()) is not None


async def test_expiry_is_on_the_second_also_while_an_answer_is_believed(node: Node) -> None:
    _, text = await node.access.create("ci", Role.VIEWER, "test", expires_in=timedelta(seconds=3))

    assert await node.access.authenticate(text.reveal()) is not None
    node.seconds = 3
    assert await node.access.authenticate(text.reveal()) is None


async def test_a_revoked_token_is_refused_at_once_here_and_within_five_seconds_elsewhere(
    node: Node, store: Counting
) -> None:
    other = Node(store)
    token, text = await node.access.create("ci", Role.ADMIN, "test")
    assert await node.access.authenticate(text.reveal()) == token
    assert await node.access.session_token(token.id) == token
    assert await other.access.authenticate(text.reveal()) == token
    assert await other.access.session_token(token.id) == token
    await node.access.revoke(token.id, "test")

    assert await node.access.authenticate(text.reveal()) is None
    assert await node.access.session_token(token.id) is None
    other.seconds = 5
    assert await other.access.authenticate(text.reveal()) is None
    assert await other.access.session_token(token.id) is None


async def test_within_five_seconds_the_database_is_asked_once(node: Node, store: Counting) -> None:
    token, text = await node.access.create("ci", Role.ADMIN, "test")
    wrong = token_text(os.urandom(32))
    for _ in range(100):
        await node.access.authenticate(text.reveal())
        await node.access.authenticate(wrong)
        await node.access.session_token(token.id)

    assert store.lookups == 3
    node.seconds = 5
    await node.access.authenticate(wrong)
    assert store.lookups == 4


async def test_a_typo_does_not_reach_the_database(node: Node, store: Counting) -> None:
    _, text = await node.access.create("ci", Role.ADMIN, "test")

    for wrong in ("", "hb_", "secret", text.reveal()[:-1] + "!", text.reveal() + "x", "hb_" + "a" * 49, "ü" * 5_000):
        assert await node.access.authenticate(wrong) is None
    assert store.lookups == 0


async def test_wrong_tokens_push_out_no_valid_one_and_are_forgotten(node: Node, store: Counting) -> None:
    _, text = await node.access.create("ci", Role.ADMIN, "test")
    await node.access.authenticate(text.reveal())
    for number in range(10_100):
        await node.access.authenticate(token_text(number.to_bytes(32, "big")))
    before = store.lookups
    await node.access.authenticate(text.reveal())
    assert store.lookups == before

    await node.access.authenticate(token_text((0).to_bytes(32, "big")))
    assert store.lookups == before + 1


async def test_few_of_10_000_unknown_tokens_are_looked_up_and_a_valid_one_still_works(
    node: Node, store: Counting
) -> None:
    _, known = await node.access.create("known", Role.ADMIN, "test")
    _, fresh = await node.access.create("fresh", Role.ADMIN, "test")  # this process has never seen it
    await node.access.authenticate(known.reveal())
    before, allowed, refused = store.lookups, iter([0.0] * 25), 0
    for number in range(10_000):
        try:
            await node.access.authenticate(token_text(number.to_bytes(32, "big")), delay=lambda: next(allowed, 1.0))
        except TooManyUnknown as error:
            refused += error.wait == 1.0

    assert (store.lookups - before, refused, store.digests_read) == (25, 9_975, 1)
    for text in (known, fresh):
        assert await node.access.authenticate(text.reveal(), delay=lambda: 1.0) is not None
    node.seconds = 6  # nothing is believed any more
    for text in (known, fresh):
        assert await node.access.authenticate(text.reveal(), delay=lambda: 1.0) is not None


async def test_a_token_made_elsewhere_works_within_a_second_while_unknown_ones_are_refused(
    node: Node, store: Counting
) -> None:
    with pytest.raises(TooManyUnknown):
        await node.access.authenticate(token_text(b"x" * 32), delay=lambda: 1.0)
    _, text = await Node(store).access.create("ci", Role.ADMIN, "test")
    node.seconds = 1

    assert await node.access.authenticate(text.reveal(), delay=lambda: 1.0) is not None


async def test_a_server_is_open_until_the_first_token_and_stays_closed_when_the_last_is_revoked(node: Node) -> None:
    assert await node.access.is_open()
    token, _ = await node.access.create("ci", Role.ADMIN, "test")
    assert not await node.access.is_open()
    await node.access.revoke(token.id, "test")
    assert not await node.access.is_open()


async def test_only_somebody_who_says_so_opens_it_again_until_the_next_token(node: Node) -> None:
    token, _ = await node.access.create("ci", Role.ADMIN, "test")
    with pytest.raises(Conflict, match="a token is still valid; revoke them first"):
        await node.access.open("test")
    assert not await node.access.is_open()
    await node.access.revoke(token.id, "test")
    await node.access.open("test")
    assert await node.access.is_open()

    second, _ = await node.access.create("ci", Role.ADMIN, "test")
    assert not await node.access.is_open()
    await node.access.revoke(second.id, "test")
    assert not await node.access.is_open()


async def test_a_token_made_elsewhere_closes_the_server_within_five_seconds(node: Node, store: Counting) -> None:
    assert await node.access.is_open()
    await Node(store).access.create("ci", Role.ADMIN, "test")
    node.seconds = 5

    assert not await node.access.is_open()


async def test_a_server_does_not_open_by_itself_when_its_tokens_expire(node: Node) -> None:
    await node.access.create("ci", Role.ADMIN, "test", expires_in=timedelta(seconds=1))
    node.seconds = 100

    assert not await node.access.is_open()


async def test_the_last_use_is_noted_once_a_minute(node: Node) -> None:
    token, text = await node.access.create("ci", Role.ADMIN, "test")
    seen = []
    for seconds in (1, 59, 61, 100, 119, 122):
        node.seconds = seconds
        await node.access.authenticate(text.reveal())
        [row] = await node.access.list()
        seen.append(row.last_used_at and (row.last_used_at - T0).total_seconds())

    assert seen == [None, None, 61, 61, 61, 122]
    assert (await node.access.list())[0].id == token.id


async def test_an_unrecorded_use_is_recorded_when_the_service_asks(node: Node) -> None:
    _, text = await node.access.create("ci", Role.ADMIN, "test")
    node.seconds = 10
    await node.access.authenticate(text.reveal())
    await node.access.flush()

    assert (await node.access.list())[0].last_used_at == node.now()


async def test_nobody_is_kept_out_because_their_use_cannot_be_noted(node: Node, store: Counting) -> None:
    _, text = await node.access.create("ci", Role.ADMIN, "test")
    store.is_away, node.seconds = True, 61
    assert await node.access.authenticate(text.reveal()) is not None

    store.is_away = False
    await node.access.flush()
    assert (await node.access.list())[0].last_used_at == node.now()


async def test_revoking_what_is_not_there_or_twice_is_a_conflict(node: Node) -> None:
    token, _ = await node.access.create("ci", Role.ADMIN, "test")
    await node.access.revoke(token.id, "test")

    for missing in (token.id, uuid4()):
        with pytest.raises(Conflict, match="no token") as caught:
            await node.access.revoke(missing, "test")
        assert caught.value.code == "no_such_token"


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "a\nb", "a\x1b[31m"])
async def test_a_name_can_be_shown(node: Node, name: str) -> None:
    with pytest.raises(ValueError, match="write a name"):
        await node.access.create(name, Role.VIEWER, "test")


@pytest.mark.parametrize("days", [0, -1, 3_651])
async def test_a_token_expires_in_the_future_that_can_be_foreseen(node: Node, days: int) -> None:
    with pytest.raises(ValueError, match="up to 3650d"):
        await node.access.create("ci", Role.VIEWER, "test", expires_in=timedelta(days=days))


async def test_a_key_makes_one_token(node: Node) -> None:
    request = Request(key="k", fingerprint=b"f")
    await node.access.create("ci", Role.VIEWER, "test", request=request)
    with pytest.raises(AlreadyAsked):
        await node.access.create("ci", Role.VIEWER, "test", request=request)

    assert len(await node.access.list()) == 1


async def test_the_text_of_a_token_is_in_no_table_and_no_repr(node: Node, database: SqliteDatabase) -> None:
    token, text = await node.access.create("ci", Role.ADMIN, "test", request=Request("r", None, "::1", "k", b"f"))
    await node.access.authenticate(text.reveal())
    tables = [name for (name,) in database.connection.execute("select name from sqlite_schema where type = 'table'")]
    everything = repr([database.connection.execute(f"select * from {name}").fetchall() for name in tables])

    assert "token.create" in everything
    assert text.reveal() not in everything
    assert text.reveal()[3:-6] not in everything
    assert text.reveal() not in repr((token, text, vars(node.access)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
@pytest.mark.parametrize("is_open", [True, False])
def test_on_loopback_a_server_may_listen_without_a_token(host: str, is_open: bool) -> None:
    assert refuse_to_listen(Address(host, 8080), is_open) is None


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.168.1.7", "hourbell.example.com"])
def test_another_address_needs_a_token_and_the_error_says_how_to_create_one(host: str) -> None:
    assert refuse_to_listen(Address(host, 8080), is_open=False) is None
    refused = refuse_to_listen(Address(host, 8080), is_open=True)
    assert refused is not None
    assert "hourbell token create admin --role admin" in refused
