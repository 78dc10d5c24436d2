"""An older backup takes the database's place: what was committed since has never happened, and was delivered.

That is what a failover to a replica that lagged behind does. Deliveries may repeat then, and they must carry the ids
that the receiver has seen already; no instant may be lost. In every other round the nodes keep running all along.
"""

import asyncio
from uuid import UUID

from hourbell.clock import elapsed
from tests.faults.books import Books, none_of
from tests.faults.cluster import Cluster
from tests.faults.databases import come_to_rest
from tests.faults.fleet import LEASE, REAP, Fleet, until
from tests.faults.receiver import Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
ROUNDS = 3
BEFORE, BEHIND = 1.0, (1.5, 3.5)  # seconds of work before the backup, and what is lost with the restore
RESUMED = 10  # seconds from the database's return to the next delivery, at most
LOAD = Load(jobs=60, seconds=0.2, options={"jitter": "1s"})


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("older_backup", setting.backend)
    rounds = setting.sized(ROUNDS)
    again = 0
    with Cluster() as cluster, Fleet(setting.folder, cluster.url, LOAD) as fleet:
        await fleet.start_all(NODES)
        for number in range(rounds):
            await asyncio.sleep(BEFORE)
            await _lose_the_latest(cluster, fleet, f"backup-{number}", setting.random.uniform(*BEHIND), number % 2 == 0)
            again += await _planned_again(cluster, fleet)
        async with cluster.opened() as database:
            left = await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
            books = await Books.read(database, fleet)
    verdict.at_least("older backups restored", rounds, len(fleet.cuts))
    verdict.at_least("instants delivered before a restore and planned again after it", 20 * rounds, again)
    none_of(verdict, "instants with another id than the receiver saw before", books.planned_twice())
    none_of(verdict, "instants without exactly one place", books.misplaced())
    none_of(verdict, "instants that the receiver saw and the books have not", _unknown(books))
    none_of(verdict, "runs lost (failed, unfinished or without an effect)", books.lost())
    verdict.equal("instants skipped", 0, books.skipped)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {"runs": len(books.runs), "planned again": again, "left unfinished": dict(left)}
    return verdict


async def _lose_the_latest(cluster: Cluster, fleet: Fleet, name: str, seconds: float, keeps_running: bool) -> None:
    """Back up, work on, and come back as the backup was, with the same nodes or with new ones."""
    cut = fleet.cut("restore")
    await asyncio.to_thread(cluster.back_up, name)
    await asyncio.sleep(seconds)
    if not keeps_running:
        await fleet.stop_all()
    await asyncio.to_thread(cluster.restore, name)
    cut.ended_at, offset = elapsed(), fleet.size
    if not keeps_running:
        await fleet.start_all(NODES)
    await until(lambda: bool(fleet.lines(offset)), RESUMED, "a delivery after the restore")


async def _planned_again(cluster: Cluster, fleet: Fleet) -> int:
    """Count the times delivered before the last restore that were planned again since."""
    restore = fleet.cuts[-1]
    seen = {line.run_id for line in fleet.lines() if line.at < restore.ended_at}
    await asyncio.sleep(1)
    delivered = {line.run_id for line in fleet.lines() if line.at > restore.ended_at and line.attempt == 1}
    async with cluster.opened() as database:
        known = {run["id"] for run in await database.rows("runs")}
    return len(seen & delivered & known)


def _unknown(books: Books) -> list[UUID]:
    known = {run["id"] for run in books.runs}
    return [line.run_id for line in books.lines if line.run_id not in known]
