"""The databases behind the page's tests: a SQLite file, or a database of a PostgreSQL server with the same rows."""

import asyncio
import json
import secrets
import sqlite3
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from hourbell.store.postgres.connections import Connections
from hourbell.store.postgres.migrate import migrate
from tests.server import server_url

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = """
select table_name, column_name, data_type, is_identity from information_schema.columns c
join information_schema.tables t using (table_schema, table_name)
where table_schema = 'hourbell' and table_type = 'BASE TABLE' order by 1, ordinal_position
"""
_KEPT = ("meta", "migrations")  # of the new database itself


@contextmanager
def database_of(backend: str, folder: Path, rows: Path | None = None) -> Iterator[str]:
    """Make a database and return its URL. `rows` is a SQLite file to copy, which SQLite itself takes as it is."""
    if backend == "sqlite":
        yield f"sqlite:///{rows or folder / 'hourbell.db'}"
        return
    name = f"hourbell_page_{secrets.token_hex(6)}"
    _run(_execute(f"create database {name}"))
    url = urlunsplit(urlsplit(server_url())._replace(path=f"/{name}"))
    try:
        if rows is not None:
            _run(_copy(rows, url))
        yield url
    finally:
        _run(_execute(f"drop database {name} with (force)"))


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run it in a thread: playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


async def _execute(statement: str) -> None:
    connection = await asyncpg.connect(server_url())
    await connection.execute(statement)
    await connection.close()


async def _copy(path: Path, url: str) -> None:
    """Copy every row of a SQLite file into an empty PostgreSQL database. The triggers rest meanwhile."""
    connections = Connections(url)
    await migrate(connections)
    await connections.close()
    target = await asyncpg.connect(url)
    await target.execute("set session_replication_role = replica")
    tables: dict[str, dict[str, str]] = {}
    for row in await target.fetch(_COLUMNS):
        tables.setdefault(row["table_name"], {})[row["column_name"]] = row["data_type"]
    with closing(sqlite3.connect(path)) as source:
        for table, types in tables.items():
            known = [row[1] for row in source.execute(f"pragma table_info(hourbell_{table})")]
            names = [name for name in known if name in types]
            if not names or table in _KEPT:
                continue
            found = source.execute(f"select {', '.join(names)} from hourbell_{table}").fetchall()
            records = [[_value(types[name], value) for name, value in zip(names, row, strict=True)] for row in found]
            await target.copy_records_to_table(table, schema_name="hourbell", columns=names, records=records)
    for row in await target.fetch(f"select * from ({_COLUMNS}) as c where is_identity = 'YES'"):
        table, column = row["table_name"], row["column_name"]
        await target.execute(
            f"select setval(pg_get_serial_sequence('hourbell.{table}', '{column}'), "
            f"coalesce((select max({column}) from hourbell.{table}), 0) + 1)"
        )
    await target.execute("analyze")
    await target.close()


def _value(kind: str, value: Any) -> Any:
    """Return what a column of PostgreSQL holds for a value of SQLite."""
    if value is None:
        return None
    match kind:
        case "uuid":
            return UUID(bytes=value)
        case "boolean":
            return bool(value)
        case "ARRAY":
            return json.loads(value)
        case "interval":
            return timedelta(microseconds=value)
        case "timestamp with time zone":
            return _EPOCH + timedelta(microseconds=value)
        case "timestamp without time zone":
            return _EPOCH.replace(tzinfo=None) + timedelta(microseconds=value)
        case _:
            return value
