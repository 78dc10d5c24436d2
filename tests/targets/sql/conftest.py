"""A node that calls functions, on a database with a table of effects."""

import secrets
from collections.abc import AsyncIterator

import pytest

from tests.database import PostgresDatabase
from tests.targets.sql.steps import EFFECT, EFFECTS, PASSWORD, Node


@pytest.fixture
async def node(postgres: PostgresDatabase) -> AsyncIterator[Node]:
    await postgres.sql(EFFECTS)
    await postgres.sql(EFFECT)
    async with Node.made(postgres) as made:
        yield made


@pytest.fixture
async def login(postgres: PostgresDatabase) -> AsyncIterator[str]:
    """A login for functions, with the rights that the migration tells the operator to grant."""
    name = f"hourbell_functions_{secrets.token_hex(6)}"
    await postgres.sql(f"create role {name} login password '{PASSWORD}'")
    await postgres.sql(f"grant usage on schema hourbell to {name}")
    await postgres.sql(f"grant execute on function hourbell.settle_run to {name}")
    yield name
    await postgres.sql(f"drop owned by {name}; drop role {name}")


@pytest.fixture
async def apart(postgres: PostgresDatabase, login: str) -> AsyncIterator[Node]:
    """A node whose functions run under a login of their own."""
    await postgres.sql(EFFECTS)
    await postgres.sql(EFFECT)
    await postgres.sql(f"grant select, insert on public.effects to {login}")
    async with Node.made(postgres, login=login) as made:
        yield made
