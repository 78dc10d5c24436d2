"""A separate ledger for each test, on the database that the test names."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.database import PostgresDatabase
from tests.servers.ledger import Ledger


@pytest.fixture
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    """On `sqlite` or `postgres`, as the test's parameter says; the database has never seen Hourbell."""
    if request.param == "sqlite":
        yield Ledger(tmp_path)
    else:
        async with PostgresDatabase.made(migrated=False) as database:
            yield Ledger(tmp_path, database.url)
