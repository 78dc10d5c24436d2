"""Three processes, a hundred jobs that fire every second, and one process killed with -9 in the middle."""

import asyncio
import signal
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple
from uuid import UUID

import pytest

from hourbell.store.control.actor import Actor
from tests.database import Database, PostgresDatabase
from tests.faults.accounts import faults_of, unfinished, wrong_ids
from tests.faults.process import Server
from tests.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.anyio

JOBS = 100
LEASE, REAP = 3, 1  # seconds
GRACE = 5  # seconds beyond lease and reap, on a busy machine
IN_FLIGHT = 5  # deliveries the process that is killed has begun and not ended, at least
SETTINGS = {"HOURBELL_LEASE": f"{LEASE}s", "HOURBELL_REAP_INTERVAL": f"{REAP}s"}

APP = f"""
import asyncio, os, time
from hourbell import Scheduler

scheduler = Scheduler()
received = os.open(os.environ["RECEIVED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(what, run):
    facts = (what, run.id, run.job_id, run.scheduled_at.isoformat(), run.attempt, os.getpid(), time.time())
    os.write(received, (" ".join(map(str, facts)) + "\\n").encode())

async def receive(run):
    note("begun", run)
    await asyncio.sleep(0.2)
    note("ended", run)

for number in range({JOBS}):
    scheduler.job("* * * * * *", name=f"job-{{number:03}}")(receive)
"""


class Line(NamedTuple):
    """The record of a delivery."""

    what: str
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    attempt: int
    pid: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Kill:
    at: datetime
    pid: int
    node: UUID


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.full)])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database that has never seen Hourbell: the three processes start on it at once."""
    made: AbstractAsyncContextManager[Database] = (
        PostgresDatabase.made(migrated=False) if request.param == "postgres" else SqliteDatabase.in_file(migrated=False)
    )
    async with made as opened:
        yield opened


async def test_a_killed_process_costs_no_instant(database: Database, tmp_path: Path) -> None:
    await campaign(database, tmp_path, seconds=6)


@pytest.mark.sweep
async def test_a_killed_process_costs_no_instant_of_a_minute(database: Database, tmp_path: Path) -> None:
    await campaign(database, tmp_path, seconds=60)


async def campaign(database: Database, folder: Path, seconds: float) -> None:
    received = folder / "received"
    (folder / "app.py").write_text(APP)
    settings = SETTINGS | {"DATABASE_URL": _url(database), "RECEIVED": str(received)}
    with ExitStack() as stack:

        def serve(name: str) -> Server:
            return stack.enter_context(Server(folder, "--app", "app:scheduler", name=name, **settings))

        servers = [serve(name) for name in ("one", "two", "three")]
        for server in servers:
            server.wait_until_serving()
        started = time.monotonic()
        await asyncio.sleep(seconds / 2)
        kill = await _kill_the_busiest(servers, received)
        survivors = [server for server in servers if server.pid != kill.pid]
        await asyncio.sleep(1)
        servers = [*survivors, serve("four").wait_until_serving()]
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - started)))
        await _pause_all(database)
        await _wait_until_all_is_finished(database, LEASE + REAP + GRACE)
        for server in servers:
            server.signal(signal.SIGTERM)
        exits = [server.wait(20) for server in servers]
        errors = [event for server in servers for event in server.events if event["level"] == "error"]

    assert exits == [0, 0, 0]
    assert errors == []
    await _check(database, _lines(received), kill)


async def _check(database: Database, lines: Sequence[Line], kill: Kill) -> None:
    jobs, runs, skips = await database.rows("jobs"), await database.rows("runs"), await database.rows("skips")
    attempts = {(row["run_id"], row["number"]): row for row in await database.rows("attempts")}
    begun = [line for line in lines if line.what == "begun"]
    lost = {key: row for key, row in attempts.items() if row["outcome"] == "lost"}
    _report(begun, len(runs), sum(skip["count"] for skip in skips), len(lost), kill)

    assert len(jobs) == JOBS
    assert {job["version"] for job in jobs} == {
        2
    }  # created once, by any of the processes; the pause is the second version
    runs_of, skips_of = defaultdict(list), defaultdict(list)
    for run in runs:
        runs_of[run["job_id"]].append(run)
    for skip in skips:
        skips_of[skip["job_id"]].append(skip)
    assert [fault for job in jobs for fault in faults_of(job, runs_of[job["id"]], skips_of[job["id"]])] == []
    assert wrong_ids(runs) == []
    assert {run["state"] for run in runs} == {"succeeded"}

    deliveries = Counter((line.run_id, line.attempt) for line in begun)
    assert max(deliveries.values()) == 1
    assert deliveries.keys() - attempts.keys() == set()  # an attempt is claimed before anything happens
    assert attempts.keys() - deliveries.keys() - lost.keys() == set()  # and only a death comes between
    ids = defaultdict(set)
    for line in lines:
        ids[line.job_id, line.scheduled_at].add(line.run_id)
    assert {len(found) for found in ids.values()} == {1}
    assert {line.run_id for line in lines if line.what == "ended"} == {run["id"] for run in runs}

    assert len(lost) >= 1
    assert {row["node"] for row in lost.values()} == {kill.node}
    repeated = {run_id for run_id, attempt in deliveries if attempt > 1}
    assert repeated == {run_id for run_id, _ in lost}
    assert max(_recoveries(begun, kill)) < LEASE + REAP + GRACE


async def _kill_the_busiest(servers: Sequence[Server], received: Path) -> Kill:
    """Kill -9 a process that is delivering at this moment."""
    nodes = {server.pid: server for server in servers}
    for _ in range(2_000):
        lines = _lines(received, last=4 * JOBS)
        ended = {(line.run_id, line.attempt) for line in lines if line.what == "ended"}
        open_by = Counter(line.pid for line in lines if (line.run_id, line.attempt) not in ended)
        for pid, number in open_by.most_common(1):
            if number >= IN_FLIGHT:
                nodes[pid].signal(signal.SIGKILL)
                at = datetime.now(UTC)
                nodes[pid].wait(10)
                return Kill(at, pid, UUID(nodes[pid].node))
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was delivered")


async def _pause_all(database: Database) -> None:
    """Each job plans what is due and then nothing more, so that there is an end to look at."""
    store, control = database.engine(), database.control()
    for job in await database.rows("jobs"):
        now = await store.sample_time()
        await control.pause_job(job["id"], Actor("test", now), note="", until=None, cancel_waiting=False)


async def _wait_until_all_is_finished(database: Database, seconds: float) -> None:
    end = time.monotonic() + seconds
    while left := unfinished(await database.rows("runs")):
        assert time.monotonic() < end, f"{len(left)} unfinished, the first {left[0]}"
        await asyncio.sleep(0.2)


def _url(database: Database) -> str:
    if isinstance(database, SqliteDatabase):
        return f"sqlite:///{database.path}"
    assert isinstance(database, PostgresDatabase)
    return database.url


def _lines(received: Path, last: int = 0) -> list[Line]:
    """Return the received lines, or the last of them if there is no time for all."""
    found = []
    for text in received.read_text().rpartition("\n")[0].splitlines()[-last:]:
        what, run_id, job_id, scheduled_at, attempt, pid, at = text.split()
        when = datetime.fromtimestamp(float(at), UTC)
        line = Line(
            what, UUID(run_id), UUID(job_id), datetime.fromisoformat(scheduled_at), int(attempt), int(pid), when
        )
        found.append(line)
    return found


def _recoveries(begun: Sequence[Line], kill: Kill) -> list[float]:
    """Seconds from the kill until a run it interrupted was begun again."""
    return [(line.at - kill.at).total_seconds() for line in begun if line.attempt > 1]


def _report(begun: Sequence[Line], runs: int, skipped: int, lost: int, kill: Kill) -> None:
    lateness = [(line.at - line.scheduled_at).total_seconds() for line in begun if line.attempt == 1]
    cuts = quantiles(lateness, n=100)
    recoveries = _recoveries(begun, kill)
    per_process = sorted(Counter(line.pid for line in begun).values())
    print(
        f"runs {runs}, skipped {skipped}, lost {lost}, "
        f"lateness p50 {cuts[49] * 1e3:.0f} ms p99 {cuts[98] * 1e3:.0f} ms max {max(lateness) * 1e3:.0f} ms, "
        f"recovery {min(recoveries, default=0):.2f} to {max(recoveries, default=0):.2f} s, by process {per_process}"
    )
