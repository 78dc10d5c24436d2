"""The primary of two hosts stops, its standby takes over, and the old primary returns as a standby, again and again.

The URL names both. Nodes must find the one that accepts writes, whichever it is, also when their sessions end later
and the first host that answers is the standby.
"""

import asyncio

import asyncpg

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books, percentile
from tests.faults.databases import come_to_rest
from tests.faults.fleet import LEASE, REAP, Fleet, all_deliver, end_sessions
from tests.faults.pair import Pair
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
FAILOVERS = 10
PAUSE = (0.5, 2.5)  # seconds from one resumption to the next failover
AWAY = (0.0, 1.5)  # seconds until the old primary returns
RESUMED = 15  # seconds until every node delivers again, at most
SPREAD = {"jitter": "1s"}


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("returned_standby", setting.backend)
    failovers = setting.sized(FAILOVERS)
    load = Load(jobs=setting.sized(100, least=50), seconds=0.2, options=SPREAD)
    with Pair() as pair, Fleet(setting.folder, pair.url, load) as fleet:
        await fleet.start_all(NODES)
        after_failover, after_ended_sessions = [], []
        for _ in range(failovers):
            await asyncio.sleep(setting.random.uniform(*PAUSE))
            after_failover.append(await _fail_over(pair, fleet, setting.random.uniform(*AWAY)))
            after_ended_sessions.append(await _end_sessions(pair, fleet))
        async with pair.primary.opened() as database:
            left = await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
            books = await Books.read(database, fleet)
    verdict.at_least("failovers whose old primary returned as a standby", failovers, len(after_failover))
    check_books(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    for when, resumed in (("a failover", after_failover), ("all sessions ended", after_ended_sessions)):
        verdict.at_most(f"every node delivers again after {when}, seconds", RESUMED, round(max(resumed), 2))
        verdict.figures[f"resumed after {when}, p50"] = round(percentile(resumed, 50), 2)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "attempts lost": sum(row["outcome"] == "lost" for row in books.attempts.values()),
        "left unfinished": dict(left),
    }
    return verdict


async def _fail_over(pair: Pair, fleet: Fleet, away: float) -> float:
    """Change the roles; seconds from the promotion until every node delivers again, beside the standby."""
    cut = fleet.cut("failover")
    await asyncio.to_thread(pair.fail_over)
    cut.ended_at = elapsed()
    await asyncio.sleep(away)
    await asyncio.to_thread(pair.return_old)
    return await all_deliver(fleet, NODES, cut.ended_at, 3 * RESUMED)


async def _end_sessions(pair: Pair, fleet: Fleet) -> float:
    """End every session of the nodes, so that they choose a host again; seconds until every node delivers again."""
    boss = await asyncpg.connect(pair.primary.url)
    cut = fleet.cut("sessions ended")
    await end_sessions(boss)
    cut.ended_at = elapsed()
    await boss.close()
    return await all_deliver(fleet, NODES, cut.ended_at, 3 * RESUMED)
