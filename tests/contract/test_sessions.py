"""Sessions: each database understands every statement, and a verb is one transaction that waits for nothing else."""

import asyncio
import re

import pytest

from hourbell.store.control.session import Session
from hourbell.store.postgres.session import STATEMENTS as POSTGRES
from hourbell.store.sql.queries import load_queries
from hourbell.store.sqlite.session import STATEMENTS as SQLITE
from hourbell.store.sqlite.session import SqliteSessions
from tests.database import PostgresDatabase
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio
SHARED = [
    name
    for file in ("control/access.sql", "control/audit_chain.sql", "control/control.sql", "control/secrets.sql")
    for name in load_queries("hourbell.store", file)
]
# What only one of the databases does: PostgreSQL locks all jobs of a bundle in one order, and spares the name's index.
OWN = {"lock_jobs_of_bundle", "update_job_under_its_name", "owned_jobs", "is_extended"}


@pytest.mark.parametrize(
    ("file", "shared", "of_one"),
    [("control.sql", SHARED, OWN), ("lists.sql", list(load_queries("hourbell.store", "lists/lists.sql")), set())],
)
def test_a_statement_is_written_once_or_once_for_each_database(file: str, shared: list[str], of_one: set[str]) -> None:
    own = [set(load_queries(f"hourbell.store.{backend}", file)) for backend in ("sqlite", "postgres")]

    assert len(shared) == len(set(shared))
    assert own[0] ^ own[1] == of_one
    assert (own[0] | own[1]) & set(shared) == set()


def test_the_same_values_are_bound_on_both_databases() -> None:
    assert {name: set(SQLITE[name].names) for name in SQLITE.keys() - OWN} == {
        name: set(POSTGRES[name].names) for name in POSTGRES.keys() - OWN
    }


async def test_postgres_understands_every_statement(postgres: PostgresDatabase) -> None:
    async with postgres.connections().connection() as connection:
        for statement in POSTGRES.values():
            await connection.prepare(statement.text)


async def test_sqlite_understands_every_statement() -> None:
    async with SqliteDatabase.in_memory() as database:
        for statement in SQLITE.values():
            values = len(set(re.findall(r"\?\d+", statement.text)))
            database.connection.execute(f"explain {statement.text}", (None,) * values).fetchall()


async def test_a_store_verb_on_sqlite_awaits_only_its_session() -> None:
    async def wait(session: Session) -> None:
        await session.execute("set_meta", key="begun", value="yes")
        await asyncio.sleep(0)

    async with SqliteDatabase.in_memory() as database:
        sessions = SqliteSessions(database.runner())
        with pytest.raises(RuntimeError, match="other than its session"):
            await sessions.transact(wait)

        assert await sessions.fetch("meta", key="begun") == []
