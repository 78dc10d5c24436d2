"""Fixtures of every test: asyncio, and a separate database on each backend."""

import os
import signal
from collections.abc import AsyncIterator

import pytest

from hourbell.store.base import EngineStore
from hourbell.store.control.access import AccessStore
from hourbell.store.control.store import ControlStore
from hourbell.store.lists.reader import ListStore
from tests.backends import EACH
from tests.database import BACKENDS, Database, PostgresDatabase
from tests.server import SERVER_FOLDER, remove_server, reserve_folder, use_memory_for_files
from tests.simulation.seeds import describe_seeds
from tests.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each processor: tests wait for processes and timers a third of the time."""
    return 2 * (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it for what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs under test inherit it
    if not hasattr(config, "workerinput"):
        use_memory_for_files()
        reserve_folder()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and SERVER_FOLDER in os.environ:
        remove_server()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the seeds of the simulation if any were run, so that a result can be repeated."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    if any("test_every_promise_is_kept[" in getattr(report, "nodeid", "") for report in reports):
        terminalreporter.write_line(describe_seeds())


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=EACH)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """An empty database with the schema, on each backend in turn."""
    async with BACKENDS[request.param]() as made:
        yield made


@pytest.fixture(params=EACH)
async def empty_database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database that has never seen Hourbell."""
    async with BACKENDS[request.param](migrated=False) as made:
        yield made


@pytest.fixture
async def postgres() -> AsyncIterator[PostgresDatabase]:
    """The same, for what only PostgreSQL has."""
    async with PostgresDatabase.made() as made:
        yield made


@pytest.fixture
def store(database: Database) -> EngineStore:
    return database.engine()


@pytest.fixture
def control(database: Database) -> ControlStore:
    return database.control()


@pytest.fixture
def lists(database: Database) -> ListStore:
    return database.lists()


@pytest.fixture
def access(database: Database) -> AccessStore:
    return database.access()
