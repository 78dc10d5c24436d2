"""The environment of a program: a folder of its own, no settings of the developer's, and a database to name."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hourbell import Scheduler
from tests.backends import ONE_IN_A_FILE
from tests.database import PostgresDatabase
from tests.servers.ledger import Ledger


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in [*os.environ]:
        if name == "DATABASE_URL" or (name.startswith("HOURBELL_") and not name.startswith("HOURBELL_TEST")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOURBELL_DRAIN_TIMEOUT", "5s")
    return tmp_path


@pytest.fixture(params=ONE_IN_A_FILE)
async def ledger(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Ledger]:
    """Read access to the tables of a database that has never seen Hourbell."""
    if request.param == "sqlite":
        yield Ledger(home)
    else:
        async with PostgresDatabase.made(migrated=False) as database:
            yield Ledger(home, database.url)


@pytest.fixture
def scheduler(ledger: Ledger) -> Scheduler:
    return Scheduler("shop", database_url=ledger.url)
