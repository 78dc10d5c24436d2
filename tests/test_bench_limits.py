"""The opponents in the benchmarks know our tables, and some our statements: they must follow when these change."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.imports import Lines
from bench.limits.databases import Database, Postgres, Sqlite
from bench.limits.plans import add_burst
from bench.limits.processes import Peer
from bench.limits.task_jobs import LANES, add_task_jobs
from bench.lists import measure
from bench.planning import plan_once

from tests.server import server_url

pytestmark = pytest.mark.full

LANE = LANES.replace("%", "0")
RUNS = 30


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def contested(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database: Database = Sqlite(tmp_path) if request.param == "SQLite" else Postgres(server_url(), None)
    yield database
    database.drop()


def play(module: str, **settings: object) -> None:
    """Let an opponent do its work once."""
    peer = Peer(module, **settings)
    try:
        peer.ask()
    finally:
        peer.stop()


def number(database: Database, asked: str) -> int:
    """The one number that is asked for, of tables that are written `hourbell.runs`."""
    [(found,)] = database.ask(f"select {asked if database.name == 'PostgreSQL' else asked.replace('.', '_')}")
    return int(found)


@pytest.mark.parametrize("opponent", ["bare_drain", "store_drain", "rows"])
def test_a_drain_ends_every_run_by_one_attempt(contested: Database, opponent: str) -> None:
    add_task_jobs(contested, 3)
    contested.add_runs(RUNS, LANES)
    if opponent == "bare_drain" and contested.name == "SQLite":
        opponent = "bare_sqlite_drain"

    lane = {"lanes": [LANE]} if opponent == "rows" else {"lane": LANE}
    play(opponent, url=contested.url, batch=20, **lane)

    assert number(contested, "count(*) from hourbell.runs where state = 'succeeded' and attempt = 1") == RUNS
    assert number(contested, "count(distinct run_id) from hourbell.attempts where outcome = 'succeeded'") == RUNS
    assert number(contested, "sum(succeeded) from hourbell.job_stats") == RUNS


@pytest.mark.parametrize("planner", ["bare_plan", "store_plan"])
def test_a_burst_is_planned_whole(contested: Database, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_BENCH_PROBES", "2")
    add_burst(contested, 40, 30)

    plan_once(contested, planner, 30)

    assert number(contested, "count(*) from hourbell.runs") == 30


def test_an_import_writes_every_job(contested: Database, tmp_path: Path) -> None:
    play("bare_import", url=contested.url, path=str(Lines(tmp_path).make(30)))

    assert number(contested, "count(*) from hourbell.jobs") == 30


def test_every_list_is_as_long_as_by_its_bare_query(contested: Database, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        lists = runner.run(measure(contested, tmp_path, jobs=60, runs=200, rounds=1))  # raises where they differ

    assert len(lists) > 30
