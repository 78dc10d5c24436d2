"""Migrations on SQLite, each in a transaction that excludes other writers, so that many nodes may start at once."""

from hourbell.store.migrations import Migration, load_migrations, pending
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import Executor

PACKAGE = "hourbell.store.sqlite"
_TABLE = """
create table if not exists hourbell_migrations (
    number integer primary key, name text not null, checksum text not null,
    applied_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000)
) strict
"""


async def migrate(runner: Executor) -> list[Migration]:
    """Bring the schema up to date; return the migrations that were run."""
    done = []
    while (migration := await runner.write(_run_next)) is not None:
        done.append(migration)
    return done


async def status(runner: Executor) -> list[tuple[Migration, bool]]:
    """Return every migration, with True if it was run."""

    def find(session: Session) -> list[tuple[Migration, bool]]:
        missing = pending(load_migrations(PACKAGE), _applied(session))
        return [(migration, migration not in missing) for migration in load_migrations(PACKAGE)]

    return await runner.read(find)


def _run_next(session: Session) -> Migration | None:
    """Run the first missing migration, which is determined under the write lock."""
    missing = pending(load_migrations(PACKAGE), _applied(session))
    if not missing:
        return None
    migration = missing[0]
    session.script(_TABLE)
    session.script(migration.sql)
    session.execute(
        "insert into hourbell_migrations (number, name, checksum) values (?, ?, ?)",
        migration.number,
        migration.name,
        migration.checksum,
    )
    return migration


def _applied(session: Session) -> dict[int, str]:
    if not session.fetch("select 1 from sqlite_schema where name = 'hourbell_migrations'"):
        return {}
    rows = session.fetch("select number, checksum from hourbell_migrations")
    return {row["number"]: row["checksum"] for row in rows}
