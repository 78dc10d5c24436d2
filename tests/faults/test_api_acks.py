"""Changes that the API acknowledged survive every crash; others are repeated and act once.

Clients change jobs through several servers on one database. Servers are killed with -9 again and again, PostgreSQL is
crashed, and clients hang up before they are answered. Each then asks again, with the same key, whoever answers.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

import httpx
import pytest

from hourbell.clock import elapsed
from tests.database import Database
from tests.faults.cluster import Cluster
from tests.faults.databases import database_for, url_of
from tests.faults.fleet import Fleet, Member, until

pytestmark = pytest.mark.anyio

SERVERS, CLIENTS = 2, 4
LONG = 60.0  # seconds for what takes a few on an idle machine
TARGET = {"type": "task", "name": "of-nobody"}  # what is triggered waits, so that it can be counted
ACTIONS = ["trigger", "trigger", "pause", "patch", "delete"]


@dataclass
class Ledger:
    """The acknowledged requests."""

    done: Counter[str] = field(default_factory=Counter)
    created: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    descriptions: dict[str, str] = field(default_factory=dict)
    paused: dict[str, bool] = field(default_factory=dict)
    runs: set[UUID] = field(default_factory=set)
    repeats: int = 0  # calls that were not answered, and asked again


class Client:
    """A caller that repeats each request until it is answered."""

    def __init__(self, number: int, fleet: Fleet, ledger: Ledger, is_over: Callable[[], bool]) -> None:
        self._number = number
        self._random = Random(number)
        self._fleet = fleet
        self._ledger = ledger
        self._is_over = is_over

    async def work(self) -> None:
        async with httpx.AsyncClient(trust_env=False) as self._http:
            for count in itertools.count():
                if self._is_over():
                    return
                await self._one_job(f"job-{self._number}-{count}")

    async def _one_job(self, name: str) -> None:
        ledger, path = self._ledger, f"/api/v1/jobs/{name}"
        await self._ask("POST", "/api/v1/jobs", {"name": name, "schedule": "0 0 1 1 *", "target": TARGET})
        ledger.created.add(name)
        for number, action in enumerate(self._random.sample(ACTIONS, 3)):
            if action == "delete":
                if self._random.random() < 0.5:
                    await self._ask("DELETE", path)
                    ledger.deleted.add(name)
                    return
            elif action == "trigger":
                made = await self._ask("POST", f"{path}/trigger", {"payload": {"number": number}})
                assert UUID(made["run_id"]) not in ledger.runs
                ledger.runs.add(UUID(made["run_id"]))
            elif action == "pause":
                verb = "resume" if ledger.paused.get(name) else "pause"
                await self._ask("POST", f"{path}/{verb}", {})
                ledger.paused[name] = verb == "pause"
            else:
                ledger.descriptions[name] = f"text {number}"
                await self._ask("PATCH", path, {"description": ledger.descriptions[name]})

    async def _ask(self, method: str, path: str, body: object = None) -> dict[str, str]:
        """Ask until there is an answer; it is a success, or says that a deletion happened already."""
        await asyncio.sleep(0.02)
        headers = {"Idempotency-Key": f"key-{self._random.getrandbits(64)}"}
        tries, end = 0, elapsed() + LONG
        while True:
            assert elapsed() < end, f"no answer to {method} {path}"
            hasty = self._random.random() < 0.15  # hang up before it can answer, most of the time
            try:
                answer = await self._http.request(
                    method,
                    self._server() + path,
                    json=body,
                    headers=headers,
                    timeout=self._random.uniform(0.001, 0.02) if hasty else 20,
                )
            except (httpx.HTTPError, LookupError):
                tries += 1
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 503:
                assert "retry-after" in answer.headers
                tries += 1
                await asyncio.sleep(0.1)
                continue
            self._ledger.repeats += tries
            if method == "DELETE" and tries and answer.status_code == 404:
                return {}
            assert answer.is_success, f"{method} {path}, {tries} tries before: {answer.status_code} {answer.text}"
            self._ledger.done[f"{method} {path.rpartition('/')[2] if method == 'POST' else ''}".strip()] += 1
            found: dict[str, str] = answer.json() if answer.content else {}
            return found

    def _server(self) -> str:
        """Any that serves; LookupError if none does."""
        return self._random.choice([member.server.url for member in self._fleet.members if member.is_serving])


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.sweep)])
async def test_killed_servers_lose_no_answer_and_repeat_no_change(tmp_path: Path, kills: int) -> None:
    random = Random(1)
    async with database_for("sqlite") as database:
        with Fleet(tmp_path, url_of(database)) as fleet:

            async def hurt() -> None:
                for _ in range(kills):
                    await asyncio.sleep(random.uniform(0.1, 0.8))
                    await kill_one(fleet, random)

            ledger = await work_while(fleet, hurt)

        assert ledger.repeats > 0
        await assert_kept(database, ledger)


@pytest.mark.full
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.sweep)])
async def test_a_postgresql_crash_while_servers_are_killed_loses_no_answer(tmp_path: Path, kills: int) -> None:
    random = Random(2)
    with Cluster() as cluster, Fleet(tmp_path, cluster.url) as fleet:

        async def hurt() -> None:
            for _ in range(kills):
                await two_serve(fleet)  # one that starts without its database gives up
                await asyncio.sleep(random.uniform(0.1, 0.8))
                await asyncio.to_thread(cluster.crash)
                await asyncio.to_thread(cluster.start)
                await asyncio.sleep(random.uniform(0.1, 0.8))
                await kill_one(fleet, random)

        ledger = await work_while(fleet, hurt)
        async with cluster.opened() as database:
            await assert_kept(database, ledger)

    assert ledger.repeats > 0


async def work_while(fleet: Fleet, hurt: Callable[[], Awaitable[None]]) -> Ledger:
    """Let clients work while something goes wrong, and a little longer."""
    ledger, is_over = Ledger(), asyncio.Event()
    await fleet.start_all(SERVERS)
    working = asyncio.gather(*(Client(n, fleet, ledger, is_over.is_set).work() for n in range(CLIENTS)))
    try:
        await hurt()
        is_over.set()
        await working
    finally:
        working.cancel()
    return ledger


async def kill_one(fleet: Fleet, random: Random) -> None:
    """Kill -9 a server while another serves, and start one in its place."""
    fleet.kill(random.choice(await two_serve(fleet)))
    fleet.start()


async def two_serve(fleet: Fleet) -> list[Member]:
    """Those that serve, once they are more than one."""

    def serving() -> list[Member]:
        return [member for member in fleet.members if member.is_serving]

    await until(lambda: len(serving()) > 1, LONG, "another server is back")
    return serving()


async def assert_kept(database: Database, ledger: Ledger) -> None:
    """Everything that was answered is there, and nothing happened twice."""
    jobs = {row["deleted_name"] or row["name"]: row for row in await database.rows("jobs")}
    runs = await database.rows("runs")
    audit = Counter((row["action"], row["subject"]) for row in await database.rows("audit"))
    print(dict(ledger.done), f"{ledger.repeats} asked again")

    assert jobs.keys() == ledger.created
    assert {name for name, row in jobs.items() if row["deleted_at"] is not None} == ledger.deleted
    assert {name: jobs[name]["description"] for name in ledger.descriptions} == ledger.descriptions
    assert {name: not jobs[name]["enabled"] for name in ledger.paused} == ledger.paused
    assert {run["id"] for run in runs} == ledger.runs
    assert len(runs) == len(ledger.runs)
    wanted = {"job.trigger": len(ledger.runs), "job.create": len(ledger.created), "job.delete": len(ledger.deleted)}
    wanted |= {"job.pause": len(ledger.paused), "job.edit": len(ledger.descriptions)}
    written = Counter(action for action, _ in audit.elements())
    assert written == {action: number for action, number in wanted.items() if number}
