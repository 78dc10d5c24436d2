"""Three processes under load, and one of them killed with -9 again and again.

Two others always serve: without a node no run can be recovered, and on a busy machine processes would
be killed faster than they start.
"""

import asyncio

from tests.faults.books import Books, check_books, percentile
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, START, Fleet, until
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
KILLS = 100
RUNS = 20_000
PAUSE = (0.2, 1.2)  # seconds between two kills
GRACE = 2  # seconds for a recovery, beyond lease and reap
JOBS = 230
SPREAD = {"jitter": "1s"}  # so that deliveries are open at every moment, not only just after a full second


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("kills", setting.backend)
    kills, wanted = setting.sized(KILLS, least=6), setting.sized(RUNS, least=500)
    async with database_for(setting.backend) as database:
        load = Load(jobs=setting.sized(JOBS, least=80), seconds=0.15, options=SPREAD)
        with Fleet(setting.folder, url_of(database), load) as fleet:
            await fleet.start_all(NODES)
            for _ in range(kills):
                await asyncio.sleep(setting.random.uniform(*PAUSE))
                await until(lambda: all(member.is_serving for member in fleet.running), START, "all of them serve")
                fleet.kill(setting.random.choice(fleet.running))
                fleet.start()
            while fleet.delivered() < wanted:
                await asyncio.sleep(1)
            await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    verdict.at_least("kills", kills, sum(cut.kind == "kill" for cut in fleet.cuts))
    verdict.at_least("runs", wanted, len(books.runs))
    check_books(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    recoveries = books.recoveries()
    verdict.at_least("attempts cut by a kill and recovered", kills // 4, len(recoveries))
    verdict.at_most("recovery p99, seconds", LEASE + REAP + GRACE, round(percentile(recoveries, 99), 2))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "recovery p50": round(percentile(recoveries, 50), 2),
        "recovery max": round(max(recoveries, default=0), 2),
        "cut attempts": len(recoveries),
        "runs under which several processes died": sum(run["crashes"] > 1 for run in books.runs),
    }
    return verdict
