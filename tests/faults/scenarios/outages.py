"""The database is unreachable for all nodes while many slow deliveries are open on live nodes.

First for half a lease, then for several: after that every lease has run out, and still nobody may redeliver what a
live node holds.
"""

import asyncio
from uuid import UUID

from hourbell.clock import elapsed
from tests.faults.books import Books, Key, check_books
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, Cut, Fleet, until
from tests.faults.proxy import Proxy
from tests.faults.receiver import Line, Load
from tests.faults.verdict import Setting, Verdict

NODES = 3
OPEN = 200  # deliveries, one of each job at a time
SHORT, LEASES = LEASE / 2, 3  # seconds; and how many leases the long outage lasts
BETWEEN = LEASE  # seconds from one to the other
REDELIVERED = 0.01  # of what was open, at most
AFTERWARDS = 4  # seconds a delivery lasts beyond the outages, so that a node that takes it over has the time to


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("outages", setting.backend)
    wanted = setting.sized(OPEN, least=30)
    long = LEASE * min(LEASES, max(1.5, LEASES * setting.scale))
    load = Load(jobs=wanted, seconds=SHORT + BETWEEN + long + AFTERWARDS, options={"overlap": "skip"})
    share = wanted // NODES + 2  # of each node: a lane whose calls last gets a quarter of the slots
    slots = str(4 * share)
    async with database_for(setting.backend) as database:
        with (
            Proxy(url_of(database)) as proxy,
            Fleet(setting.folder, proxy.url, load, HOURBELL_SLOTS=slots) as fleet,
        ):
            await fleet.start_all(NODES)
            await until(lambda: len(_open(fleet)) == wanted, 60, f"{wanted} open deliveries")
            held = {line.key for line in _open(fleet).values()}
            first = await _outage(proxy, fleet, SHORT)
            await asyncio.sleep(BETWEEN)
            second = await _outage(proxy, fleet, long)
            still_open = len(held & {line.key for line in _open(fleet).values()})
            left = await come_to_rest(database, load.seconds + 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    verdict.at_least("deliveries open through both outages", wanted * (1 - REDELIVERED), still_open)
    check_books(verdict, books)
    short_for, long_for = (round(cut.ended_at - cut.began_at, 1) for cut in (first, second))
    again = _begun_again(books, held, first.began_at, second.began_at)
    verdict.equal(f"redelivered after an outage of {short_for:g} s, half a lease", 0, again)
    redelivered = round(_begun_again(books, held, second.began_at, float("inf")) / wanted, 4)
    verdict.at_most(
        f"share redelivered after an outage of {long_for:g} s, {long / LEASE:g} leases", REDELIVERED, redelivered
    )
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {"open deliveries": wanted, "left unfinished": dict(left)}
    return verdict


async def _outage(proxy: Proxy, fleet: Fleet, seconds: float) -> Cut:
    """Every connection is closed, and none is to be had for so long."""
    cut = fleet.cut("outage")
    proxy.drop()
    await asyncio.sleep(seconds)
    proxy.restore()
    cut.ended_at = elapsed()
    return cut


def _open(fleet: Fleet) -> dict[UUID, Line]:
    """The last delivery of every run that has begun and not ended."""
    lines = fleet.lines()
    ended = {line.run_id for line in lines if line.what == "ended"}
    return {line.run_id: line for line in lines if line.run_id not in ended}


def _begun_again(books: Books, held: set[Key], after: float, before: float) -> int:
    """Count these deliveries that were taken from their node and begun elsewhere within this time."""
    return sum(first.key in held and after < again.at < before for first, again in books.repeated())
