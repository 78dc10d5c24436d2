"""Others take every connection PostgreSQL has to give, and sessions are ended at random.

While all connections are taken and nobody is ended, nodes live on those they have: no lease is lost. Ended sessions are
opened again as soon as there is room, unaided.
"""

import asyncio
from datetime import datetime
from random import Random
from types import TracebackType
from typing import Any, Self

import asyncpg

from hourbell.clock import elapsed
from tests.faults.accounts import Row
from tests.faults.books import Books, check_books, none_of
from tests.faults.cluster import Cluster
from tests.faults.databases import come_to_rest
from tests.faults.fleet import LEASE, REAP, Fleet, all_deliver, until
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
MAX_CONNECTIONS = "45"  # connections of the server
TAKEN, ENDED, BOTH = 4 * LEASE, 12, 2 * LEASE  # seconds of each phase
ENDINGS = (0.02, 0.15)  # seconds between two sessions ended
RESUMED = 10  # seconds until every node delivers again, at most
LOADS = (
    Load(jobs=60, seconds=0.2, options={"jitter": "1s"}),
    Load(jobs=20, seconds=LEASE + REAP, schedule="*/3 * * * * *", prefix="slow"),  # a lease that is not renewed shows
)
_ENDING = """select pg_terminate_backend(pid) from pg_stat_activity
where application_name = 'hourbell' and pid <> pg_backend_pid() order by random() limit 1"""


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("connections", setting.backend)
    random = Random(setting.random.random())
    long = min(1.0, max(0.15, setting.scale))
    with Cluster(max_connections=MAX_CONNECTIONS) as cluster, Fleet(setting.folder, cluster.url, *LOADS) as fleet:
        await fleet.start_all(NODES)
        boss = await asyncpg.connect(cluster.url)
        async with _Hoard(cluster):
            began_at = await _now(boss)
            await asyncio.sleep(max(LEASE + REAP, long * TAKEN))
            ended_at = await _now(boss)
        endings = fleet.cut("sessions ended")
        ended = await _end_sessions(boss, random, long * ENDED)
        async with _Hoard(cluster):
            ended += await _end_sessions(boss, random, max(2, long * BOTH))
        endings.ended_at = elapsed()
        resumed = await all_deliver(fleet, NODES, endings.ended_at, 3 * RESUMED)
        await boss.close()
        async with cluster.opened() as database:
            left = await come_to_rest(database, 6 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
            books = await Books.read(database, fleet)
    verdict.at_least("sessions ended at random", setting.sized(100, least=10), ended)
    check_books(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    none_of(verdict, "leases lost while every connection was taken", _lost_between(books, began_at, ended_at))
    verdict.at_most("every node delivers again, seconds", RESUMED, round(resumed, 2))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "sessions ended": ended,
        "attempts lost": sum(row["outcome"] == "lost" for row in books.attempts.values()),
        "left unfinished": dict(left),
    }
    return verdict


class _Hoard:
    """Takes every connection there is, and those that become free, until the end of its context."""

    def __init__(self, cluster: Cluster) -> None:
        self._url = cluster.url
        self._held: list[Any] = []
        self._is_full = False

    async def __aenter__(self) -> Self:
        self._taking = asyncio.create_task(self._take())
        await until(lambda: self._is_full, 30, "a server without a free connection")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._taking.cancel()
        await asyncio.wait([self._taking])
        for connection in self._held:
            await connection.close()

    async def _take(self) -> None:
        while True:
            try:
                self._held.append(await asyncpg.connect(self._url, timeout=5))
            except (asyncpg.TooManyConnectionsError, OSError, TimeoutError):
                self._is_full = True
                await asyncio.sleep(0.01)


async def _end_sessions(boss: Any, random: Random, seconds: float) -> int:
    """End one session of a node after the other; how many."""
    end, ended = elapsed() + seconds, 0
    while elapsed() < end:
        ended += len(await boss.fetch(_ENDING))
        await asyncio.sleep(random.uniform(*ENDINGS))
    return ended


def _lost_between(books: Books, began_at: datetime, ended_at: datetime) -> list[Row]:
    """Attempts that were given up within this time because their lease ran out."""
    lost = [row for row in books.attempts.values() if row["outcome"] == "lost"]
    return [row for row in lost if began_at < row["finished_at"] < ended_at]


async def _now(boss: Any) -> datetime:
    now: datetime = await boss.fetchval("select clock_timestamp()")
    return now
