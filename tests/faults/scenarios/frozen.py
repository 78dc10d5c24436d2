"""Processes stopped for longer than their leases while deliveries are open, and then woken.

A woken process is a zombie: its runs are others' by now. Whatever it still writes must be refused and kept as a late
outcome, and of what it had claimed and not begun it must begin nothing. There is one moment no check can cover: a
process that is stopped between its last look at the lease and the first byte. So a start within `IN_THE_ACT` of the
waking, and only the first one, is counted apart.

On SQLite a process that is stopped in the middle of a transaction keeps all others from writing until it is woken, and
nobody can take its runs over. So who is caught there is woken at once, and others are stopped a moment later. A machine
that is busy with other things may leave the others too little time to take anything over; then there are more rounds,
as many again at most.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from uuid import UUID

from hourbell.clock import elapsed
from tests.database import Database
from tests.faults.books import Books, Key, check_books, none_of
from tests.faults.databases import come_to_rest, database_for, is_writable, url_of
from tests.faults.fleet import LEASE, REAP, Cut, Fleet, until
from tests.faults.receiver import Line, Load
from tests.faults.verdict import Setting, Verdict

NODES, AT_ONCE = 7, 5
FREEZES = 30
SLOTS = 20  # of a node, so that every node has its part
LOAD = Load(jobs=40, seconds=0.6, way="work")
AWAKE = 0.7  # seconds between two freezes, at least
IN_THE_ACT = 0.005  # seconds
TRIES = 50  # to stop processes none of which is writing


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("frozen", setting.backend)
    rounds = setting.sized(FREEZES // AT_ONCE, least=2)
    async with database_for(setting.backend) as database:
        with Fleet(setting.folder, url_of(database), LOAD, HOURBELL_SLOTS=str(SLOTS)) as fleet:
            await fleet.start_all(NODES)
            for _ in range(rounds):
                await _freeze_some(fleet, setting, database)
            made_up = 0
            while made_up < rounds and not await _is_any_taken_over(database):
                await _freeze_some(fleet, setting, database)
                made_up += 1
            await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
        books = await Books.read(database, fleet)
    check_books(verdict, books)
    lost = [key for key, row in books.attempts.items() if row["outcome"] == "lost"]
    late = [key for key in lost if key in books.begun and books.attempts[key]["late_outcome"]]
    verdict.at_least("processes frozen past their leases", (rounds + made_up) * AT_ONCE, len(fleet.cuts))
    verdict.at_least("deliveries frozen and taken over", rounds // 2, len(late))
    none_of(verdict, "late writes that were not refused", _overwritten(books, lost))
    none_of(verdict, "late outcomes not kept", [key for key in lost if key in books.begun and key not in late])
    starts, in_the_act = _late_starts(books)
    none_of(verdict, "late starts of a woken process", starts)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "late writes refused": len(late),
        "claims taken over before they began": sum(key not in books.begun for key in lost),
        "starts caught in the act": len(in_the_act),
        "rounds made up for": made_up,
    }
    return verdict


async def _freeze_some(fleet: Fleet, setting: Setting, database: Database) -> None:
    """Freeze most of the processes shortly after a full second, while they work through what they claimed."""
    received = fleet.size
    await asyncio.sleep(AWAKE)
    await asyncio.sleep(1 - time.time() % 1 + setting.random.uniform(0.005, 0.2))
    for _ in range(TRIES):
        await until(lambda: bool(_busy(fleet.lines(received))), 10, "a delivery to freeze")
        busy = _busy(fleet.lines(received))
        shuffled = setting.random.sample(fleet.members, len(fleet.members))
        chosen = sorted(shuffled, key=lambda member: member.name not in busy)[:AT_ONCE]  # the busy ones first
        frozen = [(member, fleet.freeze(member)) for member in chosen]
        for member in chosen:
            await member.stopped()
        if await is_writable(database):
            break
        for member, cut in frozen:
            fleet.thaw(member, cut)
            fleet.cuts.remove(cut)
    else:
        raise AssertionError(f"a process was within a transaction each of {TRIES} times")
    await asyncio.sleep(LEASE + REAP + setting.random.uniform(0.2, 1.0))
    for member, cut in frozen:
        fleet.thaw(member, cut)


async def _is_any_taken_over(database: Database) -> bool:
    return any(row["outcome"] == "lost" for row in await database.rows("attempts"))


def _busy(lines: Sequence[Line]) -> set[str]:
    """The processes with a delivery open."""
    ended = {line.key for line in lines if line.what == "ended"}
    return {line.member for line in lines if line.key not in ended}


def _overwritten(books: Books, lost: Iterable[Key]) -> list[Key]:
    """Runs that are not as the attempt left them that took over, but as the zombie would have them."""
    runs = {run["id"]: run for run in books.runs}

    def stands(run_id: UUID, number: int) -> bool:
        run = runs[run_id]
        last = books.attempts.get((run_id, run["attempt"]))
        return run["attempt"] > number and last is not None and last["finished_at"] == run["finished_at"]

    return [key for key in lost if not stands(*key)]


def _late_starts(books: Books) -> tuple[list[Line], list[Line]]:
    """Deliveries that began after their lease had been taken away; and those that were caught in the act."""
    offset = time.time() - elapsed()
    starts: list[Line] = []
    in_the_act: list[Line] = []
    for key, line in books.begun.items():
        row = books.attempts.get(key)
        if row is not None and row["outcome"] == "lost" and line.at + offset > row["finished_at"].timestamp():
            (in_the_act if _is_first_after_waking(books, line) else starts).append(line)
    return starts, in_the_act


def _is_first_after_waking(books: Books, line: Line) -> bool:
    def woken_before(cut: Cut) -> bool:
        return cut.member == line.member and 0 <= line.at - cut.ended_at < IN_THE_ACT

    woken = next((cut.ended_at for cut in books.cuts if woken_before(cut)), None)
    others = [other.at for other in books.begun.values() if other.member == line.member]
    return woken is not None and not any(woken <= at < line.at for at in others)
