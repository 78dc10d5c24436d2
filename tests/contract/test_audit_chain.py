"""The audit is append-only and chained: whatever is done to its rows behind Hourbell is found."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

import apsw
import asyncpg
import pytest

from hourbell.core.access.audit_chain import GRACE, LATE, AuditedChange, Link, SealKeys, extend_chain
from hourbell.core.schedule import TZDATA_VERSION
from hourbell.store.base import Node
from hourbell.store.control.actor import Actor, Request
from hourbell.store.control.audit_chain import PAGE_BYTES, AuditChainStore, Extended, Verdict, verify_chain
from hourbell.store.control.store import ControlStore
from hourbell.store.doctor import DoctorStore, Expectations, examine
from hourbell.store.lists.reader import ListStore
from hourbell.store.migrations import load_migrations
from hourbell.store.postgres.doctor import PostgresDoctorStore
from hourbell.store.sqlite.doctor import SqliteDoctorStore
from tests.contract.steps import BY, DAY, HOUR, MINUTE, NODE, SECOND, T0, a_job, add_job, changed
from tests.database import Database, PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
REFUSED = (asyncpg.RestrictViolationError, apsw.ConstraintError)
PLAIN, SEALED = SealKeys(), SealKeys({"key": b"k" * 32}, "key")
INSERT = "insert into hourbell.audit (at, actor, action, subject) values"
MICROSECOND = 1_000_000


@pytest.fixture
def chain(database: Database) -> AuditChainStore:
    return database.audit_chain()


async def add_rows(control: ControlStore, *names: str) -> None:
    for name in names:
        await add_job(control, name, description=f"é {name}")


async def extend(chain: AuditChainStore, now: datetime = T0, seals: SealKeys = PLAIN) -> Extended:
    return await chain.extend(partial(extend_chain, now=now, seals=seals))


async def extend_all(chain: AuditChainStore, now: datetime = T0, seals: SealKeys = PLAIN) -> list[Link]:
    links: list[Link] = []
    while (extended := await extend(chain, now, seals)).links:
        links += extended.links
    return links


async def verify(
    chain: AuditChainStore, now: datetime = T0, *, seals: SealKeys = PLAIN, expect: str | None = None, start: int = 1
) -> Verdict:
    return await verify_chain(chain, now, seals, expect=expect, start=start)


async def found(chain: AuditChainStore, *, expect: str | None = None) -> list[tuple[str, int | None]]:
    verdict = await verify(chain, expect=expect)
    assert verdict.break_count == len(verdict.breaks)
    return [(each.kind, each.audit_id) for each in verdict.breaks]


async def tamper(database: Database, *statements: str) -> None:
    """Do what a superuser can: switch the triggers of both tables off, and change them."""
    if isinstance(database, PostgresDatabase):
        for table in ("audit", "audit_chain"):
            await database.sql(f"alter table hourbell.{table} disable trigger user")
    else:
        triggers = [each["name"] for each in await triggers_of(database)]
        for name in triggers:
            await database.sql(f"drop trigger {name}")
    for statement in statements:
        await database.sql(statement)
    if isinstance(database, PostgresDatabase):
        for table in ("audit", "audit_chain"):
            await database.sql(f"alter table hourbell.{table} enable trigger user")


async def triggers_of(database: Database) -> list[dict[str, str]]:
    assert not isinstance(database, PostgresDatabase)
    query = "select name from sqlite_schema where type = 'trigger' and name like 'hourbell_audit%'"
    connection: apsw.Connection = database.connection  # type: ignore[attr-defined]
    return [{"name": name} for (name,) in connection.execute(query)]


def at_text(database: Database, at: datetime) -> str:
    """An instant as the database's SQL writes it."""
    return f"'{at.isoformat()}'" if isinstance(database, PostgresDatabase) else str(round(at.timestamp() * MICROSECOND))


@pytest.mark.parametrize("table", ["audit", "audit_chain"])
@pytest.mark.parametrize("statement", ["update hourbell.{} set {} = {}", "delete from hourbell.{}"])
async def test_update_and_delete_are_refused(
    chain: AuditChainStore, control: ControlStore, database: Database, table: str, statement: str
) -> None:
    await add_rows(control, "a")
    await extend_all(chain)
    before = await database.rows(table)

    column = "hash" if table == "audit_chain" else "actor"
    with pytest.raises(REFUSED, match="append-only"):
        await database.sql(statement.format(table, column, f"'x' || {column}"))
    assert await database.rows(table) == before


@pytest.mark.parametrize("table", ["audit", "audit_chain"])
async def test_truncate_is_refused(postgres: PostgresDatabase, table: str) -> None:
    await add_rows(postgres.control(), "a")

    for cascade in ("", "cascade"):
        with pytest.raises(asyncpg.RestrictViolationError, match="append-only: TRUNCATE is refused"):
            await postgres.sql(f"truncate hourbell.{table} {cascade}")
    assert len(await postgres.rows("audit")) == 1


@pytest.mark.parametrize("way", ["insert or replace", "replace"])
async def test_a_row_cannot_be_replaced(
    chain: AuditChainStore, control: ControlStore, database: Database, way: str
) -> None:
    """SQLite removes a row that is replaced without any trigger for that."""
    if isinstance(database, PostgresDatabase):
        return
    await add_rows(control, "a", "b")
    await extend_all(chain)

    for values in (
        "audit (id, at, actor, action, subject) values (1, 0, 'x', 'x', 'x')",
        "audit_chain (position, chained_at, hash) values (1, 0, 'x')",
        "audit_chain (position, audit_id, chained_at, hash) values (9, 1, 0, 'x')",
    ):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            await database.sql(f"{way} into hourbell.{values}")
    assert await found(chain) == []


async def test_every_row_gets_a_link_in_order(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b")
    links = await extend_all(chain, seals=SEALED)
    await add_rows(control, "c")
    links += await extend_all(chain, T0 + SECOND, SEALED)

    rows = await database.rows("audit_chain")
    assert [tuple(row.values()) for row in rows] == [tuple(link) for link in links]
    ids = [row["id"] for row in await database.rows("audit", "id")]
    assert [(link.position, link.audit_id, link.chained_at) for link in links] == [
        (1, ids[0], T0),
        (2, ids[1], T0),
        (3, ids[2], T0 + SECOND),
    ]
    assert await database.rows("audit_unchained") == []
    verdict = await verify(chain, T0 + HOUR, seals=SEALED)
    assert (verdict.is_intact, verdict.rows, verdict.head, verdict.sealed_position) == (True, 3, links[-1], 3)


async def test_the_same_rows_have_the_same_hashes_on_every_database(postgres: PostgresDatabase) -> None:
    async with SqliteDatabase.in_memory() as sqlite:
        hashes = [await hashes_of_a_history(database) for database in (postgres, sqlite)]

    assert len(hashes[0]) == 2
    assert hashes[0] == hashes[1]


async def hashes_of_a_history(database: Database) -> list[str]:
    control, call = database.control(), Request(id="r", token_id=UUID(int=9), ip="192.0.2.1")
    payload = {"z": 1.0, "a": [1e22, 1e300, -2.5e-9, 2**70, "é", None], "aa": {"b": 1, "a": 0.1}}
    job = (await control.create_job(a_job(payload=payload), UUID(int=7), Actor(BY, T0, call))).job
    await control.trigger_job(job.id, UUID(int=8), Actor(BY, T0))
    return [link.hash for link in await extend_all(database.audit_chain())]


async def test_an_empty_chaining_pass_writes_nothing(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a")
    await extend_all(chain, seals=SEALED)
    before = await database.rows("audit_chain")

    extended = await extend(chain, T0 + HOUR, SEALED)

    assert (extended.links, extended.is_lost, extended.has_more) == ((), False, False)
    assert await database.rows("audit_chain") == before


async def test_a_batch_of_large_rows_is_small(chain: AuditChainStore, control: ControlStore) -> None:
    job = await add_job(control)
    for number in range(4):
        text = str(number) * PAGE_BYTES
        await control.edit_job(job.id, lambda job, text=text: changed(job, description=text), Actor(BY, T0))  # type: ignore[misc]

    sizes = []
    while links := (await extend(chain)).links:
        sizes.append(len(links))
    assert sizes == [2, 1, 1, 1]
    assert [len(await chain.page(after)) for after in (0, 2, 3, 4, 5)] == [2, 1, 1, 1, 0]
    assert await found(chain) == []


async def test_a_changed_row_is_found(chain: AuditChainStore, control: ControlStore, database: Database) -> None:
    await add_rows(control, "a", "b", "c")
    await extend_all(chain)
    await tamper(database, "update hourbell.audit set actor = 'mallory' where id = 2")

    verdict = await verify(chain)
    [broken] = verdict.breaks
    assert (broken.kind, broken.position, broken.audit_id, broken.at) == ("row_changed", 2, 2, T0)


@pytest.mark.parametrize(
    "change",
    [
        "at = {}",
        "subject = 'x'",
        "action = 'x'",
        """after = '{{"name": "x"}}'""",
        "after = null",
        "before = '1'",
        "ip = '::1'",
        "request_id = 'x'",
        "token_id = '00000000-0000-0000-0000-000000000001'",
    ],
)
async def test_a_change_of_any_column_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database, change: str
) -> None:
    await add_rows(control, "a")
    await extend_all(chain)
    await tamper(database, f"update hourbell.audit set {change.format(at_text(database, T0 + SECOND))}")

    assert await found(chain) == [("row_changed", 1)]


@pytest.mark.parametrize("gone", [1, 2])
async def test_a_removed_row_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database, gone: int
) -> None:
    await add_rows(control, "a", "b", "c")
    await extend_all(chain)
    await tamper(database, f"delete from hourbell.audit where id = {gone}")

    assert await found(chain) == [("row_removed", gone)]


async def test_a_row_removed_with_its_link_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b", "c")
    await extend_all(chain)
    await tamper(
        database, "delete from hourbell.audit where id = 2", "delete from hourbell.audit_chain where audit_id = 2"
    )

    [broken] = (await verify(chain)).breaks
    assert (broken.kind, broken.position, broken.message) == ("links_removed", 3, "the position 2 is missing")


async def test_a_removed_end_is_found_by_a_hash_that_was_kept(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b", "c")
    links = await extend_all(chain)
    await tamper(
        database, "delete from hourbell.audit where id > 1", "delete from hourbell.audit_chain where audit_id > 1"
    )

    assert await found(chain) == []
    assert await found(chain, expect=links[0].hash) == []
    assert await found(chain, expect=links[2].hash) == [("hash_missing", None)]


async def test_links_that_were_removed_for_a_changed_row_are_found_by_a_hash_that_was_kept(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    """The loop would chain what it finds queued: its time stamps, which the seal covers, are late then."""
    await add_rows(control, "a", "b")
    links = await extend_all(chain, seals=SEALED)
    await tamper(
        database,
        "update hourbell.audit set actor = 'mallory' where id = 2",
        "delete from hourbell.audit_chain where audit_id = 2",
        "insert into hourbell.audit_unchained (audit_id) values (2)",
    )
    await extend_all(chain, T0 + 2 * LATE, SEALED)

    verdict = await verify(chain, T0 + 2 * LATE, seals=SEALED, expect=links[1].hash)
    assert [each.kind for each in verdict.breaks] == ["hash_missing"]
    assert verdict.chained_late == 1


async def test_a_row_inserted_past_the_trigger_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a")
    await extend_all(chain)
    await tamper(database, f"{INSERT} ({at_text(database, T0)}, 'x', 'x', 'x')")

    assert await found(chain) == [("row_unchained", 2)]


async def test_a_row_inserted_with_a_link_before_the_first_one_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a")
    await extend_all(chain)
    at = at_text(database, T0)
    link = f"insert into hourbell.audit_chain (position, audit_id, chained_at, hash) values (-1, 2, {at}, 'x')"
    drop = "alter table hourbell.audit_chain drop constraint audit_chain_position_check"
    pragma = "pragma ignore_check_constraints = on"
    unchecked = drop if isinstance(database, PostgresDatabase) else pragma
    await tamper(database, unchecked, f"{INSERT} ({at}, 'x', 'x', 'x')", link)

    assert await found(chain) == [("link_inserted", 2)]


async def test_a_row_inserted_among_old_ones_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b")
    await extend_all(chain)
    overriding = "overriding system value" if isinstance(database, PostgresDatabase) else ""
    columns = f"(id, at, actor, action, subject) {overriding}"
    await database.sql(f"insert into hourbell.audit {columns} values (0, {at_text(database, T0)}, 'x', 'x', 'x')")
    await extend_all(chain, T0 + LATE + SECOND)

    assert await found(chain) == [("row_inserted", 0)]
    assert (await verify(chain, start=4)).is_intact  # what was looked at need not be reported for ever


async def test_a_row_removed_before_it_was_chained_is_found(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b")
    await tamper(database, "delete from hourbell.audit where id = 1")

    assert [link.audit_id for link in await extend_all(chain)] == [2]
    assert await found(chain) == [("row_removed", 1)]


async def test_a_recomputed_chain_has_no_valid_seal(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a")
    await extend_all(chain, seals=SEALED)
    await tamper(
        database,
        "update hourbell.audit set actor = 'mallory'",
        "delete from hourbell.audit_chain",
        "insert into hourbell.audit_unchained select id from hourbell.audit",
    )
    await extend_all(chain, T0, PLAIN)

    assert (await verify(chain, T0 + HOUR)).is_intact
    verdict = await verify(chain, T0 + HOUR, seals=SEALED)
    assert [(each.kind, each.position) for each in verdict.breaks] == [("unsealed", 1)]


async def test_rows_that_wait_are_reported_after_a_grace_time(chain: AuditChainStore, control: ControlStore) -> None:
    await add_rows(control, "a")

    soon, late = await verify(chain, T0 + GRACE), await verify(chain, T0 + GRACE + SECOND)
    assert (soon.is_intact, soon.waiting, soon.waiting_since) == (True, 1, None)
    assert (late.is_intact, late.waiting, late.waiting_since) == (True, 1, T0)


async def test_a_transaction_that_is_rolled_back_leaves_no_gap(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a")
    await database.sql(f"begin; {INSERT} ({at_text(database, T0)}, 'x', 'x', 'x'); rollback")
    await add_rows(control, "b")

    assert [link.position for link in await extend_all(chain)] == [1, 2]
    assert await found(chain) == []


async def test_transactions_that_commit_out_of_order_are_chained_as_they_appear(postgres: PostgresDatabase) -> None:
    chain, first = postgres.audit_chain(), await asyncpg.connect(postgres.url)
    insert = f"{INSERT} ({at_text(postgres, T0)}, 'x', 'x', 'x')"
    await first.execute(f"begin; {insert}")  # takes id 1
    await postgres.sql(insert)
    assert [link.audit_id for link in await extend_all(chain)] == [2]

    await first.execute("commit")
    await first.close()
    assert [(link.position, link.audit_id) for link in await extend_all(chain, T0 + MINUTE)] == [(2, 1)]
    assert await found(chain) == []


async def test_nodes_that_chain_at_the_same_time_make_one_chain(control: ControlStore, database: Database) -> None:
    await add_rows(control, *(f"job-{number}" for number in range(120)))
    nodes = [database.audit_chain() for _ in range(4)]
    appended: list[Link] = []

    async def work(node: AuditChainStore) -> None:
        while (extended := await extend(node)).links or extended.is_lost:
            appended.extend(extended.links)

    await asyncio.gather(*map(work, nodes))
    assert [link.position for link in sorted(appended)] == list(range(1, 121))
    assert await found(nodes[0]) == []


async def test_a_node_that_read_before_another_appended_changes_nothing(
    control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a")
    slow, fast = database.audit_chain(), database.audit_chain()
    stale = extend_chain(None, await waiting(slow), T0, PLAIN)
    await extend_all(fast)
    await add_rows(control, "b")

    answer = await slow.extend(lambda _, __: stale)
    assert (answer.is_lost, answer.links) == (True, ())
    assert len(await database.rows("audit_unchained")) == 1
    assert await found(fast) == []


async def waiting(chain: AuditChainStore) -> Sequence[AuditedChange]:
    seen: list[AuditedChange] = []

    def decide(_: Link | None, rows: Sequence[AuditedChange]) -> Sequence[Link]:
        seen.extend(rows)
        return ()

    await chain.extend(decide)
    return seen


async def test_a_batch_that_ends_midway_leaves_nothing(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b")
    is_postgres = isinstance(database, PostgresDatabase)
    if is_postgres:
        await database.sql(
            "create function public.stop() returns trigger language plpgsql as "
            "$$ begin raise exception 'killed here'; end $$; create trigger killed before delete on "
            "hourbell.audit_unchained for each row execute function public.stop()"
        )
    else:
        await database.sql(
            "create trigger killed before delete on hourbell.audit_unchained "
            "begin select raise(abort, 'killed here'); end"
        )
    with pytest.raises((asyncpg.RaiseError, apsw.ConstraintError), match="killed here"):
        await extend(chain)
    assert await database.rows("audit_chain") == []
    await database.sql("drop trigger killed" + (" on hourbell.audit_unchained" if is_postgres else ""))

    assert [link.position for link in await extend_all(chain)] == [1, 2]
    assert await found(chain) == []


@pytest.mark.parametrize("at", ["infinity", "20000-01-01", "0044-03-15 BC"])
async def test_an_audit_time_outside_the_calendar_is_refused(postgres: PostgresDatabase, at: str) -> None:
    """Otherwise nobody could read the rows beside it, not even the loop that chains them."""
    with pytest.raises(asyncpg.CheckViolationError):
        await postgres.sql(f"{INSERT} ('{at}', 'x', 'x', 'x')")


async def test_nobody_else_can_queue_what_is_not_in_the_audit(postgres: PostgresDatabase) -> None:
    """The function queues with the rights of its owner: it must not become the trigger of another table."""
    query = "select has_function_privilege('pg_monitor', 'hourbell.queue_audit()', 'execute')"

    assert await postgres.connection.fetchval(query) is False


async def test_inserting_into_the_audit_needs_no_other_right(postgres: PostgresDatabase) -> None:
    role = f"app_{await postgres.connection.fetchval('select current_database()')}"
    await postgres.sql(f"create role {role}; grant usage on schema hourbell to {role}")
    await postgres.sql(f"grant insert on hourbell.audit to {role}")
    try:
        await postgres.sql(f"set role {role}; {INSERT} (now(), 'x', 'x', 'x'); reset role")
        assert len(await postgres.rows("audit_unchained")) == 1
    finally:
        await postgres.sql(f"reset role; drop owned by {role}; drop role {role}")


async def doctor_finds(database: Database, now: datetime) -> dict[str, list[str]]:
    """Rows of findings about the audit, by check, while a node runs."""
    await database.engine().heartbeat(Node(NODE, "here", T0 - HOUR, (), TZDATA_VERSION), now, now + MINUTE, [])
    kind = "postgres" if isinstance(database, PostgresDatabase) else "sqlite"
    migrations = load_migrations(f"hourbell.store.{kind}")
    store: DoctorStore
    if isinstance(database, PostgresDatabase):
        store = PostgresDoctorStore(database.connections())
    else:
        assert isinstance(database, SqliteDatabase)
        store = SqliteDoctorStore(database.path)
    examined = await examine(store, now, Expectations(migrations, TZDATA_VERSION, 30 * DAY, MINUTE, 10 * MINUTE))
    await store.close()
    return {each.check.name: each.rows for each in examined.findings if each.check.name.startswith("audit")}


async def test_the_doctor_reports_a_break_among_the_newest_rows(
    chain: AuditChainStore, control: ControlStore, database: Database
) -> None:
    await add_rows(control, "a", "b")
    await extend_all(chain, seals=SEALED)
    assert await doctor_finds(database, T0 + HOUR) == {}
    await tamper(database, "update hourbell.audit set actor = 'mallory' where id = 2")

    message = "position 2: the audit row 2 or its link was changed: it does not fit its hash"
    assert await doctor_finds(database, T0 + HOUR) == {"audit_chain_broken": [message]}


async def test_the_doctor_reports_rows_that_are_not_chained(control: ControlStore, database: Database) -> None:
    await add_rows(control, "a", "b")

    assert await doctor_finds(database, T0 + GRACE) == {}
    assert await doctor_finds(database, T0 + GRACE + SECOND) == {"audit_unchained": ["2 audit rows"]}


async def test_the_list_shows_the_chain_position_of_each_row(
    chain: AuditChainStore, control: ControlStore, lists: ListStore
) -> None:
    await add_rows(control, "a")
    [link] = await extend_all(chain)
    await add_rows(control, "b")

    shown = [(row.id, row.chain_position, row.chain_hash) for row in await lists.audit(10)]
    assert shown == [(2, None, None), (1, link.position, link.hash)]
    [subject] = {row.subject for row in await lists.audit(1, before=2)}
    assert [row.chain_hash for row in await lists.audit(10, subject=subject)] == [link.hash]
