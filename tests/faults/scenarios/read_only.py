"""PostgreSQL refuses writes for a while, again and again, and every node works on afterwards.

It does so in three ways: by a setting of the server, which open sessions take over; and by one of the database or the
role, which sessions have from their beginning to their end, also after it was taken back.
"""

import asyncio

import asyncpg

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books, percentile
from tests.faults.cluster import Cluster
from tests.faults.databases import come_to_rest
from tests.faults.fleet import LEASE, REAP, Fleet, all_deliver, end_sessions
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
SPELLS = 10
LENGTH = 8.0  # seconds of one
PAUSE = (0.5, 2.5)  # seconds from one resumption to the next spell
RESUMED = 15  # seconds until every node delivers again, at most
WAYS = ("server", "database postgres", "role postgres")
SPREAD = {"jitter": "1s"}


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("read_only", setting.backend)
    spells = setting.sized(SPELLS)
    length = LENGTH * max(0.4, min(1.0, setting.scale))
    load = Load(jobs=setting.sized(100, least=50), seconds=0.2, options=SPREAD)
    with Cluster() as cluster, Fleet(setting.folder, cluster.url, load) as fleet:
        await fleet.start_all(NODES)
        resumed, green = [], 0
        for number in range(spells):
            await asyncio.sleep(setting.random.uniform(*PAUSE))
            cut = fleet.cut("read-only spell")
            green += await _spell(cluster, fleet, WAYS[(number + 1) % len(WAYS)], length)
            cut.ended_at = elapsed()
            resumed.append(await all_deliver(fleet, NODES, cut.ended_at, 3 * RESUMED))
        async with cluster.opened() as database:
            left = await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
            books = await Books.read(database, fleet)
    verdict.at_least(f"read-only spells of {length:g} s", spells, len(resumed))
    check_books(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    verdict.at_most("every node delivers again after a spell, seconds", RESUMED, round(max(resumed), 2))
    verdict.equal("nodes that said they were ready in a spell", 0, green)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "resumed p50": round(percentile(resumed, 50), 2),
        "attempts lost": sum(row["outcome"] == "lost" for row in books.attempts.values()),
        "left unfinished": dict(left),
    }
    return verdict


async def _spell(cluster: Cluster, fleet: Fleet, way: str, seconds: float) -> int:
    """Refuse writes for so long; how many nodes say at its end that they are ready."""
    boss = await asyncpg.connect(cluster.url, server_settings={"default_transaction_read_only": "off"})
    end = elapsed() + seconds
    if way == "server":
        await asyncio.to_thread(cluster.configure, default_transaction_read_only="on")
    else:
        await boss.execute(f"alter {way} set default_transaction_read_only = on")
        await end_sessions(boss)  # the next ones are read-only
    await asyncio.sleep(max(0, end - elapsed()))
    green = 0
    for member in fleet.running:
        answer = await asyncio.to_thread(member.server.get, "/health/ready")
        green += answer.status_code == 200
    if way == "server":
        await asyncio.to_thread(cluster.configure, default_transaction_read_only="off")
    else:
        await boss.execute(f"alter {way} reset default_transaction_read_only")
    await boss.close()
    return green
