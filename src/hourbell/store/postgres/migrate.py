"""Migrations on PostgreSQL, under an advisory lock so that many nodes may start at once."""

from typing import Any

from hourbell.store.migrations import Migration, load_migrations, pending
from hourbell.store.postgres.connections import Connections

PACKAGE = "hourbell.store.postgres"
_LOCK = 7_305_826_145_116_001
_TABLE = """
create schema if not exists hourbell;
create table hourbell.migrations (
    number integer primary key, name text not null, checksum text not null, applied_at timestamptz not null
)
"""


async def migrate(connections: Connections) -> list[Migration]:
    """Migrate the schema; return the migrations that were run. Each is a transaction, so an interrupted one starts
    again.
    """
    async with connections.dedicated() as connection:
        await connection.execute("select pg_advisory_lock($1)", _LOCK)
        applied = await _applied(connection)
        if applied is None:
            await connection.execute(_TABLE)
        missing = pending(load_migrations(PACKAGE), applied or {})
        for migration in missing:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(
                    "insert into hourbell.migrations values ($1, $2, $3, now())",
                    migration.number,
                    migration.name,
                    migration.checksum,
                )
        return missing


async def status(connections: Connections) -> list[tuple[Migration, bool]]:
    """Return every migration, and whether it was run."""
    async with connections.dedicated(writes=False) as connection:
        missing = pending(load_migrations(PACKAGE), await _applied(connection) or {})
    return [(migration, migration not in missing) for migration in load_migrations(PACKAGE)]


async def _applied(connection: Any) -> dict[int, str] | None:
    """Return the checksums of the migrations that were run; None in a database without Hourbell's tables."""
    if await connection.fetchval("select to_regclass('hourbell.migrations')") is None:
        return None
    rows = await connection.fetch("select number, checksum from hourbell.migrations")
    return {row["number"]: row["checksum"] for row in rows}
