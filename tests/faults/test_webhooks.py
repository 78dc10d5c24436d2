"""Webhooks of processes that die or get SIGTERM. `test_campaign.py` has those that are killed again and again."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from hourbell.clock import elapsed
from hourbell.store.control.actor import Actor
from tests.database import Database, Row
from tests.faults.databases import database_for, url_of
from tests.faults.fleet import START, Fleet, until
from tests.faults.hooks import Hooks, Request
from tests.faults.scenarios import isolation
from tests.faults.verdict import Backend, Setting

pytestmark = pytest.mark.anyio

WAITS = [1, 2, 3]  # seconds
RETRY = {"attempts": 4, "backoff": [f"{wait}s" for wait in WAITS]}
SLACK = 0.1  # seconds by which two processes may differ about the database's time
LONG = 30  # seconds for what takes no time on an idle machine
ALWAYS = 1_000
FIRST, SECOND = "node-000", "node-001"


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.full)])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    backend: Backend = request.param
    async with database_for(backend) as made:
        yield made


async def test_a_retry_plan_continues_after_the_death_of_its_node(database: Database, tmp_path: Path) -> None:
    with Hooks(tmp_path) as hooks, Fleet(tmp_path, url_of(database)) as fleet:
        [first] = await fleet.start_all(1)
        await insert(database, "fixed", hooks.url(fails=3), retry=RETRY)
        await insert(database, "broken", hooks.url(fails=ALWAYS), retry=RETRY)
        await trigger(database)
        await all_runs(database, lambda run: (run["state"], run["failures"]) == ("retrying", 2))
        fleet.kill(first)
        await fleet.start().ready()
        await all_runs(database, has_ended)
        requests = by_job(hooks.requests())

    ends = {job: (run["state"], run["reason"], run["attempt"]) for job, run in (await runs_by_job(database)).items()}
    assert ends == {"fixed": ("succeeded", None, 4), "broken": ("failed", "exhausted", 4)}
    for tries in requests.values():
        assert [each.attempt for each in tries] == [1, 2, 3, 4]
        assert [each.member for each in tries] == [FIRST, FIRST, SECOND, SECOND]
        assert len({(each.run_id, each.body) for each in tries}) == 1
        assert [wait >= least - SLACK for wait, least in zip(waits_between(tries), WAITS, strict=True)] == [True] * 3


async def test_a_node_that_is_asked_to_stop_lets_its_webhooks_end(database: Database, tmp_path: Path) -> None:
    with Hooks(tmp_path) as hooks, Fleet(tmp_path, url_of(database), HOURBELL_LANE_SLOTS="10") as fleet:
        [first] = await fleet.start_all(1)
        for number in range(20):
            await insert(database, f"job-{number:02}", hooks.url(after=1))
        await trigger(database)
        await until(lambda: len(hooks.requests()) >= 10, LONG, "ten requests are open")
        fleet.stop(first)
        code = await first.exit_code(LONG)
        at_the_stop = hooks.requests()
        await fleet.start().ready()
        await all_runs(database, has_ended)
        requests = hooks.requests()

    assert code == 0
    assert {(each.status, each.dropped_at) for each in at_the_stop} == {(200, None)}
    assert len({each.run_id for each in requests}) == len(requests) == 20
    assert {run["state"] for run in await database.rows("runs")} == {"succeeded"}
    assert {row["number"] for row in await database.rows("attempts")} == {1}
    assert {each.member for each in requests} == {FIRST, SECOND}


async def test_a_webhook_that_outlasts_the_drain_goes_out_again_at_once(database: Database, tmp_path: Path) -> None:
    with Hooks(tmp_path) as hooks, Fleet(tmp_path, url_of(database), HOURBELL_DRAIN_TIMEOUT="1s") as fleet:
        [first] = await fleet.start_all(1)
        await insert(database, "repeated", hooks.url(after=2 * LONG, held=1), retry=RETRY)
        await insert(database, "once", hooks.url(after=2 * LONG, held=1), delivery="at_most_once")
        await trigger(database)
        await until(lambda: len(hooks.requests()) == 2, LONG, "both are under way")
        fleet.stop(first)
        code = await first.exit_code(LONG)
        stopped, stopped_at = await runs_by_job(database), await database.engine().sample_time()
        await fleet.start().ready()
        await all_runs(database, has_ended)
        requests = by_job(hooks.requests())

    assert code == 0
    assert (stopped["once"]["state"], stopped["once"]["reason"]) == ("failed", "lost")
    waiting, ended = stopped["repeated"], (await runs_by_job(database))["repeated"]
    assert (waiting["state"], waiting["failures"], waiting["crashes"]) == ("retrying", 0, 0)
    assert waiting["ready_at"] <= stopped_at
    outcomes = [row["outcome"] for row in await database.rows("attempts", "number") if row["run_id"] == ended["id"]]
    assert (ended["state"], outcomes) == ("succeeded", ["interrupted", "succeeded"])
    assert [(each.member, each.attempt) for each in requests["repeated"]] == [(FIRST, 1), (SECOND, 2)]
    assert len({(each.run_id, each.body) for each in requests["repeated"]}) == 1
    assert [each.member for each in requests["once"]] == [FIRST]


@pytest.mark.full
async def test_a_hanging_receiver_hardly_delays_others_on_sqlite(tmp_path: Path) -> None:
    verdict = await isolation.run(Setting("sqlite", tmp_path, Random(1), scale=0.06))

    print(*verdict.checks, *verdict.figures.items(), sep="\n")
    assert verdict.holds


async def insert(
    database: Database, name: str, url: str, *, retry: object = "default", delivery: str = "at_least_once"
) -> None:
    """A job made with a SQL prompt, which does not fire in our lifetime unless it is triggered."""
    target = json.dumps({"type": "http", "url": url, "timeout": "60s"})
    await database.sql(
        "insert into hourbell.jobs (name, schedule, target, retry, delivery) values "
        f"('{name}', 'at 2099-01-01T00:00:00Z', '{target}', '{json.dumps(retry)}', '{delivery}')"
    )


async def trigger(database: Database) -> None:
    """Run every job now, once a process has adopted it."""
    end = elapsed() + START
    while any(job["next_at"] is None for job in await database.rows("jobs")):
        assert elapsed() < end, "nobody adopts the jobs"
        await asyncio.sleep(0.05)
    control, now = database.control(), await database.engine().sample_time()
    for job in await database.rows("jobs"):
        await control.trigger_job(job["id"], uuid4(), Actor("somebody", now))


async def all_runs(database: Database, holds: Callable[[Row], bool]) -> None:
    """Once this holds for every run."""
    end = elapsed() + LONG
    while not all(holds(run) for run in await database.rows("runs")):
        assert elapsed() < end, f"not within {LONG} s: {await database.rows('runs')}"
        await asyncio.sleep(0.05)


def has_ended(run: Row) -> bool:
    return run["finished_at"] is not None


async def runs_by_job(database: Database) -> dict[str, Row]:
    names = {job["id"]: job["name"] for job in await database.rows("jobs")}
    return {names[run["job_id"]]: run for run in await database.rows("runs")}


def by_job(requests: Sequence[Request]) -> dict[str, list[Request]]:
    grouped: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        grouped[request.job].append(request)
    return grouped


def waits_between(tries: Sequence[Request]) -> list[float]:
    """Seconds from each answer to the next request."""
    return [again.at - (first.answered_at or 0) for first, again in pairwise(tries)]
