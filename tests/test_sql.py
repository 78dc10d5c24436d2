"""Jobs and runs created inside a user's own transaction are committed or rolled back with it, on every driver."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hourbell.core.run.plan import plan
from hourbell.core.run.run import manual_run_id
from tests.contract.steps import MINUTE, PASS, add_job, claim, finish
from tests.database import BACKENDS, Database, PostgresDatabase

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[1]
TARGET = {"type": "task", "name": "a"}
Transaction = dict[str, Any]


@pytest.fixture(
    params=[
        pytest.param(("postgres", "psycopg"), id="postgres-psycopg"),
        pytest.param(("sqlite", "sqlite3"), id="sqlite-sqlite3"),
        *(
            pytest.param((backend, driver), id=f"{backend}-{driver}", marks=pytest.mark.full)
            for backend, driver in [
                ("postgres", "psycopg-by-position"),
                ("postgres", "asyncpg"),
                ("postgres", "sqlalchemy"),
                ("postgres", "django"),
                ("sqlite", "sqlalchemy"),
                ("sqlite", "django"),
            ]
        ),
    ],
)
async def user(request: pytest.FixtureRequest) -> AsyncIterator["User"]:
    backend, driver = request.param
    async with BACKENDS[backend]() as made:
        yield User(made, driver)


class User:
    """Somebody with a database and a driver. SQLite must not be open twice in one process by two libraries."""

    def __init__(self, database: Database, driver: str) -> None:
        self.database = database
        self._driver = driver

    def transact(self, *transactions: Transaction) -> None:
        database = self.database
        where = database.url if isinstance(database, PostgresDatabase) else database.path  # type: ignore[attr-defined]
        command = [sys.executable, "-m", "tests.sql_drivers", self._driver, where]
        given = json.dumps(transactions)
        done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr


def inserts(name: str, *, commit: bool) -> Transaction:
    body = {"name": name, "schedule": "* * * * *", "target": TARGET, "tags": ["x", "50%"], "description": "ünï: 100 %"}
    return {"commit": commit, "calls": [["insert_job", body, {"if_exists": "replace"}]]}


def triggers(name: str, *, commit: bool, **options: Any) -> Transaction:
    return {"commit": commit, "calls": [["trigger_job", name, options]]}


async def test_an_inserted_job_runs_once_if_its_transaction_commits(user: User) -> None:
    user.transact(inserts("undone", commit=False), inserts("kept", commit=True))
    store = user.database.engine()
    now = await store.sample_time()

    planned = await store.plan_due(now + MINUTE, PASS, plan)

    [job] = await user.database.rows("jobs")
    assert (job["name"], job["tags"], job["description"]) == ("kept", ["x", "50%"], "ünï: 100 %")
    assert (job["managed_by"], job["error"], planned.runs) == ("sql", None, 1)
    runs = await claim(store, now=now + 2 * MINUTE, free=10)
    await finish(store, runs, now=now + 2 * MINUTE)
    assert (len(runs), await claim(store, now=now + 2 * MINUTE, free=10)) == (1, [])


async def test_a_triggered_run_is_there_once_for_a_key_if_its_transaction_commits(user: User) -> None:
    job = await add_job(user.database.control(), schedule="@yearly")

    user.transact(
        triggers("job", commit=False, key="undone"),
        triggers("job", commit=False),
        triggers("job", commit=True, key="order-7", payload={"order": 7, "note": "50 %"}),
        triggers("job", commit=True, key="order-7", payload={"order": 8}),
    )

    store = user.database.engine()
    [run] = await claim(store, now=await store.sample_time() + MINUTE, free=10)
    assert (run.id, run.payload) == (manual_run_id(job.id, "order-7"), {"order": 7, "note": "50 %"})


async def test_a_job_and_a_run_of_another_are_kept_together(user: User) -> None:
    await add_job(user.database.control(), schedule="@yearly")
    both = [*inserts("new", commit=True)["calls"], *triggers("job", commit=True, key="k")["calls"]]

    user.transact({"commit": False, "calls": both})
    assert (len(await user.database.rows("jobs")), await user.database.rows("runs")) == (1, [])

    user.transact({"commit": True, "calls": both})
    assert (len(await user.database.rows("jobs")), len(await user.database.rows("runs"))) == (2, 1)
