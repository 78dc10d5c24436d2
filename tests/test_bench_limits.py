"""The peers in the benchmarks know our tables, and some our statements: they must follow when these change."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import httpx
import pytest
from bench.imports import Lines
from bench.limits.databases import Database, Postgres, Sqlite
from bench.limits.plans import add_burst
from bench.limits.processes import Peer
from bench.limits.receiver import lowest_ephemeral_port
from bench.limits.task_jobs import LANES, add_task_jobs
from bench.limits.webhook_parts import Sizes, mismatch, open_setup
from bench.lists import measure
from bench.planning import plan_once
from bench.timeline import QUESTIONS
from bench.timeline import measure as measure_timeline

from tests.server import server_url

pytestmark = pytest.mark.full

LANE = LANES.replace("%", "0")
RUNS = 30


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def measured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database: Database = Sqlite(tmp_path) if request.param == "SQLite" else Postgres(server_url(), None)
    yield database
    database.drop()


def play(module: str, **settings: object) -> None:
    """Let a peer do its work once."""
    peer = Peer(module, **settings)
    try:
        peer.ask()
    finally:
        peer.stop()


def number(database: Database, asked: str) -> int:
    """Return the number that a query selects. Tables are written `hourbell.runs`."""
    [(found,)] = database.ask(f"select {asked if database.name == 'PostgreSQL' else asked.replace('.', '_')}")
    return int(found)


@pytest.mark.parametrize("peer", ["bare_drain", "store_drain", "rows"])
def test_a_drain_ends_every_run_by_one_attempt(measured: Database, peer: str) -> None:
    add_task_jobs(measured, 3)
    measured.add_runs(RUNS, LANES)
    if peer == "bare_drain" and measured.name == "SQLite":
        peer = "bare_sqlite_drain"

    lane = {"lanes": [LANE]} if peer == "rows" else {"lane": LANE}
    play(peer, url=measured.url, batch=20, **lane)

    assert number(measured, "count(*) from hourbell.runs where state = 'succeeded' and attempt = 1") == RUNS
    assert number(measured, "count(distinct run_id) from hourbell.attempts where outcome = 'succeeded'") == RUNS
    assert number(measured, "sum(succeeded) from hourbell.job_stats") == RUNS


def test_requests_that_do_not_match_are_kept_with_all_that_may_explain_them(
    measured: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.limits.webhook_parts._RESULTS", tmp_path / "results")
    add_task_jobs(measured, 1)
    measured.add_runs(2, LANES)
    node_log = tmp_path / "node.log"
    node_log.write_text("all of it")
    with open_setup(Sizes(hooks=2, jobs=1, ports=1, slots=1, nodes=1, rounds=1)) as setup:
        [url] = setup.urls("http")
        for run, attempt in (("a", 1), ("a", 1), ("b", 1), ("b", 2)):
            httpx.post(url, headers={"webhook-id": run, "hourbell-attempt": str(attempt)}).raise_for_status()
        repeats = setup.repeats()
        error = mismatch([SimpleNamespace(log=node_log)], measured, setup, 2, 2, 2)  # type: ignore[list-item]

    assert repeats == [("a", "1", 2)]
    assert "2 of 2 succeeded, with 2 calls too many; 1 attempts came repeatedly" in str(error)
    [kept] = (tmp_path / "results").iterdir()
    assert str(kept) in str(error)
    assert (kept / "node.log").read_text() == "all of it"
    requests = [json.loads(line) for line in (kept / "requests.jsonl").read_text().splitlines()]
    assert [(each["run"], each["attempt"]) for each in requests] == [("a", "1"), ("a", "1"), ("b", "1"), ("b", "2")]
    assert all(each["at"] > 0 and each["peer"][0] == "127.0.0.1" for each in requests)
    runs = [json.loads(line) for line in (kept / "runs.jsonl").read_text().splitlines()]
    assert len({UUID(each["id"]) for each in runs if each["state"] == "pending"}) == 2


@pytest.mark.skipif(lowest_ephemeral_port() is None, reason="the system does not tell which ports it hands out")
def test_a_receiver_listens_below_the_ports_that_the_system_hands_out() -> None:
    with open_setup(Sizes(hooks=1, jobs=1, ports=3, slots=1, nodes=1, rounds=1)) as setup:
        ports = [port for scheme in ("http", "https") for port in setup.receiver.ready_message[scheme]]

    assert len(set(ports)) == 6
    assert max(ports) < (lowest_ephemeral_port() or 0)


@pytest.mark.parametrize("planner", ["bare_plan", "store_plan"])
def test_a_burst_is_planned_whole(measured: Database, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_BENCH_PROBES", "2")
    add_burst(measured, 40, 30)

    plan_once(measured, planner, 30)

    assert number(measured, "count(*) from hourbell.runs") == 30


def test_an_import_writes_every_job(measured: Database, tmp_path: Path) -> None:
    play("bare_import", url=measured.url, path=str(Lines(tmp_path).make(30)))

    assert number(measured, "count(*) from hourbell.jobs") == 30


def test_every_list_is_as_long_as_by_its_bare_query(measured: Database, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        lists = runner.run(measure(measured, tmp_path, jobs=60, runs=200, rounds=1))  # raises where they differ

    assert len(lists) > 30


def test_a_time_line_has_the_runs_of_its_bare_query(measured: Database, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        rows = runner.run(measure_timeline(measured, tmp_path, jobs=200, runs=2_000, rounds=1))  # raises as above

    assert len(rows) == len(QUESTIONS) + 1
