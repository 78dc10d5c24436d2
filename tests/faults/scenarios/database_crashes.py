"""PostgreSQL ends in the middle of everything, again and again, and comes back."""

import asyncio

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books, percentile
from tests.faults.cluster import Cluster
from tests.faults.databases import come_to_rest
from tests.faults.fleet import LEASE, REAP, Fleet, until
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
CRASHES = 10
PAUSE = (0.5, 2.5)  # seconds from one resumption to the next crash
AWAY = (0.0, 1.5)  # seconds the server stays down
RESUMED = 10  # seconds from the server's return to the next delivery, at most
SPREAD = {"jitter": "1s"}


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("database_crashes", setting.backend)
    crashes = setting.sized(CRASHES)
    load = Load(jobs=setting.sized(100, least=50), seconds=0.2, options=SPREAD)
    with Cluster() as cluster, Fleet(setting.folder, cluster.url, load) as fleet:
        await fleet.start_all(NODES)
        resumed = []
        for _ in range(crashes):
            await asyncio.sleep(setting.random.uniform(*PAUSE))
            resumed.append(await _crash(cluster, fleet, setting.random.uniform(*AWAY)))
        async with cluster.opened() as database:
            left = await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
            books = await Books.read(database, fleet)
    verdict.at_least("database crashes", crashes, len(fleet.cuts))
    check_books(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    verdict.at_most("first delivery after the database is back, seconds", RESUMED, round(max(resumed), 2))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "resumed p50": round(percentile(resumed, 50), 2),
        "attempts lost": sum(row["outcome"] == "lost" for row in books.attempts.values()),
        "left unfinished": dict(left),
    }
    return verdict


async def _crash(cluster: Cluster, fleet: Fleet, seconds: float) -> float:
    """Crash, stay away, come back; seconds until a node delivers again."""
    cut = fleet.cut("crash")
    await asyncio.to_thread(cluster.crash)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(cluster.start)
    cut.ended_at, offset = elapsed(), fleet.size

    def later() -> list[float]:
        return [line.at - cut.ended_at for line in fleet.lines(offset) if line.what == "begun"]

    await until(lambda: bool(later()), 3 * RESUMED, "a delivery after the database is back")
    return later()[0]
