"""The baseline makes the schema that the migrations before the first release made together."""

import hashlib
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from hourbell.store.migrations import Migration, MigrationError, count_from_baseline, load_migrations, pending
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio

FIRST = Path(__file__).with_name("first_migrations")
BACKENDS = ("sqlite", "postgres")
_SPACES = re.compile(r"\s+")
_CATALOG = {
    "columns": """
        select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
               a.attcollation, a.attstorage, pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'hourbell'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0
          and not a.attisdropped""",
    "relations": """
        select relname, relkind, reloptions, relacl from pg_class where relnamespace = 'hourbell'::regnamespace""",
    "constraints": """
        select conrelid::regclass::text, conname, replace(pg_get_constraintdef(oid), ' NOT VALID', '')
        from pg_constraint where connamespace = 'hourbell'::regnamespace""",
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'hourbell'",
    "triggers": """
        select tgrelid::regclass::text, tgname, tgenabled, pg_get_triggerdef(oid)
        from pg_trigger where not tgisinternal""",
    "functions": """
        select oid::regprocedure::text, pg_get_functiondef(oid), proacl
        from pg_proc where pronamespace = 'hourbell'::regnamespace""",
    "views": "select viewname, definition from pg_views where schemaname = 'hourbell'",
}


def first_migrations(backend: str) -> list[str]:
    return [path.read_text() for path in sorted((FIRST / backend).glob("*.sql"))]


def baseline(backend: str) -> Migration:
    return next(each for each in load_migrations(f"hourbell.store.{backend}") if each.replaces)


def test_the_baseline_makes_the_same_schema_on_sqlite() -> None:
    together, at_once = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    for sql in first_migrations("sqlite"):
        together.execute(sql)
    at_once.execute(baseline("sqlite").sql)

    assert sqlite_schema(at_once) == sqlite_schema(together)


def sqlite_schema(connection: apsw.Connection) -> dict[str, Any]:
    """Tables by columns and keys, because `alter table` leaves other text than `create table`; the rest by text."""
    rows = connection.execute("select type, name, tbl_name, sql from sqlite_schema").get
    found: dict[str, Any] = {
        f"{kind} {name}": (table, _without_comments(sql)) for kind, name, table, sql in rows if kind != "table"
    }
    for name in (name for kind, name, _, _ in rows if kind == "table"):
        columns = connection.execute(f"select * from pragma_table_xinfo('{name}')").get
        keys = connection.execute(f"select * from pragma_foreign_key_list('{name}')").get
        options = connection.execute("select strict, wr from pragma_table_list where name = ?", (name,)).get
        found[f"table {name}"] = columns, keys, options, sorted(_checks(connection, name))
    return found


def _checks(connection: apsw.Connection, table: str) -> list[str]:
    sql = connection.execute("select sql from sqlite_schema where name = ?", (table,)).get
    return re.findall(r"\bcheck \(.*?\)(?=,| \))", _without_comments(sql) or "")


def _without_comments(sql: str | None) -> str | None:
    return None if sql is None else _SPACES.sub(" ", re.sub(r"--.*", "", sql)).strip()


async def test_the_baseline_makes_the_same_schema_on_postgresql() -> None:
    async with PostgresDatabase.made(migrated=False) as together, PostgresDatabase.made(migrated=False) as at_once:
        for database in (together, at_once):
            await database.sql("create schema hourbell")
        for sql in first_migrations("postgres"):
            await together.sql(sql)
        await at_once.sql(baseline("postgres").sql)

        for name, query in _CATALOG.items():
            assert await rows_of(at_once, query) == await rows_of(together, query), name


async def rows_of(database: PostgresDatabase, query: str) -> list[tuple[Any, ...]]:
    rows = await database.connection.fetch(query)
    assert rows
    return sorted(tuple(map(str, row)) for row in rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_baseline_replaces_exactly_the_first_migrations(backend: str) -> None:
    checksums = {
        int(path.name[:4]): hashlib.sha256(path.read_bytes()).hexdigest() for path in (FIRST / backend).glob("*.sql")
    }

    assert baseline(backend).replaces == checksums


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_database_with_the_first_migrations_is_at_the_baseline(backend: str) -> None:
    known = load_migrations(f"hourbell.store.{backend}")
    start = baseline(backend)

    assert count_from_baseline(known, start.replaces) == {start.number: start.checksum}
    assert pending(known, start.replaces) == known[1:]
    assert pending(known, {}) == known


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_database_with_some_of_the_first_migrations_is_refused(backend: str) -> None:
    known = load_migrations(f"hourbell.store.{backend}")
    some = {number: checksum for number, checksum in baseline(backend).replaces.items() if number < 13}
    changed = {**baseline(backend).replaces, 3: "other"}

    with pytest.raises(MigrationError, match=r"schema version 12 .* start with a new database"):
        pending(known, some)
    with pytest.raises(MigrationError, match="migration 0003 was changed"):
        pending(known, changed)
