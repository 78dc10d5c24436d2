"""Some nodes cannot reach the database while others can: closed, reset, stopped, mute, delayed and slow connections.

A node whose connection is cut does not notice at first. It may finish what it has begun, but past its trust window it
must begin nothing, and what it writes after the reconnection must change no run that another node has by then.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from random import Random

from hourbell.clock import elapsed
from tests.faults.books import Books, check_books, none_of, percentile
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, Cut, Fleet, Member, until
from tests.faults.proxy import Proxy
from tests.faults.receiver import Line, Load
from tests.faults.verdict import Setting, Verdict

ROUNDS = 1
CUT = LEASE + REAP + 3  # seconds: long enough for others to take over and begin
GRACE = 2  # seconds for taking over, beyond lease and reap
HEALED = 10  # max seconds from the reconnection to the node's next delivery
LOAD = Load(jobs=40, seconds=LEASE + REAP - 0.5, options={"jitter": "1s"})  # open when its lease ends
WAYS: Mapping[str, Callable[[Proxy], None]] = {
    "drop": Proxy.drop,
    "reset": Proxy.reset,
    "stop": Proxy.stop,
    "mute": Proxy.mute,
    "delay": lambda proxy: proxy.delay(5),
    "throttle": lambda proxy: proxy.throttle(1_024),
}


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("partitions", setting.backend)
    ways = _drawn(setting)
    async with database_for(setting.backend) as database:
        with ExitStack() as stack:
            url = url_of(database)
            proxies = [stack.enter_context(Proxy(url)) for _ in ways]
            fleet = stack.enter_context(Fleet(setting.folder, url, LOAD))
            stable = [fleet.start(), fleet.start()]
            cut_off = [fleet.start(proxy.url) for proxy in proxies]
            for member in (*stable, *cut_off):
                await member.ready()
            tours = zip(cut_off, proxies, ways, strict=True)
            healed = await asyncio.gather(*(_tour(fleet, *tour) for tour in tours))
            left = await come_to_rest(database, 60)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    verdict.at_least("partitions", sum(map(len, ways)), len(fleet.cuts))
    check_books(verdict, books)
    verdict.equal("instants skipped", 0, books.skipped)
    none_of(verdict, "deliveries begun by a node that was cut off, past its trust", _late_starts(books))
    _check_late_writes(verdict, books)
    _check_the_others(verdict, books)
    slowest = max(seconds for tour in healed for seconds in tour)
    verdict.at_most("next delivery of the node after its line is back, seconds", HEALED, round(slowest, 2))
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures["left unfinished"] = dict(left)
    return verdict


def _drawn(setting: Setting) -> list[list[str]]:
    """Return the kinds of partition for each node in turn; only a few at a small scale."""
    random = Random(setting.random.random())
    number = setting.sized(ROUNDS * len(WAYS), least=2)
    drawn = [way for _ in range(ROUNDS) for way in random.sample(list(WAYS), len(WAYS))][:number]
    return [drawn[each::ROUNDS] for each in range(ROUNDS)]


async def _tour(fleet: Fleet, member: Member, proxy: Proxy, ways: Sequence[str]) -> list[float]:
    """Cut a node off in one way after the other; seconds until it delivers again after each."""
    healed = []
    for way in ways:
        await asyncio.sleep(2)
        cut = fleet.cut(way, member)
        await asyncio.to_thread(WAYS[way], proxy)
        await asyncio.sleep(CUT)
        cut.ended_at, offset = elapsed(), fleet.size
        await asyncio.to_thread(proxy.restore)

        healed.append(await _next_delivery(fleet, member, offset) - cut.ended_at)
    return healed


async def _next_delivery(fleet: Fleet, member: Member, offset: int) -> float:
    """Return when this node begins its next delivery."""

    def later() -> list[float]:
        return [line.at for line in fleet.lines(offset) if line.what == "begun" and line.member == member.name]

    await until(lambda: bool(later()), 3 * HEALED, f"a delivery of {member.name}")
    return later()[0]


def _late_starts(books: Books) -> list[Line]:
    """Deliveries that began on a node although none of its leases could still be trusted."""
    cuts = books.cuts
    return [line for line in books.begun.values() if any(_is_past_trust(line, cut) for cut in cuts)]


def _is_past_trust(line: Line, cut: Cut) -> bool:
    return line.member == cut.member and cut.began_at + LEASE < line.at < cut.ended_at


def _check_late_writes(verdict: Verdict, books: Books) -> None:
    """A late write for an attempt that another node took over changes no run, and is stored."""
    taken = {key: row for key, row in books.attempts.items() if row["outcome"] == "lost" and key in books.begun}
    verdict.at_least("deliveries taken from a node that was cut off", len(books.cuts), len(taken))
    forgotten = [key for key, row in taken.items() if row["late_outcome"] is None]
    none_of(verdict, "late writes that were not kept as such", forgotten)
    last = {run["id"]: run["attempt"] for run in books.runs}
    final = [key for key in taken if last[key[0]] == key[1]]
    none_of(verdict, "runs ended by an attempt that was taken from its node", final)


def _check_the_others(verdict: Verdict, books: Books) -> None:
    recoveries = [
        again.at - cut.began_at
        for first, again in books.repeated()
        for cut in books.cuts
        if first.member == cut.member and first.at < cut.began_at < again.at < cut.ended_at
    ]
    verdict.at_least("deliveries that others took over meanwhile", len(books.cuts), len(recoveries))
    slowest = round(percentile(recoveries, 99), 2)
    verdict.at_most("taken over, p99, seconds", LEASE + REAP + GRACE, slowest)
    verdict.figures["taken over, p50, seconds"] = round(percentile(recoveries, 50), 2)
